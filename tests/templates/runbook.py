"""README's runbook against the alarms: each alarm has its line, each line its alarm, and what the line says of metric, threshold,
time and silence is what the template says. The promises in it are those of README's table of promises."""

import re

from watching import ALARMS

COLUMNS = ["alarm", "promise", "rings", "means", "do"]
OPERATORS = {
    "LessThanThreshold": "<", "LessThanOrEqualToThreshold": "≤", "GreaterThanThreshold": ">", "GreaterThanOrEqualToThreshold": "≥",
}
STATISTICS = {"Maximum": "max", "Minimum": "min", "Sum": "sum", "Average": "average"}
UNITS = {"Milliseconds": " ms", "Seconds": " s"}
# A cell with fewer characters tells nobody what to do.
ADVICE_CHARACTERS_MIN = 20


def rows(project):
    """The lines of README's runbook as (number of the line in its table, cells); the heading's two lines are left out."""
    section = re.search(r"^## Runbook\n(.*?)(?=^## |\Z)", project.readme, re.DOTALL | re.MULTILINE)
    lines = [line for line in (section.group(1) if section else "").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return cells[:1], list(enumerate(cells[2:], start=1))


def _names(cell):
    return re.findall(r"`(\w+)`", cell)


def _alarms(project):
    return {name.removesuffix("Alarm"): (stack, alarm["Properties"]) for stack, name, alarm in project.resources(*ALARMS)}


def alarms_stand_in_the_runbook(project):
    heading, lines = rows(project)
    if heading != [COLUMNS]:
        return [f"README.md: there is no section Runbook with a table of {', '.join(COLUMNS)}"]
    alarms = set(_alarms(project))
    stated = [name for _, cells in lines for name in _names(cells[0])]
    findings = [f"README.md: the runbook has no line for {name}" for name in sorted(alarms - set(stated))]
    findings += [f"README.md: the runbook names {name}, which is no alarm" for name in sorted(set(stated) - alarms)]
    findings += [f"README.md: the runbook names {name} twice" for name in sorted(set(stated)) if stated.count(name) > 1]
    for number, cells in lines:
        if len(cells) != len(COLUMNS):
            findings.append(f"README.md: line {number} of the runbook has {len(cells)} cells")
            continue
        findings += [f"README.md: {cells[0]} does not say what {column} is" for column, cell in zip(COLUMNS, cells) if not cell]
        if len(cells[4]) < ADVICE_CHARACTERS_MIN:
            findings.append(f"README.md: {cells[0]} does not say what to do")
    return findings


def promises_have_alarms(project):
    """A line's promises exist; each promise has a line, or a sentence below the table says that nothing measures it."""
    promises = set(re.findall(r"^\| (P\d+) \|", project.readme, re.MULTILINE))
    _, lines = rows(project)
    watched = {name for _, cells in lines for name in re.findall(r"P\d+", cells[1])}
    said = set(re.findall(r"(P\d+) has no alarm", project.readme))
    findings = [f"README.md: the runbook speaks of {name}, which is not promised" for name in sorted(watched - promises)]
    findings += [f"README.md: nothing watches {name}, and nothing says so" for name in sorted(promises - watched - said)]
    return findings + [f"README.md: says that {name} has no alarm, but it has" for name in sorted(said & watched)]


def runbook_tells_when_alarms_ring(project):
    """The third cell, word by word: `words` below makes it from the template."""
    findings, alarms = [], _alarms(project)
    for _, cells in rows(project)[1]:
        told = [words(project, *alarms[name]) for name in _names(cells[0]) if name in alarms]
        if not told or len(cells) < 3:
            continue
        if len({rest for _, rest in told}) > 1:
            findings.append(f"README.md: {cells[0]} ring at different moments and need lines of their own")
            continue
        metrics = ", ".join(dict.fromkeys(metric for metric, _ in told))
        wanted = f"{metrics} {told[0][1]}".strip()
        if cells[2] != wanted:
            findings.append(f"README.md: {cells[0]} rings: {wanted}; the runbook says: {cells[2]}")
    return findings


def words(project, stack, alarm):
    """When an alarm rings: (its metric, the rest)."""
    if "AlarmRule" in alarm:
        return "any of the others", ""
    metric, statistic, period = _measured(alarm)
    unit = UNITS.get(project.metric_units.get(alarm.get("MetricName")), "")
    threshold = _by_profile(project, stack, alarm["Threshold"], unit)
    evaluated = alarm["EvaluationPeriods"]
    silence = "; silence rings" if alarm["TreatMissingData"] == "breaching" else ""
    return metric, f"{statistic}{OPERATORS[alarm['ComparisonOperator']]} {threshold} {_time(project, stack, alarm, period, evaluated)}{silence}"


def _measured(alarm):
    """(metric, statistic, period in seconds) of a plain alarm or of one that adds metrics up."""
    if "MetricName" in alarm:
        return f"`{alarm['MetricName']}`", f"{STATISTICS[alarm['Statistic']]} ", alarm["Period"]
    parts = [metric["MetricStat"] for metric in alarm["Metrics"] if "MetricStat" in metric]
    names = dict.fromkeys(part["Metric"]["MetricName"] for part in parts)
    (period,), (_,) = {part["Period"] for part in parts}, {part["Stat"] for part in parts}
    return " + ".join(f"`{name}`" for name in names), "", period


def _by_profile(project, stack, value, unit=""):
    """A number; or that of the profile durable, and in brackets what differs: that of fast, the parameter that overrides both."""
    if isinstance(value, int):
        return f"{value}{unit}"
    own = ""
    if "Fn::If" in value:
        _, override, value = value["Fn::If"]
        own = f"; set by `{override['Ref']}`"
    map_name, _, key = value["Fn::FindInMap"]
    durable, fast = (project.templates[stack]["Mappings"][map_name][profile][key] for profile in ("durable", "fast"))
    return f"{durable}{unit} (fast {fast}{own})"


def _time(project, stack, alarm, period, evaluated):
    minutes = f"{period // 60} min" if period < 3_600 else f"{period // 3_600} h"
    if "DatapointsToAlarm" in alarm:
        return f"in {alarm['DatapointsToAlarm']} of {evaluated} min" if period == 60 else f"in {alarm['DatapointsToAlarm']} of {evaluated} × {minutes}"
    if evaluated == 1:
        return f"in {minutes}"
    if isinstance(evaluated, int):
        return f"for {evaluated * period // 60} min"
    return f"for {_by_profile(project, stack, evaluated, ' min')}"


CHECKS = [alarms_stand_in_the_runbook, promises_have_alarms, runbook_tells_when_alarms_ring]
