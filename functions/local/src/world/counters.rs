//! Numbers of what happened since the world's start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fencepost_protocol::time::Timestamp;
use fencepost_runtime::telemetry::{Labels, Metric, MetricSink};
use serde::{Deserialize, Serialize};

/// Numbers since the world's start.
///
/// `claimed` to `redriven` count answers that a drainer saw: what a killed instance had under way is missing from them, and an
/// audit tells the truth. `fenced`, `duplicates_known` and `stale_claims` come from metrics, which a killed drain call never
/// emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Messages that the broker acknowledged and whose topic the rule takes.
    pub published: u64,
    /// Messages that the rule does not take.
    pub unmatched: u64,
    /// Messages that ingest answered as stored.
    pub ingested: u64,
    /// Messages that ingest answered as duplicate: an earlier try had stored them.
    pub duplicates_ingest: u64,
    /// Messages that ingest acknowledged in a batch from the failures list.
    pub recovered: u64,
    /// Messages that ingest has not acknowledged yet, now.
    pub rule_waiting: u64,
    /// Of those, messages on the failures list, now.
    pub ingest_failures: u64,
    /// Rows claimed.
    pub claimed: u64,
    /// Entries that the queue accepted.
    pub sent: u64,
    /// Rows committed.
    pub committed: u64,
    /// Rows handed back unsent.
    pub handed_back: u64,
    /// Records that died.
    pub dead: u64,
    /// Dead records that came back.
    pub redriven: u64,
    /// Commits that found the row ended or touched by another.
    pub fenced: u64,
    /// Sends that may have been second ones.
    pub duplicates_known: u64,
    /// Claims that had outlived their drainer.
    pub stale_claims: u64,
}

impl Counts {
    /// Messages that ingest acknowledged, in whichever way.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.ingested + self.duplicates_ingest + self.recovered
    }
}

/// The counters behind [`Counts`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) published: Counter,
    pub(super) unmatched: Counter,
    pub(super) ingested: Counter,
    pub(super) duplicates_ingest: Counter,
    pub(super) recovered: Counter,
    pub(super) ingest_failures: Counter,
    pub(super) claimed: Counter,
    pub(super) sent: Counter,
    pub(super) committed: Counter,
    pub(super) handed_back: Counter,
    pub(super) dead: Counter,
    pub(super) redriven: Counter,
    measured: Mutex<Measured>,
}

#[derive(Debug, Default)]
struct Measured {
    fenced: f64,
    duplicate_risk: f64,
    stale_claims: f64,
}

/// One number that goes up, and for a few also down.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    pub(super) fn subtract(&self, by: u64) {
        self.0.fetch_sub(by, Ordering::SeqCst);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        // Acknowledged first: what is counted as published in between only makes more wait.
        let (ingested, duplicates_ingest, recovered) =
            (self.ingested.get(), self.duplicates_ingest.get(), self.recovered.get());
        let published = self.published.get();
        let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        Counts {
            published,
            unmatched: self.unmatched.get(),
            ingested,
            duplicates_ingest,
            recovered,
            rule_waiting: published.saturating_sub(ingested + duplicates_ingest + recovered),
            ingest_failures: self.ingest_failures.get(),
            claimed: self.claimed.get(),
            sent: self.sent.get(),
            committed: self.committed.get(),
            handed_back: self.handed_back.get(),
            dead: self.dead.get(),
            redriven: self.redriven.get(),
            fenced: whole(measured.fenced),
            duplicates_known: whole(measured.duplicate_risk),
            stale_claims: whole(measured.stale_claims),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of whole counts of rows, never negative"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

impl MetricSink for Counters {
    fn record(&self, _at: Timestamp, _labels: &Labels, values: &[(Metric, f64)]) {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        for (metric, value) in values {
            match metric {
                Metric::CommitsFenced => measured.fenced += value,
                Metric::DuplicateRisk => measured.duplicate_risk += value,
                Metric::StaleClaims => measured.stale_claims += value,
                _ => {}
            }
        }
    }
}
