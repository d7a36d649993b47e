"""Two stacks in two regions over one pair of tables, in the emulator: how they are deployed, stopped and looked into."""

import contextlib
import pathlib
import platform
from collections.abc import Iterator

from deployed import Deployed, Stack
from deployment import Deployment
from emulator import EAST, WEST, Emulator
from ledger import Bus, Ledger
from proxy import Proxy
from timing import PROFILES

# The template's own defaults.
LEASE = "telemetry"
TOPIC_FILTER = "telemetry/#"
SHARDS = 16
# The functions run on this machine.
ARCHITECTURE = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


class World(Deployed):
    """The emulator, its proxies, the stacks, and the ledger of messages."""

    def __init__(self, emulator: Emulator, bootstraps: pathlib.Path | None, to_queue: Proxy, to_table: Proxy) -> None:
        super().__init__(emulator, Ledger(emulator), PROFILES["fast"], LEASE, TOPIC_FILTER, SHARDS)
        self.to_queue = to_queue
        self.to_table = to_table
        self.buses = {region: Bus(emulator, region) for region in (EAST, WEST)}
        # The silence of a schedule that case 41 is about.
        self.gap = None
        self.deployment = Deployment(emulator, bootstraps, {
            "DrainerFunction": {"AWS_ENDPOINT_URL_SQS": to_queue.url},
            "IngestFunction": {"AWS_ENDPOINT_URL_DYNAMODB": to_table.url},
        })

    def values(self, instance: str) -> dict:
        """The parameters that every stack here has."""
        return {
            "Architecture": ARCHITECTURE, "Profile": "fast", "InstanceName": instance, "TableDeletionProtection": "false",
            # Small, so that a message can be too large for the destination.
            "RequestBytesMax": 65536,
        }

    def deploy(self, instance: str, region: str, **more: object) -> Stack:
        outputs = self.deployment.create(region, f"fencepost-{instance}", self.values(instance) | more)
        stack = Stack(instance, region, outputs)
        self.stacks[instance] = stack
        self.ledger.watch(region, outputs["DestinationQueueUrl"])
        return stack

    def stop_function(self, stack: Stack, kind: str) -> dict:
        """Takes a function away: its alias, so that nobody reaches it, and then its running processes. The alias."""
        name = self.function(stack, kind)
        client = self.aws.client("lambda", stack.region)
        alias = client.get_alias(FunctionName=name, Name="live")
        client.delete_alias(FunctionName=name, Name="live")
        self.aws.kill(name)
        return alias

    def start_function(self, stack: Stack, kind: str, alias: dict) -> None:
        """Gives it back."""
        client = self.aws.client("lambda", stack.region)
        client.create_alias(FunctionName=self.function(stack, kind), Name="live", FunctionVersion=alias["FunctionVersion"])

    @contextlib.contextmanager
    def without_scheduled_drain(self, stack: Stack) -> Iterator[None]:
        set_schedule(self, stack.region, "DISABLED", "Drain")
        try:
            yield
        finally:
            set_schedule(self, stack.region, "ENABLED", "Drain")


def set_schedule(world: Deployed, region: str, state: str, machine: str = "LeaseCycle") -> None:
    """Switches the schedules of this region that start a machine."""
    client = world.aws.client("scheduler", region)
    for summary in client.list_schedules()["Schedules"]:
        schedule = client.get_schedule(Name=summary["Name"], GroupName=summary["GroupName"])
        if machine not in schedule["Target"]["Arn"]:
            continue
        kept = {key: schedule[key] for key in ("Name", "GroupName", "ScheduleExpression", "FlexibleTimeWindow", "Target")}
        client.update_schedule(**kept, State=state)


def schedule_states(world: Deployed, region: str, machine: str = "LeaseCycle") -> set[str]:
    """How the schedules of this region that start a machine stand."""
    client = world.aws.client("scheduler", region)
    schedules = [client.get_schedule(Name=one["Name"], GroupName=one["GroupName"]) for one in client.list_schedules()["Schedules"]]
    return {schedule["State"] for schedule in schedules if machine in schedule["Target"]["Arn"]}
