"""The cloud suite's own rules: what it refuses and with which words, how it signs, that it gives back what it took. Nothing here
reaches a network."""

import contextlib
import datetime
import io
import json
import pathlib
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deployed"))

import botocore.exceptions
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import account
import plan
import run
import stacks
from account import Account, Refused, signed_path
from cases import Cases, NotHere
from deployed import Stack
from stacks import Found
from ledger import decode
from timing import PROFILES, PUT_SECONDS, Timing, of_parameters, seconds
from world import World

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARAMETERS = {"LeaseName": "telemetry", "TopicFilter": "plant/+/telemetry/#", "Profile": "fast", "Topology": "single", "Shards": "4"}


class Client(mock.Mock):
    """A client whose exceptions are classes of their own."""


class Fake:
    """Stands for an account: clients by service, made at their first use."""

    emulated = None

    def __init__(self, **clients: mock.Mock) -> None:
        self._clients = clients

    def client(self, service: str, region: str) -> mock.Mock:
        return self._clients.setdefault(service, Client())


def found(name: str = "fencepost", region: str = "eu-central-1", **parameters: str) -> Found:
    outputs = {output: f"arn:aws:lambda:{region}:1:function:{output}:live" for output in stacks.OUTPUTS}
    outputs |= {"LeaseTableName": "lease", "OutboxTableName": "outbox"}
    given = PARAMETERS | parameters
    return Found(Stack(given.get("InstanceName") or region, region, outputs), name, given)


def described(**changes: object) -> dict:
    one = found()
    stack = {
        "StackName": "fencepost", "StackStatus": "CREATE_COMPLETE",
        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in one.stack.outputs.items()],
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()],
    }
    return {"Stacks": [stack | changes]}


def client_error(words: str) -> Exception:
    return botocore.exceptions.ClientError({"Error": {"Code": "ValidationError", "Message": words}}, "DescribeStacks")


class Refuses(unittest.TestCase):
    def refused(self, words: str, work) -> None:
        with self.assertRaisesRegex(Refused, words):
            work()

    def test_a_stack_that_is_not_there_or_none_of_ours(self):
        formation = Client()
        find = lambda: stacks.find(Fake(cloudformation=formation), "fencepost", "eu-central-1")
        formation.describe_stacks.side_effect = [client_error("Stack with id fencepost does not exist"), described(StackName="bridge")]
        self.refused("there is no stack fencepost in eu-central-1; fencepost's there: bridge", find)
        formation.describe_stacks.side_effect = [client_error("Stack with id fencepost does not exist"), {"Stacks": []}]
        self.refused("nor any other of fencepost's", find)
        formation.describe_stacks.side_effect = [client_error("not authorized")]
        self.refused("cannot be read: .*not authorized", find)
        formation.describe_stacks.side_effect = [described(StackStatus="UPDATE_IN_PROGRESS")]
        self.refused("is UPDATE_IN_PROGRESS: wait", find)
        formation.describe_stacks.side_effect = [described(Outputs=[{"OutputKey": "Url", "OutputValue": "x"}])]
        self.refused("no root stack of fencepost: it has no output DestinationQueueUrl", find)
        formation.describe_stacks.side_effect = [described()]
        self.assertEqual(find().stack.name, "eu-central-1", "an instance without a name is called by its region")

    def test_a_stack_that_no_run_could_certify(self):
        self.refused("name the stack that has the tables", lambda: stacks.check_alone(found(Topology="home")))
        self.refused("neither ticks nor drains", lambda: stacks.check_alone(found(ScheduleState="DISABLED")))
        self.refused("has no wildcard", lambda: stacks.check_alone(found(TopicFilter="plant/all")))
        stacks.check_alone(found())

    def test_two_stacks_that_are_no_group(self):
        first, second = found(), found("west", "eu-west-1")
        stacks.check_group(first, second)
        self.refused("different lease groups: telemetry, other", lambda: stacks.check_group(first, found("west", "eu-west-1", LeaseName="other")))
        self.refused("both stacks are instance a", lambda: stacks.check_group(found(InstanceName="a"), found("west", "eu-west-1", InstanceName="a")))
        second.stack.outputs["OutboxTableName"] = "another"
        self.refused("OutboxTableName differs", lambda: stacks.check_group(first, second))

    def test_a_destination_in_use(self):
        queue = Client()
        quiet = {"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0"}
        for name in quiet:
            queue.get_queue_attributes.return_value = {"Attributes": quiet | {name: "3"}}
            self.refused("is in use", lambda: stacks.check_quiet(Fake(sqs=queue), found()))
        queue.get_queue_attributes.return_value = {"Attributes": quiet}
        stacks.check_quiet(Fake(sqs=queue), found())

    def main(self, *arguments: str) -> tuple[int, str]:
        errors = io.StringIO()
        with mock.patch("sys.argv", ["cloud", *arguments]), contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            try:
                return run.main(), errors.getvalue()
            except SystemExit as end:
                return end.code, errors.getvalue()

    def test_without_consent_nothing_is_even_opened(self):
        with mock.patch("run.Account", side_effect=AssertionError("it was opened")):
            code, words = self.main("--stack", "x")
            self.assertEqual((code, "--dry-run" in words), (2, True))
            self.assertEqual(self.main("--stack", "x", "--yes", "--second-stack", "y")[0], 2)
            self.assertEqual(self.main("--yes")[0], 2)

    def test_without_credentials_or_region_or_profile(self):
        session = mock.Mock(region_name="eu-central-1")
        session.get_credentials.return_value = None
        with mock.patch("account.boto3.session.Session", return_value=session):
            self.assertEqual(self.main("--stack", "x", "--yes")[0], 2)
            self.refused("no credentials", Account(None, None).identity)
            session.region_name = None
            self.refused("no region", lambda: Account(None, None))
        with mock.patch("account.boto3.session.Session", side_effect=botocore.exceptions.ProfileNotFound(profile="p")):
            self.refused("with --profile", lambda: Account("p", None))

    def test_a_clock_that_is_wrong(self):
        session = mock.Mock(region_name="eu-central-1")
        headers = {"date": "Thu, 01 Jan 2026 00:00:10 GMT"}
        session.client().get_caller_identity.return_value = {"Account": "1", "ResponseMetadata": {"HTTPHeaders": headers}}
        with mock.patch("account.boto3.session.Session", return_value=session):
            for now, right in ((1767225610.5, True), (1767225616, False), (1767225605, False)):
                with mock.patch("account.time.time", return_value=now):
                    if right:
                        self.assertEqual(Account(None, None).identity(), "1")
                    else:
                        self.refused("clock is -?[0-9]+s off", Account(None, None).identity)


class Signs(unittest.TestCase):
    def test_as_the_sdk_does_and_with_the_token_behind_the_signature(self):
        now = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.timezone.utc)
        host = "x-ats.iot.eu-central-1.amazonaws.com"
        path = signed_path(host, "eu-central-1", Credentials("AKIA", "secret/+").get_frozen_credentials(), now)
        request = AWSRequest("GET", f"https://{host}/mqtt")
        with mock.patch("botocore.auth.get_current_datetime", return_value=now):
            SigV4QueryAuth(Credentials("AKIA", "secret/+"), "iotdevicegateway", "eu-central-1", account.SIGNED_SECONDS).add_auth(request)
        self.assertEqual(f"https://{host}{path}", request.url)
        with_token = signed_path(host, "eu-central-1", Credentials("AKIA", "secret/+", "to/ken").get_frozen_credentials(), now)
        self.assertEqual(with_token, f"{path}&X-Amz-Security-Token=to%2Fken")


class Measures(unittest.TestCase):
    def test_the_profiles_are_those_of_the_settings_table(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        names = {"ttl": "LEASE_TTL", "margin": "CLOCK_MARGIN", "tick": "TICK_INTERVAL", "call": "RENEW_CALL_TIMEOUT",
                 "grace": "STEP_DOWN_GRACE", "stale_claim": "STALE_CLAIM_DURATION", "drainer_limit": "DRAINER_LIMIT"}
        for field, name in names.items():
            durable, fast = re.search(rf"`FENCEPOST_{name}` \|[^|]*\| `(\w+|[\d.]+\w+)`(?:; fast `([\d.]+\w+)`)? \|", readme).groups()
            self.assertEqual(getattr(PROFILES["durable"], field), seconds(durable), name)
            self.assertEqual(getattr(PROFILES["fast"], field), seconds(fast or durable), name)

    def test_parameters_change_what_follows_from_them(self):
        self.assertEqual(of_parameters({}), PROFILES["durable"])
        self.assertEqual(of_parameters({"Profile": "fast", "LeaseTtl": ""}), PROFILES["fast"])
        self.assertEqual(of_parameters({"Profile": "fast", "LeaseTtl": "30s"}).takeover_bound, 30.5 + 7)
        # 30s and three renewals: a budget of 7.5s, an interval of (7.5 - 3.75) x 8/9 = 3.33s, half of it a call, whole seconds a tick.
        short = of_parameters({"LeaseTtl": "30s", "StepDownGrace": "16s"})
        self.assertEqual(short, Timing(ttl=30, margin=0.5, tick=3, call=short.call, grace=16, stale_claim=31, drainer_limit=30))
        self.assertAlmostEqual(short.call, 1.667, 3)
        self.assertEqual(of_parameters({"DrainerLimitSeconds": "40"}).takeover_work_bound, 10 + 3 * 40 + 35 + 5)
        self.assertEqual(of_parameters({"Profile": "fast", "DrainerLimitSeconds": "0"}).takeover_work_bound, 3.5 + 30 + 20 + 2.5)

    def test_how_long_an_event_may_take_follows_from_the_ticks(self):
        self.assertEqual(PROFILES["fast"].telling_bound, 2 * 3.5 + 2)
        self.assertEqual(World(Fake(), [found(Profile="durable")]).event_seconds, 2 * 10 + 2 + 30 + 3)
        machine = json.loads((ROOT / "statemachines/lease_cycle.asl.json").read_text(encoding="utf-8"))
        self.assertEqual(machine["States"]["ReportEvents"]["TimeoutSeconds"], PUT_SECONDS)


class Decodes(unittest.TestCase):
    def test_the_samples_of_bodies_and_nothing_that_is_no_body(self):
        bodies = {"text": b"21.5 degrees", "empty": b"", "base64": bytes.fromhex("00fffe01807f0ac328efbfbe")}
        refused = {"data_missing", "empty_with_data", "no_envelope"}
        envelope = {"content-type": "application/cloudevents+json; charset=utf-8"}
        files = sorted((ROOT / "tests/corpus/body_cloud_events").glob("*.json"))
        self.assertEqual({file.stem for file in files}, bodies.keys() | refused)
        for file in files:
            sample = json.loads(file.read_text(encoding="utf-8"))
            attributes = {name: {"StringValue": value} for name, value in (sample["input"]["attributes"] | envelope).items()}
            with self.subTest(file.stem):
                self.assertEqual(sample["refused"] is not None, file.stem in refused)
                if file.stem in refused:
                    self.assertRaises(ValueError, decode, sample["input"]["body"], attributes)
                else:
                    self.assertEqual(decode(sample["input"]["body"], attributes), bodies[file.stem])


class Behaves(unittest.TestCase):
    def test_a_topic_carries_the_mark_and_fits_the_filter(self):
        world = World(Fake(), [found()])
        topic = world.topic("x")
        self.assertRegex(topic, f"^plant/{world.mark}-x/telemetry/{world.mark}-x$")
        self.assertTrue(world.ledger.is_ours(topic))
        self.assertFalse(world.ledger.is_ours("plant/1/telemetry/x"))

    def test_messages_of_others_stay(self):
        queue = Client()
        world = World(Fake(sqs=queue), [found()])
        message = {"MessageId": "m", "ReceiptHandle": "r", "Body": "x", "MessageAttributes": {"topic": {"StringValue": "plant/1/telemetry/x"}}}
        queue.receive_message.return_value = {"Messages": [message]}
        queue.exceptions.QueueDoesNotExist = KeyError
        self.assertEqual(world.ledger.receive(), 0)
        queue.delete_message.assert_not_called()
        queue.change_message_visibility.assert_called_once()
        self.assertEqual(world.ledger.foreign, {"m"})

    def test_every_page_of_the_outbox_is_looked_at(self):
        table = Client()
        world = World(Fake(dynamodb=table), [found()])
        row = lambda shard, topic: {"shard": {"S": shard}, "topic": {"S": topic}}
        ours, others = world.topic("x"), "plant/1/telemetry/x"
        pages = {
            None: {"Items": [row("telemetry#0000", others), row("dead#telemetry#0001", ours), {"shard": {"S": "sent#a"}}], "LastEvaluatedKey": "1"},
            "1": {"Items": [{"shard": {"S": "fence#telemetry"}}], "LastEvaluatedKey": "2"},
            # Four shards, and a record beyond them.
            "2": {"Items": [row("telemetry#0009", ours), row("telemetry-b#0000", ours), {"shard": {"S": "fence#telemetry-b"}}]},
        }
        table.scan.side_effect = lambda **asked: pages[asked.get("ExclusiveStartKey")]
        self.assertEqual([one["shard"]["S"] for one in world.outstanding()], ["telemetry#0009"])
        self.assertEqual([one["shard"]["S"] for one in world.dead()], ["dead#telemetry#0001"])
        self.assertEqual(len(world.fences()), 2)
        self.assertTrue(all(asked.kwargs["ConsistentRead"] for asked in table.scan.call_args_list))

    def test_what_was_stopped_is_given_back_whatever_happens(self):
        functions = Client()
        functions.exceptions.TooManyRequestsException = KeyError
        functions.get_function_concurrency.side_effect = [{"ReservedConcurrentExecutions": 5}, {}]
        functions.invoke.side_effect = KeyError
        world = World(Fake(**{"lambda": functions}), [found()])
        world.stop_function(world.first, "Lease")
        world.stop_function(world.first, "Drainer")
        functions.invoke.side_effect = None
        self.assertEqual(world.close(), [])
        functions.put_function_concurrency.assert_called_with(FunctionName="LeaseFunctionArn", ReservedConcurrentExecutions=5)
        functions.delete_function_concurrency.assert_called_once_with(FunctionName="DrainerFunctionArn")
        functions.put_function_concurrency.side_effect = RuntimeError("denied")
        self.assertRegex(world.close()[0], "LeaseFunctionArn in eu-central-1 has reserved concurrency 0; it was 5: denied")

    def test_the_plan_interrupts_nothing_unless_it_may(self):
        for count in (1, 2):
            world = World(Fake(), [found(), found("west", "eu-west-1")][:count])
            self.assertFalse([case.name for case in plan.cases(world, False) if case.destructive])
            interrupting = [case.name for case in plan.cases(world, True) if case.destructive]
            self.assertEqual(interrupting, ["abstention"] if count == 1 else ["takeover", "abstention", "the old leader comes back"])
            for destructive in (False, True):
                cases = plan.cases(world, destructive)
                before: set[str] = set()
                for case in cases:
                    self.assertLessEqual(set(case.needs), before, f"{case.name} builds on a case that comes later")
                    before.add(case.name)
                words = "\n".join(plan.described(world, cases, destructive))
                self.assertEqual("[destructive]" in words, destructive)
                self.assertEqual("--second-stack" in words, count == 1)

    def test_a_case_that_builds_on_a_skipped_one_is_skipped(self):
        cases = Cases(as_json=True)
        def absent() -> str:
            raise NotHere("no such thing")
        with contextlib.redirect_stdout(io.StringIO()):
            cases.run("a", 5, absent)
            cases.run("b", 5, lambda: "seen", ("a",))
            cases.run("c", 5, lambda: "seen")
        self.assertEqual((cases.passed, cases.failed, list(cases.skipped)), (1, 0, ["a", "b"]))


if __name__ == "__main__":
    unittest.main()
