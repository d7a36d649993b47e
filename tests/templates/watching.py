"""What is watched: every function and machine has a log group, an alarm and a way for its failures; every metric that an
alarm or the dashboard names is emitted under those dimensions; every alarm stands in the composite and on the dashboard."""

import json
import re

from model import references, walk

ALARMS = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
# Which parameter of the observability stack stands for which machine or function.
DIMENSION_OWNERS = {"StateMachineArn", "QueueName", "FunctionName", "TableName", "Resource", "lease", "instance"}


def functions_are_complete(project):
    findings = []
    for stack, name, resource in project.resources("AWS::Serverless::Function"):
        properties = resource["Properties"]
        group = properties.get("LoggingConfig", {}).get("LogGroup", {}).get("Ref")
        if project.templates[stack]["Resources"].get(group, {}).get("Type") != "AWS::Logs::LogGroup":
            findings.append(f"{stack}: {name} has no log group of its own")
        for metric in ("Errors", "Throttles"):
            if not any(_lambda_alarm(alarm, name, metric) for _, _, alarm in project.resources("AWS::CloudWatch::Alarm")):
                findings.append(f"{stack}: {name} has no alarm on {metric}")
        if not _failure_path(project, name, properties):
            findings.append(f"{stack}: what {name} fails at goes nowhere")
    return findings


def _lambda_alarm(alarm, function, metric):
    properties = alarm["Properties"]
    return (properties.get("Namespace"), properties.get("MetricName")) == ("AWS/Lambda", metric) and {
        "Name": "FunctionName", "Value": {"Ref": function},
    } in properties.get("Dimensions", [])


def _failure_path(project, name, properties):
    """A failure destination; or a workflow that catches; or CloudFormation, which waits for an answer."""
    if properties.get("EventInvokeConfig", {}).get("DestinationConfig", {}).get("OnFailure"):
        return True
    if any(
        resource["Type"].startswith("Custom::") and references(resource["Properties"].get("ServiceToken")) & {name}
        for _, _, resource in project.resources()
    ):
        return True
    calling = [
        (machine, state)
        for machine in project.machines
        for _, state in project.states(machine)
        if f"${{{name}Arn}}" in json.dumps(state.get("Arguments", ""))
    ]
    return bool(calling) and all(_caught(project, machine, state) for machine, state in calling)


def _caught(project, machine, state):
    """By the state itself, or by the map that it stands in."""
    catches_all = lambda one: any("States.ALL" in catch["ErrorEquals"] for catch in one.get("Catch", []))
    maps = [outer for _, outer in project.states(machine) if outer["Type"] == "Map" and state in outer["ItemProcessor"]["States"].values()]
    return catches_all(state) or any(catches_all(outer) for outer in maps)


def machines_are_complete(project):
    findings = []
    watched = {
        found.removesuffix("Arn")
        for _, name, alarm in project.resources("AWS::CloudWatch::Alarm")
        for found in references(alarm)
        if found.endswith("StateMachineArn")
    }
    for stack, name, resource in project.resources("AWS::Serverless::StateMachine"):
        properties = resource["Properties"]
        group = references(properties.get("Logging", {}).get("Destinations", []))
        if not any(project.templates[stack]["Resources"].get(one, {}).get("Type") == "AWS::Logs::LogGroup" for one in group):
            findings.append(f"{stack}: {name} has no log group of its own")
        if properties.get("Tracing", {}).get("Enabled") is not True:
            findings.append(f"{stack}: {name} is not traced")
        if name not in watched:
            findings.append(f"{stack}: no alarm watches {name}")
    return findings


def logs_end_some_day(project):
    return [
        f"{stack}: {name} keeps its logs for ever"
        for stack, name, resource in project.resources("AWS::Logs::LogGroup")
        if "RetentionInDays" not in resource["Properties"]
    ]


def tables_are_kept(project):
    findings = []
    for stack, name, table in project.resources("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"):
        if table.get("DeletionPolicy") != "Retain" or table.get("UpdateReplacePolicy") != "Retain":
            findings.append(f"{stack}: {name} goes with the stack")
        replicas = table["Properties"].get("Replicas", [table["Properties"]])
        replicas = [replica["Fn::If"][1] if "Fn::If" in replica else replica for replica in replicas]
        for replica in replicas:
            if not replica.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled"):
                findings.append(f"{stack}: {name} cannot be restored to a point in time")
            if "DeletionProtectionEnabled" not in replica:
                findings.append(f"{stack}: {name} is not protected from deletion")
        if table["Properties"].get("SSESpecification", {}).get("SSEEnabled") is not True:
            findings.append(f"{stack}: {name} is not encrypted by a KMS key")
        if table["Type"].endswith("GlobalTable") and table["Properties"].get("MultiRegionConsistency") != "STRONG":
            findings.append(f"{stack}: {name} is eventually consistent: two regions could be told that they hold one token")
    return findings


def named_metrics(project):
    """(where, namespace, metric, dimension names) of everything that an alarm or the dashboard looks at."""
    for stack, name, alarm in project.resources("AWS::CloudWatch::Alarm"):
        for _, value in walk(alarm["Properties"]):
            if isinstance(value, dict) and "MetricName" in value:
                dimensions = frozenset(one["Name"] for one in value.get("Dimensions", []))
                yield f"{stack}: {name}", value["Namespace"], value["MetricName"], dimensions
    for stack, name, dashboard in project.resources("AWS::CloudWatch::Dashboard"):
        for widget in json.loads(dashboard["Properties"]["DashboardBody"]["Fn::Sub"][0])["widgets"]:
            for metric in widget["properties"].get("metrics", []):
                words = [one for one in metric if isinstance(one, str)]
                where = f"{stack}: {name}, {widget['properties']['title']}"
                yield where, words[0], words[1], frozenset(words[2::2])


def metrics_are_emitted(project):
    emitted = set()
    for path, text in project.rust.items():
        if not path.endswith("telemetry/metric.rs"):
            emitted |= set(re.findall(r"\bMetric::(\w+)", text))
    findings = []
    for where, namespace, metric, dimensions in named_metrics(project):
        if namespace.startswith("AWS/"):
            if not dimensions or not dimensions <= DIMENSION_OWNERS:
                findings.append(f"{where}: {namespace} {metric} has the dimensions {sorted(dimensions)}")
        elif namespace != project.namespace:
            findings.append(f"{where}: the namespace {namespace} is not {project.namespace}")
        elif metric not in project.metrics:
            findings.append(f"{where}: {metric} is no metric of ours")
        elif metric not in emitted:
            findings.append(f"{where}: {metric} is declared and emitted nowhere")
        elif dimensions not in project.dimensions:
            findings.append(f"{where}: {metric} is not emitted with the dimensions {sorted(dimensions)}")
    return findings


def every_metric_is_shown(project):
    """A metric that nobody looks at is not worth its price."""
    shown = {metric for _, namespace, metric, _ in named_metrics(project) if namespace == project.namespace}
    return [f"observability: {metric} stands neither in an alarm nor on the dashboard" for metric in sorted(project.metrics - shown)]


def alarms_tell_somebody(project):
    findings = []
    for stack, name, alarm in project.resources(*ALARMS):
        for property_name in ("AlarmDescription", "AlarmActions", "OKActions"):
            if not alarm["Properties"].get(property_name):
                findings.append(f"{stack}: {name} has no {property_name}")
        if alarm["Type"] == "AWS::CloudWatch::Alarm" and "TreatMissingData" not in alarm["Properties"]:
            findings.append(f"{stack}: {name} does not say what missing data means")
    silent = ("NoHolderAlarm", "OldestOutstandingAgeAlarm")
    for name in silent:
        if project.templates["observability"]["Resources"][name]["Properties"]["TreatMissingData"] != "breaching":
            findings.append(f"observability: {name} keeps silent where nobody measures")
    return findings


def alarms_stand_in_the_composite(project):
    composite = project.templates["observability"]["Resources"]["AnyPromiseAlarm"]["Properties"]["AlarmRule"]
    named = references(composite)
    return [
        f"{stack}: {name} does not stand in the alarm over all alarms"
        for stack, name, alarm in project.resources("AWS::CloudWatch::Alarm")
        if not {name, f"{name}Name"} & named
    ]


def alarms_stand_on_the_dashboard(project):
    body = project.templates["observability"]["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][0]
    return [
        f"observability: {name} is not on the dashboard"
        for name, resource in project.templates["observability"]["Resources"].items()
        if resource["Type"] in ALARMS and f"${{{name}.Arn}}" not in body
    ]


def suppressions_have_reasons(project):
    findings = []
    for stack, name, resource in project.resources():
        for skip in resource.get("Metadata", {}).get("checkov", {}).get("skip", []):
            if len(skip.get("comment", "")) < 20:
                findings.append(f"{stack}: {name}: {skip.get('id')} is skipped without a reason")
    for line in project.checkov.splitlines():
        found = re.match(r"\s*- (CKV_\w+)(.*)", line)
        if found and len(found.group(2).partition("#")[2].strip()) < 20:
            findings.append(f".config/checkov.yaml: {found.group(1)} is skipped without a reason")
    return findings


CHECKS = [
    functions_are_complete, machines_are_complete, logs_end_some_day, tables_are_kept, metrics_are_emitted, every_metric_is_shown,
    alarms_tell_somebody, alarms_stand_in_the_composite, alarms_stand_on_the_dashboard, suppressions_have_reasons,
]
