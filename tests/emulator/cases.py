"""Named cases with time-outs of their own, run in order; each says what it saw, or why it failed."""

import signal
import time
import traceback


class TimeUp(Exception):
    """A case, or a wait inside it, took too long."""


class Cases:
    """Runs cases and counts them."""

    def __init__(self) -> None:
        self._failed: set[str] = set()
        self.passed = 0
        self.failed = 0

    def run(self, name: str, seconds: int, work, needs: tuple = ()) -> None:
        """Runs one case within `seconds`. A case that needs a failed one fails without being run."""
        missing = [other for other in needs if other in self._failed]
        if missing:
            self._fail(name, 0, f"not run: {', '.join(missing)} failed")
            return
        started = time.monotonic()
        signal.signal(signal.SIGALRM, _time_up)
        signal.alarm(seconds)
        try:
            seen = work()
        except Exception as error:
            signal.alarm(0)
            place = traceback.extract_tb(error.__traceback__)
            where = next((frame for frame in reversed(place) if frame.filename.endswith("_cases.py")), place[-1])
            words = str(error) or type(error).__name__
            self._fail(name, time.monotonic() - started, f"{words}\n    at {where.name}, line {where.lineno}: {where.line}")
        else:
            signal.alarm(0)
            self.passed += 1
            print(f"ok      {name} ({time.monotonic() - started:.1f}s): {seen}", flush=True)

    def _fail(self, name: str, seconds: float, words: str) -> None:
        self.failed += 1
        self._failed.add(name)
        print(f"FAILED  {name} ({seconds:.1f}s): {words}", flush=True)


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
