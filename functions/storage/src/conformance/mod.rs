//! What every adapter must do, as one suite: it runs over the memory adapters in this crate's own tests, and over the AWS
//! adapters against whatever serves their API.
//!
//! A case is a named function over the ports alone. It makes rows of its own lease group and messages of its own, so that
//! one pair of tables serves all cases and any number of runs (give each its own tag). Where a case needs a damaged row, it
//! asks the subject's `plant`. A case that fails says what it found and what it wanted; the others run all the same.
//!
//! What must stay out: timing, faults in transit and costs. Those differ by adapter and have their own tests.

use std::fmt;
use std::sync::Arc;

use fencepost_protocol::ids::LeaseName;
use futures::future::BoxFuture;

use crate::StoreError;
use crate::item::Item;
use crate::ports::{LeaseStore, Outbox, Queue};
use crate::records::Table;

mod claims;
mod commits;
mod dead;
mod expect;
mod fences;
mod instances;
mod leases;
mod pages;
mod puts;
mod queues;
mod sample;
mod tombstones;

#[cfg(test)]
mod tests;

pub use queues::Received;

use expect::Outcome;

/// Puts an item into a table, unconditionally.
pub type Plant = Arc<dyn Fn(Table, Item) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// The pair of adapters that is being measured, over one pair of tables.
#[derive(Clone)]
pub struct TablesSubject {
    /// The lease table's adapter.
    pub lease_store: Arc<dyn LeaseStore>,
    /// The outbox table's adapter.
    pub outbox: Arc<dyn Outbox>,
    /// A way past both, for rows that no adapter would write.
    pub plant: Plant,
}

/// Receives and deletes every message that a queue holds, in the order in which it gives them out.
pub type Take = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<Received>, StoreError>> + Send + Sync>;

/// The queue adapter that is being measured.
#[derive(Clone)]
pub struct QueueSubject {
    /// The adapter.
    pub queue: Arc<dyn Queue>,
    /// The consumer's end.
    pub take: Take,
    /// Is it a FIFO queue?
    pub fifo: bool,
}

/// What came out of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Cases that passed.
    pub passed: Vec<&'static str>,
    /// Cases that failed, with what each found.
    pub failed: Vec<(&'static str, String)>,
}

impl Report {
    fn note(&mut self, name: &'static str, outcome: Outcome) {
        match outcome {
            Ok(()) => self.passed.push(name),
            Err(failure) => self.failed.push((name, failure.to_string())),
        }
    }

    /// How many passed.
    ///
    /// # Errors
    /// The report in words, where a case failed or none ran.
    pub fn all_passed(&self) -> Result<usize, String> {
        if self.failed.is_empty() && !self.passed.is_empty() { Ok(self.passed.len()) } else { Err(self.to_string()) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed.len(), self.failed.len())?;
        self.failed.iter().try_for_each(|(name, failure)| write!(f, "\n  {name}: {failure}"))
    }
}

/// A case over tables.
struct TablesCase {
    name: &'static str,
    run: for<'a> fn(&'a sample::World) -> BoxFuture<'a, Outcome>,
}

/// A case over a queue.
struct QueueCase {
    name: &'static str,
    run: for<'a> fn(&'a QueueSubject) -> BoxFuture<'a, Outcome>,
}

/// The cases of a room, each under its function's name.
macro_rules! cases {
    ($kind:ident: $($case:ident),+ $(,)?) => {
        [$(crate::conformance::$kind {
            name: concat!(module_path!(), "::", stringify!($case)),
            run: |subject| Box::pin($case(subject)),
        }),+]
    };
}
use cases;

/// Runs every case over tables. `tag` is at most 20 letters, digits and '-', and new for each run over the same tables.
pub async fn run_tables(subject: &TablesSubject, tag: &str) -> Report {
    let rooms: [&[TablesCase]; 8] = [
        &leases::CASES,
        &instances::CASES,
        &fences::CASES,
        &puts::CASES,
        &pages::CASES,
        &claims::CASES,
        &commits::CASES,
        &tombstones::CASES,
    ];
    let mut report = Report::default();
    for (index, case) in rooms.into_iter().flatten().chain(&dead::CASES).enumerate() {
        let outcome = match LeaseName::new(format!("{tag}-{index}")) {
            Ok(lease) => (case.run)(&sample::World::new(subject.clone(), lease)).await,
            Err(malformed) => Err(malformed.into()),
        };
        report.note(short(case.name), outcome);
    }
    report
}

/// Runs every case over a queue that nobody else uses meanwhile.
pub async fn run_queue(subject: &QueueSubject) -> Report {
    let mut report = Report::default();
    let of_kind: &[QueueCase] = if subject.fifo { &queues::FIFO_CASES } else { &queues::STANDARD_CASES };
    for case in queues::CASES.iter().chain(of_kind) {
        // What an earlier case left behind is none of this one's business.
        let outcome = match (subject.take)().await {
            Ok(_) => (case.run)(subject).await,
            Err(failure) => Err(failure.into()),
        };
        report.note(short(case.name), outcome);
    }
    report
}

/// The last two parts of a path: room and case.
fn short(path: &'static str) -> &'static str {
    path.rmatch_indices("::").nth(1).map_or(path, |(at, _)| &path[at + 2..])
}
