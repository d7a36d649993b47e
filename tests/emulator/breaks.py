"""For each case something broken that it must notice: with the break it fails for the reason that is named here, without it the
case passes. `tests/run emulator --breaks` does both, case by case, on one pair of stacks.

A break is made where AWS allows it: in a template before it is deployed, in a deployed resource, on the way to the queue or to
the table, or in a row, as an operator's slip would. It is undone before the case is run in earnest. Two cases end a stack; they
are seen to fail here and to pass without `--breaks`."""

import copy
import hashlib
import re
import time
from dataclasses import dataclass
from typing import Callable

from cases import Attempt, attempt, until
from emulator import EAST
from ledger import Ledger
from world import World


@dataclass
class Break:
    """What is broken for a case, the message of the assertion that must fail, and how to break it; the answer undoes it."""

    what: str
    # A regular expression for the message from its beginning, as the assertion words it: no other failure may match.
    failure: str
    apply: Callable[[World], Callable[[], None]]
    # After it there is no stack to run the case on in earnest.
    final: bool = False


class Breaks:
    """Runs each case broken, and counts the breaks that it did not notice. A case that is not in the table has none to notice."""

    def __init__(self, table: dict[str, list[Break]]) -> None:
        self._table = table
        self.noticed = 0
        self.survived: list[str] = []

    def run(self, name: str, seconds: float, work, world: World) -> bool:
        """Runs a case under each of its breaks; whether it can be run in earnest afterwards."""
        breaks = self._table.get(name, [])
        if name not in self._table:
            self.survived.append(f"{name}: no break is known")
            print(f"NOTHING {name}: no break is known", flush=True)
        for one in breaks:
            published, received = list(world.ledger.published), copy.deepcopy(world.ledger.received)
            started = time.monotonic()
            undo = one.apply(world)
            result = attempt(seconds, work)
            self._judge(name, one, result, time.monotonic() - started)
            world.to_queue.heal()
            world.to_table.heal()
            cleared = attempt(300, lambda: self._clear_away(world, one, undo, published, received))
            if cleared.failure:
                self.survived.append(f"{name}: {one.what}: it could not be undone")
                print(f"STUCK   {name}: {one.what}: it could not be undone: {cleared.failure}\n    at {cleared.where}", flush=True)
        return not any(one.final for one in breaks)

    @staticmethod
    def _clear_away(world: World, one: Break, undo: Callable[[], None], published: list, received: dict) -> str:
        undo()
        if world.stacks and not one.final:
            # The case in earnest publishes the same again, so the ledger forgets what the broken one did.
            settle(world)
            forget(world.ledger, published, received)
        return "undone"

    def _judge(self, name: str, one: Break, result: Attempt, seconds: float) -> None:
        if re.match(one.failure, result.failure, re.DOTALL):
            self.noticed += 1
            print(f"noticed {name} ({seconds:.1f}s): {one.what} -> {result.failure.splitlines()[0][:160]}", flush=True)
        else:
            self.survived.append(f"{name}: {one.what}")
            words = f"{result.failure}\n    at {result.where}" if result.failure else f"it passed: {result.seen}"
            print(f"MISSED  {name} ({seconds:.1f}s): {one.what}; wanted {one.failure!r}: {words}", flush=True)


def forget(ledger: Ledger, published: list, received: dict) -> None:
    """What was published before stays, with the arrivals that it had, or with its first ones; the rest is gone."""
    key = lambda line: (line[0], hashlib.sha256(line[1]).hexdigest())
    broken = {key(line) for line in ledger.published[len(published):]}
    kept = {key(line) for line in published} - broken
    now = {one: received.get(one, arrivals) for one, arrivals in ledger.received.items() if one in kept}
    ledger.received = now | {one: arrivals for one, arrivals in received.items() if one in broken}
    ledger.published[:] = published


def settle(world: World) -> None:
    """Whatever a broken run left on its way arrives, or is drained, as far as somebody leads."""
    failures = {"QueueUrl": world.first.outputs["IngestFailuresQueueUrl"], "AttributeNames": ["ApproximateNumberOfMessages"]}
    queue = world.aws.client("sqs", EAST)

    def empty() -> bool:
        return queue.get_queue_attributes(**failures)["Attributes"]["ApproximateNumberOfMessages"] == "0"

    until(60, "the queue of failures is empty", empty)
    if world.owner():
        world.start(world.leader(), "Drain")
        until(100, "the outbox is empty", lambda: not world.outstanding())
    time.sleep(2)
    world.ledger.receive()
