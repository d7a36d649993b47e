#!/usr/bin/env python3
"""Shows that every tool of the deployment's checks can fail: each is given a copy of the repository with one break that it must
name. `tests/run templates --breaks` runs it; the own checks' breaks are in breaks.py and run always."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
CFN_LINT, SAM = TOOLS / "cfn-lint/bin/cfn-lint", TOOLS / "sam/bin/sam"
CHECKOV = [TOOLS / "checkov/bin/checkov", "--directory", "infra", "--config-file", ".config/checkov.yaml", "--compact", "--quiet"]
EXPANDED = f"mkdir expanded && {TOOLS / 'sam/bin/python'} tests/templates/expand.py expanded && {CFN_LINT} --ignore-checks W2001 -- expanded/*.json"

# Tool, command, the word of its finding, the file, and the text with what stands there instead.
BREAKS = [
    ("cfn-lint", [CFN_LINT, "--", "infra/stacks/data.yaml"], "E3002", "infra/stacks/data.yaml", "KeyType: HASH", "KeyType: HASHED"),
    ("sam validate --lint", [SAM, "validate", "--lint", "--template", "infra/stacks/compute.yaml"], "E3017",
     "infra/stacks/compute.yaml", "AutoPublishAlias: live", "AutoPublishAlias: [live, dead]"),
    ("cfn-lint of the expanded templates", ["bash", "-c", EXPANDED], "E3034", "infra/stacks/compute.yaml",
     "MaximumRetryAttempts: 2", "MaximumRetryAttempts: 5"),
    ("asl-validator", ["bash", "tests/run", "machines"], "Nowhere", "statemachines/lease_cycle.asl.json", '"StartAt": "', '"StartAt": "Nowhere'),
    ("asl-validator", ["bash", "tests/run", "machines"], "not valid JSON", "statemachines/drain.asl.json", '"StartAt": "', '"StartAt" "'),
    ("checkov", CHECKOV, "CKV_AWS_28", "infra/stacks/data.yaml", "PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false"),
    ("own checks", [sys.executable, "-m", "unittest", "discover", "--quiet", "--start-directory", "tests/templates"], "has no Description",
     "infra/stacks/workflow.yaml", "Description: ", "Metadata: "),
]


def main() -> int:
    missed = 0
    for tool, command, word, file, text, instead in BREAKS:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            copy_repository(copy)
            broken = (copy / file).read_text(encoding="utf-8")
            if text not in broken:
                raise SystemExit(f"{file} holds no {text!r}: mend this break")
            (copy / file).write_text(broken.replace(text, instead), encoding="utf-8")
            done = subprocess.run(command, cwd=copy, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        noticed = done.returncode != 0 and word in done.stdout
        missed += not noticed
        print(f"{'noticed' if noticed else 'MISSED '} {tool}: {text!r} became {instead!r} in {file}", flush=True)
        if not noticed:
            print(f"  exit code {done.returncode}, wanted the word {word!r} in:\n{done.stdout[-2000:]}")
    print(f"{len(BREAKS) - missed} breaks noticed, {missed} not")
    return 1 if missed else 0


def copy_repository(copy: pathlib.Path) -> None:
    """What git knows of it, as it stands on the disk, and the tools."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    # tests/run writes what it checked into .tools, so that folder is the copy's own.
    (copy / ".tools").mkdir()
    for tool in TOOLS.iterdir():
        if tool.is_dir() and tool.name not in ("machines", "expanded-templates"):
            os.symlink(tool, copy / ".tools" / tool.name)


if __name__ == "__main__":
    sys.exit(main())
