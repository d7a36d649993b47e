"""What CloudFormation itself refuses of a root stack's parameters, by their patterns, bounds and the template's Rules: read out
of the template and evaluated here as the service does, before anything is made. What passes here is still checked by
SettingsCheck (the emulator suite shows that)."""

import re


def refusals(template, values):
    """Why these parameters are refused, each in the template's own words; empty where they pass."""
    parameters = template["Parameters"]
    unknown = [f"{name} is no parameter" for name in values if name not in parameters]
    if unknown:
        return unknown
    given = {name: str(values.get(name, parameter.get("Default", ""))) for name, parameter in parameters.items()}
    found = [
        f"{name}: {parameters[name].get('ConstraintDescription', words)}"
        for name, value in given.items()
        if (words := _unfit(parameters[name], value))
    ]
    for rule in template.get("Rules", {}).values():
        if "RuleCondition" in rule and not _holds(rule["RuleCondition"], given):
            continue
        found += [one["AssertDescription"] for one in rule["Assertions"] if not _holds(one["Assert"], given)]
    return found


def _unfit(parameter, value):
    allowed = parameter.get("AllowedValues")
    if allowed is not None and value not in [str(one) for one in allowed]:
        return f"it is one of {allowed}"
    if parameter["Type"] == "Number":
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
            return "it is a number"
        number = float(value)
        if number < parameter.get("MinValue", number) or number > parameter.get("MaxValue", number):
            return f"it is {parameter.get('MinValue')} to {parameter.get('MaxValue')}"
    if "AllowedPattern" in parameter and not re.search(f"^(?:{parameter['AllowedPattern']})$", value):
        return f"it has the form {parameter['AllowedPattern']}"
    return None


def _holds(condition, given):
    (function, argument), = condition.items()
    match function:
        case "Fn::Equals":
            return _value(argument[0], given) == _value(argument[1], given)
        case "Fn::Not":
            return not _holds(argument[0], given)
        case "Fn::And":
            return all(_holds(one, given) for one in argument)
        case "Fn::Or":
            return any(_holds(one, given) for one in argument)
        case _:
            raise ValueError(f"{function} is not evaluated here yet")


def _value(value, given):
    return given[value["Ref"]] if isinstance(value, dict) else str(value)
