"""What is plugged into what: parameters, outputs, substitutions, settings.

Each check takes a project and returns its findings, one a line; an empty list is a pass."""

import re

from model import references, walk

STACKS = {"DataStack": "data", "ComputeStack": "compute", "WorkflowStack": "workflow", "ObservabilityStack": "observability"}
# Settings that a template rightly leaves alone, with the reason.
UNSET = {"FENCEPOST_ORDERED": "it follows from the queue's URL, which the settings read"}


def parameters_are_described_and_bounded(project):
    findings = []
    for stack, template in project.templates.items():
        for name, parameter in template["Parameters"].items():
            place = f"{stack}: parameter {name}"
            if len(parameter.get("Description", "")) < 5:
                findings.append(f"{place} has no Description")
            if not {"AllowedValues", "AllowedPattern"} & set(parameter) and not {"MinValue", "MaxValue"} <= set(parameter):
                findings.append(f"{place} has neither AllowedValues nor AllowedPattern nor MinValue and MaxValue")
            if "AllowedPattern" in parameter and "ConstraintDescription" not in parameter:
                findings.append(f"{place} has a pattern and no ConstraintDescription: a refusal would not say why")
    return findings


def parameters_are_used(project):
    findings = []
    for stack, template in project.templates.items():
        body = {key: value for key, value in template.items() if key not in ("Parameters", "Metadata")}
        used = references(body)
        findings += [f"{stack}: parameter {name} is not used" for name in template["Parameters"] if name not in used]
    return findings


def parameters_mean_the_same_everywhere(project):
    """A parameter that is only passed on has the rules and the default that the root states."""
    findings = []
    root = project.templates["root"]["Parameters"]
    for application, stack in STACKS.items():
        passed = project.templates["root"]["Resources"][application]["Properties"]["Parameters"]
        for name, parameter in project.templates[stack]["Parameters"].items():
            if passed.get(name) != {"Ref": name} or name not in root:
                continue
            rules = ("Type", "AllowedValues", "AllowedPattern", "MinValue", "MaxValue")
            if any(root[name].get(rule) != parameter.get(rule) for rule in rules):
                findings.append(f"{stack}: parameter {name} has other rules than in the root")
            if "Default" in parameter and parameter["Default"] != root[name].get("Default"):
                findings.append(f"{stack}: parameter {name} has another default than in the root")
    return findings


def stacks_are_plugged_together(project):
    findings = []
    resources = project.templates["root"]["Resources"]
    for application, stack in STACKS.items():
        passed, taken = resources[application]["Properties"]["Parameters"], project.templates[stack]["Parameters"]
        findings += [f"root: {application} passes {name}, which {stack} does not take" for name in set(passed) - set(taken)]
        left = set(taken) - set(passed)
        findings += [f"root: {application} does not pass {name}, so nobody can set it" for name in left]
    for path, value in walk(project.templates["root"]):
        if not isinstance(value, dict) or "Fn::GetAtt" not in value:
            continue
        owner, attribute = value["Fn::GetAtt"]
        if owner in STACKS and attribute.removeprefix("Outputs.") not in project.templates[STACKS[owner]]["Outputs"]:
            findings.append(f"root: {'/'.join(map(str, path))}: {owner} has no output {attribute}")
    return findings


def substitutions_match_the_machines(project):
    findings, deployed = [], set()
    for stack, name, resource in project.resources("AWS::Serverless::StateMachine"):
        properties = resource["Properties"]
        machine = properties["DefinitionUri"].removeprefix("../../statemachines/").removesuffix(".asl.json")
        if machine not in project.machines:
            findings.append(f"{stack}: {name} is defined by {properties['DefinitionUri']}, which is no machine")
            continue
        deployed.add(machine)
        wanted = set(re.findall(r"\$\{([A-Za-z0-9_.]+)\}", project.machines[machine]))
        given = set(properties["DefinitionSubstitutions"])
        findings += [f"{stack}: {name} does not fill in ${{{one}}}" for one in wanted - given]
        findings += [f"{stack}: {name} fills in {one}, which {machine} does not have" for one in given - wanted]
    findings += [f"workflow: the machine {machine} is not deployed" for machine in set(project.machines) - deployed]
    return findings


def machines_are_of_the_kind_they_say(project):
    findings = []
    for stack, name, resource in project.resources("AWS::Serverless::StateMachine"):
        machine = resource["Properties"]["DefinitionUri"].removeprefix("../../statemachines/").removesuffix(".asl.json")
        comment = project.machines.get(machine, "").split('"QueryLanguage"')[0]
        kind = resource["Properties"]["Type"]
        if f" {kind.capitalize()}" not in comment:
            findings.append(f"{stack}: {name} is {kind}; the machine's own Comment says otherwise")
    return findings


def _environment(project):
    return project.templates["compute"]["Globals"]["Function"]["Environment"]["Variables"]


def environment_names_are_settings(project):
    given = set(_environment(project))
    for _, _, resource in project.resources("AWS::Serverless::Function"):
        given |= set(resource["Properties"].get("Environment", {}).get("Variables", {}))
    findings = [f"compute: {name} is no setting; a function would refuse to start" for name in sorted(given - set(project.settings))]
    missing = set(project.settings) - given - set(UNSET)
    return findings + [f"compute: nobody can set {name}" for name in sorted(missing)]


def settings_check_sees_what_the_functions_get(project):
    properties = dict(project.templates["compute"]["Resources"]["SettingsCheck"]["Properties"])
    properties.pop("ServiceToken"), properties.pop("ServiceTimeout")
    environment = _environment(project)
    names = sorted(set(properties) | set(environment))
    return [f"compute: SettingsCheck and the functions differ in {name}" for name in names if properties.get(name) != environment.get(name)]


def defaults_are_those_of_the_settings(project):
    """A default that the template states is the one that the settings have."""
    findings = []
    for name, value in _environment(project).items():
        parameter = value.get("Ref") if isinstance(value, dict) else None
        default = project.templates["compute"]["Parameters"].get(parameter, {}).get("Default")
        if default in (None, "") or name in ("FENCEPOST_LEASE", "FENCEPOST_TOPIC_RULE"):
            continue
        if str(default) != project.settings[name]["durable"]:
            findings.append(f"compute: {parameter} defaults to {default}, {name} to {project.settings[name]['durable']}")
    return findings


def functions_wait_for_the_check(project):
    """No function but the one that checks gets settings that were not checked."""
    findings = []
    for stack, name, resource in project.resources("AWS::Serverless::Function"):
        waits = resource.get("DependsOn", [])
        if name != "LifecycleFunction" and "SettingsCheck" not in ([waits] if isinstance(waits, str) else waits):
            findings.append(f"{stack}: {name} does not wait for SettingsCheck")
        properties = resource["Properties"]
        if name == "LifecycleFunction":
            if "AutoPublishAlias" in properties:
                findings.append(f"{stack}: {name} keeps its old settings under an alias, and releases by them")
            continue
        if properties.get("AutoPublishAliasAllProperties") is not True:
            findings.append(f"{stack}: {name} keeps its old properties under the alias when only a property changes")
        if "${SettingsCheck.SettingsDigest}" not in str(properties.get("VersionDescription")):
            findings.append(f"{stack}: {name} keeps its old settings under the alias when only a parameter changes")
    return findings


def deploy_takes_the_built_template(project):
    findings = []
    for environment, commands in project.samconfig.items():
        if environment == "version":
            continue
        for command, section in commands.items():
            has = "template_file" in section.get("parameters", {})
            if has and command not in ("build", "validate"):
                findings.append(f"samconfig.toml: template_file stands under {environment}.{command}: deploy would take what was not built")
            if not has and command in ("build", "validate"):
                findings.append(f"samconfig.toml: {environment}.{command} names no template_file")
            if section.get("parameters", {}).get("cached"):
                findings.append(f"samconfig.toml: {environment}.{command} is cached: a change outside a function's own folder would not be built")
        for override in commands["deploy"]["parameters"].get("parameter_overrides", []):
            name, _, value = override.partition("=")
            parameter = project.templates["root"]["Parameters"].get(name)
            if parameter is None:
                findings.append(f"samconfig.toml: {environment} sets {name}, which is no parameter")
            elif "AllowedValues" in parameter and value not in map(str, parameter["AllowedValues"]):
                findings.append(f"samconfig.toml: {environment} sets {name} to {value}, which is not allowed")
            elif "AllowedPattern" in parameter and not re.search(parameter["AllowedPattern"], value):
                findings.append(f"samconfig.toml: {environment} sets {name} to {value}, which does not fit its pattern")
    findings += [f"samconfig.toml: there is no environment {name}" for name in ("dev", "staging", "prod") if name not in project.samconfig]
    return findings


CHECKS = [
    parameters_are_described_and_bounded, parameters_are_used, parameters_mean_the_same_everywhere,
    stacks_are_plugged_together, substitutions_match_the_machines, machines_are_of_the_kind_they_say,
    environment_names_are_settings, settings_check_sees_what_the_functions_get, defaults_are_those_of_the_settings,
    functions_wait_for_the_check, deploy_takes_the_built_template,
]
