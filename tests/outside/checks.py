"""Counting what held and what did not."""

import contextlib
import traceback


class Checks:
    """Every check is printed when it is made, so that a run that hangs shows where."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def that(self, what: str, holds: bool, detail: str = "") -> bool:
        """Counts one check. `detail` is shown where it failed, and where it holds and has something to tell."""
        if holds:
            self.passed += 1
        else:
            self.failed += 1
        print(f"  {'ok  ' if holds else 'FAIL'}  {what}{': ' + detail if detail else ''}", flush=True)
        return holds

    def note(self, text: str) -> None:
        """Tells something that is no check."""
        print(f"        {text}", flush=True)

    @contextlib.contextmanager
    def scenario(self, name: str):
        """A scenario that ends by an exception has failed; the others still run."""
        print(f"\n{name}", flush=True)
        try:
            yield
        except Exception as error:  # whatever it is, it is a failure of this scenario
            traceback.print_exc()
            self.that(f"{name} runs to its end", False, str(error))


def listed(hashes, most: int = 8) -> str:
    """A few hashes, shortened, and how many more there are."""
    shown = [digest[:12] for digest in sorted(hashes)]
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + rest
