"""Deployed stacks of an account: whose messages are ours, and how a function is taken away and given back."""

import uuid

from account import Account
from cases import NotHere, until
from deployed import Deployed, Stack
from ledger import Bus, Ledger
from stacks import Found
from timing import of_parameters

# What a stopped function is asked, to see that nobody reaches it any more; neither changes anything.
HARMLESS = {"Lease": b'{"command": "status"}', "Drainer": b'{"command": "shards"}'}


class OwnMessages(Ledger):
    """Takes only the run's messages out of the queues."""

    wait_seconds = 1

    def __init__(self, aws: Account, mark: str) -> None:
        super().__init__(aws)
        self._mark = mark

    def is_ours(self, topic: str) -> bool:
        return self._mark in topic


class World(Deployed):
    """One stack, or two of one group."""

    slack = 3.0
    # A rule that was just made begins within half a minute; later events take a second or two.
    delivery_seconds = 30.0
    drain_may_be_first = True

    def __init__(self, account: Account, found: list[Found]) -> None:
        self.mark = f"fencepost-certify-{uuid.uuid4().hex[:12]}"
        given = found[0].parameters
        shards = max(int(given.get("Shards") or 16), int(given.get("PreviousShards") or 0))
        super().__init__(account, OwnMessages(account, self.mark), of_parameters(given), given["LeaseName"], given["TopicFilter"], shards)
        self.found = found
        for one in found:
            self.stacks[one.stack.name] = one.stack
            self.ledger.watch(one.stack.region, one.stack.outputs["DestinationQueueUrl"])

    def topic(self, name: str) -> str:
        levels = self.topic_filter.split("/")
        return "/".join(f"{self.mark}-{name}" if level in ("#", "+") else level for level in levels)

    def listen(self) -> None:
        """Makes a rule and a queue in each region, so that events are seen. `close` removes them."""
        for one in self.found:
            self.buses[one.stack.region] = Bus(self.aws, one.stack.region, one.parameters.get("EventBusName") or "default", self.mark)

    def close(self) -> list[str]:
        """Gives back what was stopped and removes what was made; what could not be undone, in words."""
        left = []
        if self.stopped:
            stack, kept = self.stopped
            for kind, concurrency in kept.items():
                try:
                    self.start_function(stack, kind, concurrency)
                except Exception as error:
                    left.append(f"{self.function(stack, kind)} in {stack.region} has reserved concurrency 0; it was {concurrency}: {error}")
        for region, bus in self.buses.items():
            try:
                bus.close()
            except Exception as error:
                left.append(f"the rule and the queue {self.mark} in {region}: {error}")
        return left

    def _throttled(self, stack: Stack, kind: str) -> bool:
        client = self.aws.client("lambda", stack.region)
        try:
            client.invoke(FunctionName=stack.outputs[f"{kind}FunctionArn"], Payload=HARMLESS[kind])
        except client.exceptions.TooManyRequestsException:
            return True
        return False

    def stop_function(self, stack: Stack, kind: str) -> int | None:
        """Reserves no execution for it, so that every call is throttled; what was reserved before."""
        client, name = self.aws.client("lambda", stack.region), self.function(stack, kind)
        before = client.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions")
        # Known to `close` before anything happens.
        kept = self.stopped[1] if self.stopped else {}
        self.stopped = (stack, kept | {kind: before})
        client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)

        if self.aws.emulated and not self._throttled(stack, kind):
            self.start_function(stack, kind, before)
            self.stopped = None
            raise NotHere("a function without concurrency goes on in this emulator")
        until(20, f"{name} is throttled", lambda: self._throttled(stack, kind), pause=0.5)
        return before

    def start_function(self, stack: Stack, kind: str, kept: int | None) -> None:
        client, name = self.aws.client("lambda", stack.region), self.function(stack, kind)
        if kept is None:
            client.delete_function_concurrency(FunctionName=name)
        else:
            client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=kept)
        until(60, f"{name} runs again", lambda: not self._throttled(stack, kind), pause=0.5)
