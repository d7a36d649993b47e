"""A `fencepost local` process: start, read its lines, act on it, end it."""

import json
import os
import signal
import subprocess
import threading
import time

START_SECONDS = 30
# More than the minute that an end waits for an ingest that acknowledges nothing.
STOP_SECONDS = 90


class World:
    """One process on free ports. `data` keeps tables and queue over a restart."""

    def __init__(self, command: str, data: str | None = None, arguments: tuple[str, ...] = ()) -> None:
        self.command = command
        self.events: list[dict] = []
        self.unreadable: list[str] = []
        self.changed = threading.Condition()
        ports = [item for name in ("mqtt", "dynamodb", "sqs", "control") for item in (f"--{name}-port", "0")]
        line = [command, "local", "--json", *ports, *(["--data", data] if data else []), *arguments]
        self.process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=environment()
        )
        self.complaints: list[str] = []
        self.readers = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_complaints, daemon=True),
        ]
        for reader in self.readers:
            reader.start()
        try:
            self.addresses = self.wait_for(lambda event: event["event"] == "listening", START_SECONDS, "listening")
        except Exception:
            self.kill_9()
            raise
        self.mqtt_port = int(self.addresses["mqtt"].rpartition(":")[2])
        self.control_port = self.addresses["control"].rpartition(":")[2]

    def _read_events(self) -> None:
        for line in self.process.stdout:
            with self.changed:
                try:
                    self.events.append(json.loads(line))
                except ValueError:
                    # Only the line that a kill -9 cut off may be broken; `power_cut` looks at it.
                    self.unreadable.append(line)
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def _read_complaints(self) -> None:
        for line in self.process.stderr:
            self.complaints.append(line.rstrip())

    def wait_for(self, wanted, seconds: float, what: str, after: int = 0) -> dict:
        """The first event from number `after` on that `wanted` takes."""
        deadline = time.monotonic() + seconds
        looked = after
        with self.changed:
            while True:
                for event in self.events[looked:]:
                    if wanted(event):
                        return event
                looked = len(self.events)
                left = deadline - time.monotonic()
                ended = self.process.poll() is not None
                if left <= 0 or ended:
                    said = "; it said: " + " / ".join(self.complaints) if self.complaints else ""
                    why = f"the process ended with {self.process.returncode}" if ended else f"not within {seconds}s"
                    raise TimeoutError(f"no event '{what}': {why}{said}")
                self.changed.wait(min(left, 0.5))

    def count(self) -> int:
        """How many events there are so far: a place to wait from."""
        with self.changed:
            return len(self.events)

    def acknowledged(self) -> dict[str, str]:
        """Message id to hash, of all messages that ingest acknowledged."""
        with self.changed:
            return {e["message_id"]: e["sha256"] for e in self.events if e["event"] == "ingested"}

    def act(self, *words: str) -> subprocess.CompletedProcess:
        """`fencepost local WORDS` against this world."""
        line = [self.command, "local", *words, "--control-port", self.control_port]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, env=environment(), check=False)

    def status(self) -> dict:
        """What `fencepost local status --json` says."""
        answer = self.act("status", "--json")
        if answer.returncode:
            raise RuntimeError(f"status failed: {answer.stderr.strip()}")
        return json.loads(answer.stdout)

    def leader(self, seconds: float = 20) -> str:
        """The holder of the lease, as soon as there is one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            lease = self.status()["lease"]
            if lease and lease["owner"]:
                return lease["owner"]["name"]
            time.sleep(0.1)
        raise TimeoutError(f"nobody leads within {seconds}s")

    def kill_9(self) -> None:
        """The power cut."""
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """Ctrl-C; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self._ended()
            raise TimeoutError(f"Ctrl-C did not end it within {STOP_SECONDS}s") from None
        self._ended()
        return self.process.returncode

    def _ended(self) -> None:
        self.process.wait()
        for reader in self.readers:
            reader.join(5)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.kill_9()


def environment() -> dict[str, str]:
    """As it is, without colour."""
    return {**os.environ, "NO_COLOR": "1"}
