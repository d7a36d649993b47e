"""Who may do what: no action by pattern, no resource by pattern where AWS has another form, and no action that no line of
code needs."""

from model import walk

# Actions for which AWS has no other resource than `*`.
WITHOUT_RESOURCE = {
    "xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets",
    "logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery",
    "logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups",
    "dynamodb:ListStreams",
}
# What a function's own code calls, as it stands in the sources of `storage`.
CALLS = {
    "dynamodb:GetItem": ".get_item()", "dynamodb:Query": ".query()", "dynamodb:BatchGetItem": ".batch_get_item()",
    "dynamodb:PutItem": ".put_item()", "dynamodb:UpdateItem": ".update_item()", "dynamodb:DeleteItem": ".delete_item()",
    "dynamodb:PartiQLInsert": "INSERT INTO", "dynamodb:PartiQLUpdate": "UPDATE \\\"", "dynamodb:PartiQLDelete": "DELETE FROM",
    "sqs:SendMessage": ".send_message_batch()",
    "events:PutEvents": ".put_events()",
    "iot:GetTopicRule": ".get_topic_rule()", "iot:EnableTopicRule": ".enable_topic_rule()", "iot:DisableTopicRule": ".disable_topic_rule()",
}
# Actions that the platform takes for a function, by what makes it do so.
PLATFORM = {
    "sqs:ReceiveMessage": "an event source mapping", "sqs:DeleteMessage": "an event source mapping",
    "sqs:GetQueueAttributes": "an event source mapping", "dynamodb:DescribeStream": "an event source mapping",
    "dynamodb:GetRecords": "an event source mapping", "dynamodb:GetShardIterator": "an event source mapping",
    "dynamodb:ListStreams": "an event source mapping", "logs:CreateLogStream": "the runtime's log",
    "logs:PutLogEvents": "the runtime's log", "xray:PutTraceSegments": "the runtime's traces",
    "xray:PutTelemetryRecords": "the runtime's traces", "kms:GenerateDataKey": "an encrypted destination",
    "kms:Decrypt": "an encrypted destination",
}
# What asks of a table itself, which has no partitions to narrow it by.
WHOLE_TABLE = {"dynamodb:DescribeTable": ".describe_table()", "dynamodb:DescribeTimeToLive": ".describe_time_to_live()"}
TABLE_ACTIONS = {action for action in CALLS if action.startswith("dynamodb:")}
CALLS |= WHOLE_TABLE
# What each function may do to which partitions: the outbox's shards, its dead rows, its tombstones, its fence, and the lease.
MAY = {
    "IngestRole": {("lease", "GetItem"), ("shards", "PutItem"), ("shards", "PartiQLInsert")},
    "LeaseRole": {
        ("lease", "Query"), ("lease", "GetItem"), ("lease", "UpdateItem"), ("fence", "GetItem"), ("fence", "UpdateItem"), ("shards", "Query"),
    },
    "LifecycleRole": {("lease", "Query"), ("lease", "UpdateItem"), ("shards", "Query")},
    "DrainerRole": {
        ("lease", "GetItem"), ("shards", "Query"), ("dead", "Query"), ("shards", "GetItem"), ("shards", "PutItem"), ("dead", "PutItem"),
        ("shards", "DeleteItem"), ("dead", "DeleteItem"), ("sent", "BatchGetItem"), ("shards", "PartiQLUpdate"), ("shards", "PartiQLDelete"),
        ("sent", "PartiQLInsert"), ("sent", "PartiQLUpdate"), ("shards", "UpdateItem"), ("sent", "PutItem"), ("sent", "UpdateItem"),
    },
}


def _as_list(value):
    return value if isinstance(value, list) else [value]


def _branches(statements):
    """The statements of a policy; of a conditional one both branches."""
    for statement in statements:
        if "Fn::If" in statement:
            yield from _branches([branch for branch in statement["Fn::If"][1:] if "Ref" not in branch])
        else:
            yield statement


def statements(project):
    """(stack, resource's name, statement) of every policy, trust and queue policies included."""
    for stack, name, resource in project.resources():
        for _, value in walk(resource.get("Properties", {})):
            if isinstance(value, dict) and isinstance(value.get("Statement"), list):
                for statement in _branches(value["Statement"]):
                    yield stack, name, statement


def actions_are_named_in_full(project):
    return [
        f"{stack}: {name}: the action {action} is a pattern"
        for stack, name, statement in statements(project)
        for action in _as_list(statement.get("Action", [])) + _as_list(statement.get("NotAction", []))
        if "*" in action or "?" in action or "NotAction" in statement
    ]


def resources_are_named_where_they_can_be(project):
    findings = []
    for stack, name, statement in statements(project):
        for resource in _as_list(statement.get("Resource", [])):
            text = resource if isinstance(resource, str) else str(resource.get("Fn::Sub", ""))
            if text == "*":
                narrowable = [action for action in _as_list(statement["Action"]) if action not in WITHOUT_RESOURCE]
                findings += [f"{stack}: {name}: {action} is allowed on every resource" for action in narrowable]
            elif "*" in text:
                findings.append(f"{stack}: {name}: the resource {text} is a pattern")
    return findings


def anybody_is_only_ever_denied(project):
    return [
        f"{stack}: {name}: a statement allows everybody"
        for stack, name, statement in statements(project)
        if statement.get("Principal") in ("*", {"AWS": "*"}) and statement["Effect"] != "Deny"
    ]


def function_actions_are_needed(project):
    """Every action of a function's role is a call in the code or an act of the platform."""
    storage = "\n".join(text for path, text in project.rust.items() if path.startswith("functions/storage/"))
    squeezed = "".join(storage.split())
    findings = []
    for stack, name, statement in statements(project):
        if name not in MAY or "Principal" in statement:
            continue
        for action in _as_list(statement["Action"]):
            if action in CALLS:
                if "".join(CALLS[action].split()) not in squeezed:
                    findings.append(f"{stack}: {name}: nothing in storage calls {action}")
            elif action not in PLATFORM:
                findings.append(f"{stack}: {name}: nobody knows what needs {action}")
    return findings


def _partition(key):
    text = key if isinstance(key, str) else key.get("Fn::Sub", "lease" if key == {"Ref": "LeaseName"} else "?")
    return {"${LeaseName}#*": "shards", "dead#${LeaseName}#*": "dead", "sent#*": "sent", "fence#${LeaseName}": "fence"}.get(text, text)


def tables_are_narrowed_to_partitions(project):
    """Exactly the calls that a function makes, each on the partitions that it makes them on."""
    findings, seen = [], {name: set() for name in MAY}
    for stack, name, statement in statements(project):
        actions = [action for action in _as_list(statement.get("Action", [])) if action in TABLE_ACTIONS]
        if not actions:
            continue
        keys = [
            key
            for operator, condition in statement.get("Condition", {}).items()
            if operator.startswith("ForAllValues:String")
            for key in condition.get("dynamodb:LeadingKeys", [])
        ]
        if not keys:
            findings.append(f"{stack}: {name}: {', '.join(actions)} on a whole table: narrow it by dynamodb:LeadingKeys")
        of_lease_table = statement["Resource"] == {"Ref": "LeaseTableArn"}
        for key in map(_partition, keys):
            if of_lease_table != (key == "lease"):
                findings.append(f"{stack}: {name}: the partition {key} is not one of that table")
            seen.setdefault(name, set()).update((key, action.removeprefix("dynamodb:")) for action in actions)
    for name, granted in seen.items():
        findings += [f"{name}: may {action} in {key}, which it never does" for key, action in sorted(granted - MAY.get(name, set()))]
        findings += [f"{name}: may not {action} in {key}, which it does" for key, action in sorted(MAY.get(name, set()) - granted)]
    return findings


def only_the_deployment_looks_at_tables(project):
    """Who looks at the tables themselves is the function that checks a stack, at these two and no others."""
    findings, looks = [], 0
    for stack, name, statement in statements(project):
        if not WHOLE_TABLE.keys() & set(_as_list(statement.get("Action", []))):
            continue
        looks += 1
        if name != "LifecycleRole":
            findings.append(f"{stack}: {name} may look at tables, which it never does")
        if statement["Resource"] != [{"Ref": "LeaseTableArn"}, {"Ref": "OutboxTableArn"}]:
            findings.append(f"{stack}: {name} looks at other tables than the two")
    return findings if looks else ["compute: nobody may look at the tables before they are used"]


def only_the_drainer_sends(project):
    return [
        f"{stack}: {name} may send to the destination"
        for stack, name, statement in statements(project)
        if statement.get("Resource") == {"Ref": "DestinationQueueArn"} and name != "DrainerRole"
    ]


def queues_take_tls_only(project):
    findings = []
    for stack, policy_stack_name, policy in project.resources("AWS::SQS::QueuePolicy"):
        denied = [
            statement for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Deny" and statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
        ]
        if not denied:
            findings.append(f"{stack}: {policy_stack_name} does not refuse what comes without TLS")
    covered = {queue["Ref"] for _, _, policy in project.resources("AWS::SQS::QueuePolicy") for queue in policy["Properties"]["Queues"]}
    for stack, name, queue in project.resources("AWS::SQS::Queue"):
        if name not in covered:
            findings.append(f"{stack}: {name} has no policy")
        if queue["Properties"].get("SqsManagedSseEnabled") is not True:
            findings.append(f"{stack}: {name} is not encrypted")
    return findings


CHECKS = [
    actions_are_named_in_full, resources_are_named_where_they_can_be, anybody_is_only_ever_denied, function_actions_are_needed,
    tables_are_narrowed_to_partitions, only_the_deployment_looks_at_tables, only_the_drainer_sends, queues_take_tls_only,
]
