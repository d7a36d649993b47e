"""Devices that publish over MQTT with QoS 1, and a ledger of what the broker acknowledged."""

import hashlib
import threading
import time

import paho.mqtt.client as mqtt

IN_FLIGHT_MAX = 20


def digest_of(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


class Ledger:
    """Hashes by what became of the publish. No payload is published twice."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()


class Device:
    """One MQTT connection. It does not connect again: what had no PUBACK when it broke stays so in the ledger."""

    def __init__(self, port: int, name: str, ledger: Ledger) -> None:
        self.name = name
        self.ledger = ledger
        self.digests: dict[int, str] = {}
        # PUBACKs that came before publish() had returned the message's id.
        self.early: set[int] = set()
        self.room = threading.Condition()
        self.broken = False
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, reconnect_on_failure=False)
        self.client.max_inflight_messages_set(IN_FLIGHT_MAX)
        self.client.on_publish = self._acknowledged
        self.client.on_disconnect = self._disconnected
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _acknowledged(self, _client, _data, message_id, _reason, _properties) -> None:
        with self.room:
            digest = self.digests.pop(message_id, None)
            if digest is None:
                self.early.add(message_id)
            else:
                # Before anybody who waits for it is told.
                self._note(digest)
            self.room.notify_all()

    def _note(self, digest: str) -> None:
        with self.ledger.lock:
            self.ledger.acknowledged.add(digest)

    def _disconnected(self, *_) -> None:
        with self.room:
            self.broken = True
            self.room.notify_all()

    def publish(self, payload: bytes) -> bool:
        """Publishes as soon as few enough wait for their PUBACK. False: the connection is gone. For one thread only."""
        digest = digest_of(payload)
        with self.room:
            if not self.room.wait_for(lambda: self.broken or len(self.digests) < IN_FLIGHT_MAX, timeout=60):
                raise TimeoutError(f"{self.name}: no PUBACK within 60s")
            if self.broken:
                return False
        with self.ledger.lock:
            self.ledger.sent.add(digest)
        # Not under our lock: paho calls back under one of its own, which publish() takes too.
        message_id = self.client.publish(f"telemetry/{self.name}", payload, qos=1).mid
        with self.room:
            acknowledged = message_id in self.early
            self.early.discard(message_id)
            if not acknowledged:
                self.digests[message_id] = digest
        if acknowledged:
            self._note(digest)
        return True

    def wait(self, seconds: float) -> bool:
        """Waits until everything has its PUBACK."""
        with self.room:
            return self.room.wait_for(lambda: not self.digests or self.broken, timeout=seconds) and not self.digests

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Fleet:
    """Several devices that publish in turn."""

    def __init__(self, port: int, count: int, ledger: Ledger, prefix: str) -> None:
        self.devices = [Device(port, f"{prefix}-{number:02}", ledger) for number in range(1, count + 1)]
        self.prefix = prefix
        self.published = 0

    def publish(self, count: int, seeded, per_second: float | None = None) -> int:
        """Publishes `count` messages, text and binary in turn; ends early where a connection broke. How many it published."""
        started = time.monotonic()
        for index in range(count):
            if per_second and (early := started + index / per_second - time.monotonic()) > 0:
                time.sleep(early)
            device = self.devices[self.published % len(self.devices)]
            if not device.publish(self._payload(seeded)):
                return index
            self.published += 1
        return count

    def _payload(self, seeded) -> bytes:
        name = f"{self.prefix} {self.published} "
        if self.published % 2:
            return name.encode() + seeded.randbytes(seeded.randrange(1, 200)) + b"\x00\xff"
        return f'{{"reading": "{name}", "celsius": {seeded.uniform(-20, 60):.3f}, "place": "Zürich"}}'.encode()

    def wait(self, seconds: float) -> bool:
        return all([device.wait(seconds) for device in self.devices])

    def close(self) -> None:
        for device in self.devices:
            device.close()
