"""What only an account can show: that the stack's own resources are as the templates say, and that its metrics and alarms live."""

import datetime

import botocore.exceptions

from cases import NotHere, check, until
from world import World

# Measured at each tick or each drain of a minute, by every instance.
METRICS = ("GroupHasHolder", "LeaseHeld", "OldestOutstandingAge")
# Measured by the holder, once messages were sent.
FLOW = ("Ingested", "Sent", "Committed", "EndToEndLatency")


def settings_are_valid(world: World) -> str:
    """Each instance's functions accept their settings, and know who they are."""
    for stack in world.stacks.values():
        said = world.ask(stack, {"command": "validate"})
        check(said == {"valid": True}, f"{stack.name} says {said}")
        me = world.status(stack)["me"]["name"]
        check(me == stack.name, f"the stack of {stack.name} says that it is {me}")
    return f"{len(world.stacks)} of {len(world.stacks)} instances"


def tables_are_safe(world: World) -> str:
    """Both tables can be restored, are encrypted, and only the outbox forgets, by `expires_at` alone."""
    client = world.aws.client("dynamodb", world.first.region)
    is_global = world.found[0].parameters.get("Topology") == "global"
    for output, attribute in (("LeaseTableName", None), ("OutboxTableName", None if is_global else "expires_at")):
        name = world.first.outputs[output]
        table = client.describe_table(TableName=name)["Table"]
        ttl = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        enabled = ttl["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
        check(enabled == bool(attribute), f"{name}: time to live is {ttl['TimeToLiveStatus']}")
        check(not enabled or ttl["AttributeName"] == attribute, f"{name}: time to live is on {ttl.get('AttributeName')}")
        consistency = table.get("MultiRegionConsistency", "none")
        check(not table.get("Replicas") or consistency == "STRONG", f"{name} is a global table whose consistency is {consistency}")
        if not world.aws.emulated:
            restore = client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
            restore = restore["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
            check(restore == "ENABLED", f"{name}: point-in-time recovery is {restore}")
            check(table.get("SSEDescription", {}).get("Status") == "ENABLED", f"{name} is not encrypted by a KMS key")
    return "time to live, consistency" + ("" if world.aws.emulated else ", point-in-time recovery, encryption")


def failures_have_a_way(world: World) -> str:
    """The topic rule has its error action, ingest its retries and its failure destination, the failures their way back."""
    for stack in world.stacks.values():
        rule = world.aws.client("iot", stack.region).get_topic_rule(ruleName=stack.outputs["TopicRuleName"])["rule"]
        failures = stack.outputs["IngestFailuresQueueUrl"]
        check(rule.get("errorAction", {}).get("sqs", {}).get("queueUrl") == failures, f"{stack.name}: the rule's error action is {rule.get('errorAction')}")
        client = world.aws.client("lambda", stack.region)
        name = world.function(stack, "Ingest")
        invoke = client.get_function_event_invoke_config(FunctionName=name, Qualifier="live")
        asked = (invoke.get("MaximumRetryAttempts"), invoke.get("MaximumEventAgeInSeconds"))
        check(asked == (2, 21_600), f"{stack.name}: ingest is tried again {asked[0]} times within {asked[1]}s")
        destination = invoke["DestinationConfig"]["OnFailure"]["Destination"]
        check(destination.rsplit(":", 1)[1] == failures.rsplit("/", 1)[1], f"{stack.name}: failed invocations go to {destination}")
        sources = client.list_event_source_mappings(FunctionName=stack.outputs["IngestFunctionArn"])["EventSourceMappings"]
        # Some implementations list by the bare name only.
        sources += client.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
        back = [one for one in sources if one["EventSourceArn"] == destination and one["State"] == "Enabled"]
        check(back, f"{stack.name}: nothing feeds the queue of failures to ingest")
    return "error action, two retries within six hours, failure destination, and back to ingest"


def metrics_arrive(world: World) -> str:
    """The metrics that alarms stand on arrive in CloudWatch under both dimensions."""
    if world.aws.emulated:
        raise NotHere("embedded metrics stay log lines in this emulator")
    leader = world.leader()
    for stack in world.stacks.values():
        wanted = METRICS + (FLOW if stack is leader else ())
        until(300, f"{', '.join(wanted)} of {stack.name} arrive", lambda: not _silent(world, stack, wanted), pause=5)
    return f"{', '.join(METRICS + FLOW)}"


def _silent(world: World, stack, wanted: tuple) -> list[str]:
    """The metrics without a value in the last ten minutes."""
    dimensions = [{"Name": "lease", "Value": world.lease}, {"Name": "instance", "Value": stack.name}]
    now = datetime.datetime.now(datetime.timezone.utc)
    queries = [
        {"Id": f"m{number}", "MetricStat": {
            "Metric": {"Namespace": "Fencepost", "MetricName": name, "Dimensions": dimensions}, "Period": 60, "Stat": "Maximum",
        }}
        for number, name in enumerate(wanted)
    ]
    results = world.aws.client("cloudwatch", stack.region).get_metric_data(
        MetricDataQueries=queries, StartTime=now - datetime.timedelta(minutes=10), EndTime=now,
    )["MetricDataResults"]
    heard = {result["Id"] for result in results if result["Values"]}
    return [name for number, name in enumerate(wanted) if f"m{number}" not in heard]


def alarms_are_quiet(world: World) -> str:
    """Every alarm of the stacks exists, and none rings but those that a planned handover may ring."""
    count = 0
    for found in world.found:
        names = _alarms(world.aws.client("cloudformation", found.stack.region), found.name)
        client = world.aws.client("cloudwatch", found.stack.region)
        seen = []
        for start in range(0, len(names), 100):
            answer = client.describe_alarms(AlarmNames=names[start:start + 100], AlarmTypes=["MetricAlarm", "CompositeAlarm"])
            seen += answer.get("MetricAlarms", []) + answer.get("CompositeAlarms", [])
        missing = set(names) - {alarm["AlarmName"] for alarm in seen}
        check(not missing, f"{found.name}: there is no alarm {', '.join(sorted(missing))}")
        ringing = sorted(alarm["AlarmName"] for alarm in seen if alarm["StateValue"] == "ALARM")
        check(not ringing, f"{found.name}: these ring: {', '.join(ringing)}")
        count += len(seen)
    check(count, "the stacks have no alarms")
    return f"{count} alarms, none rings"


def _alarms(client, stack: str) -> list[str]:
    """The names of the alarms of a stack and of those nested in it."""
    names = []
    try:
        pages = client.get_paginator("list_stack_resources").paginate(StackName=stack)
        resources = [one for page in pages for one in page["StackResourceSummaries"]]
    except botocore.exceptions.ClientError as error:
        raise AssertionError(f"the resources of {stack} cannot be listed: {error}") from None
    for resource in resources:
        if resource["ResourceType"] == "AWS::CloudFormation::Stack":
            names += _alarms(client, resource["PhysicalResourceId"])
        elif resource["ResourceType"] in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
            names.append(resource["PhysicalResourceId"])
    return names
