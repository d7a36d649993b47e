"""Two stacks in two regions over one pair of tables, and what every case asks of them."""

import json
import pathlib
from dataclasses import dataclass

from cases import check, until
from deployment import Deployment
from emulator import EAST, WEST, Emulator
from ledger import Bus, Ledger
from proxy import Proxy

LEASE = "telemetry"
# Profile `fast`, as protocol.md states it, in seconds.
TTL = 14.0
MARGIN = 0.5
TICK = 1.0
CALL = 2.5
GRACE = 5.0
STALE_CLAIM = 20.0
# From the last renewal: TTL, margin and two ticks, of which each is the interval and one lease call.
TAKEOVER_BOUND = TTL + MARGIN + 2 * (TICK + CALL)


@dataclass
class Stack:
    """One deployed instance."""

    name: str
    region: str
    outputs: dict


class World:
    """The emulator, its proxies, the stacks, and the ledger of messages."""

    def __init__(self, emulator: Emulator, bootstraps: pathlib.Path | None, to_queue: Proxy, to_table: Proxy) -> None:
        self.emulator = emulator
        self.to_queue = to_queue
        self.to_table = to_table
        self.ledger = Ledger(emulator)
        self.buses = {region: Bus(emulator, region) for region in (EAST, WEST)}
        self.stacks: dict[str, Stack] = {}
        # The instance whose functions were taken away, with their aliases.
        self.stopped: tuple[Stack, dict] | None = None
        self.deployment = Deployment(emulator, bootstraps, {
            "DrainerFunction": {"AWS_ENDPOINT_URL_SQS": to_queue.url},
            "IngestFunction": {"AWS_ENDPOINT_URL_DYNAMODB": to_table.url},
        })

    def values(self, instance: str) -> dict:
        """The parameters that every stack here has."""
        return {
            "Architecture": "x86_64", "Profile": "fast", "InstanceName": instance, "TableDeletionProtection": "false",
            # Small, so that a message can be too large for the destination.
            "RequestBytesMax": 65536,
        }

    def deploy(self, instance: str, region: str, **more: object) -> Stack:
        outputs = self.deployment.create(region, f"fencepost-{instance}", self.values(instance) | more)
        stack = Stack(instance, region, outputs)
        self.stacks[instance] = stack
        self.ledger.watch(region, outputs["DestinationQueueUrl"])
        return stack

    def other(self, stack: Stack) -> Stack:
        """The other of the two instances."""
        other, = (one for one in self.stacks.values() if one.name != stack.name)
        return other

    # ---- the lease --------------------------------------------------------------------------------------------------

    def status(self, stack: Stack) -> dict:
        """What the lease function of this instance says."""
        return self.emulator.invoke(stack.region, stack.outputs["LeaseFunctionArn"], {"command": "status"})

    def lease_row(self) -> dict:
        """The lease row, read past the bridge."""
        east = self.stacks["east"]
        key = {"lease": {"S": LEASE}, "record": {"S": "LEASE"}}
        client = self.emulator.client("dynamodb", EAST)
        return client.get_item(TableName=east.outputs["LeaseTableName"], Key=key, ConsistentRead=True).get("Item", {})

    def token(self) -> int:
        """The row's token; 0 without a row."""
        return int(self.lease_row().get("fencing_token", {"N": "0"})["N"])

    def owner(self) -> str | None:
        """Who holds the lease, by its row."""
        owner = self.lease_row().get("owner", {})
        return owner.get("S") or owner.get("M", {}).get("name", {}).get("S")

    def leader(self, seconds: float = 10) -> Stack:
        """The instance that leads."""
        name = until(seconds, "somebody leads", self.owner)
        return self.stacks[name]

    # ---- machines ---------------------------------------------------------------------------------------------------

    def start(self, stack: Stack, machine: str, given: dict | None = None) -> str:
        """Starts an execution of a machine; its ARN."""
        client = self.emulator.client("stepfunctions", stack.region)
        arn = stack.outputs[f"{machine}StateMachineArn"]
        return client.start_execution(stateMachineArn=arn, input=json.dumps(given or {}))["executionArn"]

    def finish(self, stack: Stack, execution: str, seconds: float) -> dict:
        """Waits for an execution to succeed; its output."""
        client = self.emulator.client("stepfunctions", stack.region)

        def ended():
            seen = client.describe_execution(executionArn=execution)
            return seen if seen["status"] != "RUNNING" else None

        seen = until(seconds, "the execution ends", ended)
        check(seen["status"] == "SUCCEEDED", f"{execution} {seen['status']}: {seen.get('error')} {seen.get('cause')}")
        return json.loads(seen["output"])

    def takeover(self, stack: Stack, token: int) -> str | None:
        """How the takeover of `token` stands in this region."""
        client = self.emulator.client("stepfunctions", stack.region)
        try:
            return client.describe_execution(executionArn=self.takeover_arn(stack, token))["status"]
        except client.exceptions.ExecutionDoesNotExist:
            return None

    @staticmethod
    def takeover_arn(stack: Stack, token: int) -> str:
        """The ARN that the first try of this takeover has, because it is named for lease, token and try."""
        machine = stack.outputs["TakeoverStateMachineArn"]
        return f"{machine.replace(':stateMachine:', ':execution:')}:{LEASE}-{token}-0"

    # ---- functions --------------------------------------------------------------------------------------------------

    @staticmethod
    def function(stack: Stack, kind: str) -> str:
        """A function's name, without its alias."""
        return stack.outputs[f"{kind}FunctionArn"].split(":")[6]

    def stop_function(self, stack: Stack, kind: str) -> dict:
        """Takes a function away: its alias, so that nobody reaches it, and then its running processes. The alias."""
        name = self.function(stack, kind)
        client = self.emulator.client("lambda", stack.region)
        alias = client.get_alias(FunctionName=name, Name="live")
        client.delete_alias(FunctionName=name, Name="live")
        self.emulator.kill(name)
        return alias

    def start_function(self, stack: Stack, kind: str, alias: dict) -> None:
        """Gives it back."""
        client = self.emulator.client("lambda", stack.region)
        client.create_alias(FunctionName=self.function(stack, kind), Name="live", FunctionVersion=alias["FunctionVersion"])

    # ---- the outbox -------------------------------------------------------------------------------------------------

    def rows(self, prefix: str) -> list[dict]:
        """Rows of the outbox whose partition begins with `prefix`, read past the bridge."""
        client = self.emulator.client("dynamodb", EAST)
        found, more = [], {}
        while True:
            page = client.scan(TableName=self.stacks["east"].outputs["OutboxTableName"], ConsistentRead=True, **more)
            found += [item for item in page["Items"] if item["shard"]["S"].startswith(prefix)]
            if "LastEvaluatedKey" not in page:
                return found
            more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def outstanding(self) -> list[dict]:
        """Records that are not committed."""
        return self.rows(f"{LEASE}#")

    def dead(self) -> list[dict]:
        """Dead records."""
        return self.rows(f"dead#{LEASE}#")
