"""The leader dies in mid-drain, another takes over, the dead one comes back, the new leader steps down: nothing is lost."""

import time

from checks import Checks, listed
from publisher import Fleet, Ledger
from queue_reader import QueueReader
from world import World

# The fast profile: TTL 14s + margin 0.5s + two ticks of 1s, and a quarter of a second for each of the two lease calls.
TAKEOVER_BOUND = 17.0
# Two ticks and two lease calls.
HANDOVER_BOUND = 2.5
ACQUISITIONS = ("Lease Acquired", "Lease Seized", "Lease Reclaimed")


def acquired_by_another(name: str):
    return lambda e: e["event"] == "lease" and e["transition"] in ACQUISITIONS and e["instance"] != name


def run(command: str, checks: Checks, seeded) -> None:
    with World(command) as world:
        ledger = Ledger()
        fleet = Fleet(world.mqtt_port, 10, ledger, "crash")
        first = world.leader()
        fleet.publish(400, seeded, per_second=200)
        take_over(world, checks, fleet, seeded, first)
        checks.that("every publish has its PUBACK", fleet.wait(60) and ledger.sent == ledger.acknowledged)
        reader = QueueReader(world.addresses)
        missing = reader.drain(ledger.acknowledged, 90)
        checks.that(
            "all that the broker acknowledged came out of the queue, byte for byte",
            not missing,
            f"{len(ledger.acknowledged)} published, {len(missing)} missing {listed(missing)}",
        )
        step_down(world, checks, fleet, seeded, reader, ledger)
        compare(checks, reader, ledger)
        fleet.close()
        checks.that("Ctrl-C ends it with exit code 0", world.stop() == 0)


def take_over(world: World, checks: Checks, fleet: Fleet, seeded, first: str) -> None:
    here = world.count()
    fleet.publish(300, seeded)
    world.wait_for(lambda e: e["event"] == "claimed" and e["instance"] == first, 20, "claimed", here)
    here = world.count()
    answer = world.act("kill", first)
    killed_at = time.time()
    if not checks.that(f"`fencepost local kill {first}`", answer.returncode == 0, answer.stderr.strip()):
        raise RuntimeError("without a dead leader there is no takeover to see")
    fleet.publish(500, seeded, per_second=100)
    seized = world.wait_for(acquired_by_another(first), 60, "takeover", here)
    took = seized["observed_at_ms"] / 1000 - killed_at
    checks.that(
        f"takeover within {TAKEOVER_BOUND}s of the kill", took <= TAKEOVER_BOUND, f"{took:.1f}s, token {seized['token']}"
    )
    answer = world.act("start", first)
    checks.that(f"`fencepost local start {first}`", answer.returncode == 0, answer.stderr.strip())


def step_down(world: World, checks: Checks, fleet: Fleet, seeded, reader: QueueReader, ledger: Ledger) -> None:
    second = world.leader()
    here = world.count()
    asked_at = time.time()
    answer = world.act("step-down", second)
    checks.that(f"`fencepost local step-down {second}`", answer.returncode == 0, (answer.stdout + answer.stderr).strip())
    acquired = world.wait_for(acquired_by_another(second), 60, "handover", here)
    took = acquired["observed_at_ms"] / 1000 - asked_at
    checks.that(f"handover within {HANDOVER_BOUND}s", took <= HANDOVER_BOUND, f"{took:.1f}s, token {acquired['token']}")
    fleet.publish(100, seeded)
    fleet.wait(60)
    missing = reader.drain(ledger.acknowledged, 60)
    checks.that("the third leader delivers too", not missing, listed(missing))
    tokens = [e["token"] for e in world.events if e["event"] == "lease" and e["transition"] in ACQUISITIONS]
    checks.that("tokens grow", tokens == sorted(set(tokens)) and len(tokens) >= 3, " < ".join(map(str, tokens)))


def compare(checks: Checks, reader: QueueReader, ledger: Ledger) -> None:
    strangers = reader.received.keys() - ledger.sent
    checks.that("nothing came that was not published", not strangers, listed(strangers))
    doubled = [digest for digest, ids in reader.received.items() if len(set(ids)) > 1]
    checks.that("a message keeps its id when it is sent again", not doubled, listed(doubled))
    checks.note(f"{reader.count()} messages received, {reader.count() - len(reader.received)} of them a second time")
