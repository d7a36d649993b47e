#!/usr/bin/env python3
"""The deployment, seen from outside: what `sam build` built, in an emulator of AWS that nobody here wrote.

    tests/run emulator [--bootstraps DIR] [--only CASE …] [--breaks]

Two stacks in two regions over one pair of tables, driven by their own schedules. The cases speak to AWS' own interfaces, and
to none of the code. --bootstraps takes the programs fencepost-ingest, fencepost-lease and fencepost-drainer from a folder
instead of .aws-sam/ (a debug build, while developing). --breaks breaks for each case what it guards, and wants it to fail
(break_table.py). Everything listens on loopback and ends with the run."""

import argparse
import pathlib
import signal
import sys
import time

# What a deployment in an account is asked too.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deployed"))

import fault_cases
import flow_cases
import lease_cases
import life_cases
import schedule_cases
from break_table import BREAKS
from breaks import Breaks
from cases import Cases
from deployment import ROOT
from emulator import EAST, WEST, Emulator
from proxy import Proxy
from world import World


def main() -> int:
    arguments = parse()
    # Ended from outside, the `with` blocks still end what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    cases = Cases()
    breaks = Breaks(BREAKS) if arguments.breaks else None
    with Emulator() as emulator, Proxy(emulator.port) as to_queue, Proxy(emulator.port) as to_table:
        world = World(emulator, arguments.bootstraps, to_queue, to_table)
        run(cases, world, arguments.only, breaks)
        print("\nchanged for the emulator, so not tested here:")
        for change in sorted(world.deployment.changes):
            print(f"  {change}")
        if cases.failed:
            kept = emulator.keep_log(ROOT / ".tools/emulator.log")
            print(f"\nthe emulator's log is kept: {kept}")
    print(f"\n{time.monotonic() - started:.0f}s")
    if breaks:
        print(f"{breaks.noticed} breaks noticed, {len(breaks.survived)} not")
    print(f"{cases.passed} passed, {cases.failed} failed")
    return 1 if cases.failed or not cases.passed or (breaks and breaks.survived) else 0


def run(cases: Cases, world: World, only: list[str] | None, breaks: Breaks | None) -> None:
    def tables() -> dict:
        outputs = world.stacks["east"].outputs
        return {"LeaseTableName": outputs["LeaseTableName"], "OutboxTableName": outputs["OutboxTableName"]}

    def east() -> str:
        # With every case twice, the first tick would come before the cases that are about the time until then.
        outputs = world.deploy("east", EAST, ScheduleState="DISABLED" if late else "ENABLED").outputs
        return f"{len(outputs)} outputs"

    def west() -> str:
        outputs = world.deploy("west", WEST, Topology="home", TableRegion=EAST, **tables()).outputs
        return f"{len(outputs)} outputs, tables of {EAST}"

    # With --only, the cases that a chosen one builds on are not broken.
    broken = lambda name: breaks and (not only or name in only)
    late = broken("lease by schedule")

    # One case makes a double on purpose: the drainer that is killed after the send.
    def conservation(one: World) -> str:
        return flow_cases.conservation(one, 1)

    gap = world.gap = schedule_cases.Gap(world)
    led = ("deploy east", "lease by schedule")
    both = (*led, "deploy west", "one leads, one stands by")
    # East is alone at first, so that it leads; what needs only a leader runs while west waits for its schedule. The
    # takeover then makes west the leader, whose tables are in another region and whose drainer no stream wakes.
    plan = [
        ("deploy east", 120, east, ()),
        ("stored without a holder", 60, fault_cases.stored_without_a_holder, ("deploy east",)),
        ("wrong settings refused", 120, life_cases.refused, ("deploy east",)),
        ("unfit tables refused", 120, life_cases.unfit_tables_refused, ("deploy east",)),
        ("lease by schedule", 180, lease_cases.by_schedule, ("deploy east",)),
        ("case_16 schedule fires twice", 60, schedule_cases.case_16_schedule_fires_twice, led),
        ("the schedule falls silent", 30, gap.begins, led),
        ("exact bytes", 120, flow_cases.exact_bytes, led),
        ("deploy west", 120, west, ("deploy east",)),
        ("queue down", 150, fault_cases.queue_down, led),
        ("case_32 limit of three seconds", 120, fault_cases.case_32_limit_of_three_seconds, led),
        ("drainer killed before the send", 150, fault_cases.drainer_killed, led),
        ("drainer killed after the send", 150, fault_cases.drainer_killed_after_the_send, led),
        ("case_37 ingest fails", 150, fault_cases.case_37_ingest_fails, led),
        ("case_37 error action", 150, fault_cases.case_37_error_action, led),
        ("from the queue of failures", 150, flow_cases.from_the_queue_of_failures, led),
        ("one leads, one stands by", 120, lease_cases.both_tick, (*led, "deploy west")),
        ("case_41 no gap in ticks", 240, gap.case_41_no_gap_in_ticks, (*led, "the schedule falls silent")),
        ("takeover", 180, lease_cases.takeover, both),
        ("abstention", 120, lease_cases.abstention, (*both, "takeover")),
        ("the old leader comes back", 120, lease_cases.comes_back, (*both, "takeover")),
        ("too large for the queue", 240, fault_cases.too_large_dies, both),
        ("step-down", 120, lease_cases.step_down, both),
        ("update keeps data", 240, life_cases.update_keeps_data, (*both, "too large for the queue")),
        ("redrive", 200, fault_cases.redrive, (*both, "update keeps data")),
        ("conservation", 150, conservation, (*led, "drainer killed after the send")),
        ("deletion releases", 180, life_cases.deletion_releases, both),
        ("tables outlive", 120, life_cases.tables_outlive, (*both, "deletion releases")),
    ]
    if breaks:
        # With every case twice the silence would last longer than a loop does: it begins where it is looked at.
        silent, = (one for one in plan if one[0] == "the schedule falls silent")
        plan.remove(silent)
        plan.insert([name for name, *_ in plan].index("case_41 no gap in ticks"), silent)
    wanted = with_needs(only or [name for name, *_ in plan], {name: needs for name, _, _, needs in plan})
    for name, seconds, work, needs in plan:
        if name not in wanted:
            continue
        bound = work if work in (east, west) else (lambda work=work: work(world))
        if broken(name) and not breaks.run(name, seconds, bound, world):
            continue
        cases.run(name, seconds, bound, needs)
        world.to_queue.heal()
        world.to_table.heal()


def with_needs(names: list[str], needs: dict) -> set[str]:
    """These cases and all that they build on."""
    unknown = [name for name in names if name not in needs]
    if unknown:
        raise SystemExit(f"no case is called {unknown[0]!r}; the cases: {', '.join(needs)}")
    found = set()
    while names:
        found.update(names)
        names = [other for name in names for other in needs[name] if other not in found]
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstraps", type=pathlib.Path, metavar="DIR", help="programs to deploy instead of .aws-sam/")
    parser.add_argument("--only", action="append", metavar="CASE", help="one case and what it builds on; may be repeated")
    parser.add_argument("--breaks", action="store_true", help="run each case also with what it guards broken: it must fail")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
