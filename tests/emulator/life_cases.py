"""The life of a stack: refused with wrong settings, made, changed without a loss, deleted with the lease released."""

import time

from cases import check, until
from deployment import DeploymentFailed
from emulator import EAST, WEST
from world import World


def refused(world: World) -> str:
    """Settings that do not go together fail the deployment, with the reason and nothing left behind."""
    client = world.aws.client("cloudformation", EAST)
    cases = {
        "FENCEPOST_LEASE_TTL": {"LeaseTtl": "3s"},
        "drainer_limit": {"StaleClaimDuration": "12s"},
    }
    for number, (word, wrong) in enumerate(cases.items()):
        name = f"refused-{number}"
        try:
            world.deployment.create(EAST, name, world.values("refused") | {"TopicRuleName": "refused"} | wrong)
        except DeploymentFailed as failure:
            check(word in str(failure), f"{wrong}: the reason does not name {word}: {failure}")
            check("SettingsCheck" in str(failure), f"{wrong}: something else failed: {failure}")
        else:
            raise AssertionError(f"{wrong} was deployed")
    try:
        world.deployment.create(EAST, "refused-bare", world.values("refused") | {"LeaseTtl": "300"})
    except client.exceptions.ClientError as error:
        check("a number and a unit" in str(error), f"the reason is {error}")
    else:
        raise AssertionError("a bare number was deployed")
    return "a TTL of 3s, a stale_claim_duration below the drainer's limit + 5s, a bare number: each with its reason"


def unfit_tables_refused(world: World) -> str:
    """Tables on which no lease can stand are refused before anything uses them, each with the reason: an ordinary global table,
    whose last writer wins, and a lease table with time to live."""
    client = world.aws.client("dynamodb", EAST)
    for name, keys in (("lease-table", ("lease", "record")), ("outbox-table", ("shard", "position"))):
        for kind in ("eventual", "expiring"):
            client.create_table(
                TableName=f"{kind}-{name}", BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
                KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"))],
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            )
    spoil_tables(client)
    stream = client.describe_table(TableName="eventual-outbox-table")["Table"]["LatestStreamArn"]
    given = {
        "eventual": {"Topology": "global", "OutboxStreamArn": stream},
        "expiring": {"Topology": "home", "TableRegion": EAST},
    }
    reasons = {"eventual": "FENCEPOST_LEASE_TABLE: is an eventually consistent global table", "expiring": "time to live"}
    for kind, more in given.items():
        tables = {"LeaseTableName": f"{kind}-lease-table", "OutboxTableName": f"{kind}-outbox-table"}
        values = world.values("refused") | {"TopicRuleName": "refused"} | tables | more
        try:
            world.deployment.create(EAST, f"refused-{kind}", values)
        except DeploymentFailed as failure:
            check(reasons[kind] in str(failure), f"{kind} tables: the reason is another: {failure}")
            check("SettingsCheck" in str(failure), f"{kind} tables: something else failed: {failure}")
        else:
            raise AssertionError(f"a stack over {kind} tables was deployed")
    return "an eventually consistent global table, a lease table with time to live: each with its reason"


def spoil_tables(client) -> None:
    """Makes of four ordinary tables what a deployment must refuse."""
    for name in ("eventual-lease-table", "eventual-outbox-table"):
        client.update_table(TableName=name, ReplicaUpdates=[{"Create": {"RegionName": WEST}}])
    for name in ("expiring-lease-table", "expiring-outbox-table"):
        on = {"Enabled": True, "AttributeName": "expires_at"}
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=on)


def update_keeps_data(world: World) -> str:
    """An update of both stacks reaches the functions, and keeps tables, rows, the lease and its token."""
    leader, token = world.owner(), world.token()
    dead = [row["position"]["S"] for row in world.dead()]
    check(dead, "there is no record whose survival could be seen")
    for stack in world.stacks.values():
        world.deployment.update(stack.region, f"fencepost-{stack.name}", {"RequestBytesMax": 1048576})
        for kind in ("Ingest", "Lease", "Drainer"):
            live = world.aws.client("lambda", stack.region).get_function_configuration(
                FunctionName=world.function(stack, kind), Qualifier="live"
            )
            given = live["Environment"]["Variables"]["FENCEPOST_REQUEST_BYTES_MAX"]
            check(given == "1048576", f"{stack.name}: the alias of {kind} still has the old settings: {given}")
    tables = world.aws.client("dynamodb", EAST).list_tables()["TableNames"]
    for output in ("LeaseTableName", "OutboxTableName"):
        check(world.stacks["east"].outputs[output] in tables, f"{output} is gone")
    check([row["position"]["S"] for row in world.dead()] == dead, "dead records went with the update")
    check(world.token() >= token, f"the token fell from {token} to {world.token()}")
    large = bytes(range(256)) * 500
    world.ledger.publish(EAST, "telemetry/after-the-update", large)

    def arrived():
        world.ledger.receive()
        return world.ledger.arrivals("telemetry/after-the-update", large)

    until(100, "a message of 128 KB arrives", arrived)
    return f"new settings behind every alias; tables and {len(dead)} dead record kept; lease {leader}/{token} → {world.owner()}/{world.token()}"


def deletion_releases(world: World) -> str:
    """Deleting the leader's stack releases the lease first: the other leads long before the TTL, and serves on."""
    east, west = world.stacks["east"], world.stacks["west"]
    if world.owner() != "west":
        # East has the tables, which the emulator would take along.
        world.finish(east, world.start(east, "StepDown"), 60)
        until(10, "west leads", lambda: world.owner() == "west")
    token = world.token()
    world.ledger.wait_for_all(75)
    client = world.aws.client("cloudformation", west.region)
    stack_id = client.describe_stacks(StackName="fencepost-west")["Stacks"][0]["StackId"]
    started = time.monotonic()
    client.delete_stack(StackName="fencepost-west")
    until(world.timing.ttl - 4, "east leads", lambda: world.owner() == "east", pause=0.05)
    took = time.monotonic() - started
    check(world.token() > token, f"token {world.token()} follows {token}")
    world.deployment.gone(west.region, stack_id, 90)
    world.ledger.publish(EAST, "telemetry/after-the-deletion", b"still served")
    world.ledger.wait_for_all(75)
    return f"east leads {took:.1f}s after the deletion began (TTL {world.timing.ttl:g}s), and serves on"


def tables_outlive(world: World) -> str:
    """The last stack is deleted: the lease is free at once, and both tables are kept with token and fence."""
    east = world.stacks["east"]
    token = world.token()
    world.deployment.delete_data_first(east.region, "fencepost-east")
    tables = world.aws.client("dynamodb", EAST).list_tables()["TableNames"]
    for output in ("LeaseTableName", "OutboxTableName"):
        check(east.outputs[output] in tables, f"{output} is gone")
    check(world.owner() is None, f"the lease is still held by {world.owner()}")
    row = world.lease_row()
    check(row["released_by"], "the row does not say who released it")
    check(world.token() == token, f"the token went from {token} to {world.token()}")
    fence, = world.fences()
    check(int(fence["fencing_token"]["N"]) >= token, "the fence does not know the last token")
    return f"both tables are kept; no holder, token {token}, fence {fence['fencing_token']['N']}"
