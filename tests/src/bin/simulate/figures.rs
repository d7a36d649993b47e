//! What a batch of runs came to, in numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fencepost_tests::simulation::{Reached, Report, Sometimes};
use serde_json::json;

/// Clock ticks of a second in `/proc`.
const PROC_TICKS: f64 = 100.0;
/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// The figures.
#[derive(Debug)]
pub(crate) struct Figures {
    root: u64,
    started: Instant,
    pub(crate) seeds: usize,
    simulated: Duration,
    ticks: u64,
    calls: u64,
    published: usize,
    delivered: usize,
    committed: u64,
    dead: u64,
    inversions: u64,
    broken: usize,
    faults: BTreeMap<String, u64>,
    pub(crate) reached: Reached,
}

impl Figures {
    pub(crate) fn new(root: u64) -> Self {
        Self {
            root,
            started: Instant::now(),
            seeds: 0,
            simulated: Duration::ZERO,
            ticks: 0,
            calls: 0,
            published: 0,
            delivered: 0,
            committed: 0,
            dead: 0,
            inversions: 0,
            broken: 0,
            faults: BTreeMap::new(),
            reached: Reached::default(),
        }
    }

    pub(crate) fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.ticks += report.ticks;
        self.calls += report.history.calls();
        self.published += report.verdict.published;
        self.delivered += report.verdict.delivered;
        self.committed += report.verdict.conservation.committed;
        self.dead += report.verdict.conservation.dead;
        self.inversions += report.verdict.inversions;
        self.broken += usize::from(!report.verdict.broken.is_empty());
        for (kind, count) in report.faults_by_kind() {
            *self.faults.entry(kind).or_default() += count;
        }
        self.reached.merge(&report.reached);
    }

    fn faults_in_all(&self) -> u64 {
        self.faults.values().sum()
    }

    #[expect(clippy::cast_precision_loss, reason = "hours to two digits")]
    fn hours(&self) -> f64 {
        self.simulated.as_millis() as f64 / HOUR_MS
    }

    /// What a seed costs; the second runs of those that run twice are a part of it.
    #[expect(clippy::cast_precision_loss, reason = "no batch has that many seeds")]
    fn cpu_seconds_a_seed(&self) -> Option<f64> {
        (self.seeds > 0).then(|| cpu_seconds().map(|seconds| seconds / self.seeds as f64))?
    }

    /// One line for somebody who waits.
    pub(crate) fn progress(&self) -> String {
        format!(
            "{} seeds, {:.1} simulated hours, {} faults, {:.0}s",
            self.seeds,
            self.hours(),
            self.faults_in_all(),
            self.started.elapsed().as_secs_f64()
        )
    }

    /// The figures for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<36}{value}");
        };
        line("root seed", self.root.to_string());
        line("seeds", self.seeds.to_string());
        line("simulated hours", format!("{:.1}", self.hours()));
        line("ticks", self.ticks.to_string());
        line("calls", self.calls.to_string());
        line("messages published", self.published.to_string());
        line("messages delivered", format!("{} (second copies included)", self.delivered));
        line("records committed", self.committed.to_string());
        line("records dead", self.dead.to_string());
        line("inversions (FIFO)", self.inversions.to_string());
        line("faults met", self.faults_in_all().to_string());
        for (kind, count) in &self.faults {
            line(&format!("  {kind}"), count.to_string());
        }
        line("reached", String::new());
        for what in Sometimes::ALL {
            line(&format!("  {}", what.name()), self.reached.count(*what).to_string());
        }
        line("runs broken", self.broken.to_string());
        line("real seconds", format!("{:.1}", self.started.elapsed().as_secs_f64()));
        let known = |figure: Option<f64>| figure.map_or_else(|| "unknown".to_owned(), |figure| format!("{figure:.2}"));
        line("CPU seconds", known(cpu_seconds()));
        line("CPU seconds a seed", known(self.cpu_seconds_a_seed()));
        text.trim_end().to_owned()
    }

    /// The figures for programs.
    pub(crate) fn json(&self) -> String {
        let reached: BTreeMap<&str, u64> =
            Sometimes::ALL.iter().map(|what| (what.name(), self.reached.count(*what))).collect();
        json!({
            "root_seed": self.root,
            "seeds": self.seeds,
            "simulated_hours": self.hours(),
            "ticks": self.ticks,
            "calls": self.calls,
            "messages_published": self.published,
            "messages_delivered": self.delivered,
            "records_committed": self.committed,
            "records_dead": self.dead,
            "inversions": self.inversions,
            "faults_met": self.faults_in_all(),
            "faults_by_kind": self.faults,
            "reached": reached,
            "runs_broken": self.broken,
            "real_seconds": self.started.elapsed().as_secs_f64(),
            "cpu_seconds": cpu_seconds(),
            "cpu_seconds_a_seed": self.cpu_seconds_a_seed(),
        })
        .to_string()
    }
}

/// What this process has used, where the system tells.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / PROC_TICKS)
}
