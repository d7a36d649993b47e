"""Finding deployed stacks by their outputs, and telling whether a run against them would mean anything. It only reads."""

from dataclasses import dataclass

import botocore.exceptions

from account import Account, Refused
from deployed import Stack

# What the root stack hands out and the cases need.
OUTPUTS = (
    "DestinationQueueUrl", "TopicRuleName", "LeaseTableName", "OutboxTableName", "IngestFailuresQueueUrl", "IngestFunctionArn",
    "LeaseFunctionArn", "DrainerFunctionArn", "LeaseCycleStateMachineArn", "DrainStateMachineArn", "TakeoverStateMachineArn",
    "StepDownStateMachineArn", "RedriveStateMachineArn",
)
READY = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


@dataclass
class Found:
    """A stack and the parameters that it was deployed with."""

    stack: Stack
    name: str
    parameters: dict


def find(account: Account, name: str, region: str) -> Found:
    """The stack of this name in this region."""
    client = account.client("cloudformation", region)
    try:
        found = client.describe_stacks(StackName=name)["Stacks"][0]
    except botocore.exceptions.ClientError as error:
        if "does not exist" not in str(error):
            raise Refused(f"the stack {name} in {region} cannot be read: {error}") from None
        raise Refused(f"there is no stack {name} in {region}{_others(client)}") from None
    except botocore.exceptions.BotoCoreError as error:
        raise Refused(f"CloudFormation in {region} does not answer: {error}") from None
    if found["StackStatus"] not in READY:
        raise Refused(f"{name} in {region} is {found['StackStatus']}: wait until it is one of {', '.join(READY)}")
    outputs = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", [])}
    missing = [output for output in OUTPUTS if not outputs.get(output)]
    if missing:
        raise Refused(f"{name} in {region} is no root stack of fencepost: it has no output {', '.join(missing)}")
    parameters = {one["ParameterKey"]: one.get("ParameterValue", "") for one in found.get("Parameters", [])}
    return Found(Stack(parameters.get("InstanceName") or region, region, outputs), name, parameters)


def _others(client) -> str:
    """The stacks that could have been meant."""
    try:
        stacks = [stack for stack in client.describe_stacks()["Stacks"] if set(OUTPUTS) <= {one["OutputKey"] for one in stack.get("Outputs", [])}]
    except botocore.exceptions.ClientError:
        return ""
    names = sorted(stack["StackName"] for stack in stacks)
    return f"; fencepost's there: {', '.join(names)}" if names else "; nor any other of fencepost's"


def check_alone(found: Found) -> None:
    """Refuses what no run could certify."""
    given = found.parameters
    if given.get("Topology") == "home":
        raise Refused(f"{found.name} uses another region's tables: name the stack that has the tables as --stack, this one as --second-stack")
    if given.get("ScheduleState") == "DISABLED":
        raise Refused(f"{found.name} has ScheduleState DISABLED: it neither ticks nor drains")
    if not set(given.get("TopicFilter", "#").split("/")) & {"#", "+"}:
        raise Refused(f"the topic filter {given['TopicFilter']} has no wildcard: this run's messages could not be told from others")


def check_group(first: Found, second: Found) -> None:
    """Refuses two stacks that are not two instances of one group."""
    groups = [found.parameters.get("LeaseName") for found in (first, second)]
    if groups[0] != groups[1]:
        raise Refused(f"{first.name} and {second.name} are of different lease groups: {groups[0]}, {groups[1]}")
    for output in ("LeaseTableName", "OutboxTableName"):
        if _table(first.stack.outputs[output]) != _table(second.stack.outputs[output]):
            raise Refused(f"{first.name} and {second.name} have different tables: {output} differs, so neither knows of the other")
    if first.stack.name == second.stack.name:
        raise Refused(f"both stacks are instance {first.stack.name}: two stacks of one group need two names (InstanceName)")
    if second.parameters.get("ScheduleState") == "DISABLED":
        raise Refused(f"{second.name} has ScheduleState DISABLED: it would never take over")


def _table(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def check_quiet(account: Account, found: Found) -> None:
    """Refuses a destination that is in use: reading it would take messages from somebody."""
    url = found.stack.outputs["DestinationQueueUrl"]
    try:
        values = account.client("sqs", found.stack.region).get_queue_attributes(
            QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
        )["Attributes"]
    except botocore.exceptions.ClientError as error:
        raise Refused(f"the destination {url} cannot be read: {error}") from None
    waiting, in_flight = int(values["ApproximateNumberOfMessages"]), int(values["ApproximateNumberOfMessagesNotVisible"])
    if waiting or in_flight:
        raise Refused(
            f"the destination of {found.name} is in use ({waiting} messages wait, {in_flight} are with a consumer): certify before "
            "consumers and devices are connected, or give the run a stack of its own; what an earlier run left may be purged",
        )
