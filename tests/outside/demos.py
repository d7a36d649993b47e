"""The demonstration, run with several seeds: its JSON judged, and the longest times shown."""

import json
import subprocess
import time

from checks import Checks
from world import environment

KEYS = {
    "published", "ingested", "delivered_unique", "delivered_total", "duplicates_known", "lost", "dead", "commits_fenced",
    "tokens", "takeover_ms", "takeover_bound_ms", "handover_ms", "handover_bound_ms",
}  # fmt: skip


def run(command: str, checks: Checks, count: int, first_seed: int) -> None:
    results = []
    for seed in range(first_seed, first_seed + count):
        started = time.monotonic()
        answer = subprocess.run(
            [command, "demo", "--json", "--seed", str(seed)],
            capture_output=True, text=True, timeout=300, env=environment(), check=False,
        )  # fmt: skip
        result = json.loads(answer.stdout) if answer.stdout.count("\n") == 1 else {}
        kept = (
            answer.returncode == 0
            and result.keys() == KEYS
            and result["lost"] == 0
            and result["published"] == result["delivered_unique"]
            and result["takeover_ms"] <= result["takeover_bound_ms"]
            and result["handover_ms"] <= result["handover_bound_ms"]
        )
        took = time.monotonic() - started
        detail = f"{took:.0f}s, takeover {result.get('takeover_ms')}ms, handover {result.get('handover_ms')}ms, "
        detail += f"second copies {result.get('delivered_total', 0) - result.get('delivered_unique', 0)}"
        if not checks.that(f"seed {seed}", kept, detail):
            checks.note("\n        ".join(answer.stderr.strip().splitlines()[-20:]))
        results.append(result)
    for name in ("takeover", "handover"):
        times = [result[f"{name}_ms"] for result in results if result.get(f"{name}_ms") is not None]
        bounds = {result[f"{name}_bound_ms"] for result in results if result}
        if times:
            checks.note(f"{name}: {min(times)} to {max(times)}ms in {len(times)} runs, bound {bounds}ms")
