"""Every check twice: on this repository, where it must find nothing, and on a copy that was broken on purpose, where it must
find that. A check without a break is itself a failure."""

import unittest

import breaks
import breaks_of_documents
import model
import policies
import review
import runbook
import timing
import watching
import wiring

BREAKS = breaks.BREAKS | breaks_of_documents.BREAKS
CHECKS = [check for room in (wiring, timing, policies, watching, runbook, review) for check in room.CHECKS]
PROJECT = model.Project()


class Holds(unittest.TestCase):
    def test_every_check(self):
        for check in CHECKS:
            with self.subTest(check.__name__):
                findings = check(PROJECT)
                self.assertFalse(findings, "\n  " + "\n  ".join(findings))


class CanFail(unittest.TestCase):
    def test_every_check_has_a_break(self):
        self.assertEqual({check.__name__ for check in CHECKS}, set(BREAKS))

    def test_every_break_is_found(self):
        by_name = {check.__name__: check for check in CHECKS}
        for name, broken in BREAKS.items():
            for words, change in broken:
                with self.subTest(f"{name}: {words}"):
                    twin = PROJECT.twin()
                    change(twin)
                    findings = by_name[name](twin)
                    self.assertTrue(any(words in finding for finding in findings), f"not found; found: {findings}")


class Reads(unittest.TestCase):
    """What is taken out of the Rust sources is really there."""

    def test_settings(self):
        self.assertEqual(PROJECT.settings["FENCEPOST_LEASE_TTL"], {"durable": "300s", "fast": "14s"})
        self.assertEqual(PROJECT.settings["FENCEPOST_SHARDS"], {"durable": "16", "fast": "16"})
        self.assertEqual(PROJECT.settings["FENCEPOST_QUEUE_URL"], {"durable": None, "fast": None})
        with self.assertRaisesRegex(ValueError, "1 settings, 0 could be read"):
            model.rust_settings("static TABLE: [Setting; 1] = [];")

    def test_metrics_and_dimensions(self):
        self.assertIn("OldestOutstandingAge", PROJECT.metrics)
        self.assertEqual(PROJECT.dimensions, {frozenset({"lease", "instance"}), frozenset()})

    def test_sources_are_read_without_their_tests(self):
        text = 'fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n'
        shipped = model.shipped_rust({"functions/x/src/lib.rs": text, "functions/x/src/tests.rs": "fn d() {}"})
        self.assertEqual(list(shipped), ["functions/x/src/lib.rs"])
        self.assertIn("fn b()", shipped["functions/x/src/lib.rs"])
        self.assertNotIn("fn c()", shipped["functions/x/src/lib.rs"])

    def test_short_forms(self):
        template = model.parse_template("A: !If [X, !GetAtt Q.Arn, !Sub '${B.C}-${!D}']\n")
        self.assertEqual(template, {"A": {"Fn::If": ["X", {"Fn::GetAtt": ["Q", "Arn"]}, {"Fn::Sub": "${B.C}-${!D}"}]}})
        self.assertEqual(model.references(template), {"Q", "B"})

    def test_durations(self):
        self.assertEqual([model.seconds(text) for text in ("30s", "2.5s", "500ms", "5m", "5d")], [30, 2.5, 0.5, 300, 432_000])
        self.assertEqual(PROJECT.constant("ASYNC_EVENT_AGE_MAX"), 21_600)


if __name__ == "__main__":
    unittest.main()
