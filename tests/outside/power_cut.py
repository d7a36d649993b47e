"""kill -9 of the whole process in mid-flow, and a restart with the same directory.

What ingest acknowledged must come out of the queue. What only the broker had acknowledged was in the process's memory, as
it is in IoT Core's when a rule's target cannot be reached for too long: it is listed, not failed.
"""

import tempfile
import threading
import time

from checks import Checks, listed
from publisher import Fleet, Ledger
from queue_reader import QueueReader
from world import World


def run(command: str, checks: Checks, seeded, number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="fencepost-") as data:
        ledger = Ledger()
        before = cut(command, checks, seeded, data, ledger, number)
        with World(command, data) as world:
            fleet = Fleet(world.mqtt_port, 3, ledger, f"after-{number}")
            fleet.publish(100, seeded)
            checks.that("it takes messages again after the restart", fleet.wait(30))
            # Rows that the dead process had claimed are sent again once they are stale: 20s in the fast profile.
            reader = QueueReader(world.addresses)
            after = {digest for digest in ledger.acknowledged if digest not in before["broker"]}
            missing = reader.drain(before["ingest"] | after, 100)
            checks.that(
                "nothing that ingest acknowledged is lost",
                not missing & before["ingest"],
                f"{len(before['ingest'])} acknowledged, {len(missing & before['ingest'])} missing {listed(missing)}",
            )
            checks.that("nothing that came after the restart is lost", not missing & after, listed(missing & after))
            strangers = reader.received.keys() - ledger.sent
            checks.that("nothing came that was not published", not strangers, listed(strangers))
            unseen = before["broker"] - before["ingest"] - reader.received.keys()
            checks.note(
                f"acknowledged by the broker and never seen by ingest: {len(unseen)} of {len(before['broker'])} {listed(unseen)}"
            )
            checks.note(f"{reader.count() - len(reader.received)} messages came a second time")
            fleet.close()
            checks.that("Ctrl-C ends it with exit code 0", world.stop() == 0)


def cut(command: str, checks: Checks, seeded, data: str, ledger: Ledger, number: int) -> dict[str, set[str]]:
    """Publishes as fast as the broker takes it, and cuts the power at a moment of the seed. What had been acknowledged."""
    with World(command, data) as world:
        world.leader()
        fleet = Fleet(world.mqtt_port, 5, ledger, f"before-{number}")
        publishing = threading.Thread(target=fleet.publish, args=(100_000, seeded), daemon=True)
        publishing.start()
        world.wait_for(lambda event: event["event"] == "ingested", 60, "ingested")
        time.sleep(seeded.uniform(1, 3))
        world.kill_9()
        publishing.join(30)
        fleet.close()
        with ledger.lock:
            broker = set(ledger.acknowledged)
        ingest = set(world.acknowledged().values())
        committed = sum(e["rows"] for e in world.events if e["event"] == "committed")
        checks.that(
            f"cut {number} falls into the flow",
            bool(ingest) and committed < len(ingest),
            f"{len(broker)} acknowledged by the broker, {len(ingest)} by ingest, {committed} committed",
        )
        checks.that("at most the last line is cut off", len(world.unreadable) <= 1, str(len(world.unreadable)))
        return {"broker": broker, "ingest": ingest}
