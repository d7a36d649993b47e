"""Who leads: by the schedule alone, after a crash, and when asked to hand over."""

import time

from cases import check, until
from emulator import EAST
from world import CALL, GRACE, LEASE, MARGIN, TAKEOVER_BOUND, TICK, TTL, World


def by_schedule(world: World) -> str:
    """Nobody starts anything: the schedules do, and one of the two leads."""
    started = time.monotonic()
    # The emulator's schedules begin about 68s after they were made.
    until(100, "a schedule's tick takes the lease", world.owner)
    leader = world.leader()
    token = world.token()
    until(15, "the event Lease Acquired", lambda: world.buses[leader.region].find("Lease Acquired", token=token))
    until(60, f"the takeover of token {token} succeeds", lambda: world.takeover(leader, token) == "SUCCEEDED")
    return f"{leader.name} leads after {time.monotonic() - started:.0f}s, token {token}"


def both_tick(world: World) -> str:
    """The other region ticks too and stands by: it sees the same holder and does not lead."""
    leader = world.leader()
    other = world.other(leader)
    token = world.token()

    def evidence():
        client = world.emulator.client("dynamodb", EAST)
        rows = client.query(
            TableName=world.stacks["east"].outputs["LeaseTableName"], ConsistentRead=True,
            KeyConditionExpression="lease = :lease", ExpressionAttributeValues={":lease": {"S": LEASE}},
        )["Items"]
        return [row for row in rows if row["record"]["S"].startswith(f"INSTANCE#{other.name}#")]

    until(80, f"{other.name} keeps an instance record", evidence)
    check(not world.status(other)["leading"], "two instances lead")
    check(world.status(leader)["leading"], "nobody leads")
    check(world.token() == token, "the token moved without a reason")
    return f"{leader.name} leads, {other.name} stands by"


def takeover(world: World) -> str:
    """The leader dies, drainer and all: the other takes over within the bound, not before, and drains what was left."""
    old = world.leader()
    new = world.other(old)
    token = world.token()
    stopped = time.time()
    # A drainer that lives on would serve until the old leader's deadline, and leave no orphans.
    world.stopped = (old, {kind: world.stop_function(old, kind) for kind in ("Lease", "Drainer")})
    confirmed = int(world.lease_row()["confirmed_at"]["N"]) / 1000
    payloads = [(f"telemetry/orphan-{number}", f"orphan {number}".encode()) for number in range(5)]
    for topic, payload in payloads:
        world.ledger.publish(EAST, topic, payload)
    until(TAKEOVER_BOUND + 5, f"{new.name} leads", lambda: world.owner() == new.name, pause=0.05)
    taken = time.time() - confirmed
    check(taken > TTL + MARGIN, f"taken over {taken:.1f}s after the last renewal, before its TTL")
    check(taken < TAKEOVER_BOUND, f"taken over {taken:.1f}s after the last renewal, bound {TAKEOVER_BOUND:g}s")
    # A tick that raised the fence and then lost the race leaves a gap in the tokens.
    seized = world.token()
    check(seized > token, f"token {seized} follows {token}")
    until(60, f"takeover telemetry-{seized}-0 succeeds", lambda: world.takeover(new, seized) == "SUCCEEDED")
    drained = world.finish(new, world.takeover_arn(new, seized), 10)["counts"]["committed"]
    check(drained == len(payloads), f"the takeover drained {drained} of {len(payloads)} orphans")
    bus = world.buses[new.region]
    until(10, "the event Lease Seized", lambda: bus.find("Lease Seized", token=seized, instance=new.name))
    until(10, "the event Takeover Completed", lambda: bus.find("Takeover Completed", token=seized))
    world.ledger.wait_for_all(75)
    return (f"{new.name} leads {taken:.1f}s after the last renewal (bound {TAKEOVER_BOUND:g}s), "
            f"{time.time() - stopped:.0f}s after the kill {drained} orphans are delivered; takeover telemetry-{seized}-0 succeeded")


def abstention(world: World) -> str:
    """Stepped down with nobody there to follow, the leader leaves the lease alone for one TTL, then takes it again."""
    alone = world.leader()
    check(world.stopped and world.stopped[0].name != alone.name, "the other instance still ticks")
    token = world.token()
    until(60, "nothing is in flight", lambda: not world.outstanding())
    execution = world.start(alone, "StepDown")
    row = until(GRACE + 10, "the lease is released", lambda: "owner" not in world.lease_row() and world.lease_row(), pause=0.05)
    released = int(row["released_at"]["N"]) / 1000
    until(TTL + 2 * (TICK + CALL) + 1, f"{alone.name} leads again", world.owner, pause=0.05)
    waited = time.time() - released
    check(waited > TTL, f"it took the lease again {waited:.1f}s after its release, inside its TTL")
    check(world.token() > token, f"token {world.token()} follows {token}")
    said = world.finish(alone, execution, 60)
    check(said["released"] and said["successor"] is None, f"the execution says {said}")
    return f"nobody for {waited:.1f}s (TTL {TTL:g}s); the execution says that there is no successor"


def comes_back(world: World) -> str:
    """The old leader comes back, ticks again, and stands by under the same token."""
    new = world.leader()
    token = world.token()
    old, aliases = world.stopped
    for kind, alias in aliases.items():
        world.start_function(old, kind, alias)
    until(20, f"{old.name} answers", lambda: world.status(old)["me"]["name"] == old.name)
    lost = until(90, "the event Lease Lost", lambda: world.buses[old.region].find("Lease Lost", instance=old.name))
    check(world.owner() == new.name and world.token() == token, "it took the lease back")
    return f"{old.name} stands by; it said Lease Lost ({lost['detail'].get('reason')})"


def step_down(world: World) -> str:
    """A planned handover: the execution names the successor, and the handover takes two ticks."""
    old = world.leader()
    new = world.other(old)
    token = world.token()
    until(60, "nothing is in flight", lambda: not world.outstanding())
    started = time.time()
    execution = world.start(old, "StepDown")
    until(30, f"{new.name} leads", lambda: world.owner() == new.name, pause=0.05)
    took = time.time() - started
    said = world.finish(old, execution, 60)
    check(said["released"] and said["successor"]["name"] == new.name, f"the execution says {said}")
    # Two ticks, of which each is the interval and a call; and what the emulator takes to start an execution.
    bound = 2 * (TICK + CALL) + 1
    check(took < bound, f"an idle handover took {took:.1f}s, bound {bound:g}s")
    check(world.token() > token, f"token {world.token()} follows {token}")
    bus = world.buses[old.region]
    until(10, "the event Lease Released", lambda: bus.find("Lease Released", instance=old.name))
    return f"{new.name} leads after {took:.1f}s (bound {bound:g}s); the execution said so"
