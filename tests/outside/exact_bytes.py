"""Each kind of payload goes in by mosquitto_pub and comes back, byte for byte, by `aws sqs receive-message`."""

import json
import os
import shutil
import subprocess
import tempfile
import time

from checks import Checks
from publisher import Device, Ledger
from queue_reader import decode
from world import World

PAYLOAD_BYTES_MAX = 128 * 1024
# What a busy machine's stream gave up comes with the schedule's next minute.
RECEIVE_SECONDS = 90


def payloads(seeded) -> dict[str, bytes]:
    line = "0123456789 Grüße aus Zürich, ✓ \t und 🚚\n".encode()
    return {
        "text": "21.5 °C in Zürich ✓".encode(),
        "json": b'{"temperature_celsius": 21.5, "note": "quoted \\"text\\" and \\u0000"}',
        "binary with 0x00 and 0xFF": bytes([0x00, 0xFF, 0x00, 0xFE, 0x80, 0x0A, 0x0D]),
        "text with a character that SQS refuses": "bell \x07 and U+FFFE \ufffe".encode(),
        "text that looks like base64": b"aGVsbG8gd29ybGQ=",
        "only a dash, as the empty form": b"-",
        "nothing": b"",
        "128 KB of bytes": seeded.randbytes(PAYLOAD_BYTES_MAX),
        "128 KB of text": (line * PAYLOAD_BYTES_MAX)[: PAYLOAD_BYTES_MAX // len(line) * len(line)].ljust(PAYLOAD_BYTES_MAX),
    }


def run(command: str, checks: Checks, seeded) -> None:
    has_mosquitto = shutil.which("mosquitto_pub") is not None
    if not has_mosquitto:
        checks.note("mosquitto_pub is not installed (Debian: mosquitto-clients): paho publishes instead")
    with World(command) as world, tempfile.TemporaryDirectory(prefix="fencepost-") as folder:
        world.leader()
        for number, (name, payload) in enumerate(payloads(seeded).items()):
            topic = f"telemetry/kind-{number}"
            if has_mosquitto:
                publish_by_mosquitto(world.mqtt_port, topic, payload, folder)
            else:
                publish_by_paho(world.mqtt_port, f"kind-{number}", payload)
            message = receive_by_aws(world.addresses, topic)
            got = decode(message["Body"], message["MessageAttributes"])
            encoding = message["MessageAttributes"]["payload-encoding"]["StringValue"]
            same = got == payload
            checks.that(f"{name}: the same {len(payload)} bytes", same, f"as {encoding}" if same else f"{len(got)} bytes")


def publish_by_mosquitto(port: int, topic: str, payload: bytes, folder: str) -> None:
    path = os.path.join(folder, "payload")
    with open(path, "wb") as file:
        file.write(payload)
    what = ["-f", path] if payload else ["-n"]
    line = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-t", topic, "-q", "1", *what]
    subprocess.run(line, check=True, timeout=30, capture_output=True)


def publish_by_paho(port: int, name: str, payload: bytes) -> None:
    device = Device(port, name, Ledger())
    device.publish(payload)
    if not device.wait(30):
        raise TimeoutError("no PUBACK within 30s")
    device.close()


def receive_by_aws(addresses: dict, topic: str) -> dict:
    """The next message of the topic. It is deleted, and so are second copies of earlier ones on the way to it."""
    deadline = time.monotonic() + RECEIVE_SECONDS
    while time.monotonic() < deadline:
        answer = aws(addresses, "receive-message", "--message-attribute-names", "All", "--wait-time-seconds", "15")
        for message in json.loads(answer)["Messages"] if answer.strip() else ():
            aws(addresses, "delete-message", "--receipt-handle", message["ReceiptHandle"])
            if message["MessageAttributes"]["topic"]["StringValue"] == topic:
                return message
    raise TimeoutError(f"no message of {topic} came within {RECEIVE_SECONDS}s")


def aws(addresses: dict, *words: str) -> str:
    ends = ["--endpoint-url", addresses["sqs_url"], "--queue-url", addresses["queue_url"]]
    line = ["aws", "sqs", words[0], *ends, *words[1:], "--region", addresses["region"], "--output", "json"]
    answer = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode:
        raise RuntimeError(f"aws sqs {words[0]}: {answer.stderr.strip()}")
    return answer.stdout
