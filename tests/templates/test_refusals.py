"""Values that a deployment must refuse: which of them the template itself refuses, and which it leaves to SettingsCheck."""

import unittest

import model
from refusals import refusals

ROOT = model.Project().templates["root"]
HOME = {"Topology": "home", "TableRegion": "eu-central-1", "LeaseTableName": "lease-table", "OutboxTableName": "outbox-table"}
STREAM = "arn:aws:dynamodb:eu-west-1:123456789012:table/outbox-table/stream/2026-01-01T00:00:00.000"
JOINS = {"Topology": "global", "LeaseTableName": "lease-table", "OutboxTableName": "outbox-table", "OutboxStreamArn": STREAM}
QUEUE = {
    "Destination": "given", "DestinationQueueUrl": "https://sqs.eu-west-1.amazonaws.com/123456789012/out",
    "DestinationQueueArn": "arn:aws:sqs:eu-west-1:123456789012:out",
}
PASS = [
    {}, {"LeaseTtl": "300s"}, {"Profile": "fast", "DedupeWindow": "0s"}, HOME, JOINS, QUEUE,
    {"Topology": "global", "SecondRegion": "eu-west-1", "ThirdRegion": "eu-west-2"},
]
# What no pattern can see: SettingsCheck refuses it, and the emulator suite shows how.
LEFT_TO_THE_CHECK = [
    {"LeaseTtl": "3s"}, {"StaleClaimDuration": "12s", "Profile": "fast"}, {"StaleClaimDuration": "31s"},
    # Whether the tables that it joins are strongly consistent.
    JOINS,
]
REFUSED = [
    ("LeaseTtl: a number and a unit", {"LeaseTtl": "300"}),
    ("StaleClaimDuration: a number and a unit", {"StaleClaimDuration": "35"}),
    ("RenewInterval: a number and a unit", {"RenewInterval": "1 minute"}),
    ("MaxAge: a number and a unit", {"MaxAge": ""}),
    ("DrainerLimitSeconds", {"DrainerLimitSeconds": 71}),
    ("Shards", {"Shards": 0}),
    ("Shards", {"Shards": "many"}),
    ("Profile", {"Profile": "slow"}),
    ("Topology", {"Topology": "eventual"}),
    ("TopicFilter: an MQTT topic filter", {"TopicFilter": "it's/#"}),
    ("SecondTable is no parameter", {"SecondTable": "x"}),
    ("Topology single makes its own tables", {"LeaseTableName": "lease-table"}),
    ("Topology single makes its own tables", {"TableRegion": "eu-central-1"}),
    ("belong to Topology global", {"SecondRegion": "eu-west-1"}),
    ("Topology home needs", HOME | {"TableRegion": ""}),
    ("Topology home needs", HOME | {"OutboxTableName": ""}),
    ("cannot wake a function of another region", HOME | {"OutboxStreamArn": STREAM}),
    ("leave TableRegion empty", JOINS | {"TableRegion": "eu-west-1"}),
    ("either makes the tables", {"Topology": "global"}),
    ("either makes the tables", {"Topology": "global", "SecondRegion": "eu-west-1"}),
    ("either makes the tables", JOINS | {"OutboxStreamArn": ""}),
    ("either makes the tables", JOINS | {"SecondRegion": "eu-west-1", "ThirdRegion": "eu-west-2"}),
    ("needs the queue's DestinationQueueUrl", {"Destination": "given"}),
    ("are for a given queue", QUEUE | {"Destination": "standard"}),
]


class Refusals(unittest.TestCase):
    def test_what_fits_together_passes(self):
        for values in PASS + LEFT_TO_THE_CHECK:
            with self.subTest(values):
                self.assertEqual(refusals(ROOT, values), [])

    def test_what_does_not_is_refused_with_the_reason(self):
        for words, values in REFUSED:
            with self.subTest(f"{words}: {values}"):
                found = refusals(ROOT, values)
                self.assertTrue(any(words in one for one in found), f"not refused with that reason: {found}")

    def test_every_rule_refuses_something(self):
        """An assertion of which no sample here shows the refusal is one that nobody has seen."""
        seen = {one for _, values in REFUSED for one in refusals(ROOT, values)}
        for name, rule in ROOT["Rules"].items():
            for assertion in rule["Assertions"]:
                self.assertIn(assertion["AssertDescription"], seen, name)

    def test_without_its_pattern_a_bare_number_would_pass(self):
        """The check can fail."""
        twin = model.Project().twin().templates["root"]
        del twin["Parameters"]["LeaseTtl"]["AllowedPattern"]
        del twin["Rules"]["SingleHasItsOwnTables"]
        self.assertEqual(refusals(twin, {"LeaseTtl": "300", "LeaseTableName": "lease-table"}), [])


if __name__ == "__main__":
    unittest.main()
