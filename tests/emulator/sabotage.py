"""Ways to break a deployment, each as a function that breaks it and answers with what undoes it. Which case each is for stands in
break_table.py."""

import copy
import threading
import time
import uuid
from typing import Callable

import life_cases
import schedule_cases
from cases import until
from deployed import Stack
from emulator import EAST, WEST
from world import World, set_schedule


def nothing() -> None:
    """Nothing is to be undone."""


# ---- in a template ----------------------------------------------------------------------------------------------------


def spoiled(stack: str, change, *made: tuple[str, str]):
    """A break of one nested template; what it made is deleted afterwards, as (region, stack's name)."""

    def apply(world: World):
        def spoil(name: str, template: dict) -> None:
            if name == stack:
                change(template)

        world.deployment.spoil = spoil

        def undo() -> None:
            world.deployment.spoil = None
            for region, name in made:
                try:
                    world.deployment.delete(region, name)
                except world.aws.client("cloudformation", region).exceptions.ClientError:
                    continue

        return undo

    return apply


def unchecked(template: dict) -> None:
    """The check of the settings sees other durations than the functions get."""
    properties = template["Resources"]["SettingsCheck"]["Properties"]
    properties.update(FENCEPOST_LEASE_TTL="", FENCEPOST_STALE_CLAIM_DURATION="")


# ---- in a deployed resource -------------------------------------------------------------------------------------------


def rule_disabled(world: World):
    """The topic rule of the first stack takes nothing."""
    client, name = world.aws.client("iot", EAST), world.first.outputs["TopicRuleName"]
    client.disable_topic_rule(ruleName=name)
    return lambda: client.enable_topic_rule(ruleName=name)


def schedule_disabled(world: World):
    """Nobody starts the loop: the first stack was deployed so, for its cases come too late here to be before the first tick."""

    def undo() -> None:
        for machine in ("LeaseCycle", "Drain"):
            set_schedule(world, EAST, "ENABLED", machine)

    return undo


def failure_destination_missing(world: World):
    """Asynchronous invocations that fail for good go nowhere."""
    client, name = world.aws.client("lambda", EAST), world.function(world.first, "Ingest")
    given = client.get_function_event_invoke_config(FunctionName=name, Qualifier="live")
    numbers = {key: given[key] for key in ("MaximumRetryAttempts", "MaximumEventAgeInSeconds")}
    client.put_function_event_invoke_config(FunctionName=name, Qualifier="live", **numbers, DestinationConfig={})

    def undo() -> None:
        client.put_function_event_invoke_config(FunctionName=name, Qualifier="live", **numbers, DestinationConfig=given["DestinationConfig"])
        switch_failures_source(world, True)

    return undo


def switch_failures_source(world: World, enabled: bool) -> None:
    """Whether ingest reads the queue of failures."""
    client, queue = world.aws.client("lambda", EAST), world.first.outputs["IngestFailuresQueueUrl"].rsplit("/", 1)[1]
    for source in client.list_event_source_mappings()["EventSourceMappings"]:
        if source["EventSourceArn"].endswith(queue):
            client.update_event_source_mapping(UUID=source["UUID"], Enabled=enabled)


def failures_unread(world: World):
    """Ingest does not read the queue of failures."""
    switch_failures_source(world, False)

    def undo() -> None:
        # What was received while the source was switched off would come back much later.
        world.aws.client("sqs", EAST).purge_queue(QueueUrl=world.first.outputs["IngestFailuresQueueUrl"])
        switch_failures_source(world, True)

    return undo


def error_action_astray(world: World):
    """The rule's error action writes to a queue that is not there."""
    client, name = world.aws.client("iot", EAST), world.first.outputs["TopicRuleName"]
    kept = client.get_topic_rule(ruleName=name)["rule"]
    payload = {key: kept[key] for key in ("sql", "awsIotSqlVersion", "actions", "errorAction") if key in kept}
    astray = copy.deepcopy(payload)
    astray["errorAction"]["sqs"]["queueUrl"] += "-astray"
    client.replace_topic_rule(ruleName=name, topicRulePayload=astray)

    def undo() -> None:
        client.replace_topic_rule(ruleName=name, topicRulePayload=payload)
        client.delete_topic_rule(ruleName="to_nowhere")

    return undo


def limit_unchanged(world: World):
    """The drainer keeps its ten seconds, for its alias does not move."""
    client = world.aws.client("lambda", world.leader().region)
    client.update_alias = lambda **_: None

    def undo() -> None:
        del client.update_alias

    return undo


def begun_under_the_limit(world: World):
    """The drainer keeps its ten seconds, and a send that does not end: it claims, as one with three seconds must not."""
    world.to_queue.hold(b"telemetry/limit-")
    return limit_unchanged(world)


def schedule_goes_on(world: World):
    """The schedule is not switched off."""
    kept, schedule_cases.set_schedule = schedule_cases.set_schedule, lambda *_: None

    def undo() -> None:
        schedule_cases.set_schedule = kept

    return undo


def machine_does_nothing(machine: str):
    """The machine succeeds at once."""

    def apply(world: World):
        stack = world.leader()
        client, arn = world.aws.client("stepfunctions", stack.region), stack.outputs[f"{machine}StateMachineArn"]
        kept = client.describe_state_machine(stateMachineArn=arn)["definition"]
        done = '{"StartAt":"Done","States":{"Done":{"Type":"Succeed"}}}'
        client.update_state_machine(stateMachineArn=arn, definition=done)
        return lambda: client.update_state_machine(stateMachineArn=arn, definition=kept)

    return apply


def lease_function_gone(pick: Callable[[World], Stack]):
    """The lease function of an instance cannot be reached."""

    def apply(world: World):
        stack = pick(world)
        alias = world.stop_function(stack, "Lease")

        def undo() -> None:
            world.start_function(stack, "Lease", alias)
            until(60, "somebody leads", world.owner)
            until(30, f"{stack.name} answers", lambda: world.answers(stack))

        return undo

    return apply


def loops_ended(pick: Callable[[World], Stack]):
    """An instance has ticked and does so no more: its schedule is silent and its loops are ended. Its function answers, and the
    record that it wrote of itself stands."""

    def apply(world: World):
        stack = pick(world)
        until(100, f"{stack.name} has ticked", lambda: world.ticks(stack))
        set_schedule(world, stack.region, "DISABLED")
        client, machine = world.aws.client("stepfunctions", stack.region), stack.outputs["LeaseCycleStateMachineArn"]

        def ended() -> bool:
            running = client.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]
            for execution in running:
                client.stop_execution(executionArn=execution["executionArn"])
            return not running

        until(10, f"the loops of {stack.name} are ended", ended)
        return lambda: set_schedule(world, stack.region, "ENABLED")

    return apply


def bus_deaf(world: World):
    """Nothing that the bridge tells the event bus reaches this side."""
    for bus in world.buses.values():
        bus.listen(False)

    def undo() -> None:
        for bus in world.buses.values():
            bus.listen(True)
        until(60, "somebody leads", world.owner)

    return undo


def standby_gone(world: World):
    """Nobody is there to take over; whoever the case stops comes back too."""
    return _bring_back(world, lease_function_gone(lambda world: world.other(world.leader()))(world))


def lifecycle_broken(world: World):
    """The function that releases the lease at deletion fails."""
    client = world.aws.client("lambda", WEST)
    name, = (one["FunctionName"] for one in client.list_functions()["Functions"] if "Lifecycle" in one["FunctionName"])
    script = world.deployment.zipped(b"#!/bin/sh\nexit 1\n")
    client.update_function_code(FunctionName=name, ZipFile=script)
    world.aws.kill(name)
    return nothing


# ---- on the way -------------------------------------------------------------------------------------------------------


def body_altered(world: World):
    """A byte of a message changes on its way to the queue."""
    world.to_queue.alter(b"temperature 21.5", b"temperature 22.5")
    return nothing


def refused_for_good(world: World):
    """The queue refuses the entry by a code that says never again."""
    world.to_queue.refuse_entries(b"queue-down", "InvalidMessageContents")

    def undo() -> None:
        world.to_queue.heal()
        _purge_dead(world)

    return undo


# ---- in a row, or in what this side does ------------------------------------------------------------------------------


def handed_back_early(world: World):
    """Whoever kills the drainer hands its rows back, without the wait."""
    kill = world.aws.kill

    def kill_and_hand_back(name: str) -> int:
        count = kill(name)
        client, table = world.aws.client("dynamodb", EAST), world.first.outputs["OutboxTableName"]
        for row in world.outstanding():
            client.update_item(
                TableName=table, Key={"shard": row["shard"], "position": row["position"]},
                UpdateExpression="SET #status = :pending REMOVE #claim", ExpressionAttributeNames={"#status": "status", "#claim": "claim"},
                ExpressionAttributeValues={":pending": {"S": "pending"}},
            )
        world.to_queue.heal()
        world.start(world.leader(), "Drain")
        return count

    world.aws.kill = kill_and_hand_back

    def undo() -> None:
        del world.aws.kill

    return undo


def lease_taken_from_the_row(world: World):
    """Right after the leader's death somebody clears the row, so that the other need not wait."""
    stop = world.stop_function

    def stop_and_clear(stack: Stack, kind: str) -> dict:
        if kind == "Drainer":
            threading.Timer(1, release_row, (world,)).start()
        return stop(stack, kind)

    world.stop_function = stop_and_clear

    def undo() -> None:
        del world.stop_function

    return _bring_back(world, undo)


def lease_lost_meanwhile(world: World):
    """Somebody clears the row: the holder takes it anew under another token."""
    release_row(world)

    def undo() -> None:
        set_schedule(world, EAST, "ENABLED")
        leader = world.leader(30)
        if leader.region != EAST:
            world.finish(leader, world.start(leader, "StepDown"), 60)
            until(30, "east leads", lambda: world.owner() == "east")
        world.gap.begins(world)

    return undo


def second_acquisition(world: World):
    """A doubled start of the loop also takes the lease anew."""
    start = world.start

    def start_and_clear(stack: Stack, machine: str, given: dict | None = None) -> str:
        execution = start(stack, machine, given)
        release_row(world)
        return execution

    world.start = start_and_clear

    def undo() -> None:
        del world.start
        until(30, "somebody leads", world.owner)

    return undo


def abstention_forgotten(world: World):
    """The row forgets who released it."""
    over = threading.Event()

    def forget() -> None:
        while not over.wait(0.02):
            by = world.lease_row().get("released_by", {}).get("M")
            if by and by["name"]["S"] != NOBODY["name"]["S"]:
                release_row(world)

    thread = threading.Thread(target=forget, daemon=True)
    thread.start()

    def undo() -> None:
        over.set()
        thread.join()
        until(60, "somebody leads", world.owner)

    return undo


def never_given_back(world: World):
    """The old leader's functions do not come back."""
    kept, start = world.stopped, world.start_function
    world.start_function = lambda *_: None

    def undo() -> None:
        world.start_function = start
        world.stopped = kept

    return undo


def limit_raised(world: World):
    """The destination takes what the case holds for too large."""
    for stack in world.stacks.values():
        world.deployment.update(stack.region, f"fencepost-{stack.name}", {"RequestBytesMax": 1048576})

    def undo() -> None:
        for stack in world.stacks.values():
            world.deployment.update(stack.region, f"fencepost-{stack.name}", {"RequestBytesMax": 65536})
        until(60, "somebody leads", world.owner)

    return undo


def update_without_effect(world: World):
    """The update of the stacks reaches no function."""
    update = world.deployment.update
    world.deployment.update = lambda *_: None

    def undo() -> None:
        world.deployment.update = update

    return undo


def ordinary_tables(world: World):
    """The tables are not the unfit ones: one region, no time to live."""
    spoil_tables = life_cases.spoil_tables
    life_cases.spoil_tables = lambda _: None

    def undo() -> None:
        life_cases.spoil_tables = spoil_tables
        for region, name in ((EAST, "refused-eventual"), (EAST, "refused-expiring")):
            try:
                world.deployment.delete(region, name)
            except world.aws.client("cloudformation", region).exceptions.ClientError:
                continue
        client = world.aws.client("dynamodb", EAST)
        for table in client.list_tables()["TableNames"]:
            if table.startswith(("eventual-", "expiring-")):
                client.delete_table(TableName=table)

    return undo


def sent_twice(world: World):
    """One message stands in the destination twice."""
    topic, payload, _ = next(line for line in world.ledger.published if line[1] and line[1].isascii())
    text = {"DataType": "String", "StringValue": "text"}
    world.aws.client("sqs", EAST).send_message(
        QueueUrl=world.first.outputs["DestinationQueueUrl"], MessageBody=payload.decode(),
        MessageAttributes={
            "payload-encoding": text, "topic": text | {"StringValue": topic}, "message-id": text | {"StringValue": "a-double"},
        },
    )
    return nothing


def lost_on_the_way(world: World):
    """A message is published while no rule takes it."""
    undo = rule_disabled(world)
    world.ledger.publish(EAST, "telemetry/lost", b"lost on the way")
    return undo


def tables_deleted(world: World):
    """The tables go with the stack."""
    world.deployment.delete_data_first = world.deployment.delete
    return nothing


NOBODY = {"name": {"S": "nobody"}, "stack": {"S": "nobody"}, "reason": {"S": "shutdown"}}


def release_row(world: World) -> None:
    """The lease is free, as if an instance that is none of the two had released it. Whoever holds it finds out."""
    row = world.lease_row()
    world.aws.client("dynamodb", EAST).update_item(
        TableName=world.first.outputs["LeaseTableName"], Key={key: row[key] for key in ("lease", "record")},
        UpdateExpression="SET released_by = :nobody, released_at = :then, attempt = :attempt REMOVE #owner, owner_stack, stepping_down",
        ExpressionAttributeNames={"#owner": "owner"},
        ExpressionAttributeValues={":nobody": {"M": NOBODY}, ":then": row["confirmed_at"], ":attempt": {"S": str(uuid.uuid4())}},
    )


def _purge_dead(world: World) -> None:
    client, table = world.aws.client("dynamodb", EAST), world.first.outputs["OutboxTableName"]
    for row in world.dead() + world.outstanding():
        client.delete_item(TableName=table, Key={"shard": row["shard"], "position": row["position"]})


def _bring_back(world: World, undo):
    """Undoes, and gives back whatever the case itself took away."""

    def undo_all() -> None:
        undo()
        if world.stopped:
            stack, kept = world.stopped
            for kind, what in kept.items():
                world.start_function(stack, kind, what)
            world.stopped = None
        until(60, "somebody leads", world.owner)
        for stack in world.stacks.values():
            until(30, f"{stack.name} answers", lambda stack=stack: world.answers(stack))
        # A renewal or two, so that nothing of this is in the next measurement.
        time.sleep(6)

    return undo_all


def without_output(name: str):
    return lambda template: template["Outputs"].pop(name)
