"""Time limits against each other: a function ends before the task that waits for it, a task before its workflow, and the
numbers that the platform enforces are those that the protocol counts on."""

import re

from model import walk

PROFILES = ("durable", "fast")
EXPRESS_SECONDS_MAX = 300
# Which function a placeholder of a machine means.
FUNCTIONS = {"LeaseFunctionArn": "LeaseFunction", "DrainerFunctionArn": "DrainerFunction"}
# What the protocol's rules demand of a page beside its budget and its send, and of a stale wait beside the drainer's limit.
PAGE_SLACK_SECONDS, STALE_SLACK_SECONDS = 2, 5


def _called(state):
    """The function that a task calls, by its placeholder."""
    called = state.get("Arguments", {}).get("FunctionName", "") if isinstance(state.get("Arguments"), dict) else ""
    found = re.fullmatch(r"\$\{(\w+)\}", called)
    return FUNCTIONS.get(found.group(1)) if found else None


def _largest_limit(project, function):
    limits = [project.function_limit(function, profile) for profile in PROFILES]
    if function == "DrainerFunction":
        limits.append(project.templates["compute"]["Parameters"]["DrainerLimitSeconds"]["MaxValue"])
    return max(limits)


def functions_end_before_their_tasks(project):
    findings = []
    for machine in project.machines:
        for name, state in project.states(machine):
            function = _called(state) if state["Type"] == "Task" else None
            if function and state["TimeoutSeconds"] <= _largest_limit(project, function):
                findings.append(
                    f"{machine}: {name} waits {state['TimeoutSeconds']} s for {function}, which may run {_largest_limit(project, function)} s"
                )
    return findings


def tasks_end_before_their_workflow(project):
    """An Express execution has five minutes; a tick must be over before the next minute starts another loop."""
    findings = []
    for machine in project.machines:
        express = " Express" in project.machines[machine].split('"QueryLanguage"')[0]
        for name, state in project.states(machine):
            if state["Type"] != "Task":
                continue
            if express and state["TimeoutSeconds"] >= EXPRESS_SECONDS_MAX:
                findings.append(f"{machine}: {name} may wait longer than an Express execution lasts")
            if machine == "lease_cycle" and state["TimeoutSeconds"] >= _schedule_seconds(project):
                findings.append(f"{machine}: {name} may wait longer than the schedule's interval")
    return findings


def _schedule_seconds(project):
    rates = [resource["Properties"]["ScheduleExpression"] for _, _, resource in project.resources("AWS::Scheduler::Schedule")]
    units = {"minute": 60, "minutes": 60, "hour": 3_600, "hours": 3_600}
    parsed = [re.fullmatch(r"rate\((\d+) (\w+)\)", rate).groups() for rate in rates]
    return min(int(count) * units[unit] for count, unit in parsed)


def schedules_start_each_minute(project):
    """Both machines count on it: two loops tick at any time, and a minute's rest is drained by the next start."""
    findings = []
    targets = set()
    for stack, name, resource in project.resources("AWS::Scheduler::Schedule"):
        properties = resource["Properties"]
        targets.add(properties["Target"]["Arn"].get("Ref"))
        if properties["ScheduleExpression"] != "rate(1 minute)" or properties["FlexibleTimeWindow"]["Mode"] != "OFF":
            findings.append(f"{stack}: {name} does not start its machine every minute, on the minute")
    missing = {"LeaseCycleStateMachine", "DrainStateMachine"} - targets
    return findings + [f"workflow: nothing starts {name}" for name in sorted(missing)]


def budgets_fit_the_stale_wait(project):
    findings = []
    for profile in PROFILES:
        limit, durations = project.function_limit("DrainerFunction", profile), project.durations(profile)
        page = durations["claim_budget"] + durations["send_timeout"]
        if limit != durations["drainer_limit"]:
            findings.append(f"{profile}: the drainer runs {limit} s, its setting says {durations['drainer_limit']} s")
        if limit + STALE_SLACK_SECONDS > durations["stale_claim_duration"]:
            findings.append(f"{profile}: a claim is settled after {durations['stale_claim_duration']} s, its drainer may run {limit} s")
        if page + PAGE_SLACK_SECONDS > limit:
            findings.append(f"{profile}: a page needs {page + PAGE_SLACK_SECONDS} s, the drainer has {limit} s")
        if page >= durations["step_down_grace"]:
            findings.append(f"{profile}: a page's sends may last {page} s, longer than the grace of a step-down")
        if project.function_limit("LeaseFunction", profile) < 2 * durations["renew_call_timeout"] + 1:
            findings.append(f"{profile}: the lease function has no time for a read and a renewal")
    return findings


def platform_numbers_are_the_protocols(project):
    findings = []
    compute, data = project.templates["compute"]["Resources"], project.templates["data"]["Resources"]
    invoke = compute["IngestFunction"]["Properties"]["EventInvokeConfig"]
    queue = data["IngestFailuresQueue"]["Properties"]
    pairs = [
        ("MaximumEventAgeInSeconds of ingest", invoke["MaximumEventAgeInSeconds"], "ASYNC_EVENT_AGE_MAX"),
        ("MessageRetentionPeriod of the queue of failures", queue["MessageRetentionPeriod"], "FAILURE_QUEUE_RETENTION"),
    ]
    for what, value, constant in pairs:
        if value != project.constant(constant):
            findings.append(f"{what} is {value} s, the protocol's {constant} {project.constant(constant)} s")
    if queue["VisibilityTimeout"] < 6 * project.function_limit("IngestFunction", "durable"):
        findings.append("data: the queue of failures hides a message for less than six times ingest's limit")
    ttl = data["OutboxTable"]["Properties"].get("TimeToLiveSpecification", {})
    if ttl.get("AttributeName") != "expires_at" or not ttl.get("Enabled"):
        findings.append("data: the outbox's time to live is not on expires_at: tombstones would stay for ever")
    for _, name, resource in project.resources("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"):
        if name != "OutboxTable" and "TimeToLiveSpecification" in resource["Properties"]:
            findings.append(f"data: {name} must have no time to live")
    return findings


def alarm_bounds_follow_the_durations(project):
    """The length of a failover that rings is TTL + margin + two ticks, by each profile's own durations."""
    findings = []
    for profile in PROFILES:
        durations = project.durations(profile)
        tick = durations["tick_interval"] + durations["renew_call_timeout"]
        bound = durations["lease_ttl"] + durations["clock_margin"] + 2 * tick
        stated = project.templates["observability"]["Mappings"]["Profiles"][profile]["TakeoverMs"]
        if stated != round(bound * 1_000):
            findings.append(f"observability: {profile} rings after {stated} ms, the bound is {round(bound * 1_000)} ms")
        if project.templates["observability"]["Mappings"]["Profiles"][profile]["OldestAgeSeconds"] <= bound:
            findings.append(f"observability: {profile}: the age alarm rings at every ordinary failover")
    return findings


def release_has_time_and_an_end(project):
    findings = []
    limit = project.function_limit("LifecycleFunction", "durable")
    for stack, name, resource in project.resources():
        if not resource["Type"].startswith("Custom::"):
            continue
        timeout = resource["Properties"].get("ServiceTimeout")
        if not isinstance(timeout, int) or timeout <= limit:
            findings.append(f"{stack}: {name} has no ServiceTimeout above its function's limit of {limit} s")
    for profile in PROFILES:
        durations = project.durations(profile)
        handover = durations["step_down_grace"] + 2 * (durations["tick_interval"] + durations["renew_call_timeout"])
        if handover + 2 * durations["tick_interval"] > limit:
            findings.append(f"{profile}: a handover may take {handover} s, the lifecycle function has {limit} s")
    last = project.templates["root"]["Resources"]["LeaseRelease"].get("DependsOn", [])
    if "WorkflowStack" not in last:
        findings.append("root: LeaseRelease must depend on WorkflowStack, or the schedules are deleted before the release")
    return findings


def concurrency_is_never_reserved_as_zero(project):
    findings = []
    for stack, name, resource in project.resources("AWS::Serverless::Function"):
        reserved = resource["Properties"].get("ReservedConcurrentExecutions")
        for _, value in walk(reserved):
            if value == 0:
                findings.append(f"{stack}: {name} reserves no execution at all: it would never run")
        if isinstance(reserved, dict) and "Fn::If" not in reserved:
            findings.append(f"{stack}: {name} reserves what a parameter says, which may be 0")
    return findings


CHECKS = [
    functions_end_before_their_tasks, tasks_end_before_their_workflow, schedules_start_each_minute, budgets_fit_the_stale_wait,
    platform_numbers_are_the_protocols, alarm_bounds_follow_the_durations, release_has_time_and_an_end,
    concurrency_is_never_reserved_as_zero,
]
