"""From the repository's templates to stacks in the emulator.

The templates are those that a user deploys: `sam build`'s output, or infra/ with binaries of one's own. They are expanded by
the SAM transform itself. Where the emulator knows less than CloudFormation, the expanded template is changed, and every
change is written down in `Deployment.changes`, which the run prints: what was left out was not tested."""

import contextlib
import hashlib
import io
import json
import logging
import os
import pathlib
import threading
import time
import zipfile

import boto3
from samtranslator.parser import parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

from emulator import Emulator

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The transform tells of its own metrics, which nobody reads here.
logging.getLogger("samtranslator").setLevel(logging.CRITICAL)
LEFT_OUT = "left-out-in-the-emulator"


class DeploymentFailed(Exception):
    """A stack that did not come about; the message holds every reason that its events name."""


class Deployment:
    """Packages and deploys stacks. `endpoints` are further environment variables of a function, by its logical name."""

    def __init__(self, emulator: Emulator, bootstraps: pathlib.Path | None, endpoints: dict) -> None:
        self.emulator = emulator
        self.bootstraps = bootstraps
        self.endpoints = endpoints
        self.changes: set[str] = set()
        # Breaks a template on purpose: called with the nested stack's name ("" for the root) and its expanded template.
        self.spoil = None
        self._zips: dict[pathlib.Path, bytes] = {}
        # The time to live of tables, by their logical names.
        self._expiring: dict[str, dict] = {}
        self.root = ROOT / ("infra/template.yaml" if bootstraps else ".aws-sam/build/template.yaml")
        if not self.root.is_file():
            raise FileNotFoundError(f"{self.root.relative_to(ROOT)} is missing: run `sam build`, or give --bootstraps DIR")

    # ---- stacks -----------------------------------------------------------------------------------------------------

    def create(self, region: str, name: str, values: dict, seconds: float = 120) -> dict:
        """Creates a stack and waits for it; its outputs."""
        url = self._package(region, self.root, values)
        parameters = [{"ParameterKey": key, "ParameterValue": str(value)} for key, value in values.items()]
        with self._expiry(region):
            self.emulator.client("cloudformation", region).create_stack(
                StackName=name, TemplateURL=url, Parameters=parameters,
                Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            )
            return self._finish(region, name, "CREATE_COMPLETE", seconds)

    @contextlib.contextmanager
    def _expiry(self, region: str):
        """Switches time to live on for new tables whose template says so: the emulator's CloudFormation passes over it. In
        time, for the functions that look at it come after the tables."""
        client, over, seen = self.emulator.client("dynamodb", region), threading.Event(), set()
        seen.update(client.list_tables()["TableNames"])

        def switch() -> None:
            while not over.wait(0.05):
                for table in client.list_tables()["TableNames"]:
                    for resource, specification in self._expiring.items():
                        if table not in seen and f"-{resource}-" in table:
                            client.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
                    seen.add(table)

        thread = threading.Thread(target=switch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def update(self, region: str, name: str, changed: dict, seconds: float = 120) -> None:
        """Updates the nested stacks that have one of these parameters, and waits for each.

        Not the root: when the emulator updates a nested stack from there, it forgets the attributes of its unchanged
        resources, and every GetAtt fails. A nested stack that is updated by itself is updated properly."""
        client = self.emulator.client("cloudformation", region)
        for resource in client.describe_stack_resources(StackName=name)["StackResources"]:
            if resource["ResourceType"] != "AWS::CloudFormation::Stack":
                continue
            nested = resource["PhysicalResourceId"]
            given = client.describe_stacks(StackName=nested)["Stacks"][0].get("Parameters", [])
            names = [one["ParameterKey"] for one in given]
            if not set(names) & set(changed):
                continue
            parameters = [
                {"ParameterKey": key, "ParameterValue": str(changed[key])} if key in changed
                else {"ParameterKey": key, "UsePreviousValue": True}
                for key in names
            ]
            client.update_stack(StackName=nested, UsePreviousTemplate=True, Parameters=parameters,
                                Capabilities=["CAPABILITY_IAM"])
            self._finish(region, nested, "UPDATE_COMPLETE", seconds)
            self._changed(f"{resource['LogicalResourceId']}: updated by itself, not through the root (unchanged resources lose "
                          "their attributes there)")

    def delete(self, region: str, name: str, seconds: float = 120) -> None:
        """Deletes a stack and waits until it is gone."""
        client = self.emulator.client("cloudformation", region)
        stack_id = client.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        client.delete_stack(StackName=name)
        self.gone(region, stack_id, seconds)

    def delete_data_first(self, region: str, name: str, seconds: float = 120) -> None:
        """Deletes a stack, its nested data stack first and by itself: inside nested stacks the emulator forgets Retain."""
        client = self.emulator.client("cloudformation", region)
        data = client.describe_stack_resource(StackName=name, LogicalResourceId="DataStack")
        self.delete(region, data["StackResourceDetail"]["PhysicalResourceId"], seconds)
        self._changed("DataStack: deleted by itself, before the root (Retain is forgotten inside nested stacks)")
        self.delete(region, name, seconds)

    def gone(self, region: str, stack_id: str, seconds: float) -> None:
        """Waits until a stack that is being deleted is gone."""
        self._finish(region, stack_id, "DELETE_COMPLETE", seconds)

    def _finish(self, region: str, name: str, wanted: str, seconds: float) -> dict:
        client = self.emulator.client("cloudformation", region)
        deadline = time.monotonic() + seconds
        status = "unknown"
        while time.monotonic() < deadline:
            try:
                stack = client.describe_stacks(StackName=name)["Stacks"][0]
            except client.exceptions.ClientError:
                if wanted == "DELETE_COMPLETE":
                    return {}
                raise
            status = stack["StackStatus"]
            if status == wanted:
                return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
            if not status.endswith("_IN_PROGRESS"):
                break
            time.sleep(0.2)
        raise DeploymentFailed(f"{name} in {region} is {status}, not {wanted}:\n  " + "\n  ".join(self.reasons(region, name)))

    def reasons(self, region: str, name: str) -> list[str]:
        """Why resources of a stack failed, those of its nested stacks included."""
        client = self.emulator.client("cloudformation", region)
        found = []
        for stack in [name, *self._nested(client, name)]:
            try:
                events = client.describe_stack_events(StackName=stack)["StackEvents"]
            except client.exceptions.ClientError:
                continue
            for event in events:
                if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason"):
                    found.append(f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}")
        return found

    @staticmethod
    def _nested(client, name: str) -> list[str]:
        stacks = client.describe_stacks()["Stacks"]
        short = name.split("/")[1] if name.startswith("arn:") else name
        return [stack["StackId"] for stack in stacks if stack["StackName"].startswith(f"{short}-")]

    # ---- packaging --------------------------------------------------------------------------------------------------

    def _package(self, region: str, file: pathlib.Path, values: dict, stack: str = "") -> str:
        """Uploads a template, all that it refers to first, as plain CloudFormation; its address."""
        template = json.loads(json.dumps(yaml_parse(file.read_text(encoding="utf-8"))))
        for name, resource in template["Resources"].items():
            properties = resource.get("Properties", {})
            match resource["Type"]:
                case "AWS::Serverless::Application":
                    inner = self._inner_values(properties.get("Parameters", {}), values)
                    properties["Location"] = self._package(region, file.parent / properties["Location"], inner, name)
                case "AWS::Serverless::StateMachine":
                    properties["DefinitionUri"] = self._object(region, (file.parent / properties["DefinitionUri"]).read_bytes())
                case "AWS::Serverless::Function":
                    properties["CodeUri"] = self._object(region, self._code(file.parent, resource))
                    if properties.pop("DeploymentPreference", None):
                        self._changed(f"{name}: DeploymentPreference left out (no CodeDeploy); the alias moves at once")
                    for variable, value in self.endpoints.get(name, {}).items():
                        properties.setdefault("Environment", {}).setdefault("Variables", {})[variable] = value
                        self._changed(f"{name}: {variable} added (through a proxy that can fail)")
        session = boto3.session.Session(region_name=region)
        expanded = Translator({}, parser.Parser(), boto_session=session).translate(template, dict(values))
        self._leave_out(expanded)
        if self.spoil:
            self.spoil(stack, expanded)
        body = json.dumps(expanded, sort_keys=True).encode()
        return self.emulator.upload(region, f"{hashlib.sha256(body).hexdigest()}.template", body)

    @staticmethod
    def _inner_values(parameters: dict, values: dict) -> dict:
        """What is known of a nested stack's parameters before anything is made."""
        known = {}
        for name, value in parameters.items():
            if isinstance(value, dict) and value.get("Ref") in values:
                known[name] = values[value["Ref"]]
            elif not isinstance(value, dict):
                known[name] = value
        return known

    def _object(self, region: str, body: bytes) -> dict:
        key = hashlib.sha256(body).hexdigest()
        self.emulator.upload(region, key, body)
        return {"Bucket": self.emulator.bucket(region), "Key": key}

    def _code(self, folder: pathlib.Path, resource: dict) -> bytes:
        """The zip of a function's code: the same bytes for the same program, so that no new version comes of nothing."""
        if self.bootstraps:
            program = self.bootstraps / resource["Metadata"]["BuildProperties"]["Binary"]
        else:
            program = folder / resource["Properties"]["CodeUri"] / "bootstrap"
        if not os.access(program, os.X_OK):
            raise FileNotFoundError(f"{program} is missing or no program")
        if program not in self._zips:
            self._zips[program] = self.zipped(program.read_bytes())
        return self._zips[program]

    @staticmethod
    def zipped(program: bytes) -> bytes:
        """A program as a function's code."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            entry = zipfile.ZipInfo("bootstrap", date_time=(2024, 1, 1, 0, 0, 0))
            entry.external_attr = 0o755 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, program)
        return buffer.getvalue()

    def _leave_out(self, template: dict) -> None:
        """Takes out what the emulator does not know, and what refers to it."""
        gone = set()
        for name, resource in template["Resources"].items():
            if "TimeToLiveSpecification" in resource.get("Properties", {}):
                self._expiring[name] = resource["Properties"]["TimeToLiveSpecification"]
                self._changed(f"{name}: time to live switched on from here, by what the template says (passed over there)")
            if resource["Type"] == "AWS::CloudWatch::CompositeAlarm":
                gone.add(name)
                self._changed(f"{name}: composite alarm left out (unknown there)")
            elif resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]:
                gone.add(name)
                self._changed(f"{name}: alarm on a metric expression left out (unknown there)")
        for name in gone:
            del template["Resources"][name]
        for output in template.get("Outputs", {}).values():
            if any(json.dumps(name) in json.dumps(output["Value"]) for name in gone):
                output["Value"] = LEFT_OUT

    def _changed(self, words: str) -> None:
        self.changes.add(words)
