"""What was published and what arrived, both as this side saw it. Nothing here asks the bridge."""

import base64
import hashlib
import json
import threading
import time

import paho.mqtt.client as mqtt

from cases import TimeUp
from emulator import Emulator


def decode(body: str, attributes: dict) -> bytes:
    """The published bytes, by the attribute `payload-encoding` alone."""
    encoding = attributes["payload-encoding"]["StringValue"]
    if encoding == "text":
        return body.encode()
    if encoding == "base64":
        return base64.b64decode(body, validate=True)
    if encoding == "empty" and body == "-":
        return b""
    raise ValueError(f"payload-encoding {encoding!r} with a body of {len(body)} characters")


class Ledger:
    """Publishes, keeps a line of each message, and reads the destination queues."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._queues: list = []
        # Each line: the topic, the bytes, and when it was published.
        self.published: list[tuple[str, bytes, float]] = []
        # Each arrival: (topic, hash of the bytes) to the moments at which it came, with the message ids.
        self.received: dict[tuple[str, str], list[tuple[float, str, str]]] = {}

    def watch(self, region: str, queue_url: str) -> None:
        """Reads this queue too from now on."""
        self._queues.append((region, queue_url))

    def publish(self, region: str, topic: str, payload: bytes) -> None:
        """Over the HTTPS publish call."""
        self.note(topic, payload)
        self._emulator.client("iot-data", region).publish(topic=topic, qos=1, payload=payload)

    def publish_mqtt(self, region: str, topic: str, payload: bytes, client_id: str) -> None:
        """Over MQTT on a WebSocket, with QoS 1, until it is acknowledged."""
        self.note(topic, payload)
        connected = threading.Event()
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, transport="websockets")
        client.on_connect = lambda *_: connected.set()
        # The emulator takes the region from the signature's scope, and knows the broker by its host's name.
        scope = f"test/20260101/{region}/iotdevicegateway/aws4_request".replace("/", "%2F")
        client.ws_set_options(path=f"/mqtt?X-Amz-Credential={scope}", headers={"Host": f"test-ats.iot.{region}.amazonaws.com"})
        client.connect("127.0.0.1", self._emulator.port)
        client.loop_start()
        try:
            if not connected.wait(10):
                raise TimeUp("no MQTT connection within 10s")
            client.publish(topic, payload, qos=1).wait_for_publish(10)
        finally:
            client.disconnect()
            client.loop_stop()

    def note(self, topic: str, payload: bytes) -> None:
        """A message that reaches ingest by another way."""
        self.published.append((topic, payload, time.time()))

    def receive(self) -> int:
        """Reads what stands in the queues now, and deletes it."""
        count = 0
        for region, url in list(self._queues):
            client = self._emulator.client("sqs", region)
            while messages := self._some(client, region, url):
                for message in messages:
                    self._arrived(region, message)
                    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                count += len(messages)
        return count

    def _some(self, client, region: str, url: str) -> list[dict]:
        try:
            answer = client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
            )
        except client.exceptions.QueueDoesNotExist:
            # It went with its stack; it was read empty before.
            self._queues.remove((region, url))
            return []
        return answer.get("Messages", [])

    def _arrived(self, region: str, message: dict) -> None:
        attributes = message["MessageAttributes"]
        payload = decode(message["Body"], attributes)
        key = (attributes["topic"]["StringValue"], hashlib.sha256(payload).hexdigest())
        sent = int(message["Attributes"]["SentTimestamp"]) / 1000
        self.received.setdefault(key, []).append((sent, attributes["message-id"]["StringValue"], region))

    def arrivals(self, topic: str, payload: bytes) -> list[tuple[float, str, str]]:
        """When this message reached a queue, under which id, in which region."""
        return self.received.get((topic, hashlib.sha256(payload).hexdigest()), [])

    def missing(self) -> list[str]:
        """Published and not arrived (yet)."""
        return [f"{topic} ({len(payload)} bytes)" for topic, payload, _ in self.published if not self.arrivals(topic, payload)]

    def wait_for_all(self, seconds: float) -> None:
        """Reads until everything that was published has arrived."""
        deadline = time.monotonic() + seconds
        while True:
            self.receive()
            missing = self.missing()
            if not missing:
                return
            if time.monotonic() > deadline:
                raise TimeUp(f"not arrived within {seconds:g}s: {', '.join(missing[:5])}, {len(missing)} in all")
            time.sleep(0.2)

    def strangers(self) -> list[tuple[str, str]]:
        """Arrived and never published."""
        known = {(topic, hashlib.sha256(payload).hexdigest()) for topic, payload, _ in self.published}
        return [key for key in self.received if key not in known]

    def doubles(self) -> int:
        """Arrivals beyond the first of each message."""
        expected: dict = {}
        for topic, payload, _ in self.published:
            key = (topic, hashlib.sha256(payload).hexdigest())
            expected[key] = expected.get(key, 0) + 1
        return sum(max(0, len(times) - expected.get(key, 0)) for key, times in self.received.items())


class Bus:
    """What the bridge told an event bus: a rule of ours hands its events to a queue of ours."""

    def __init__(self, emulator: Emulator, region: str) -> None:
        self._client = emulator.client("sqs", region)
        self._url = self._client.create_queue(QueueName="events-seen")["QueueUrl"]
        arn = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events = emulator.client("events", region)
        events.put_rule(Name="events-seen", EventPattern=json.dumps({"source": ["fencepost"]}))
        events.put_targets(Rule="events-seen", Targets=[{"Id": "queue", "Arn": arn}])
        self.seen: list[dict] = []

    def find(self, detail_type: str, **detail: object) -> dict | None:
        """The first event of this type whose detail holds these values."""
        while messages := self._client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", []):
            for message in messages:
                self.seen.append(json.loads(message["Body"]))
                self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        for event in self.seen:
            if event["detail-type"] == detail_type and all(event["detail"].get(key) == value for key, value in detail.items()):
                return event
        return None
