"""The same for the checks of README's runbook and of infra/README.md's policy review; see `breaks`."""

import json

from breaks import _policy, _properties, _state, _without


def _readme(old, new):
    return lambda project: setattr(project, "readme", _replaced(project.readme, old, new))


def _review(old, new):
    return lambda project: setattr(project, "infra_readme", _replaced(project.infra_readme, old, new))


def _replaced(text, old, new):
    if old not in text:
        raise ValueError(f"{old!r} does not stand there: mend the break")
    return text.replace(old, new)


def _line(text, beginning):
    """The whole line that begins so."""
    return next(line for line in text.splitlines(keepends=True) if line.startswith(beginning))


def _without_row(beginning):
    return lambda project: setattr(project, "infra_readme", project.infra_readme.replace(_line(project.infra_readme, beginning), ""))


def _rust(path, old, new):
    def change(project):
        project.rust[path] = _replaced(project.rust[path], old, new)
    return change


def _alarm(name, **changes):
    return lambda project: _properties(project, "observability", name).update(changes)


def _mapping(**changes):
    return lambda project: project.templates["observability"]["Mappings"]["Profiles"]["fast"].update(changes)


DRAINER = "functions/drainer/src/page.rs"

BREAKS = {
    # ---- the runbook
    "alarms_stand_in_the_runbook": [
        ("no section Runbook", _readme("## Runbook", "## Alarms")),
        ("no line for Dead", lambda p: setattr(p, "readme", p.readme.replace(_line(p.readme, "| `Dead` |"), ""))),
        ("no line for Ringing", lambda p: p.templates["observability"]["Resources"].update(RingingAlarm={"Type": "AWS::CloudWatch::Alarm", "Properties": {}})),
        ("names Ghost, which is no alarm", _readme("| `Dead` |", "| `Ghost` |")),
        ("names Dead twice", lambda p: setattr(p, "readme", p.readme.replace(_line(p.readme, "| `Dead` |"), 2 * _line(p.readme, "| `Dead` |")))),
        ("`Dead` does not say what to do", lambda p: setattr(p, "readme", p.readme.replace(_line(p.readme, "| `Dead` |"), "| `Dead` | P1 | x | x | wait |\n"))),
        ("has 4 cells", lambda p: setattr(p, "readme", p.readme.replace(_line(p.readme, "| `Dead` |"), "| `Dead` | P1 | x | x |\n"))),
    ],
    "promises_have_alarms": [
        ("speaks of P9", _readme("| `Dead` | P1 |", "| `Dead` | P9 |")),
        ("nothing watches P5", _readme("P5 has no alarm", "P5 is different")),
        ("says that P4 has no alarm", _readme("P5 has no alarm", "P5 has no alarm, and P4 has no alarm")),
    ],
    "runbook_tells_when_alarms_ring": [
        ("`Dead` rings: `Dead` sum ≥ 2 in 5 min", _alarm("DeadAlarm", Threshold=2)),
        ("`Dead` rings: `Dead` sum > 1", _alarm("DeadAlarm", ComparisonOperator="GreaterThanThreshold")),
        ("`Dead` rings: `Dead` max", _alarm("DeadAlarm", Statistic="Maximum")),
        ("`Dead` rings: `Held` sum", _alarm("DeadAlarm", MetricName="Held")),
        ("in 1 min", _alarm("DeadAlarm", Period=60)),
        ("; silence rings", _alarm("DeadAlarm", TreatMissingData="breaching")),
        ("for 20 min", _alarm("IngestFailuresDepthAlarm", EvaluationPeriods=4)),
        ("(fast 20000; set by `TakeoverAlarmMs`)", _mapping(TakeoverMs=20_000)),
        ("for 3 min (fast 1)", _mapping(NoHolderMinutes=1)),
        ("in 2 of 5 min", lambda p: [_properties(p, "compute", f"Ingest{kind}Alarm").update(DatapointsToAlarm=2) for kind in ("Errors", "Throttles")]),
        ("need lines of their own", lambda p: _properties(p, "compute", "IngestThrottlesAlarm").update(Threshold=5)),
        ("`ExecutionsFailed` ≥ 1", lambda p: _properties(p, "observability", "TakeoverFailuresAlarm")["Metrics"].pop()),
        ("rings: any of the others", _readme("| any of the others |", "| two of the others |")),
        ("the runbook says", _readme("`RenewFailures` sum ≥ 3", "`RenewFailures` sum ≥ 5")),
    ],
    # ---- the policy review
    "review_lists_exactly_what_is_granted": [
        ("no section Policy review", _review("## Policy review", "## Roles")),
        ("DrainerRole sqs:PurgeQueue destination always stands in no row", lambda p: _policy(p, "DrainerRole", "Send").update(Action=["sqs:SendMessage", "sqs:PurgeQueue"])),
        ("DrainerRole sqs:SendMessage destination always is not granted", lambda p: _policy(p, "DrainerRole", "Send").update(Action="sqs:DeleteMessage")),
        ("outbox dead#<lease>#* always is not granted", lambda p: _policy(p, "DrainerRole", "ReadShards")["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].pop()),
        ("StepDownRole lambda:InvokeFunction drainer function always stands in no row", lambda p: _policy(p, "StepDownRole", "Invoke", "workflow").update(Resource={"Ref": "DrainerFunctionArn"})),
        ("IngestRole dynamodb:PartiQLInsert outbox <lease>#* always is not granted", _review("outbox `<lease>#*` | `Batched` | `put_many`", "outbox `<lease>#*` | always | `put_many`")),
        ("WatchedPolicy logs:GetLogDelivery * always stands in no row", _review("`logs:GetLogDelivery`, ", "")),
        ("stands in two rows", lambda p: setattr(p, "infra_readme", p.infra_readme.replace(_line(p.infra_readme, "| `DrainRole` |"), 2 * _line(p.infra_readme, "| `DrainRole` |")))),
    ],
    "review_names_the_lines_of_storage": [
        ("does not say who makes dynamodb:Query", _without_row("| `dynamodb:Query` |")),
        ("the port dead_page stands at no action", _review("`page`, `dead_page`", "`page`")),
        ("there is no port peek", _review("`page`, `dead_page`", "`page`, `dead_page`, `peek`")),
        ("get in functions/storage/src/dynamodb/table.rs does not call .get_item()", _rust("functions/storage/src/dynamodb/table.rs", ".get_item()", ".find_item()")),
        ("has no function fetch", _review("`storage/src/dynamodb/table.rs` `get`", "`storage/src/dynamodb/table.rs` `fetch`")),
        ("there is no file functions/storage/src/dynamodb/tables.rs", _review("`storage/src/dynamodb/table.rs` `get`", "`storage/src/dynamodb/tables.rs` `get`")),
        ("sqs:Purge is no call of ours", _review("| `sqs:SendMessage` | `send` |", "| `sqs:Purge` | `send` |")),
        ("a row is one action", _review("`storage/src/dynamodb/table.rs` `get` |", "`storage/src/dynamodb/table.rs` |")),
    ],
    "review_names_the_lines_that_need_it": [
        ("send_wave in functions/drainer/src/page.rs does not call .send(", _rust(DRAINER, "self.queue.send(", "self.queue.push(")),
        ("functions/drainer/src/page.rs has no function send_wave", _rust(DRAINER, "fn send_wave(", "fn send_batches(")),
        ("there is no file functions/ingest/src/stamps.rs", _review("`ingest/src/stamp.rs`", "`ingest/src/stamps.rs`")),
        ("lease/src/tick.rs is not code of ingest", _review("`read_lease` ← `ingest/src/stamp.rs` `stamp`", "`read_lease` ← `lease/src/tick.rs` `verify`")),
        ("the port page does not come to that action", _review("`send` ← `drainer/src/page.rs` `send_wave`", "`page` ← `drainer/src/page.rs` `send_wave`")),
        ("is not: port ←", _review("`send` ← `drainer/src/page.rs` `send_wave`", "`send` ← whatever sends")),
        ("there is no DrainerWakeUp in compute.yaml", lambda p: _without(p.templates["compute"]["Resources"], "DrainerWakeUp")),
        ("there is no state Plans in drain", _review("`drain.asl.json` `Plan`", "`drain.asl.json` `Plans`")),
        ("the state StartTakeover of lease_cycle is arn:aws:states:::lambda:invoke", lambda p: _state(p, "lease_cycle", "StartTakeover", Resource="arn:aws:states:::lambda:invoke")),
        ("names no line of code", _review("`compute.yaml` `TopicRule`, its error action", "the rule")),
        ("it is its log", _review("| its log group | always | its log |", "| its log group | always | somebody |")),
    ],
    "review_knows_every_call": [
        ("DrainerRole: no row names raise_fence ← drainer/src/page.rs", _rust(DRAINER, "self.queue.send(", "self.outbox.raise_fence(")),
        ("LifecycleRole: no row names inspect ← lease/src/tick.rs", _rust("functions/lease/src/tick.rs", "self.leases.read_lease(", "self.inspection.inspect(")),
        # The lifecycle's row, which names the same line, does not speak for the lease function.
        ("LeaseRole: no row names page ← lease/src/reads.rs", lambda p: _not_granted(p, "LeaseRole", "LookForClaimsInFlight", "| `LeaseRole` | `dynamodb:Query` | outbox `<lease>#*` |")),
        ("no row names the state Extra of redrive", lambda p: _with_state(p, "redrive", "Extra")),
        ("IngestRole: no row names read_lease ← ingest/src/stamp.rs", _without_row("| `IngestRole` | `dynamodb:GetItem` |")),
    ],
}


def _not_granted(project, role, sid, row):
    """Neither the template grants it nor has the review its row."""
    statements = _properties(project, "compute", role)["Policies"][0]["PolicyDocument"]["Statement"]
    statements.remove(_policy(project, role, sid))
    _without_row(row)(project)


def _with_state(project, machine, name):
    definition = json.loads(project.machines[machine])
    definition["States"][name] = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke"}
    project.machines[machine] = json.dumps(definition)
