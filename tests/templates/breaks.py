"""For each check what must make it fail: a change to a copy of the project, and words that the finding must hold.

`BREAKS` maps a check's name to a list of (words, change)."""

import json

import yaml


def _resources(project, stack):
    return project.templates[stack]["Resources"]


def _properties(project, stack, name):
    return _resources(project, stack)[name]["Properties"]


def _root_parameters(project, application):
    return _properties(project, "root", application)["Parameters"]


def _environment(project):
    return project.templates["compute"]["Globals"]["Function"]["Environment"]["Variables"]


def _policy(project, role, sid, stack="compute"):
    for statement in _properties(project, stack, role)["Policies"][0]["PolicyDocument"]["Statement"]:
        inner = statement["Fn::If"][1] if "Fn::If" in statement else statement
        if inner["Sid"] == sid:
            return inner
    raise KeyError(sid)


def _state(project, machine, name, **changes):
    definition = json.loads(project.machines[machine])
    def change(body):
        for state_name, state in body["States"].items():
            if state_name == name:
                state.update(changes)
            if "ItemProcessor" in state:
                change(state["ItemProcessor"])
    change(definition)
    project.machines[machine] = json.dumps(definition)


def _without(mapping, *keys):
    for key in keys:
        del mapping[key]


def _setting(project, name, profile, value):
    project.settings[name] = {**project.settings[name], profile: value}


def _dashboard(project, change):
    body = _properties(project, "observability", "Dashboard")["DashboardBody"]["Fn::Sub"]
    body[0] = change(body[0])


def _rule(project, change):
    rule = _properties(project, "observability", "AnyPromiseAlarm")["AlarmRule"]
    rule["Fn::Sub"] = change(rule["Fn::Sub"])


def _unemit(project, metric):
    for path, text in project.rust.items():
        if not path.endswith("telemetry/metric.rs"):
            project.rust[path] = text.replace(f"Metric::{metric}", "Metric::Other")


def _unwatch(project, machine):
    for stack in project.templates.values():
        for resource in stack["Resources"].values():
            if resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]:
                metrics = resource["Properties"]["Metrics"]
                metrics[:] = [one for one in metrics if machine not in yaml.dump(one)]


BREAKS = {
    # ---- wiring
    "parameters_are_described_and_bounded": [
        ("Shards has no Description", lambda p: _without(p.templates["compute"]["Parameters"]["Shards"], "Description")),
        ("LeaseTtl has neither", lambda p: _without(p.templates["root"]["Parameters"]["LeaseTtl"], "AllowedPattern")),
        ("no ConstraintDescription", lambda p: _without(p.templates["root"]["Parameters"]["LeaseTtl"], "ConstraintDescription")),
    ],
    "parameters_are_used": [("Spare is not used", lambda p: p.templates["data"]["Parameters"].update(Spare={"Type": "String"}))],
    "parameters_mean_the_same_everywhere": [
        ("Shards has other rules", lambda p: p.templates["compute"]["Parameters"]["Shards"].update(MaxValue=9_999)),
        ("Profile has another default", lambda p: p.templates["root"]["Parameters"]["Profile"].update(Default="fast")),
    ],
    "stacks_are_plugged_together": [
        ("does not pass Shards", lambda p: _without(_root_parameters(p, "ComputeStack"), "Shards")),
        ("passes Shard, which", lambda p: _root_parameters(p, "ComputeStack").update(Shard=1)),
        ("no output Outputs.LeaseFunctionArn", lambda p: _without(p.templates["compute"]["Outputs"], "LeaseFunctionArn")),
    ],
    "substitutions_match_the_machines": [
        ("does not fill in ${EventBusName}", lambda p: _without(_properties(p, "workflow", "TakeoverStateMachine")["DefinitionSubstitutions"], "EventBusName")),
        ("fills in Spare", lambda p: _properties(p, "workflow", "DrainStateMachine")["DefinitionSubstitutions"].update(Spare="x")),
        ("redrive is not deployed", lambda p: _without(_resources(p, "workflow"), "RedriveStateMachine")),
        ("which is no machine", lambda p: _properties(p, "workflow", "DrainStateMachine").update(DefinitionUri="../../statemachines/drian.asl.json")),
    ],
    "machines_are_of_the_kind_they_say": [("Comment says otherwise", lambda p: _properties(p, "workflow", "TakeoverStateMachine").update(Type="EXPRESS"))],
    "environment_names_are_settings": [
        ("FENCEPOST_SHARD is no setting", lambda p: _environment(p).update(FENCEPOST_SHARD="1")),
        ("nobody can set FENCEPOST_SHARDS", lambda p: _without(_environment(p), "FENCEPOST_SHARDS")),
        ("nobody can set FENCEPOST_NEW", lambda p: p.settings.update(FENCEPOST_NEW={"durable": "1", "fast": "1"})),
    ],
    "settings_check_sees_what_the_functions_get": [
        ("differ in FENCEPOST_SHARDS", lambda p: _without(_properties(p, "compute", "SettingsCheck"), "FENCEPOST_SHARDS")),
        ("differ in FENCEPOST_SHARDS", lambda p: _environment(p).update(FENCEPOST_SHARDS=16)),
    ],
    "defaults_are_those_of_the_settings": [("MaxAttempts defaults to 20", lambda p: _setting(p, "FENCEPOST_MAX_ATTEMPTS", "durable", "21"))],
    "functions_wait_for_the_check": [
        ("DrainerFunction does not wait", lambda p: _without(_resources(p, "compute")["DrainerFunction"], "DependsOn")),
        ("keeps its old properties", lambda p: _without(_properties(p, "compute", "LeaseFunction"), "AutoPublishAliasAllProperties")),
        ("keeps its old settings under the alias", lambda p: _without(_properties(p, "compute", "LeaseFunction"), "VersionDescription")),
        ("and releases by them", lambda p: _properties(p, "compute", "LifecycleFunction").update(AutoPublishAlias="live")),
    ],
    "deploy_takes_the_built_template": [
        ("deploy would take", lambda p: p.samconfig["prod"]["deploy"]["parameters"].update(template_file="infra/template.yaml")),
        ("dev.build is cached", lambda p: p.samconfig["dev"]["build"]["parameters"].update(cached=True)),
        ("names no template_file", lambda p: _without(p.samconfig["dev"]["build"]["parameters"], "template_file")),
        ("Profil, which is no parameter", lambda p: p.samconfig["dev"]["deploy"]["parameters"]["parameter_overrides"].append("Profil=fast")),
        ("not allowed", lambda p: p.samconfig["dev"]["deploy"]["parameters"]["parameter_overrides"].append("Profile=slow")),
        ("does not fit", lambda p: p.samconfig["dev"]["deploy"]["parameters"]["parameter_overrides"].append("LeaseTtl=300")),
        ("no environment staging", lambda p: _without(p.samconfig, "staging")),
    ],
    # ---- timing
    "functions_end_before_their_tasks": [
        ("Tick waits 15 s", lambda p: _state(p, "lease_cycle", "Tick", TimeoutSeconds=15)),
        ("DrainPages waits 30 s", lambda p: _state(p, "drain", "DrainPages", TimeoutSeconds=30)),
        ("which may run 75 s", lambda p: p.templates["compute"]["Parameters"]["DrainerLimitSeconds"].update(MaxValue=75)),
    ],
    "tasks_end_before_their_workflow": [
        ("DrainPages may wait longer than an Express", lambda p: _state(p, "drain", "DrainPages", TimeoutSeconds=300)),
        ("Tick may wait longer than the schedule", lambda p: _state(p, "lease_cycle", "Tick", TimeoutSeconds=60)),
    ],
    "schedules_start_each_minute": [
        ("every minute", lambda p: _properties(p, "workflow", "DrainSchedule").update(ScheduleExpression="rate(2 minutes)")),
        ("nothing starts LeaseCycle", lambda p: _without(_resources(p, "workflow"), "LeaseCycleSchedule")),
    ],
    "budgets_fit_the_stale_wait": [
        ("its setting says 30", lambda p: p.templates["compute"]["Mappings"]["Profiles"]["durable"].update(DrainerSeconds=31)),
        ("settled after 14", lambda p: _setting(p, "FENCEPOST_STALE_CLAIM_DURATION", "fast", "14s")),
        ("a page needs", lambda p: _setting(p, "FENCEPOST_CLAIM_BUDGET", "durable", "24s")),
        ("longer than the grace", lambda p: _setting(p, "FENCEPOST_STEP_DOWN_GRACE", "durable", "15s")),
        ("no time for a read", lambda p: p.templates["compute"]["Mappings"]["Profiles"]["durable"].update(LeaseSeconds=5)),
    ],
    "platform_numbers_are_the_protocols": [
        ("MaximumEventAgeInSeconds", lambda p: _properties(p, "compute", "IngestFunction")["EventInvokeConfig"].update(MaximumEventAgeInSeconds=3_600)),
        ("MessageRetentionPeriod", lambda p: _properties(p, "data", "IngestFailuresQueue").update(MessageRetentionPeriod=1_209_600)),
        ("less than six times", lambda p: _properties(p, "data", "IngestFailuresQueue").update(VisibilityTimeout=60)),
        ("not on expires_at", lambda p: _properties(p, "data", "OutboxTable")["TimeToLiveSpecification"].update(AttributeName="expires")),
        ("LeaseTable must have no", lambda p: _properties(p, "data", "LeaseTable").update(TimeToLiveSpecification={"Enabled": True})),
    ],
    "alarm_bounds_follow_the_durations": [
        ("the bound is 320500", lambda p: p.templates["observability"]["Mappings"]["Profiles"]["durable"].update(TakeoverMs=300_000)),
        ("every ordinary failover", lambda p: p.templates["observability"]["Mappings"]["Profiles"]["durable"].update(OldestAgeSeconds=300)),
    ],
    "release_has_time_and_an_end": [
        ("SettingsCheck has no ServiceTimeout", lambda p: _properties(p, "compute", "SettingsCheck").update(ServiceTimeout=75)),
        ("LeaseRelease has no ServiceTimeout", lambda p: _without(_properties(p, "root", "LeaseRelease"), "ServiceTimeout")),
        ("a handover may take", lambda p: _properties(p, "compute", "LifecycleFunction").update(Timeout=30)),
        ("must depend on WorkflowStack", lambda p: _resources(p, "root")["LeaseRelease"].update(DependsOn=["ObservabilityStack"])),
    ],
    "concurrency_is_never_reserved_as_zero": [
        ("reserves no execution", lambda p: _properties(p, "compute", "DrainerFunction").update(ReservedConcurrentExecutions=0)),
        ("may be 0", lambda p: _properties(p, "compute", "LeaseFunction").update(ReservedConcurrentExecutions={"Ref": "LeaseReservedConcurrency"})),
    ],
    # ---- policies
    "actions_are_named_in_full": [
        ("dynamodb:* is a pattern", lambda p: _policy(p, "IngestRole", "StoreMessage").update(Action="dynamodb:*")),
        ("sqs:Get* is a pattern", lambda p: _policy(p, "IngestRole", "FailuresIn")["Action"].append("sqs:Get*")),
    ],
    "resources_are_named_where_they_can_be": [
        ("sqs:SendMessage is allowed on every", lambda p: _policy(p, "DrainerRole", "Send").update(Resource="*")),
        ("is a pattern", lambda p: _policy(p, "DrainerRole", "Send").update(Resource={"Fn::Sub": "arn:aws:sqs:${AWS::Region}:*:*"})),
    ],
    "anybody_is_only_ever_denied": [
        ("allows everybody", lambda p: _properties(p, "data", "IngestQueuesPolicy")["PolicyDocument"]["Statement"][0].update(Effect="Allow")),
    ],
    "function_actions_are_needed": [
        ("nobody knows what needs sqs:PurgeQueue", lambda p: _policy(p, "DrainerRole", "Send").update(Action=["sqs:SendMessage", "sqs:PurgeQueue"])),
        ("nothing in storage calls dynamodb:BatchGetItem", lambda p: p.rust.update({k: v.replace("batch_get_item", "x") for k, v in p.rust.items()})),
    ],
    "tables_are_narrowed_to_partitions": [
        ("on a whole table", lambda p: _without(_policy(p, "DrainerRole", "ReadShards"), "Condition")),
        ("may DeleteItem in lease", lambda p: _policy(p, "LeaseRole", "ReadAndWriteLease")["Action"].append("dynamodb:DeleteItem")),
        ("may not PartiQLDelete in shards", lambda p: _policy(p, "DrainerRole", "Commit").update(Action="dynamodb:PartiQLUpdate")),
        ("not one of that table", lambda p: _policy(p, "DrainerRole", "ReadShards").update(Resource={"Ref": "LeaseTableArn"})),
    ],
    "only_the_deployment_looks_at_tables": [
        ("LeaseRole may look", lambda p: _policy(p, "LeaseRole", "RaiseFence")["Action"].append("dynamodb:DescribeTable")),
        ("other tables", lambda p: _policy(p, "LifecycleRole", "LookAtTables")["Resource"].pop()),
        ("nobody may look", lambda p: _policy(p, "LifecycleRole", "LookAtTables").update(Action="dynamodb:Query")),
    ],
    "only_the_drainer_sends": [("IngestRole may send", lambda p: _policy(p, "IngestRole", "FailuresOut").update(Resource={"Ref": "DestinationQueueArn"}))],
    "queues_take_tls_only": [
        ("without TLS", lambda p: _properties(p, "data", "IngestQueuesPolicy")["PolicyDocument"]["Statement"][0].update(Condition={})),
        ("IngestDeadLetterQueue has no policy", lambda p: _properties(p, "data", "IngestQueuesPolicy")["Queues"].pop()),
        ("DestinationQueue is not encrypted", lambda p: _without(_properties(p, "data", "DestinationQueue"), "SqsManagedSseEnabled")),
    ],
    # ---- watching
    "functions_are_complete": [
        ("DrainerFunction has no log group", lambda p: _without(_properties(p, "compute", "DrainerFunction"), "LoggingConfig")),
        ("LeaseFunction has no alarm on Throttles", lambda p: _without(_resources(p, "compute"), "LeaseThrottlesAlarm")),
        ("IngestFunction fails at goes nowhere", lambda p: _without(_properties(p, "compute", "IngestFunction"), "EventInvokeConfig")),
        ("DrainerFunction fails at goes nowhere", lambda p: _state(p, "drain", "Plan", Catch=[])),
        ("DrainerFunction fails at goes nowhere", lambda p: _state(p, "redrive", "RedriveGroups", Catch=[])),
        ("LifecycleFunction fails at goes nowhere", lambda p: (_without(_resources(p, "compute"), "SettingsCheck"))),
    ],
    "machines_are_complete": [
        ("DrainStateMachine has no log group", lambda p: _without(_properties(p, "workflow", "DrainStateMachine"), "Logging")),
        ("DrainStateMachine is not traced", lambda p: _without(_properties(p, "workflow", "DrainStateMachine"), "Tracing")),
        ("no alarm watches RedriveStateMachine", lambda p: _unwatch(p, "RedriveStateMachineArn")),
    ],
    "logs_end_some_day": [("keeps its logs", lambda p: _without(_properties(p, "workflow", "DrainLogGroup"), "RetentionInDays"))],
    "tables_are_kept": [
        ("OutboxTable goes with the stack", lambda p: _resources(p, "data")["OutboxTable"].update(DeletionPolicy="Delete")),
        ("cannot be restored", lambda p: _without(_properties(p, "data", "GlobalOutboxTable")["Replicas"][1], "PointInTimeRecoverySpecification")),
        ("not protected", lambda p: _without(_properties(p, "data", "LeaseTable"), "DeletionProtectionEnabled")),
        ("not encrypted", lambda p: _without(_properties(p, "data", "LeaseTable"), "SSESpecification")),
        ("eventually consistent", lambda p: _properties(p, "data", "GlobalLeaseTable").update(MultiRegionConsistency="EVENTUAL")),
    ],
    "metrics_are_emitted": [
        ("LeaseHold is no metric", lambda p: _dashboard(p, lambda body: body.replace('"LeaseHeld"', '"LeaseHold"'))),
        ("GroupHasHolders is no metric", lambda p: _properties(p, "observability", "NoHolderAlarm").update(MetricName="GroupHasHolders")),
        ("emitted nowhere", lambda p: _unemit(p, "CommitsFenced")),
        ("Dead is not emitted with the dimensions ['lease']", lambda p: _properties(p, "observability", "DeadAlarm")["Dimensions"].pop()),
        ("is not Fencepost", lambda p: _properties(p, "observability", "DeadAlarm").update(Namespace="fencepost")),
        ("has the dimensions", lambda p: _properties(p, "observability", "IngestDeadLettersAlarm")["Dimensions"][0].update(Name="Queue")),
    ],
    "every_metric_is_shown": [("NewMetric stands neither", lambda p: p.metrics.add("NewMetric"))],
    "alarms_tell_somebody": [
        ("has no AlarmActions", lambda p: _without(_properties(p, "observability", "DeadAlarm"), "AlarmActions")),
        ("missing data means", lambda p: _without(_properties(p, "observability", "DeadAlarm"), "TreatMissingData")),
        ("keeps silent", lambda p: _properties(p, "observability", "NoHolderAlarm").update(TreatMissingData="notBreaching")),
    ],
    "alarms_stand_in_the_composite": [
        ("DeadAlarm does not stand", lambda p: _rule(p, lambda rule: rule.replace("${DeadAlarm}", "${NoHolderAlarm}"))),
        ("IngestErrorsAlarm does not stand", lambda p: _rule(p, lambda rule: rule.replace("${IngestErrorsAlarmName}", "x"))),
    ],
    "alarms_stand_on_the_dashboard": [("DeadAlarm is not on", lambda p: _dashboard(p, lambda body: body.replace("${DeadAlarm.Arn}", "x")))],
    "suppressions_have_reasons": [
        ("CKV_AWS_119 is skipped", lambda p: _resources(p, "data")["LeaseTable"]["Metadata"]["checkov"]["skip"][0].update(comment="")),
        ("CKV_AWS_1 is skipped", lambda p: setattr(p, "checkov", p.checkov + "  - CKV_AWS_1\n")),
    ],
}
