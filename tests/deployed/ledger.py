"""What was published and what arrived, both as this side saw it. Nothing here asks the bridge."""

import base64
import hashlib
import json
import threading
import time

import paho.mqtt.client as mqtt

from cases import TimeUp


def decode(body: str, attributes: dict) -> bytes:
    """The published bytes, by the attributes `content-type` and `payload-encoding` alone."""
    encoding = attributes["payload-encoding"]["StringValue"]
    if attributes.get("content-type", {}).get("StringValue", "").startswith("application/cloudevents+json"):
        return _enveloped(body, encoding)
    if encoding == "text":
        return body.encode()
    if encoding == "base64":
        return base64.b64decode(body, validate=True)
    if encoding == "empty" and body == "-":
        return b""
    raise ValueError(f"payload-encoding {encoding!r} with a body of {len(body)} characters")


# The one member of an envelope that holds the payload, by its encoding.
MEMBERS = {"text": ["data"], "base64": ["data_base64"], "empty": []}


def _enveloped(body: str, encoding: str) -> bytes:
    """The published bytes in a CloudEvents envelope; one that says something else than its encoding is no body of ours."""
    envelope = json.loads(body)
    if not isinstance(envelope, dict) or envelope.get("specversion") != "1.0" or encoding not in MEMBERS:
        raise ValueError(f"payload-encoding {encoding!r}, and no CloudEvents 1.0 envelope of {len(body)} characters")
    found = [name for name in ("data", "data_base64") if name in envelope]
    if found != MEMBERS[encoding] or not all(isinstance(envelope[name], str) for name in found):
        raise ValueError(f"payload-encoding {encoding!r}, and the envelope has {', '.join(found) or 'no data'}")
    if not found:
        return b""
    return base64.b64decode(envelope["data_base64"], validate=True) if encoding == "base64" else envelope["data"].encode()


class Ledger:
    """Publishes, keeps a line of each message, and reads the destination queues."""

    # How long a look into a queue waits for a message, in seconds.
    wait_seconds = 0

    def __init__(self, aws) -> None:
        self._aws = aws
        self._queues: list = []
        # Each line: the topic, the bytes, and when it was published.
        self.published: list[tuple[str, bytes, float]] = []
        # Each arrival: (topic, hash of the bytes) to the moments at which it came, with the message ids.
        self.received: dict[tuple[str, str], list[tuple[float, str, str]]] = {}
        # Ids of messages that are not ours, and were left in the queue.
        self.foreign: set[str] = set()

    def is_ours(self, topic: str) -> bool:
        """Whether a message of this topic is one of this run's. Where nobody else publishes, every one is."""
        return True

    def watch(self, region: str, queue_url: str) -> None:
        """Reads this queue too from now on."""
        self._queues.append((region, queue_url))

    def publish(self, region: str, topic: str, payload: bytes) -> None:
        """Over the HTTPS publish call."""
        self.note(topic, payload)
        self._aws.client("iot-data", region).publish(topic=topic, qos=1, payload=payload)

    def publish_mqtt(self, region: str, topic: str, payload: bytes, client_id: str) -> None:
        """Over MQTT on a WebSocket, with QoS 1, until it is acknowledged."""
        self.note(topic, payload)
        connected = threading.Event()
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, transport="websockets")
        client.on_connect = lambda *answer: connected.set() if not answer[3].is_failure else None
        broker = self._aws.broker(region)
        client.ws_set_options(path=broker.path, headers={"Host": broker.host_header})
        if broker.encrypted:
            client.tls_set()
        client.connect(broker.host, broker.port)
        client.loop_start()
        try:
            if not connected.wait(20):
                raise TimeUp(f"no MQTT connection to {broker.host} within 20s")
            client.publish(topic, payload, qos=1).wait_for_publish(20)
        finally:
            client.disconnect()
            client.loop_stop()

    def note(self, topic: str, payload: bytes) -> None:
        """A message that reaches ingest by another way."""
        self.published.append((topic, payload, time.time()))

    def receive(self) -> int:
        """Reads what stands in the queues now and deletes what is ours. Anybody else's is visible again at once."""
        count = 0
        for region, url in list(self._queues):
            client = self._aws.client("sqs", region)
            while messages := self._some(client, region, url):
                ours = [message for message in messages if self.is_ours(_topic(message))]
                for message in messages:
                    if message not in ours:
                        self.foreign.add(message["MessageId"])
                        client.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
                        continue
                    self._arrived(region, message)
                    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                count += len(ours)
                if not ours:
                    break
        return count

    def _some(self, client, region: str, url: str) -> list[dict]:
        try:
            answer = client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"],
                WaitTimeSeconds=self.wait_seconds,
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

    def slowest(self, first: int) -> float:
        """The longest way from publishing to acceptance by the queue, in seconds, of the messages from number `first` on that have
        arrived. Both sides' clocks are in it."""
        published = [(moment, self.arrivals(topic, payload)) for topic, payload, moment in self.published[first:]]
        return max((min(arrivals)[0] - moment for moment, arrivals in published if arrivals), default=0.0)

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


def _topic(message: dict) -> str:
    return message.get("MessageAttributes", {}).get("topic", {}).get("StringValue", "")


class Bus:
    """What the bridge told an event bus: a rule of ours hands its events to a queue of ours. `close` removes both."""

    def __init__(self, aws, region: str, bus: str = "default", name: str = "events-seen") -> None:
        self._queue, self._events = aws.client("sqs", region), aws.client("events", region)
        self._bus, self._name = bus, name
        self._url = self._queue.create_queue(QueueName=name)["QueueUrl"]
        arn = self._queue.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        rule = self._events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps({"source": ["fencepost"]}))["RuleArn"]
        allowed = {
            "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        self._queue.set_queue_attributes(QueueUrl=self._url, Attributes={"Policy": policy})
        self._events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
        self.seen: list[dict] = []

    def find(self, detail_type: str, **detail: object) -> dict | None:
        """The first event of this type whose detail holds these values."""
        while messages := self._queue.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", []):
            for message in messages:
                self.seen.append(json.loads(message["Body"]))
                self._queue.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        for event in self.seen:
            if event["detail-type"] == detail_type and all(event["detail"].get(key) == value for key, value in detail.items()):
                return event
        return None

    def listen(self, enabled: bool) -> None:
        """Whether events come from now on."""
        switch = self._events.enable_rule if enabled else self._events.disable_rule
        switch(Name=self._name, EventBusName=self._bus)

    def close(self) -> None:
        """Removes rule and queue."""
        self._events.remove_targets(Rule=self._name, EventBusName=self._bus, Ids=["queue"])
        self._events.delete_rule(Name=self._name, EventBusName=self._bus)
        self._queue.delete_queue(QueueUrl=self._url)
