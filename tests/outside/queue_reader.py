"""Reading the destination queue as a consumer does: receive, decode, delete."""

import base64
import time

import boto3
from botocore.config import Config
from publisher import digest_of


def decode(body: str, attributes: dict) -> bytes:
    """The published bytes, by the attribute `payload-encoding` alone."""
    encoding = attributes["payload-encoding"]["StringValue"]
    if encoding == "text":
        return body.encode("utf-8")
    if encoding == "base64":
        return base64.b64decode(body, validate=True)
    if encoding == "empty" and body == "-":
        return b""
    raise ValueError(f"payload-encoding {encoding!r} with a body of {len(body)} characters")


class QueueReader:
    """Everything that was received, by hash of the decoded bytes."""

    def __init__(self, addresses: dict) -> None:
        self.url = addresses["queue_url"]
        self.client = boto3.client(
            "sqs",
            endpoint_url=addresses["sqs_url"],
            region_name=addresses["region"],
            config=Config(retries={"max_attempts": 3, "mode": "standard"}, read_timeout=30),
        )
        # Hash to the ids of its messages, one for each time that it came.
        self.received: dict[str, list[str]] = {}

    def count(self) -> int:
        return sum(len(ids) for ids in self.received.values())

    def drain(self, expected: set[str], seconds: float, quiet_seconds: float = 3) -> set[str]:
        """Receives and deletes until everything expected has come and the queue is quiet, or until the time is over. What
        has not come."""
        deadline = time.monotonic() + seconds
        quiet_since = time.monotonic()
        while time.monotonic() < deadline:
            if self._receive():
                quiet_since = time.monotonic()
            elif expected <= self.received.keys() and time.monotonic() - quiet_since > quiet_seconds:
                break
        return expected - self.received.keys()

    def _receive(self) -> int:
        answer = self.client.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=1, MessageAttributeNames=["All"]
        )
        messages = answer.get("Messages", [])
        for message in messages:
            attributes = message["MessageAttributes"]
            digest = digest_of(decode(message["Body"], attributes))
            self.received.setdefault(digest, []).append(attributes["message-id"]["StringValue"])
        if messages:
            entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            gone = self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)
            if gone.get("Failed"):
                raise RuntimeError(f"messages could not be deleted: {gone['Failed']}")
        return len(messages)
