"""What a person does wrong gets an answer that names it and the way out, and exit code 2."""

import os
import socket
import subprocess
import tempfile

from checks import Checks
from world import World, environment

FREE_PORTS = ("--mqtt-port", "0", "--dynamodb-port", "0", "--sqs-port", "0", "--control-port", "0")

NOBODY = 65534


def run(command: str, checks: Checks) -> None:
    def refused(what: str, words: tuple[str, ...], *expected: str, **user) -> None:
        try:
            answer = subprocess.run(
                [command, *words], capture_output=True, text=True, timeout=30, env=environment(), check=False, **user
            )
        except PermissionError:
            checks.note(f"{what}: not tried, another user cannot run the command where it lies")
            return
        except subprocess.TimeoutExpired:
            checks.that(what, False, "it ran on")
            return
        named = all(word in answer.stderr for word in expected)
        first = answer.stderr.strip().splitlines()[0] if answer.stderr.strip() else "no message"
        checks.that(what, answer.returncode == 2 and named and "panicked" not in answer.stderr, first)

    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        for option in ("--mqtt-port", "--dynamodb-port", "--sqs-port", "--control-port"):
            words = list(FREE_PORTS)
            words[words.index(option) + 1] = port
            refused(f"a busy port, {option}", ("local", *words), option, port)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        # Bound and not listening: it refuses, and nobody else can take it.
        refused("nobody at the control port", ("local", "kill", "east", "--control-port", port), port, "--control-port")
    refused("a number that is too small", ("demo", "--messages", "0"), "--messages")
    refused("an unknown profile", ("demo", "--profile", "slow"), "--profile", "durable")
    refused("a topic filter that is none", ("local", *FREE_PORTS, "--topic-filter", "a/#/b"), "--topic-filter", "#")
    with tempfile.TemporaryDirectory(prefix="fencepost-") as folder:
        file = os.path.join(folder, "file")
        open(file, "w", encoding="utf-8").close()
        refused("--data below a file", ("local", *FREE_PORTS, "--data", os.path.join(file, "data")), "--data")
        os.chmod(folder, 0o755)
        locked = os.path.join(folder, "locked")
        os.mkdir(locked, mode=0o555)
        # No directory is closed to root, so root tries it as nobody.
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        words = ("local", *FREE_PORTS, "--data", os.path.join(locked, "data"))
        refused("--data without write permission", words, "--data", locked, **user)
        data = os.path.join(folder, "data")
        with World(command, data) as world:
            refused("--data in use", ("local", *FREE_PORTS, "--data", data), "--data")
            answer = world.act("kill", "nowhere")
            named = all(word in answer.stderr for word in ("nowhere", "east", "west"))
            checks.that("an unknown instance", answer.returncode == 2 and named, answer.stderr.strip())
            answer = world.act("start", "east")
            checks.that("an instance that runs", answer.returncode == 2 and "east" in answer.stderr, answer.stderr.strip())
            checks.that("the world is unharmed", world.status()["lease"] is not None or world.leader() != "")
            checks.that("Ctrl-C ends it with exit code 0", world.stop() == 0)
