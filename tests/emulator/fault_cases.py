"""What stands in a message's way: nobody leads, the queue refuses, a drainer dies, ingest fails, a message is too large. The
emulator's processes and a proxy make it happen; an account has no such means."""

import json
import os
import time

from cases import check, until
from emulator import EAST
from flow_cases import deliver_batched, rule_event
from world import World


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
    until(20, "a row is stored", lambda: world.outstanding() or world.dead())
    for _ in range(2):
        world.start(stack, "Drain")
        time.sleep(3)
    until(70, "two sends are refused", lambda: rule.count >= 2 or world.dead())
    check(not world.dead(), "a record died of an outage")
    # A try in progress counts as an attempt until it is handed back.
    until(20, "no attempt is lost", lambda: [row["attempts"]["N"] for row in world.outstanding()] == ["0"])
    world.to_queue.heal()
    world.start(stack, "Drain")
    world.ledger.wait_for_all(75)
    return f"{rule.count} requests refused, no attempt lost, then delivered"


def case_32_limit_of_three_seconds(world: World) -> str:
    """A drainer whose function is ended after three seconds begins nothing that it could not finish, so nothing is stuck."""
    stack = world.leader()
    client, name = world.aws.client("lambda", stack.region), world.function(stack, "Drainer")
    kept = client.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    limit = client.get_function_configuration(FunctionName=name)["Timeout"]
    payloads = [(f"telemetry/limit-{number}", f"limit {number}".encode()) for number in range(3)]
    client.update_function_configuration(FunctionName=name, Timeout=3)
    try:
        short = client.publish_version(FunctionName=name)["Version"]
        client.update_alias(FunctionName=name, Name="live", FunctionVersion=short)
        for topic, payload in payloads:
            world.ledger.publish(EAST, topic, payload)
        until(20, "three rows are stored", lambda: len(world.outstanding()) == 3)
        world.start(stack, "Drain")
        # Twice its limit, so that whatever it began would be over.
        time.sleep(6)
        states = {(row["status"]["S"], row["attempts"]["N"]) for row in world.outstanding()}
        check(states == {("pending", "0")}, f"the rows are {states}, not untouched")
    finally:
        client.update_alias(FunctionName=name, Name="live", FunctionVersion=kept)
        client.update_function_configuration(FunctionName=name, Timeout=limit)
    world.start(stack, "Drain")
    world.ledger.wait_for_all(75)
    return f"3 rows untouched under a limit of 3s, delivered under {limit}s"


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
    killed = world.aws.kill(world.function(stack, "Drainer"))
    moment = time.time()
    check(row["status"]["S"] == "claimed" and claim, f"the row is {row['status']['S']}, not claimed")
    check(killed, "there was no drainer to kill")
    world.to_queue.heal()
    world.ledger.wait_for_all(100)
    arrivals = world.ledger.arrivals("telemetry/kill-the-drainer", payload)
    waited = arrivals[0][0] - moment
    check(len(arrivals) == 1, f"it came {len(arrivals)} times, although the first send never arrived")
    # The claim was a moment older than the kill.
    check(waited > world.timing.stale_claim - 2.5, f"claimed anew after {waited:.1f}s, before stale_claim_duration")
    until(10, "the row is committed", lambda: not world.outstanding())
    return f"claimed anew and sent after {waited:.1f}s (stale_claim_duration {world.timing.stale_claim:g}s)"


def drainer_killed_after_the_send(world: World) -> str:
    """The same when the queue had already accepted it: it comes twice under one id, and is committed once."""
    stack = world.leader()
    rule = world.to_queue.hold(b"sent-then-killed", forward=True)
    payload = b"sent-then-killed 1"
    world.ledger.publish(EAST, "telemetry/sent-then-killed", payload)
    until(20, "a row is stored", world.outstanding)
    world.start(stack, "Drain")
    until(75, "the drainer sends", rule.caught.is_set, pause=0.01)
    check(world.aws.kill(world.function(stack, "Drainer")), "there was no drainer to kill")
    world.to_queue.heal()

    def twice():
        world.ledger.receive()
        return len(world.ledger.arrivals("telemetry/sent-then-killed", payload)) == 2

    until(100, "it comes twice", twice)
    (first, one_id, _), (second, other_id, _) = sorted(world.ledger.arrivals("telemetry/sent-then-killed", payload))
    check(one_id == other_id, f"the second send has another id: {one_id}, {other_id}")
    check(second - first > world.timing.stale_claim - 1, f"sent again after {second - first:.1f}s, before stale_claim_duration")
    until(10, "the row is committed", lambda: not world.outstanding())
    return f"two sends {second - first:.1f}s apart, one id, one commit"


def case_37_ingest_fails(world: World) -> str:
    """An invocation that failed for good goes to the queue of failures, and ingest stores it from there."""
    stack = world.stacks["east"]
    functions = world.aws.client("lambda", EAST)
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
    queue = world.aws.client("sqs", EAST)

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


def case_37_error_action(world: World) -> str:
    """What the topic rule's error action writes is stored and delivered too."""
    stack = world.stacks["east"]
    client = world.aws.client("iot", EAST)
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
    # The drainer tells of the dead when its call ends.
    told = {"lease": world.lease, "instance": stack.name, "count": 1, "by_reason": {"oversize": 1}}
    until(75, f"the event Records Dead with {told}", lambda: world.buses[stack.region].find("Records Dead", **told))
    return "dead with its event, its neighbour delivered"


def redrive(world: World) -> str:
    """After the limit was raised by an update of the stacks, the dead record is put back and delivered."""
    stack = world.leader()
    asked = world.finish(stack, world.start(stack, "Redrive", {"dry_run": True}), 60)
    check(len(world.dead()) == 1, "a dry run put something back")
    done = world.finish(stack, world.start(stack, "Redrive"), 60)
    check(done.get("redriven") == 1 and done.get("complete"), f"the redrive says {done}")
    check(not world.dead(), "the dead record is still there")
    world.start(stack, "Drain")
    world.ledger.wait_for_all(75)
    return f"dry run {asked.get('redriven')}, redriven {done['redriven']}, delivered"
