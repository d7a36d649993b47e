"""The way of a message, from both ways of publishing to the destination queue, and what stands in its way."""

import base64
import json
import os
import time
import uuid

from cases import check, until
from emulator import EAST
from world import STALE_CLAIM, World

SAMPLES = {
    "text": "temperature 21.5 °C, sensor “roof”".encode(),
    "json": json.dumps({"device": "d-7", "values": [1, 2.5, None], "text": "ünïcode"}).encode(),
    "binary": bytes([0x00, 0xFF]) + bytes(range(256)),
    "looks-like-base64": b"aGVsbG8gd29ybGQ=",
    "empty": b"",
    "looks-like-the-sign-for-empty": b"-",
    "not-allowed-in-a-queue": "\ufffe\u0001".encode(),
}


def exact_bytes(world: World) -> str:
    """Every kind of payload comes back byte for byte, over both ways of publishing."""
    large = os.urandom(40_000)
    for number, (kind, payload) in enumerate((SAMPLES | {"large": large}).items()):
        world.ledger.publish(EAST, f"telemetry/{kind}", payload)
        world.ledger.publish_mqtt(EAST, f"telemetry/mqtt-{kind}", payload, f"device-{number}")
    world.ledger.wait_for_all(90)
    check(not world.ledger.strangers(), f"nobody published {world.ledger.strangers()}")
    until(10, "the outbox is empty", lambda: not world.outstanding())
    return f"{len(world.ledger.published)} messages, half of them over MQTT"


def stored_without_a_holder(world: World) -> str:
    """What is published before anybody leads is kept and comes later."""
    check(world.owner() is None, "somebody leads although nothing has ticked")
    for number in range(5):
        world.ledger.publish(EAST, f"telemetry/early-{number}", f"early {number}".encode())
    rows = until(20, "five rows are stored", lambda: len(world.outstanding()) == 5 and world.outstanding())
    tokens = {row["fencing_token"]["N"] for row in rows}
    check(tokens == {"0"}, f"a row without a holder is stamped 0, not {tokens}")
    check(world.ledger.receive() == 0, "something was sent without a lease")
    return "5 rows, stamped 0, nothing sent"


def queue_down(world: World) -> str:
    """A destination that fails kills nothing; what waited comes when it is back."""
    stack = world.leader()
    rule = world.to_queue.refuse(b"queue-down", 400, "RequestThrottled")
    payload = b"queue-down 1"
    world.ledger.publish(EAST, "telemetry/queue-down", payload)
    until(20, "a row is stored", world.outstanding)
    for _ in range(2):
        world.start(stack, "Drain")
        time.sleep(3)
    until(70, "two sends are refused", lambda: rule.count >= 2)
    check(not world.dead(), "a record died of an outage")
    # A try in progress counts as an attempt until it is handed back.
    until(20, "no attempt is lost", lambda: [row["attempts"]["N"] for row in world.outstanding()] == ["0"])
    world.to_queue.heal()
    world.start(stack, "Drain")
    world.ledger.wait_for_all(75)
    return f"{rule.count} requests refused, no attempt lost, then delivered"


def drainer_killed(world: World) -> str:
    """A drainer dies between claim and commit: the row is claimed anew after stale_claim_duration, not before."""
    stack = world.leader()
    rule = world.to_queue.hold(b"kill-the-drainer")
    payload = b"kill-the-drainer 1"
    world.ledger.publish(EAST, "telemetry/kill-the-drainer", payload)
    until(20, "a row is stored", world.outstanding)
    world.start(stack, "Drain")
    until(75, "the drainer sends", rule.caught.is_set, pause=0.01)
    row, = world.outstanding()
    claim = row.get("claim", {}).get("S")
    killed = world.emulator.kill(world.function(stack, "Drainer"))
    moment = time.time()
    check(row["status"]["S"] == "claimed" and claim, f"the row is {row['status']['S']}, not claimed")
    check(killed, "there was no drainer to kill")
    world.to_queue.heal()
    world.ledger.wait_for_all(100)
    arrivals = world.ledger.arrivals("telemetry/kill-the-drainer", payload)
    waited = arrivals[0][0] - moment
    check(len(arrivals) == 1, f"it came {len(arrivals)} times, although the first send never arrived")
    # The claim was a moment older than the kill.
    check(waited > STALE_CLAIM - 2.5, f"claimed anew after {waited:.1f}s, before stale_claim_duration")
    until(10, "the row is committed", lambda: not world.outstanding())
    return f"claimed anew and sent after {waited:.1f}s (stale_claim_duration {STALE_CLAIM:g}s)"


def drainer_killed_after_the_send(world: World) -> str:
    """The same when the queue had already accepted it: it comes twice under one id, and is committed once."""
    stack = world.leader()
    rule = world.to_queue.hold(b"sent-then-killed", forward=True)
    payload = b"sent-then-killed 1"
    world.ledger.publish(EAST, "telemetry/sent-then-killed", payload)
    until(20, "a row is stored", world.outstanding)
    world.start(stack, "Drain")
    until(75, "the drainer sends", rule.caught.is_set, pause=0.01)
    check(world.emulator.kill(world.function(stack, "Drainer")), "there was no drainer to kill")
    world.to_queue.heal()

    def twice():
        world.ledger.receive()
        return len(world.ledger.arrivals("telemetry/sent-then-killed", payload)) == 2

    until(100, "it comes twice", twice)
    (first, one_id, _), (second, other_id, _) = sorted(world.ledger.arrivals("telemetry/sent-then-killed", payload))
    check(one_id == other_id, f"the second send has another id: {one_id}, {other_id}")
    check(second - first > STALE_CLAIM - 1, f"sent again after {second - first:.1f}s, before stale_claim_duration")
    until(10, "the row is committed", lambda: not world.outstanding())
    return f"two sends {second - first:.1f}s apart, one id, one commit"


def ingest_fails(world: World) -> str:
    """An invocation that failed for good goes to the queue of failures, and ingest stores it from there."""
    stack = world.stacks["east"]
    functions = world.emulator.client("lambda", EAST)
    name = world.function(stack, "Ingest")
    failures = stack.outputs["IngestFailuresQueueUrl"]
    # The emulator follows the configuration of asynchronous invocations only without an alias.
    given = functions.get_function_event_invoke_config(FunctionName=name, Qualifier="live")
    functions.put_function_event_invoke_config(
        FunctionName=name, MaximumRetryAttempts=given["MaximumRetryAttempts"],
        MaximumEventAgeInSeconds=given["MaximumEventAgeInSeconds"], DestinationConfig=given["DestinationConfig"],
    )
    source, = (
        one for one in functions.list_event_source_mappings()["EventSourceMappings"]
        if one["EventSourceArn"].endswith(failures.rsplit("/", 1)[1])
    )
    functions.update_event_source_mapping(UUID=source["UUID"], Enabled=False)
    rule = world.to_table.refuse(b"telemetry/ingest-fails", 500, "InternalServerError")
    payload = b"stored at last"
    world.ledger.note("telemetry/ingest-fails", payload)
    event = rule_event("telemetry/ingest-fails", payload)
    functions.invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps(event))
    queue = world.emulator.client("sqs", EAST)

    def failed():
        attributes = queue.get_queue_attributes(QueueUrl=failures, AttributeNames=["ApproximateNumberOfMessages"])
        return int(attributes["Attributes"]["ApproximateNumberOfMessages"])

    until(90, "the failed invocation is in the queue of failures", failed)
    refused = rule.count
    check(not world.outstanding(), "it was stored although the table refused it")
    world.to_table.heal()
    functions.update_event_source_mapping(UUID=source["UUID"], Enabled=True)
    deliver_batched(world)
    return f"{refused} writes refused, in the queue of failures, stored from there, delivered"


def error_action(world: World) -> str:
    """What the topic rule's error action writes is stored and delivered too."""
    stack = world.stacks["east"]
    client = world.emulator.client("iot", EAST)
    rule = client.get_topic_rule(ruleName=stack.outputs["TopicRuleName"])["rule"]
    to_queue = rule["errorAction"]["sqs"]
    # The emulator's rules notice no failure of a function; so a rule like ours, with its error action, sends to nowhere.
    client.create_topic_rule(ruleName="to_nowhere", topicRulePayload={
        "sql": rule["sql"].replace("telemetry/#", "nowhere/#"),
        "awsIotSqlVersion": rule["awsIotSqlVersion"],
        "actions": [{"sqs": to_queue | {"queueUrl": f"{to_queue['queueUrl']}-missing"}}],
        "errorAction": rule["errorAction"],
    })
    payload = bytes(range(256))
    world.ledger.publish(EAST, "nowhere/error-action", payload)
    deliver_batched(world)
    client.delete_topic_rule(ruleName="to_nowhere")
    return "from the rule's error action into the queue of failures, stored from there, delivered"


def too_large_dies(world: World) -> str:
    """A message over the destination's limit dies at once, is told, and holds up nobody."""
    payload = os.urandom(60_000)
    stack = world.leader()
    world.ledger.publish(EAST, "telemetry/too-large", payload)
    world.ledger.publish(EAST, "telemetry/its-neighbour", b"alive")
    world.start(stack, "Drain")
    dead = until(75, "it is dead", world.dead)
    check(len(dead) == 1, f"{len(dead)} records are dead")

    def neighbour():
        world.ledger.receive()
        return world.ledger.arrivals("telemetry/its-neighbour", b"alive")

    until(75, "its neighbour is delivered", neighbour)
    # The drain tells of the dead when its group ends, which may be after a wait.
    until(75, "the event Records Dead", lambda: world.buses[stack.region].find("Records Dead"))
    return "dead with its event, its neighbour delivered"


def redrive(world: World) -> str:
    """After the limit was raised by an update of the stacks, the dead record is put back and delivered."""
    stack = world.leader()
    asked = world.finish(stack, world.start(stack, "Redrive", {"dry_run": True}), 60)
    check(len(world.dead()) == 1, "a dry run put something back")
    done = world.finish(stack, world.start(stack, "Redrive"), 60)
    check(done["redriven"] == 1 and done["complete"], f"the redrive says {done}")
    check(not world.dead(), "the dead record is still there")
    world.start(stack, "Drain")
    world.ledger.wait_for_all(75)
    return f"dry run {asked['redriven']}, redriven {done['redriven']}, delivered"


def conservation(world: World) -> str:
    """Everything published has arrived, nothing else has, and nothing is left."""
    world.ledger.wait_for_all(75)
    until(60, "the outbox is empty", lambda: not world.outstanding())
    check(not world.dead(), "records are dead")
    check(not world.ledger.strangers(), f"nobody published {world.ledger.strangers()}")
    doubles = world.ledger.doubles()
    check(doubles == 1, f"{doubles} doubles, but one case alone made one")
    return f"{len(world.ledger.published)} published, all delivered, {doubles} known double, 0 dead, 0 outstanding"


def deliver_batched(world: World) -> None:
    """Rows of a batch are written by PartiQL, which reaches no stream in the emulator: the drain is started at once."""
    until(60, "a row is stored", world.outstanding)
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
