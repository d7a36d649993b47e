"""The lists of breaks: reading them, and refusing a list that could lie.

A break that no longer applies, or that names no check, would count as caught without having been tried. So each fault of
a list is an error of the whole run, told with file and name.
"""

from __future__ import annotations

import dataclasses
import pathlib

try:
    import tomllib
except ImportError as missing:  # pragma: no cover
    raise SystemExit("tests/mutants needs Python 3.11 or later (tomllib)") from missing

LAYERS = ("unit", "model", "cases", "transcripts", "simulate", "crash")
"""In the order in which they run: cheap before dear, and those that share a build together."""

REQUIRED = {"name", "what", "file", "old", "new", "layer", "check"}
OPTIONAL = {"hangs"}


class BadList(Exception):
    """Faults of the lists, one a line."""


@dataclasses.dataclass(frozen=True)
class Break:
    """One small break of the code and the check that has to notice it."""

    name: str
    what: str
    file: str
    old: str
    new: str
    layer: str
    check: str
    list: str
    hangs: bool = False

    def applied_to(self, text: str) -> str:
        """The file's text with the break in it."""
        return text.replace(self.old, self.new)


def load(folder: pathlib.Path, tree: pathlib.Path) -> list[Break]:
    """All breaks of the `*.toml` in `folder`, each one applicable to `tree`.

    Raises BadList with every fault at once.
    """
    faults: list[str] = []
    breaks: list[Break] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            faults.append(f"{path.name}: not TOML: {error}")
            continue
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            faults.append(f"{path.name}: `mutant` is no list of tables; write [[mutant]]")
            continue
        if not entries:
            faults.append(f"{path.name}: holds no [[mutant]]")
        for number, entry in enumerate(entries, start=1):
            found = faults_of(entry, tree)
            faults.extend(f"{path.name}: {entry.get('name', f'entry {number}')}: {fault}" for fault in found)
            if not found:
                breaks.append(Break(list=path.name, **entry))
    names = [known.name for known in breaks]
    faults.extend(f"{name}: two breaks have this name" for name in sorted({n for n in names if names.count(n) > 1}))
    if not breaks and not faults:
        faults.append(f"{folder}: no list of breaks")
    if faults:
        raise BadList("\n".join(faults))
    return sorted(breaks, key=lambda known: (LAYERS.index(known.layer), known.check, known.name))


def faults_of(entry: dict, tree: pathlib.Path) -> list[str]:
    """What is wrong with one entry."""
    faults = [f"`{field}` is missing" for field in sorted(REQUIRED - entry.keys())]
    faults += [f"`{field}` is no field of a break" for field in sorted(entry.keys() - REQUIRED - OPTIONAL)]
    faults += [f"`{field}` is no text" for field in sorted(REQUIRED & entry.keys()) if not isinstance(entry[field], str)]
    if not isinstance(entry.get("hangs", False), bool):
        faults.append("`hangs` is neither true nor false")
    if faults:
        return faults
    # It is written to in the copy, and must not lead out of it.
    if pathlib.PurePath(entry["file"]).is_absolute() or ".." in pathlib.PurePath(entry["file"]).parts:
        return [f"`{entry['file']}` is no path inside the project"]
    if entry["layer"] not in LAYERS:
        faults.append(f"layer `{entry['layer']}` is none of {', '.join(LAYERS)}")
    if entry["layer"] == "unit" and "::" not in entry["check"]:
        faults.append("the check of layer unit is `<crate or test target>::<part of a test's name>`")
    if not entry["check"].strip():
        faults.append("`check` is empty: everything would be run for one break")
    if entry["old"] == entry["new"]:
        faults.append("`old` and `new` are the same: nothing is broken")
    path = tree / entry["file"]
    if not path.is_file():
        faults.append(f"`{entry['file']}` does not exist")
    elif (count := path.read_text(encoding="utf-8").count(entry["old"])) != 1:
        faults.append(f"`old` stands {count} times in {entry['file']}; it must stand there once")
    return faults
