#!/usr/bin/env python3
"""The judge outside: it knows the command's surface and nothing of its code.

It publishes over MQTT (paho, or mosquitto_pub), keeps ledgers of SHA-256 hashes, reads the queue with boto3 or the AWS CLI,
and compares. `tests/run outside` installs what it needs and calls it:

    tests/run outside [--rounds N] [--seed N] [--only SCENARIO] [--demos N]

COMMAND_UNDER_TEST names the binary. The scenarios: `crash` (the leader dies, comes back, steps down), `power_cut` (kill -9 of
the whole process and a restart, --rounds times), `exact_bytes` (each kind of payload comes back byte for byte),
`bad_input` (clear errors). `demos` runs the demonstration with N seeds and judges its JSON; by default none.
"""

import argparse
import os
import random
import sys
import time

import bad_input
import crash
import demos
import exact_bytes
import power_cut
from checks import Checks

SCENARIOS = ("crash", "power_cut", "exact_bytes", "bad_input")


def main() -> int:
    arguments = parse()
    command = os.environ.get("COMMAND_UNDER_TEST")
    if not command or not os.access(command, os.X_OK):
        print("COMMAND_UNDER_TEST must name the fencepost binary; run this by `tests/run outside`", file=sys.stderr)
        return 2
    checks = Checks()
    started = time.monotonic()
    wanted = arguments.only or SCENARIOS
    for name in wanted:
        seeded = random.Random(f"{arguments.seed} {name}")
        with checks.scenario(name):
            if name == "crash":
                crash.run(command, checks, seeded)
            elif name == "power_cut":
                for number in range(1, arguments.rounds + 1):
                    power_cut.run(command, checks, seeded, number)
            elif name == "exact_bytes":
                exact_bytes.run(command, checks, seeded)
            elif name == "bad_input":
                bad_input.run(command, checks)
    if arguments.demos:
        with checks.scenario("demos"):
            demos.run(command, checks, arguments.demos, arguments.seed)
    print(f"\n{time.monotonic() - started:.0f}s; seed {arguments.seed}")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed or not checks.passed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="power cuts (default 2)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of payloads and moments (default 1)")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="one scenario; may be repeated")
    parser.add_argument("--demos", type=int, default=0, metavar="N", help="runs of the demonstration (default 0)")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.demos < 0:
        parser.error("--rounds is 1 or more, --demos 0 or more")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
