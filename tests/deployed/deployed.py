"""Stacks of one lease group, and what every case asks of them, through AWS' own interfaces alone.

`aws` stands for the account: `client(service, region)` gives a client, `broker(region, client_id)` says how to reach the MQTT
broker. What differs between the emulator and an account (how a function is stopped, how a message is read) stands in subclasses."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import botocore.exceptions

from cases import check, until
from ledger import Ledger
from timing import Timing


@dataclass
class Broker:
    """Where the MQTT broker is, over a WebSocket."""

    host: str
    port: int
    encrypted: bool
    path: str
    host_header: str


@dataclass
class Stack:
    """One deployed instance."""

    name: str
    region: str
    outputs: dict


class Deployed:
    """The stacks, the first of which has the tables, and the ledger of messages."""

    # What clocks and ways of this side may add to a bound, in seconds.
    slack = 0.0
    # How long an event may take from the bus to the queue on this side, in seconds: the emulator hands it on at once.
    delivery_seconds = 1.0
    # Whether the drain of the schedule may take orphans before the takeover does.
    drain_may_be_first = False

    def __init__(self, aws, ledger: Ledger, timing: Timing, lease: str, topic_filter: str, shards: int) -> None:
        self.aws = aws
        self.ledger = ledger
        self.timing = timing
        self.lease = lease
        self.topic_filter = topic_filter
        self.shards = shards
        self.stacks: dict[str, Stack] = {}
        self.buses: dict = {}
        # The instance whose functions were taken away, with what gives them back.
        self.stopped: tuple[Stack, dict] | None = None

    @property
    def first(self) -> Stack:
        """The stack that has the tables."""
        return next(iter(self.stacks.values()))

    def other(self, stack: Stack) -> Stack:
        """The other of the two instances."""
        other, = (one for one in self.stacks.values() if one.name != stack.name)
        return other

    def topic(self, name: str) -> str:
        """A topic of this run that the topic filter takes; without wildcards in the filter there is but one."""
        levels = self.topic_filter.split("/")
        return "/".join(name if level in ("#", "+") else level for level in levels)

    @property
    def event_seconds(self) -> float:
        """How long an event may take from what it tells of to this side, in seconds."""
        return self.timing.telling_bound + self.delivery_seconds + self.slack

    @property
    def takeover_seconds(self) -> float:
        """How long a takeover of a few records may take from the acquisition on, in seconds."""
        return self.timing.takeover_work_bound + self.slack

    # ---- the lease --------------------------------------------------------------------------------------------------

    def status(self, stack: Stack) -> dict:
        """What the lease function of this instance says."""
        return self.ask(stack, {"command": "status"})

    def answers(self, stack: Stack) -> bool:
        """Whether the lease function of this instance can be reached and knows who it is."""
        try:
            return self.status(stack)["me"]["name"] == stack.name
        except botocore.exceptions.ClientError:
            return False

    def ask(self, stack: Stack, request: dict) -> dict:
        """Invokes the lease function of this instance; its answer."""
        reply = self.aws.client("lambda", stack.region).invoke(FunctionName=stack.outputs["LeaseFunctionArn"], Payload=json.dumps(request))
        answer = json.loads(reply["Payload"].read() or b"null")
        check(not reply.get("FunctionError"), f"the lease function of {stack.name} failed: {answer}")
        return answer

    def lease_row(self) -> dict:
        """The lease row, read past the bridge."""
        key = {"lease": {"S": self.lease}, "record": {"S": "LEASE"}}
        client = self.aws.client("dynamodb", self.first.region)
        return client.get_item(TableName=self.first.outputs["LeaseTableName"], Key=key, ConsistentRead=True).get("Item", {})

    def token(self) -> int:
        """The row's token; 0 without a row."""
        return int(self.lease_row().get("fencing_token", {"N": "0"})["N"])

    def owner(self) -> str | None:
        """Who holds the lease, by its row."""
        return self.owner_in(self.lease_row())

    @staticmethod
    def owner_in(row: dict) -> str | None:
        """The holder that a lease row names."""
        owner = row.get("owner", {})
        return owner.get("S") or owner.get("M", {}).get("name", {}).get("S")

    def leader(self, seconds: float = 10) -> Stack:
        """The instance that leads."""
        name = until(seconds, "somebody leads", self.owner)
        check(name in self.stacks, f"{name} leads, which is none of the stacks given: {', '.join(self.stacks)}")
        return self.stacks[name]

    def instance_rows(self, stack: Stack) -> list[dict]:
        """The records that this instance keeps of itself."""
        rows = self.aws.client("dynamodb", self.first.region).query(
            TableName=self.first.outputs["LeaseTableName"], ConsistentRead=True,
            KeyConditionExpression="lease = :lease", ExpressionAttributeValues={":lease": {"S": self.lease}},
        )["Items"]
        return [row for row in rows if row["record"]["S"].startswith(f"INSTANCE#{stack.name}#")]

    def ticks(self, stack: Stack) -> int:
        """How many ticks this instance has written down: each moves its record's generation by one, whoever leads."""
        return sum(int(row["generation"]["N"]) for row in self.instance_rows(stack))

    # ---- machines ---------------------------------------------------------------------------------------------------

    def start(self, stack: Stack, machine: str, given: dict | None = None) -> str:
        """Starts an execution of a machine; its ARN. An Express machine's cannot be watched."""
        client = self.aws.client("stepfunctions", stack.region)
        arn = stack.outputs[f"{machine}StateMachineArn"]
        return client.start_execution(stateMachineArn=arn, input=json.dumps(given or {}))["executionArn"]

    def finish(self, stack: Stack, execution: str, seconds: float) -> dict:
        """Waits for an execution of a Standard machine to succeed; its output."""
        client = self.aws.client("stepfunctions", stack.region)

        def ended():
            seen = client.describe_execution(executionArn=execution)
            return seen if seen["status"] != "RUNNING" else None

        seen = until(seconds, "the execution ends", ended, pause=0.2)
        check(seen["status"] == "SUCCEEDED", f"{execution} {seen['status']}: {seen.get('error')} {seen.get('cause')}")
        return json.loads(seen["output"])

    def takeover(self, stack: Stack, token: int) -> str | None:
        """How the takeover of `token` stands in this region."""
        client = self.aws.client("stepfunctions", stack.region)
        try:
            return client.describe_execution(executionArn=self.takeover_arn(stack, token))["status"]
        except client.exceptions.ExecutionDoesNotExist:
            return None

    def takeover_arn(self, stack: Stack, token: int) -> str:
        """The ARN that the first try of this takeover has, because it is named for lease, token and try."""
        machine = stack.outputs["TakeoverStateMachineArn"]
        return f"{machine.replace(':stateMachine:', ':execution:')}:{self.lease}-{token}-0"

    # ---- functions --------------------------------------------------------------------------------------------------

    @staticmethod
    def function(stack: Stack, kind: str) -> str:
        """A function's name, without its alias."""
        return stack.outputs[f"{kind}FunctionArn"].split(":")[6]

    def stop_function(self, stack: Stack, kind: str):
        """Takes a function away from its callers at once; what `start_function` needs to give it back."""
        raise NotImplementedError

    def start_function(self, stack: Stack, kind: str, kept) -> None:
        """Gives it back."""
        raise NotImplementedError

    def without_scheduled_drain(self, stack: Stack) -> contextlib.AbstractContextManager:
        """While it lasts no schedule starts this instance's drain, where that can be done."""
        return contextlib.nullcontext()

    # ---- the outbox -------------------------------------------------------------------------------------------------

    def outstanding(self) -> list[dict]:
        """Records of ours that are not committed, read past the bridge."""
        return self._records(f"{self.lease}#")

    def dead(self) -> list[dict]:
        """Dead records of ours."""
        return self._records(f"dead#{self.lease}#")

    def fences(self) -> list[dict]:
        """Every fence in the outbox."""
        return list(self._items("fence#"))

    def _records(self, prefix: str) -> list[dict]:
        return [row for row in self._items(prefix) if self.ledger.is_ours(row.get("topic", {}).get("S", ""))]

    def _items(self, prefix: str) -> Iterator[dict]:
        """Every item whose partition begins so, page after page of the whole table: a record in a shard that nobody drains is seen
        too."""
        client = self.aws.client("dynamodb", self.first.region)
        scan = {"TableName": self.first.outputs["OutboxTableName"], "ConsistentRead": True}
        while True:
            page = client.scan(**scan)
            yield from (item for item in page["Items"] if item["shard"]["S"].startswith(prefix))
            if "LastEvaluatedKey" not in page:
                return
            scan["ExclusiveStartKey"] = page["LastEvaluatedKey"]
