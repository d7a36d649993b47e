"""The emulator's process, and clients that reach nothing else.

It runs on loopback in a process group of its own, with an environment that holds no credentials and no address but its own;
the functions that it starts inherit that. Leaving the `with` block ends all of it, whatever happened inside."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import boto3
from botocore.config import Config

from deployed import Broker

EAST = "us-east-1"
WEST = "eu-west-1"
BUCKET = "fencepost-artifacts"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Emulator:
    """ministack on a free loopback port."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fencepost-emulator-"))
        self.log = self.folder / "emulator.log"
        self._clients: dict = {}
        self._buckets: set[str] = set()
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "Emulator":
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "AWS_ENDPOINT_URL": self.url,
            "MINISTACK_HOST": "127.0.0.1",
            "IOT_MTLS_ENABLED": "0",
            "AWS_EC2_METADATA_DISABLED": "true",
            # The pause before a failed asynchronous invocation is tried again; a minute on AWS.
            "LAMBDA_ASYNC_RETRY_BASE_SECONDS": "0.05",
        }
        program = pathlib.Path(sys.executable).with_name("ministack")
        self._process = subprocess.Popen(
            [program], env=environment, cwd=self.folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self.log.open("wb"), stderr=subprocess.STDOUT,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        # Functions that the emulator put into groups of their own are told from others by the address they were given.
        for pid in self.functions():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=2).close()
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the emulator does not start:\n" + self.last_lines(40))

    def last_lines(self, count: int) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def keep_log(self, file: pathlib.Path) -> pathlib.Path:
        """Copies the emulator's log, and with it those of the functions, to a place that outlives the run."""
        file.parent.mkdir(exist_ok=True)
        return pathlib.Path(shutil.copy(self.log, file))

    def client(self, service: str, region: str):
        """A client that speaks to the emulator alone."""
        if (service, region) not in self._clients:
            self._clients[service, region] = boto3.client(
                service, region_name=region, endpoint_url=self.url,
                aws_access_key_id="test", aws_secret_access_key="test",
                config=Config(retries={"max_attempts": 2, "mode": "standard"}, read_timeout=90,
                              s3={"addressing_style": "path"}),
            )
        return self._clients[service, region]

    def broker(self, region: str) -> Broker:
        """How to reach the MQTT broker. The region comes from the signature's scope, and the broker is known by its host's name."""
        scope = f"test/20260101/{region}/iotdevicegateway/aws4_request".replace("/", "%2F")
        return Broker("127.0.0.1", self.port, False, f"/mqtt?X-Amz-Credential={scope}", f"test-ats.iot.{region}.amazonaws.com")

    def upload(self, region: str, key: str, body: bytes) -> str:
        """Puts an artifact where a template can refer to it; its address in path style."""
        store = self.client("s3", region)
        if region not in self._buckets:
            extra = {} if region == EAST else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            store.create_bucket(Bucket=self.bucket(region), **extra)
            self._buckets.add(region)
        store.put_object(Bucket=self.bucket(region), Key=key, Body=body)
        return f"{self.url}/{self.bucket(region)}/{key}"

    def bucket(self, region: str) -> str:
        return f"{BUCKET}-{region}"

    def functions(self, name: str = "") -> list[int]:
        """The process ids of the running functions of this emulator whose name contains `name`."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            values = dict(word.split(b"=", 1) for word in words if b"=" in word)
            mine = values.get(b"AWS_ENDPOINT_URL") == self.url.encode()
            function = values.get(b"AWS_LAMBDA_FUNCTION_NAME", b"").decode(errors="replace")
            if mine and function and name in function:
                found.append(int(entry.name))
        return found

    def kill(self, name: str) -> int:
        """Kills (SIGKILL) the running processes of a function; how many there were."""
        running = self.functions(name)
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        return len(running)
