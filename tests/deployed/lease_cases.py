"""Who leads: by the schedule alone, after a crash, and when asked to hand over."""

import time

from cases import check, until
from deployed import Deployed
from timing import LOOP_LATE_SECONDS, LOOP_SECONDS


def by_schedule(world: Deployed) -> str:
    """Nobody starts anything: the schedules do, and one of the two leads."""
    started = time.monotonic()
    # The emulator's schedules begin about 68s after they were made.
    until(100, "a schedule's tick takes the lease", world.owner)
    leader = world.leader()
    token = world.token()
    until(world.event_seconds, "the event Lease Acquired", lambda: world.buses[leader.region].find("Lease Acquired", token=token))
    until(world.takeover_seconds, f"the takeover of token {token} succeeds", lambda: world.takeover(leader, token) == "SUCCEEDED")
    return f"{leader.name} leads after {time.monotonic() - started:.0f}s, token {token}"


def leads(world: Deployed) -> str:
    """Somebody leads, knows it, and has finished the takeover that came with its token."""
    leader = world.leader(130)
    said = world.status(leader)
    check(said["leading"], f"{leader.name} stands in the row and does not know that it leads: {said}")
    check(said["lease"]["token"] == world.token(), f"it says token {said['lease']['token']}, the row {world.token()}")
    until(world.takeover_seconds, f"the takeover of token {world.token()} is finished",
          lambda: int(world.lease_row().get("takeover_done", {"N": "0"})["N"]) >= world.token())
    return f"{leader.name} leads under token {world.token()}, its takeover is finished"


def renews(world: Deployed) -> str:
    """The holder renews by itself, in time, under the same token."""
    token, first = world.token(), _renewal(world)
    bound = (world.timing.ttl - world.timing.margin) / 2 + world.slack + 5
    until(bound, "a renewal", lambda: _renewal(world) != first, pause=0.2)
    check(world.token() == token, f"the token moved from {token} to {world.token()} without a reason")
    return f"renewed under token {token}"


def _renewal(world: Deployed) -> tuple:
    row = world.lease_row()
    return row.get("renewal", {}).get("N"), row.get("confirmed_at", {}).get("N")


def both_tick(world: Deployed) -> str:
    """The other region goes on ticking and stands by: it sees the same holder and does not lead."""
    leader = world.leader()
    other = world.other(leader)
    token = world.token()
    noted = world.ticks(other)
    # One tick of each of two loops may have been on its way when they ended. Before its first tick it waits for its schedule.
    seconds = LOOP_SECONDS + LOOP_LATE_SECONDS + 3 * (world.timing.tick + world.timing.call) + world.slack
    until(seconds, f"{other.name} goes on ticking", lambda: world.ticks(other) >= noted + 3)
    check(not world.status(other)["leading"], "two instances lead")
    check(world.status(leader)["leading"], "nobody leads")
    check(world.token() == token, "the token moved without a reason")
    return f"{leader.name} leads, {other.name} stands by"


def takeover(world: Deployed) -> str:
    """The leader dies, drainer and all: the other takes over within the bound, not before, and drains what was left."""
    old = world.leader()
    new = world.other(old)
    token = world.token()
    timing = world.timing
    stopped = time.time()
    # A drainer that lives on would serve until the old leader's deadline, and leave no orphans.
    world.stopped = (old, {kind: world.stop_function(old, kind) for kind in ("Lease", "Drainer")})
    confirmed = 0.0

    def led() -> bool:
        nonlocal confirmed
        row = world.lease_row()
        if world.owner_in(row) == old.name:
            # A renewal that was under way at the kill may still land.
            confirmed = int(row["confirmed_at"]["N"]) / 1000
        return world.owner_in(row) == new.name

    led()
    payloads = [(world.topic(f"orphan-{number}"), f"orphan {number}".encode()) for number in range(5)]
    for topic, payload in payloads:
        world.ledger.publish(world.first.region, topic, payload)
    bound = timing.takeover_bound + world.slack
    # Otherwise the minute's drain of the new leader may be there before the takeover.
    with world.without_scheduled_drain(new):
        until(bound + 5, f"{new.name} leads", led, pause=0.05)
        taken = time.time() - confirmed
        check(taken > timing.ttl + timing.margin - world.slack, f"taken over {taken:.1f}s after the last renewal, before its TTL")
        check(taken < bound, f"taken over {taken:.1f}s after the last renewal, bound {bound:g}s")
        # A tick that raised the fence and then lost the race leaves a gap in the tokens.
        seized = world.token()
        check(seized > token, f"token {seized} follows {token}")
        until(world.takeover_seconds, f"takeover {world.lease}-{seized}-0 succeeds", lambda: world.takeover(new, seized) == "SUCCEEDED")
        drained = world.finish(new, world.takeover_arn(new, seized), 10)["counts"]["committed"]
    check(drained == len(payloads) or world.drain_may_be_first, f"the takeover drained {drained} of {len(payloads)} orphans")
    bus = world.buses[new.region]
    until(world.event_seconds, "the event Lease Seized", lambda: bus.find("Lease Seized", token=seized, instance=new.name))
    until(world.event_seconds, "the event Takeover Completed", lambda: bus.find("Takeover Completed", token=seized))
    world.ledger.wait_for_all(75)
    return (f"{new.name} leads {taken:.1f}s after the last renewal (bound {bound:g}s), "
            f"{time.time() - stopped:.0f}s after the kill {len(payloads)} orphans are delivered; takeover {world.lease}-{seized}-0 succeeded")


def abstention(world: Deployed) -> str:
    """Stepped down with nobody there to follow, the leader leaves the lease alone for one TTL, then takes it again."""
    alone, timing = world.leader(), world.timing
    others_tick = len(world.stacks) > 1 and not (world.stopped and world.stopped[0].name != alone.name)
    check(not others_tick, "the other instance still ticks")
    token = world.token()
    until(60, "nothing is in flight", lambda: not world.outstanding())
    execution = world.start(alone, "StepDown")
    row = until(timing.grace + 10, "the lease is released", lambda: "owner" not in world.lease_row() and world.lease_row(), pause=0.05)
    released = int(row["released_at"]["N"]) / 1000
    until(timing.ttl + timing.idle_handover_bound + 1, f"{alone.name} leads again", world.owner, pause=0.05)
    waited = time.time() - released
    check(world.owner() == alone.name, f"{world.owner()} took it, so another instance of the group ticks")
    check(waited > timing.ttl - world.slack, f"it took the lease again {waited:.1f}s after its release, inside its TTL")
    check(world.token() > token, f"token {world.token()} follows {token}")
    said = world.finish(alone, execution, 60)
    check(said["released"] and said["successor"] is None, f"the execution says {said}")
    return f"nobody for {waited:.1f}s (TTL {timing.ttl:g}s); the execution says that there is no successor"


def comes_back(world: Deployed) -> str:
    """The old leader comes back, ticks again, and stands by under the same token."""
    new = world.leader()
    token = world.token()
    old, kept = world.stopped
    for kind, what in kept.items():
        world.start_function(old, kind, what)
    world.stopped = None
    until(20, f"{old.name} answers", lambda: world.answers(old))
    # Its loops have gone on without the function, or a new one comes with the next start of the schedule.
    seconds = LOOP_SECONDS + LOOP_LATE_SECONDS + world.event_seconds
    lost = until(seconds, "the event Lease Lost", lambda: world.buses[old.region].find("Lease Lost", instance=old.name))
    check(world.owner() == new.name and world.token() == token, "it took the lease back")
    return f"{old.name} stands by; it said Lease Lost ({lost['detail'].get('reason')})"


def step_down(world: Deployed) -> str:
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
    bound = world.timing.idle_handover_bound + 1 + world.slack
    check(took < bound, f"an idle handover took {took:.1f}s, bound {bound:g}s")
    check(world.token() > token, f"token {world.token()} follows {token}")
    bus = world.buses[old.region]
    # The request itself releases, so the successor may tick before the former holder does: it is told as what it was all the same.
    for kind in ("Step Down Requested", "Lease Released"):
        until(world.event_seconds, f"the event {kind} of token {token}", lambda: bus.find(kind, instance=old.name, token=token, reason="step_down"))
    return f"{new.name} leads after {took:.1f}s (bound {bound:g}s); the execution said so, and the event Lease Released"
