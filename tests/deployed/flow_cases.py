"""The way of a message, from both ways of publishing to the destination queue."""

import base64
import json
import os
import time
import uuid

from cases import check, until
from deployed import Deployed

SAMPLES = {
    "text": "temperature 21.5 °C, sensor “roof”".encode(),
    "json": json.dumps({"device": "d-7", "values": [1, 2.5, None], "text": "ünïcode"}).encode(),
    "binary": bytes([0x00, 0xFF]) + bytes(range(256)),
    "looks-like-base64": b"aGVsbG8gd29ybGQ=",
    "empty": b"",
    "looks-like-the-sign-for-empty": b"-",
    "not-allowed-in-a-queue": "\ufffe\u0001".encode(),
}


def exact_bytes(world: Deployed) -> str:
    """Every kind of payload comes back byte for byte, over both ways of publishing."""
    region, first = world.first.region, len(world.ledger.published)
    large = os.urandom(40_000)
    for number, (kind, payload) in enumerate((SAMPLES | {"large": large}).items()):
        world.ledger.publish(region, world.topic(kind), payload)
        world.ledger.publish_mqtt(region, world.topic(f"mqtt-{kind}"), payload, f"fencepost-test-device-{number}")
    world.ledger.wait_for_all(90)
    check(not world.ledger.strangers(), f"nobody published {world.ledger.strangers()}")
    until(10, "the outbox is empty", lambda: not world.outstanding())
    count = len(world.ledger.published) - first
    return f"{count} messages, half of them over MQTT; the slowest was in the queue after {world.ledger.slowest(first):.1f}s"


def from_the_queue_of_failures(world: Deployed) -> str:
    """What a failed invocation, the rule's error action or an operator puts into the queue of failures is stored and delivered."""
    stack = world.first
    payloads = {form: f"{form} {uuid.uuid4()}".encode() for form in ("failed-invocation", "error-action", "by-hand")}
    topics = {form: world.topic(f"failures-{form}") for form in payloads}
    bodies = {
        "failed-invocation": {
            "version": "1.0", "requestContext": {"condition": "RetriesExhausted", "approximateInvokeCount": 3},
            "requestPayload": rule_event(topics["failed-invocation"], payloads["failed-invocation"]),
            "responsePayload": {"errorType": "StoreUnavailable"},
        },
        "error-action": {
            "ruleName": stack.outputs["TopicRuleName"], "topic": topics["error-action"], "clientId": "device-1",
            "cloudwatchTraceId": str(uuid.uuid4()), "base64OriginalPayload": base64.b64encode(payloads["error-action"]).decode(),
            "failures": [{"failedAction": "LambdaAction", "errorMessage": "made up by the test"}],
        },
        "by-hand": rule_event(topics["by-hand"], payloads["by-hand"]),
    }
    queue = world.aws.client("sqs", stack.region)
    for form, body in bodies.items():
        world.ledger.note(topics[form], payloads[form])
        queue.send_message(QueueUrl=stack.outputs["IngestFailuresQueueUrl"], MessageBody=json.dumps(body))
    deliver_batched(world)
    return "a failed invocation, an error action's message and a plain event: each stored and delivered"


def redrive_answers(world: Deployed) -> str:
    """The redrive machine goes through every shard; as a dry run, so that it changes nothing."""
    stack = world.leader()
    said = world.finish(stack, world.start(stack, "Redrive", {"dry_run": True}), 60 + 2 * world.shards)
    check(said["dry_run"] and said["complete"], f"the redrive says {said}")
    return f"a dry run in {said['calls']} calls: {said['redriven']} dead records would go back"


def conservation(world: Deployed, doubles_known: int = 0) -> str:
    """Everything published has arrived, nothing else has, and nothing is left."""
    world.ledger.wait_for_all(75)
    until(60, "the outbox is empty", lambda: not world.outstanding())
    check(not world.dead(), "records are dead")
    check(not world.ledger.strangers(), f"nobody published {world.ledger.strangers()}")
    doubles = world.ledger.doubles()
    check(doubles == doubles_known, f"{doubles} doubles, of which {doubles_known} were made on purpose")
    return f"{len(world.ledger.published)} published, all delivered, {doubles} known doubles, 0 dead, 0 outstanding"


def deliver_batched(world: Deployed) -> None:
    """Rows of a batch are written by PartiQL, which reaches no stream in the emulator: the drain is started at once."""
    count = len(world.ledger.missing())
    until(60, "the rows are stored or already sent", lambda: world.outstanding() or (world.ledger.receive() and len(world.ledger.missing()) < count))
    world.start(world.leader(), "Drain")
    world.ledger.wait_for_all(75)


def rule_event(topic: str, payload: bytes) -> dict:
    """An event as the topic rule makes it."""
    return {
        "schema": 1,
        "payload": base64.b64encode(payload).decode(),
        "topic": topic,
        "client_id": "device-1",
        "received_at": int(time.time() * 1000),
        "trace_id": str(uuid.uuid4()),
        "message_id": str(uuid.uuid4()),
    }
