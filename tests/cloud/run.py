#!/usr/bin/env python3
"""Certifies a deployment of yours: the emulator's assertions, and what only an account can show, against deployed stacks.

    tests/run cloud --stack NAME [--region R] [--second-stack NAME --second-region R] [--profile P]
                    (--dry-run | --yes) [--destructive] [--json]

The stacks are found by their CloudFormation outputs. The run publishes messages and reads them from the destination queue, so it
wants a stack whose queue nobody uses yet; it refuses one that is in use. --dry-run only reads, and tells what a run would do, leave
behind, take and cost. Nothing runs without --yes. --destructive allows what interrupts the service: functions that are stopped, a
lease that nobody holds for one TTL.

Exit codes: 0 every case passed; 1 one failed, or something could not be undone; 2 refused: bad input, no credentials, no such
stack, a stack in use. With AWS_ENDPOINT_URL it speaks to that address; that certifies nothing."""

import argparse
import json
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deployed"))

import botocore.exceptions

from account import Account, Refused
from cases import Cases
from plan import cases as planned
from plan import described, not_certified
from stacks import check_alone, check_group, check_quiet, find
from world import World


def main() -> int:
    arguments = parse()
    # Ended from outside, what was changed is still given back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        world = prepare(arguments)
        plan = planned(world, arguments.destructive)
        if arguments.dry_run:
            tell(arguments, described(world, plan, arguments.destructive))
            return 0
        for one in world.found:
            check_quiet(world.aws, one)
    except Refused as error:
        if arguments.json:
            print(json.dumps({"refused": str(error)}))
        print(f"refused: {error}", file=sys.stderr)
        return 2
    return certify(world, plan, arguments)


def prepare(arguments: argparse.Namespace) -> World:
    """The stacks, found and looked at; nothing is changed."""
    if not arguments.dry_run and not arguments.yes:
        raise Refused("this publishes messages through your stack and reads its queue: look first with --dry-run, then agree with --yes")
    if (arguments.second_stack is None) != (arguments.second_region is None):
        raise Refused("--second-stack and --second-region belong together")
    account = Account(arguments.profile, arguments.region)
    number = account.identity()
    where = f"AWS_ENDPOINT_URL={account.emulated}, which is no account: this run certifies nothing" if account.emulated else f"account {number}"
    tell(arguments, [where])
    found = [find(account, arguments.stack, account.region)]
    check_alone(found[0])
    if arguments.second_stack:
        found.append(find(account, arguments.second_stack, arguments.second_region))
        check_group(*found)
    return World(account, found)


def certify(world: World, plan: list, arguments: argparse.Namespace) -> int:
    """Runs the plan, gives everything back, tells the verdict."""
    started = time.monotonic()
    cases, left = Cases(arguments.json), []
    try:
        world.listen()
        for case in plan:
            cases.run(case.name, case.seconds, lambda work=case.work: work(world), case.needs)
    except botocore.exceptions.ClientError as error:
        cases.run("preparation", 1, lambda: fail(error))
    finally:
        # Told at once: whoever ended the run from outside reads no report.
        left = world.close()
        for words in left:
            print(f"could not be undone: {words}", file=sys.stderr)
    certified = [case.certifies for case in plan if case.name in cases.succeeded]
    verdict = not cases.failed and not left and not cases.skipped and not world.aws.emulated
    open_points = [f"{name}: {reason}" for name, reason in cases.skipped.items()] + not_certified(world, arguments.destructive)
    if arguments.json:
        print(json.dumps({
            "passed": cases.passed, "failed": cases.failed, "skipped": len(cases.skipped), "seconds": round(time.monotonic() - started),
            "certified": certified if verdict else [], "seen": certified, "not_certified": open_points, "left_behind": left,
            "foreign_messages": len(world.ledger.foreign),
        }))
    else:
        report(world, cases, certified, open_points, verdict)
        print(f"\n{time.monotonic() - started:.0f}s\n{cases.passed} passed, {cases.failed} failed, {len(cases.skipped)} skipped")
    return 1 if cases.failed or left or not cases.passed else 0


def fail(error: Exception) -> None:
    raise error


def report(world: World, cases: Cases, certified: list, open_points: list, verdict: bool) -> None:
    """What a person reads at the end."""
    if world.ledger.foreign:
        print(f"\n{len(world.ledger.foreign)} messages of others came by and were left in the queue")
    heading = "certified" if verdict else "seen (no certificate: see what failed, was skipped, or is no account)"
    for title, lines in ((heading, certified), ("not certified", open_points)):
        if lines:
            print(f"\n{title}:")
            print("\n".join(f"  {line}" for line in lines))


def tell(arguments: argparse.Namespace, lines: list[str]) -> None:
    print("\n".join(lines), file=sys.stderr if arguments.json and not arguments.dry_run else sys.stdout, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/run cloud", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", required=True, metavar="NAME", help="the root stack; of two, the one that has the tables")
    parser.add_argument("--region", metavar="R", help="its region; the profile's or AWS_REGION where it is not given")
    parser.add_argument("--second-stack", metavar="NAME", help="another instance of the same group")
    parser.add_argument("--second-region", metavar="R", help="its region")
    parser.add_argument("--profile", metavar="P", help="a profile of ~/.aws/config; else the SDK's usual order")
    parser.add_argument("--dry-run", action="store_true", help="only read, and tell what a run would do")
    parser.add_argument("--yes", action="store_true", help="agree that messages are published and read")
    parser.add_argument("--destructive", action="store_true", help="also what interrupts the service")
    parser.add_argument("--json", action="store_true", help="one JSON object a line: each case, then the verdict")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
