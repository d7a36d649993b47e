//! What a run shows for itself.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_protocol::invariants::Conservation;
use serde_json::{Value, json};

use super::Options;
use super::ledger::{Counts, Ledger};
use super::publisher::Published;
use super::trouble::Tally;

/// Rounds from which on every kind of trouble must have happened, or the run proves nothing.
const ROUNDS_FOR_ALL: u64 = 60;

/// The figures of a run and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The rounds.
    pub rounds: u64,
    /// How long it took.
    pub took: Duration,
    /// What was done to the world, by kind.
    pub trouble: BTreeMap<&'static str, u64>,
    /// Faults of single requests, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// What the services were seen to apply.
    pub counts: Counts,
    /// Where the rows are.
    pub rows: Conservation,
    /// Messages that were published.
    pub offered: usize,
    /// Messages that ingest acknowledged.
    pub acknowledged: usize,
    /// Messages in the queue, copies included.
    pub queue_copies: usize,
    /// Processes that were started.
    pub processes: u64,
    /// Second sends that the drainers themselves reported, as far as they lived to do so.
    pub second_sends_known: u64,
    /// Executions that failed, by machine and error. Under faults some do.
    pub executions_failed: BTreeMap<String, u64>,
    /// Broken promises; none in a run that passes.
    pub violations: Vec<String>,
}

/// What the run itself knows.
pub(super) struct Rest {
    pub(super) faults: BTreeMap<&'static str, u64>,
    pub(super) queue_copies: usize,
    pub(super) executions_failed: BTreeMap<String, u64>,
    pub(super) processes: u64,
    pub(super) took: Duration,
}

/// Puts the report together.
pub(super) fn gather(
    options: &Options,
    ledger: &Ledger,
    tally: &Tally,
    published: &Published,
    violations: Vec<String>,
    rest: Rest,
) -> Report {
    let counts = ledger.counts();
    let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::SeqCst);
    let trouble = BTreeMap::from([
        ("kills", of(&tally.kills)),
        ("freezes", of(&tally.freezes)),
        ("crashes", of(&tally.crashes)),
        ("cuts", of(&tally.cuts)),
        ("outages", of(&tally.outages)),
        ("step_downs", of(&tally.step_downs)),
    ]);
    let mut report = Report {
        seed: options.seed,
        rounds: options.rounds,
        took: rest.took,
        trouble,
        faults: rest.faults,
        counts,
        rows: ledger.rows(),
        offered: published.offered.len(),
        acknowledged: published.acknowledged.len(),
        queue_copies: rest.queue_copies,
        processes: rest.processes,
        second_sends_known: measured(&options.evidence, "DuplicateRisk"),
        executions_failed: rest.executions_failed,
        violations,
    };
    let idle = report.idle();
    report.violations.extend(idle);
    report
}

impl Report {
    /// Did every promise hold?
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violations.is_empty()
    }

    /// What a run of this length must have met and did not.
    fn idle(&self) -> Vec<String> {
        let mut met = vec![
            ("commits", self.counts.commits),
            ("acknowledged messages", u64::try_from(self.acknowledged).unwrap_or(u64::MAX)),
        ];
        if self.rounds >= ROUNDS_FOR_ALL && self.violations.is_empty() {
            met.extend(self.trouble.iter().map(|(kind, count)| (*kind, *count)));
            met.extend([
                ("takeovers", self.counts.takeovers),
                ("second sends", self.counts.second_sends),
                ("commits refused", self.counts.commits_fenced),
                ("late writes refused", self.counts.late_writes_refused),
            ]);
        }
        let idle = met.into_iter().filter(|(_, count)| *count == 0);
        idle.map(|(what, _)| format!("the run met no {what}, so it proves nothing about them")).collect()
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "seed": self.seed,
            "rounds": self.rounds,
            "seconds": self.took.as_secs(),
            "passed": self.passed(),
            "trouble": self.trouble,
            "faults": self.faults,
            "processes": self.processes,
            "offered": self.offered,
            "acknowledged": self.acknowledged,
            "ingested": self.rows.ingested,
            "committed": self.rows.committed,
            "dead": self.rows.dead,
            "outstanding": self.rows.outstanding,
            "queue_copies": self.queue_copies,
            "claims": self.counts.claims,
            "commits_applied": self.counts.commits,
            "commits_refused": self.counts.commits_fenced,
            "acquisitions": self.counts.acquisitions,
            "takeovers": self.counts.takeovers,
            "second_sends": self.counts.second_sends,
            "second_sends_known": self.second_sends_known,
            "late_sends": self.counts.late_sends,
            "late_writes_refused": self.counts.late_writes_refused,
            "executions_failed": self.executions_failed,
            "violations": self.violations,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |map: &BTreeMap<&'static str, u64>| {
            map.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(
            f,
            "seed {}, {} rounds in {}s, {} processes",
            self.seed,
            self.rounds,
            self.took.as_secs(),
            self.processes
        )?;
        writeln!(f, "  trouble     {}", listed(&self.trouble))?;
        writeln!(f, "  faults      {}", listed(&self.faults))?;
        writeln!(
            f,
            "  messages    {} published, {} acknowledged, {} in the queue with copies",
            self.offered, self.acknowledged, self.queue_copies
        )?;
        writeln!(
            f,
            "  rows        {} ingested = {} committed + {} dead + {} outstanding",
            self.rows.ingested, self.rows.committed, self.rows.dead, self.rows.outstanding
        )?;
        let counts = &self.counts;
        writeln!(
            f,
            "  commits     {} applied, {} refused; {} late writes refused",
            counts.commits, counts.commits_fenced, counts.late_writes_refused
        )?;
        writeln!(f, "  lease       {} acquisitions, {} takeovers", counts.acquisitions, counts.takeovers)?;
        writeln!(
            f,
            "  sent twice  {} times, of which the drainers lived to report {}; {} came late, after the commit",
            counts.second_sends, self.second_sends_known, counts.late_sends
        )?;
        let failed: Vec<String> =
            self.executions_failed.iter().map(|(what, count)| format!("{count} {what}")).collect();
        writeln!(
            f,
            "  executions  failed under faults: {}",
            if failed.is_empty() { "none".to_owned() } else { failed.join(", ") }
        )?;
        for violation in self.violations.iter().take(20) {
            writeln!(f, "  BROKEN      {violation}")?;
        }
        if self.violations.len() > 20 {
            writeln!(f, "  BROKEN      and {} more", self.violations.len() - 20)?;
        }
        Ok(())
    }
}

/// The sum of a metric over what every process wrote to its stdout.
fn measured(logs: &Path, metric: &str) -> u64 {
    let files = std::fs::read_dir(logs).into_iter().flatten().flatten().map(|entry| entry.path());
    let stdout = files.filter(|path| path.extension().is_some_and(|end| end == "stdout"));
    let texts = stdout.filter_map(|path| std::fs::read_to_string(path).ok());
    texts.map(|text| text.lines().map(|line| measured_in(line, metric)).sum::<u64>()).sum()
}

fn measured_in(line: &str, metric: &str) -> u64 {
    let Ok(line) = serde_json::from_str::<Value>(line) else { return 0 };
    // Whole numbers, though a metric is written as a fraction.
    let whole = |value: &Value| value.as_u64().or_else(|| format!("{:.0}", value.as_f64()?).parse().ok());
    line.get("_aws").and(line.get(metric)).and_then(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_read_from_its_line_alone() {
        assert_eq!(measured_in(r#"{"_aws":{},"DuplicateRisk":3}"#, "DuplicateRisk"), 3);
        assert_eq!(measured_in(r#"{"_aws":{},"DuplicateRisk":2.0}"#, "DuplicateRisk"), 2);
        assert_eq!(measured_in(r#"{"DuplicateRisk":3}"#, "DuplicateRisk"), 0, "a log line");
        assert_eq!(measured_in("no JSON", "DuplicateRisk"), 0);
    }
}
