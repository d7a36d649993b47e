"""infra/README.md's policy review against the templates and the code: each grant of each role has its row, each row its grant, and
each row names a line that exists and makes that call.

The review has two tables. The first says which function of `storage` makes an action's request, and which ports come to it. The
second says, role by role, which function of the role's own code calls such a port; for what no code of ours calls, which resource of a
template or which state of a machine asks for it."""

import re

from policies import CALLS, _as_list

CALL_COLUMNS = ["action", "ports", "made by"]
ROLE_COLUMNS = ["role", "action", "on", "when", "needed by"]
# The functions whose code a role's rows may name.
CRATES = {"IngestRole": "ingest", "LeaseRole": "lease", "LifecycleRole": "lease", "DrainerRole": "drainer"}
# What AWS does for a function or a machine without a line of anybody's.
PLATFORM = {"logs:": "its log", "xray:": "its traces"}
# Actions that come along with another one.
WITH = {"kms:GenerateDataKey": "sqs:SendMessage", "kms:Decrypt": "sqs:SendMessage"}
PORT_CALL = re.compile(r"\b(?:outbox|leases|queue|source|bus|inspection)\s*\.(\w+)\(")
# Resources as the review calls them.
PLACES = {
    "LeaseTableArn": "lease table", "OutboxTableArn": "outbox", "IngestFailuresQueueArn": "queue of failures",
    "DestinationQueueArn": "destination", "DestinationKmsKeyArn": "destination's key", "OutboxStreamArn": "outbox's stream",
    "LeaseFunctionArn": "lease function", "DrainerFunctionArn": "drainer function",
    "LeaseCycleStateMachine": "lease_cycle", "DrainStateMachine": "drain", "TakeoverStateMachine": "takeover",
}
STATE_CALLS = {
    "lambda:InvokeFunction": "arn:aws:states:::lambda:invoke", "events:PutEvents": "arn:aws:states:::events:putEvents",
    "states:StartExecution": "arn:aws:states:::states:startExecution",
}


def tables(project):
    """The review's tables by their headings: lists of rows, each a list of cells."""
    section = re.search(r"^## Policy review\n(.*?)(?=^## |\Z)", project.infra_readme, re.DOTALL | re.MULTILINE)
    found, heading = {}, None
    for line in (section.group(1) if section else "").splitlines():
        if not line.startswith("|"):
            heading = None
            continue
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        if heading is None:
            heading = tuple(cells)
            found[heading] = []
        elif set(line) - set("|- "):
            found[heading].append(cells)
    return found.get(tuple(CALL_COLUMNS), []), found.get(tuple(ROLE_COLUMNS), [])


def _quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


# ---- what the templates grant -------------------------------------------------------------------------------------------


def grants(project):
    """Every (role, action, on, when) of the templates' roles, managed policies included."""
    for _, name, resource in project.resources("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"):
        properties = resource["Properties"]
        documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [properties])]
        for statement, when in (pair for document in documents for pair in _conditional(document["Statement"])):
            for action in _as_list(statement["Action"]):
                for place in _places(statement):
                    yield name, action, place, when


def _conditional(statements):
    for statement in statements:
        if "Fn::If" in statement:
            condition, granted, _ = statement["Fn::If"]
            yield granted, condition
        else:
            yield statement, "always"


def _places(statement):
    keys = [
        key if isinstance(key, str) else key.get("Fn::Sub", "<lease>")
        for condition in statement.get("Condition", {}).values()
        for key in condition.get("dynamodb:LeadingKeys", [])
    ]
    for resource in _as_list(statement["Resource"]):
        place = _place(resource)
        yield from (f"{place} {key.replace('${LeaseName}', '<lease>')}" for key in keys) if keys else [place]


def _place(resource):
    if resource == "*":
        return "*"
    if "Ref" in resource:
        return PLACES.get(resource["Ref"], resource["Ref"])
    if "Fn::GetAtt" in resource:
        return "its log group" if resource["Fn::GetAtt"][0].endswith("LogGroup") else ".".join(resource["Fn::GetAtt"])
    text = resource["Fn::Sub"]
    return "topic rule" if ":rule/" in text else "event bus" if ":event-bus/" in text else text


# ---- the checks ---------------------------------------------------------------------------------------------------------


def stated(project):
    """The review's rows as (role, actions, places, when, needed by)."""
    for row in tables(project)[1]:
        if len(row) == len(ROLE_COLUMNS):
            role, action, place, when, needed = row
            yield _quoted(role), _quoted(action), [one.strip().replace("`", "") for one in place.split(",")], when.strip("`"), needed


def review_lists_exactly_what_is_granted(project):
    rows = list(stated(project))
    if not rows:
        return [f"infra/README.md: there is no section Policy review with a table of {', '.join(ROLE_COLUMNS)}"]
    told = [
        (role, action, place, when)
        for roles, actions, places, when, _ in rows
        for role in roles for action in actions for place in places
    ]
    granted = set(grants(project))
    findings = [f"infra/README.md: {' '.join(grant)} stands in no row" for grant in sorted(granted - set(told))]
    findings += [f"infra/README.md: {' '.join(grant)} is not granted" for grant in sorted(set(told) - granted)]
    return findings + [f"infra/README.md: {' '.join(grant)} stands in two rows" for grant in sorted(set(told)) if told.count(grant) > 1]


def functions_named(text, name):
    """The text of each function of this name in a Rust source, from `fn` to the brace that ends it."""
    for found in re.finditer(rf"^( *)(?:pub(?:\([^)]*\))? )?(?:async )?fn {re.escape(name)}\b", text, re.MULTILINE):
        end = text.find(f"\n{found.group(1)}}}\n", found.end())
        yield text[found.start():end]


def _holds(project, path, function, marker):
    """What is wrong with "`path` `function` holds `marker`"; nothing where it does."""
    source = project.rust.get(f"functions/{path}")
    if source is None:
        return f"there is no file functions/{path}"
    bodies = list(functions_named(source, function))
    if not bodies:
        return f"functions/{path} has no function {function}"
    squeezed = "".join(marker.split())
    return None if any(squeezed in "".join(body.split()) for body in bodies) else f"{function} in functions/{path} does not call {marker}"


def review_names_the_lines_of_storage(project):
    """The first table: every action that code of ours takes, the function that makes the request, and every port."""
    findings, ports = [], set()
    for row in tables(project)[0]:
        if [len(_quoted(cell)) for cell in row[::2]] != [1, 2]:
            findings.append(f"infra/README.md: {row[0]}: a row is one action, its ports, and a file with a function")
            continue
        (action,), (path, function) = _quoted(row[0]), _quoted(row[2])
        ports |= set(_quoted(row[1]))
        if action not in CALLS:
            findings.append(f"infra/README.md: {action} is no call of ours")
        elif wrong := _holds(project, path, function, CALLS[action]):
            findings.append(f"infra/README.md: {action}: {wrong}")
    missing = set(CALLS) - {name for row in tables(project)[0] for name in _quoted(row[0])}
    findings += [f"infra/README.md: the review does not say who makes {action}" for action in sorted(missing)]
    declared = _declared(project, "ports", "inspection")
    findings += [f"infra/README.md: the port {name} stands at no action" for name in sorted(declared - ports)]
    return findings + [f"infra/README.md: there is no port {name}" for name in sorted(ports - declared)]


def review_names_the_lines_that_need_it(project):
    """The second table's last column."""
    ports_of = {name: set(_quoted(row[1])) for row in tables(project)[0] for name in _quoted(row[0])}
    findings = []
    for roles, actions, _, _, needed in stated(project):
        for role in roles:
            for action in actions:
                ports = ports_of.get(WITH.get(action, action))
                findings += [f"infra/README.md: {role} {action}: {wrong}" for wrong in _unneeded(project, role, action, needed, ports)]
    return findings


def _unneeded(project, role, action, needed, ports):
    platform = next((words for prefix, words in PLATFORM.items() if action.startswith(prefix)), None)
    if platform:
        if platform not in needed:
            yield f"it is {platform}, the row says {needed}"
        return
    reasons = [reason.strip() for reason in needed.split(";")]
    for reason in reasons:
        file, *names = _quoted(reason) or [""]
        if "←" in reason and role in CRATES:
            yield from _uncalled(project, CRATES[role], reason, ports or set())
        elif file.endswith(".yaml"):
            resources = project.templates.get(file.removesuffix(".yaml"), {}).get("Resources", {})
            yield from (f"there is no {name} in {file}" for name in names if name not in resources)
        elif file.endswith(".asl.json"):
            yield from _unstated(project, file.removesuffix(".asl.json"), names, action)
        else:
            yield f"{reason!r} names no line of code, of a template or of a machine"


def _uncalled(project, crate, reason, ports):
    try:
        port, path, *functions = _quoted(reason)
    except ValueError:
        yield f"{reason!r} is not: port ← file function"
        return
    if port not in ports:
        yield f"the port {port} does not come to that action"
    if not path.startswith(f"{crate}/src/"):
        yield f"{path} is not code of {crate}"
    for function in functions:
        if wrong := _holds(project, path, function, f".{port}("):
            yield wrong


def _unstated(project, machine, names, action):
    states = dict(project.states(machine)) if machine in project.machines else {}
    for name in names:
        if name not in states:
            yield f"there is no state {name} in {machine}"
        elif not str(states[name].get("Resource", "")).endswith(STATE_CALLS[action]):
            yield f"the state {name} of {machine} is {states[name].get('Resource')}"


def review_knows_every_call(project):
    """The other way round: a handler's call of a port stands in a row of its role, and so does a machine's task."""
    findings = [
        f"infra/README.md: no row names the state {name} of {machine}"
        for machine in project.machines
        for name, state in project.states(machine)
        if state["Type"] == "Task" and not any(f"`{machine}.asl.json`" in needed and f"`{name}`" in needed for *_, needed in stated(project))
    ]
    for role, crate in CRATES.items():
        needs = [needed for roles, *_, needed in stated(project) if role in roles]
        told = {found for needed in needs for found in re.findall(r"`(\w+)` ← `([\w/.]+)`", needed)}
        for path, text in project.rust.items():
            if path.startswith(f"functions/{crate}/src/"):
                short = path.removeprefix("functions/")
                calls = set(PORT_CALL.findall(text)) & _answerable(project, role)
                findings += [f"infra/README.md: {role}: no row names {port} ← {short}" for port in sorted(calls) if (port, short) not in told]
    return findings


def _answerable(project, role):
    """The ports whose every call in the role's crate the role's own rows must name. Two roles share the lease function's code: the
    lifecycle function alone looks at tables; of all other calls it makes a part, and the lease function makes each."""
    rooms = {"LeaseRole": ["ports"], "LifecycleRole": ["inspection"]}
    return _declared(project, *rooms.get(role, ["ports", "inspection"]))


def _declared(project, *rooms):
    return {port for room in rooms for port in re.findall(r"async fn (\w+)", project.rust[f"functions/storage/src/{room}.rs"])}


CHECKS = [
    review_lists_exactly_what_is_granted, review_names_the_lines_of_storage, review_names_the_lines_that_need_it,
    review_knows_every_call,
]
