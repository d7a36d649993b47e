"""What the checks look at: templates, state machines, deployment settings and the parts of the Rust sources that both must
fit, all read from the repository once and handed out as plain values. Nothing here judges."""

import copy
import json
import pathlib
import re
import tomllib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms, which become the long ones."""


def _short_form(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_form)


def parse_template(text):
    """A template with every short form made long."""
    return yaml.load(text, _Loader)


def walk(value, path=()):
    """Every value inside `value`, with its path, outer ones first."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from walk(inner, (*path, index))


def references(value):
    """The names that Ref, GetAtt, Sub and Condition reach for inside `value`; a Sub's own variables are left out."""
    found = set()
    for _, inner in walk(value):
        if not isinstance(inner, dict) or len(inner) != 1:
            continue
        (function, argument), = inner.items()
        if function == "Ref":
            found.add(argument.split(".")[0])
        elif function == "Fn::GetAtt":
            found.add(argument[0])
        elif function == "Fn::Sub":
            text, variables = (argument, {}) if isinstance(argument, str) else argument
            names = {name.split(".")[0] for name in re.findall(r"\$\{([^!}][^}]*)\}", text)}
            found |= names - set(variables)
    return found


def rust_settings(source):
    """The settings table of `rows.rs`: name to defaults by profile (`None` where there is none)."""
    text = r'"((?:[^"\\]|\\.)*)"'
    settings = {}
    plain = re.finditer(rf'setting!\(\s*"(\w+)",\s*{text},\s*DefaultValue::(\w+)(?:\(\s*{text}\s*\)|\s*\{{([^}}]*)\}})?', source)
    for found in plain:
        name, _, kind, value, by_profile = found.groups()
        defaults = {"durable": None, "fast": None}
        if kind == "Value":
            defaults = {"durable": value, "fast": value}
        elif kind == "ByProfile":
            defaults = dict(re.findall(rf"(\w+): {text}", by_profile))
        settings[f"FENCEPOST_{name}"] = defaults
    for found in re.finditer(rf'timing!\(\s*"(\w+)",\s*\w+,\s*{text},\s*{text},\s*{text},', source):
        name, _, durable, fast = found.groups()
        settings[f"FENCEPOST_{name}"] = {"durable": durable, "fast": fast}
    declared = int(re.search(r"static TABLE: \[Setting; (\d+)\]", source).group(1))
    if len(settings) != declared:
        raise ValueError(f"rows.rs declares {declared} settings, {len(settings)} could be read: mend rust_settings")
    return settings


def rust_metrics(source):
    """The metrics that `metric.rs` declares, with their units."""
    block = re.search(r"^metrics! \{\n(.*?)^\}", source, re.DOTALL | re.MULTILINE).group(1)
    return dict(re.findall(r"^    (\w+): (\w+),$", block, re.MULTILINE))


def rust_dimensions(source):
    """The dimension sets that `emf.rs` writes."""
    sets = re.search(r"let dimensions = vec!\[(.*?)\];", source, re.DOTALL).group(1)
    found = [frozenset(re.findall(r'"(\w+)"', inner)) for inner in re.findall(r"vec!\[([^\]]*)\]", sets)]
    return set(found) | ({frozenset()} if "Vec::new()" in sets else set())


def shipped_rust(sources):
    """Rust sources without test files and without the test modules inside the others."""
    shipped = {}
    for path, text in sources.items():
        if not (path.endswith("/tests.rs") or "/tests/" in path or "/conformance/" in path or "/memory/" in path):
            shipped[path] = re.sub(r"#\[cfg\(test\)\]\nmod \w+(;| \{.*)", "", text, flags=re.DOTALL)
    return shipped


def seconds(text):
    """`30s`, `2.5s`, `500ms`, `5m`, `2h`, `5d` in seconds."""
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s|m|h|d)", text).groups()
    return float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}[unit]


class Project:
    """The repository as the checks see it. `twin()` is a copy that a test may break."""

    def __init__(self):
        read = lambda path: (ROOT / path).read_text(encoding="utf-8")
        self.templates = {"root": parse_template(read("infra/template.yaml"))}
        for file in sorted((ROOT / "infra/stacks").glob("*.yaml")):
            self.templates[file.stem] = parse_template(file.read_text(encoding="utf-8"))
        self.machines = {
            file.name.removesuffix(".asl.json"): file.read_text(encoding="utf-8")
            for file in sorted((ROOT / "statemachines").glob("*.asl.json"))
        }
        self.samconfig = tomllib.loads(read("samconfig.toml"))
        self.checkov = read(".config/checkov.yaml")
        self.settings = rust_settings(read("functions/runtime/src/settings/rows.rs"))
        self.metric_units = rust_metrics(read("functions/runtime/src/telemetry/metric.rs"))
        self.metrics = set(self.metric_units)
        emf = read("functions/runtime/src/telemetry/emf.rs")
        self.dimensions = rust_dimensions(emf)
        self.namespace = re.search(r'NAMESPACE: &str = "(\w+)"', emf).group(1)
        self.timing = read("functions/protocol/src/timing.rs")
        self.rust = shipped_rust({
            str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
            for file in sorted((ROOT / "functions").glob("*/src/**/*.rs"))
        })
        self.readme = read("README.md")
        self.infra_readme = read("infra/README.md")

    def twin(self):
        return copy.deepcopy(self)

    def resources(self, *kinds):
        """(stack, logical name, resource) of the given types, in every template."""
        for stack, template in self.templates.items():
            for name, resource in template["Resources"].items():
                if not kinds or resource["Type"] in kinds:
                    yield stack, name, resource

    def states(self, machine):
        """(name, state) of a machine, those inside maps included."""
        def inside(body):
            for name, state in body["States"].items():
                yield name, state
                if "ItemProcessor" in state:
                    yield from inside(state["ItemProcessor"])
        yield from inside(json.loads(self.machines[machine]))

    def profile_number(self, key, profile):
        """A number of the compute stack's profile mapping."""
        return self.templates["compute"]["Mappings"]["Profiles"][profile][key]

    def function_limit(self, function, profile):
        """A function's largest time limit in seconds that the template gives it with this profile's own durations."""
        timeout = self.templates["compute"]["Resources"][function]["Properties"]["Timeout"]
        if isinstance(timeout, int):
            return timeout
        lookup = [inner["Fn::FindInMap"] for _, inner in walk(timeout) if isinstance(inner, dict) and "Fn::FindInMap" in inner]
        return self.profile_number(lookup[0][2], profile)

    def durations(self, profile):
        """The default durations of a profile, in seconds, by setting."""
        found = {name.removeprefix("FENCEPOST_").lower(): value[profile] for name, value in self.settings.items()}
        duration = re.compile(r"[0-9.]+(ms|s|m|h|d)")
        return {name: seconds(value) for name, value in found.items() if value and duration.fullmatch(value)}

    def constant(self, name):
        """A duration constant of the protocol's `timing.rs`, in seconds."""
        product = re.search(rf"const {name}: Duration = Duration::from_secs\(([0-9_ *]+)\);", self.timing).group(1)
        value = 1
        for factor in product.split("*"):
            value *= int(factor.strip().replace("_", ""))
        return value
