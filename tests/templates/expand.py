"""Writes every template as CloudFormation will see it after the SAM transform: `expand.py FOLDER`.

A template that is right before it may be wrong after it: a role that nobody gets, an alias that does not exist, a circle. The
transform runs with each parameter's default, its first allowed value or a sample. Run by aws-sam-cli's Python, which brings
the transform."""

import json
import pathlib
import re
import sys

import boto3
from samtranslator.parser import parser
from samtranslator.translator.translator import Translator

from model import ROOT, parse_template

# What the other stacks would hand over.
SAMPLES = [
    "arn:aws:sqs:eu-central-1:123456789012:sample",
    "arn:aws:lambda:eu-central-1:123456789012:function:sample:live",
    "arn:aws:dynamodb:eu-central-1:123456789012:table/sample",
    "arn:aws:states:eu-central-1:123456789012:stateMachine:sample",
    "arn:aws:cloudformation:eu-central-1:123456789012:stack/sample/5b918d10",
    "https://sqs.eu-central-1.amazonaws.com/123456789012/sample",
    "sample",
]


def _value(name, parameter):
    if "Default" in parameter:
        return parameter["Default"]
    fitting = [one for one in SAMPLES if re.search(parameter["AllowedPattern"], one)]
    if not fitting:
        raise ValueError(f"parameter {name}: no sample fits {parameter['AllowedPattern']}; add one")
    # A pattern that takes anything takes a plain name.
    return fitting[-1] if "sample" in fitting else fitting[0]


def main(folder):
    session = boto3.session.Session(region_name="eu-central-1")
    for file in [ROOT / "infra/template.yaml", *sorted((ROOT / "infra/stacks").glob("*.yaml"))]:
        template = parse_template(file.read_text(encoding="utf-8"))
        values = {name: _value(name, parameter) for name, parameter in template["Parameters"].items()}
        for resource in template["Resources"].values():
            _stand_in_for_what_is_packaged(resource)
        expanded = Translator({}, parser.Parser(), boto_session=session).translate(template, values)
        (pathlib.Path(folder) / f"{file.stem}.json").write_text(json.dumps(expanded, indent=1), encoding="utf-8")


def _stand_in_for_what_is_packaged(resource):
    """`sam package` puts these into a bucket first."""
    properties = resource.get("Properties", {})
    for name, value in (("CodeUri", "s3://bucket/code"), ("DefinitionUri", "s3://bucket/definition"), ("Location", "https://s3.amazonaws.com/bucket/x")):
        if name in properties:
            properties[name] = value


if __name__ == "__main__":
    main(sys.argv[1])
