"""Breaks the code on purpose, one small break at a time, and looks whether the checks notice.

Each break names the cheapest check that has to catch it. Everything happens in a copy of the tree under target/mutants,
with a build of its own; the tree itself is not touched. First every check that is named runs on the unbroken copy, where
it must pass.

Exit codes: 0 every break was caught, 1 one survived, 2 the lists or the checks are at fault.
"""

from __future__ import annotations

import argparse
import fcntl
import filecmp
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import breaks
import layers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def main() -> int:
    arguments = parse()
    try:
        known = breaks.load(HERE, ROOT)
    except breaks.BadList as bad:
        print(f"the lists of breaks are at fault:\n{bad}", file=sys.stderr)
        return 2
    chosen = choose(known, arguments)
    if chosen is None:
        return 2
    if arguments.list:
        print_list(chosen, arguments.json)
        return 0
    # Empty means unset, as it does for cargo.
    place = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "mutants"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another run uses {place}: wait for its end, or set CARGO_TARGET_DIR", file=sys.stderr)
            return 2
        return try_all(chosen, place / "tree", place / "build", arguments.json)


def try_all(chosen: list[breaks.Break], tree: pathlib.Path, built: pathlib.Path, as_json: bool) -> int:
    """The run itself; gives the exit code."""
    copy(tree)
    if not all_pass(chosen, tree, built):
        return 2
    rows = [attempt(number, len(chosen), one, tree, built) for number, one in enumerate(chosen, start=1)]
    report(rows, as_json)
    if any(row["outcome"] == "unusable" for row in rows):
        return 2
    return 1 if any(row["outcome"] == "SURVIVED" for row in rows) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/run mutants", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="breaks to try; all without it")
    parser.add_argument("--layer", choices=breaks.LAYERS, help="only the breaks that this layer has to catch")
    parser.add_argument("--from", dest="source", metavar="LIST", help="only the breaks of this file, e.g. model.toml")
    parser.add_argument("--list", action="store_true", help="name the breaks and try none")
    parser.add_argument("--json", action="store_true", help="the table as JSON on standard output")
    return parser.parse_args()


def choose(known: list[breaks.Break], arguments: argparse.Namespace) -> list[breaks.Break] | None:
    unknown = sorted(set(arguments.names) - {one.name for one in known})
    if unknown:
        print(f"no break is called {', '.join(unknown)}; --list names them", file=sys.stderr)
        return None
    chosen = [
        one for one in known
        if (not arguments.names or one.name in arguments.names)
        and (arguments.layer is None or one.layer == arguments.layer)
        and (arguments.source is None or one.list == arguments.source)
    ]
    if not chosen:
        print("no break fits: nothing would be tried, which is not a pass", file=sys.stderr)
        return None
    return chosen


def copy(tree: pathlib.Path) -> None:
    """Brings the copy to the state of the tree, tracked and new files alike. What did not change keeps its time, so that
    cargo builds only what is new."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for path in [path for path in tree.rglob("*") if path.is_file()]:
        if str(path.relative_to(tree)) not in wanted:
            path.unlink()
    for name in wanted:
        source, target = ROOT / name, tree / name
        if target.is_file() and filecmp.cmp(source, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)


def all_pass(chosen: list[breaks.Break], tree: pathlib.Path, built: pathlib.Path) -> bool:
    """Whether every named check passes on the unbroken copy; else what it catches would prove nothing."""
    checks = sorted({(breaks.LAYERS.index(one.layer), one.layer, one.check) for one in chosen})
    say(f"{len(chosen)} breaks, {len(checks)} checks; first each check on the unbroken code")
    good = True
    for _, layer, check in checks:
        try:
            ran = layers.run(layer, check, tree, built)
        except layers.Unusable as fault:
            say(f"  {layer} {check}: {fault}")
            good = False
            continue
        if ran.timed_out or not ran.passed:
            say(f"  {layer} {check}: fails without any break:\n{ran.tail}")
            good = False
        else:
            say(f"  {layer} {check}: passes ({ran.seconds:.0f} s)")
    return good


def attempt(number: int, count: int, one: breaks.Break, tree: pathlib.Path, built: pathlib.Path) -> dict:
    """Tries one break and puts the file right again."""
    path = tree / one.file
    whole = path.read_text(encoding="utf-8")
    row = {"name": one.name, "what": one.what, "file": one.file, "layer": one.layer, "check": one.check}
    started = time.monotonic()
    try:
        path.write_text(one.applied_to(whole), encoding="utf-8")
        ran = layers.run(one.layer, one.check, tree, built)
        if ran.timed_out:
            outcome = "killed" if one.hangs else "unusable"
            evidence = "" if one.hangs else f"no answer within {layers.CHECK_SECONDS_MAX} s"
        else:
            outcome, evidence = ("SURVIVED" if ran.passed else "killed"), ""
    except layers.Unusable as fault:
        outcome, evidence = "unusable", str(fault)
    finally:
        path.write_text(whole, encoding="utf-8")
    row |= {"outcome": outcome, "seconds": round(time.monotonic() - started, 1)}
    say(f"[{number}/{count}] {one.name}: {outcome} by {one.layer} {one.check} ({row['seconds']:.0f} s)")
    if evidence:
        say(evidence)
    return row


def report(rows: list[dict], as_json: bool) -> None:
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in ("killed", "SURVIVED", "unusable")}
    if as_json:
        print(json.dumps({"mutants": rows, "counts": counts}, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    print(f"\n{'break':<{width}}  {'outcome':<8}  {'seconds':>7}  layer: check")
    for row in rows:
        print(f"{row['name']:<{width}}  {row['outcome']:<8}  {row['seconds']:>7.1f}  {row['layer']}: {row['check']}")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))


def print_list(chosen: list[breaks.Break], as_json: bool) -> None:
    if as_json:
        print(json.dumps([vars(one) for one in chosen], indent=2))
        return
    for one in chosen:
        print(f"{one.name}  ({one.layer}: {one.check}; {one.list})\n    {one.what}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
