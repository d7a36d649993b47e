"""How each layer is built and run in the copy, and what counts as caught.

A check that could not be built or started has not caught anything: only a test that ran and failed has.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

CRATES = ("protocol", "storage", "runtime", "ingest", "lease", "drainer", "local")
CHECK_SECONDS_MAX = 900
"""No check of one break may take longer."""


class Unusable(Exception):
    """The check could not be built or run, so it says nothing."""


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a check said."""

    passed: bool
    timed_out: bool
    seconds: float
    tail: str


def commands(layer: str, check: str, built: pathlib.Path) -> tuple[list[str], list[str]]:
    """How to build a check, and how to run it."""
    cargo = ["cargo", "test", "--locked", "--quiet"]
    if layer == "unit":
        target, _, part = check.partition("::")
        if target in CRATES:
            cargo += ["-p", f"fencepost-{target}"]
        elif target == "fencepost":
            cargo += ["-p", "fencepost"]
        else:
            cargo += ["-p", "fencepost-tests", "--test", target]
        return [*cargo, "--no-run"], [*cargo, "--", *([part] if part else [])]
    if layer == "model":
        cargo += ["--profile", "simulation", "-p", "fencepost-protocol", "--test", "model"]
        return [*cargo, "--no-run"], [*cargo, "--", "--test-threads", "1", *shlex.split(check)]
    if layer in ("cases", "transcripts"):
        cargo += ["-p", "fencepost-tests", "--test", layer]
        return [*cargo, "--no-run"], [*cargo, "--", *shlex.split(check)]
    build = ["cargo", "build", "--locked", "--quiet", "-p", "fencepost-tests"]
    if layer == "simulate":
        build += ["--profile", "simulation", "--bin", "simulate"]
        return build, [str(built / "simulation" / "simulate"), *shlex.split(check)]
    build += ["-p", "fencepost-ingest", "-p", "fencepost-lease", "-p", "fencepost-drainer", "--bins"]
    run = [str(built / "debug" / "crash"), "--functions", str(built / "debug"), *shlex.split(check)]
    return build, run


def run(layer: str, check: str, tree: pathlib.Path, built: pathlib.Path) -> Ran:
    """Builds and runs a check in the copy. Raises Unusable where that tells nothing."""
    build, test = commands(layer, check, built)
    outcome = finish(build, tree, built, CHECK_SECONDS_MAX)
    if outcome.timed_out or not outcome.passed:
        raise Unusable(f"does not build:\n{outcome.tail}")
    outcome = finish(test, tree, built, CHECK_SECONDS_MAX)
    if outcome.timed_out:
        return outcome
    if test[0] != "cargo":
        return outcome
    results = re.findall(r"^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed", outcome.tail, re.MULTILINE)
    if not sum(int(passed) + int(failed) for _, passed, failed in results):
        raise Unusable(f"no test ran; is `{check}` part of a test's name?\n{outcome.tail}")
    if outcome.passed == any(word == "FAILED" for word, _, _ in results):
        raise Unusable(f"the test runner contradicts itself:\n{outcome.tail}")
    return outcome


def finish(command: list[str], tree: pathlib.Path, built: pathlib.Path, seconds_max: float) -> Ran:
    """Runs one command to its end. An exit code of 2 or a signal is a command that could not do its work."""
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(built),
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "CARGO_PROFILE_SIMULATION_DEBUG": "0",
        "CARGO_TERM_COLOR": "never",
    }
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )
    timed_out = False
    try:
        output, _ = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    tail = "\n".join(output.splitlines()[-200:])
    if not timed_out and command[0] != "cargo" and process.returncode not in (0, 1):
        raise Unusable(f"{pathlib.Path(command[0]).name} ended with {process.returncode}:\n{tail}")
    return Ran(process.returncode == 0, timed_out, time.monotonic() - started, tail)
