"""Named cases with time-outs of their own, run in order; each says what it saw, why it failed, or why it cannot be run here."""

import json
import signal
import time
import traceback
from dataclasses import dataclass


class TimeUp(Exception):
    """A case, or a wait inside it, took too long."""


class NotHere(Exception):
    """What the case needs does not exist in these surroundings; the message says what."""


class Cases:
    """Runs cases and counts them."""

    def __init__(self, as_json: bool = False) -> None:
        self._as_json = as_json
        self._failed: set[str] = set()
        self.succeeded: set[str] = set()
        self.passed = 0
        self.failed = 0
        # Names of cases that cannot be run here, with the reason.
        self.skipped: dict[str, str] = {}

    def run(self, name: str, seconds: float, work, needs: tuple = ()) -> None:
        """Runs one case within `seconds`. A case that needs a failed one fails without being run."""
        missing = [other for other in needs if other in self._failed]
        if missing:
            self._fail(name, 0, f"not run: {', '.join(missing)} failed")
            return
        missing = [other for other in needs if other in self.skipped]
        if missing:
            self._skip(name, f"it builds on {', '.join(missing)}")
            return
        started = time.monotonic()
        try:
            result = attempt(seconds, work)
        except NotHere as reason:
            self._skip(name, str(reason))
            return
        if result.failure:
            self._fail(name, time.monotonic() - started, f"{result.failure}\n    at {result.where}")
        else:
            self.passed += 1
            self.succeeded.add(name)
            self._tell("ok", name, time.monotonic() - started, result.seen)

    def _fail(self, name: str, seconds: float, words: str) -> None:
        self.failed += 1
        self._failed.add(name)
        self._tell("FAILED", name, seconds, words)

    def _skip(self, name: str, reason: str) -> None:
        self.skipped[name] = reason
        self._tell("skipped", name, 0, reason)

    def _tell(self, outcome: str, name: str, seconds: float, words: str) -> None:
        if self._as_json:
            print(json.dumps({"case": name, "outcome": outcome.lower(), "seconds": round(seconds, 1), "seen": words}), flush=True)
        else:
            print(f"{outcome:7} {name} ({seconds:.1f}s): {words}", flush=True)


@dataclass
class Attempt:
    """What became of some work."""

    # What it saw; empty where it failed.
    seen: str = ""
    # The message of its failure, and the line that failed; empty where it did not.
    failure: str = ""
    where: str = ""


def attempt(seconds: float, work) -> Attempt:
    """Does the work within `seconds`."""
    signal.signal(signal.SIGALRM, _time_up)
    signal.alarm(int(seconds) + 1)
    try:
        return Attempt(seen=work())
    except NotHere:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)
        where = next((frame for frame in reversed(place) if frame.filename.endswith("_cases.py")), place[-1])
        return Attempt(failure=str(error) or type(error).__name__, where=f"{where.name}, line {where.lineno}: {where.line}")
    finally:
        signal.alarm(0)


def _time_up(*_: object) -> None:
    raise TimeUp("the case's time is up")


def until(seconds: float, what: str, look, pause: float = 0.1):
    """Looks again and again; the first answer that is true. What was seen last is told where none is."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise TimeUp(f"{what}: not within {seconds:g}s; seen last: {seen!r}")
        time.sleep(pause)


def check(condition: object, words: str) -> None:
    """Fails the case with `words`."""
    if not condition:
        raise AssertionError(words)
