//! What a call measures: metrics, and the event that follows from what it did.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_protocol::drain::{ClaimedRow, DrainAnswer};
use fencepost_protocol::ids::{Identity, LeaseName};
use fencepost_protocol::outbox::{DeathReason, OutboxRow};
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::{BusEvent, Page};
use serde_json::json;

/// Observations of a shard or of a call.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    rows_seen: u64,
    strays: u64,
    heads_seen: usize,
    oldest_age: Option<Duration>,
    latencies: Vec<Duration>,
    dead: BTreeMap<&'static str, u64>,
}

impl Measures {
    /// A page was read; the head of a shard tells the age of its oldest record.
    pub(crate) fn saw_page(&mut self, is_head: bool, page: &Page<OutboxRow>, now: Timestamp) {
        self.rows_seen += u64::try_from(page.rows.len()).unwrap_or(u64::MAX);
        self.strays += u64::try_from(page.strays.len()).unwrap_or(u64::MAX);
        self.heads_seen += usize::from(is_head);
        if is_head && let Some((position, _)) = page.rows.first() {
            self.oldest_age = self.oldest_age.max(Some(now.since(position.received_at())));
        }
    }

    /// The queue accepted these; their way from the broker took so long.
    pub(crate) fn saw_accepted(&mut self, accepted: &[ClaimedRow], now: Timestamp) {
        self.latencies.extend(accepted.iter().map(|claimed| now.since(claimed.row.key.position.received_at())));
    }

    /// A record died.
    pub(crate) fn buried(&mut self, reason: DeathReason) {
        *self.dead.entry(reason.as_str()).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: Measures) {
        self.rows_seen += other.rows_seen;
        self.strays += other.strays;
        self.heads_seen += other.heads_seen;
        self.oldest_age = self.oldest_age.max(other.oldest_age);
        self.latencies.extend(other.latencies);
        for (reason, count) in other.dead {
            *self.dead.entry(reason).or_default() += count;
        }
    }

    /// The call's metrics. The backlog is told only by a call that began at the head of all its `shards`: its age where it
    /// saw every head, its size where it saw every end. What could not be read says nothing, so that its alarm rings.
    pub(crate) fn values(&self, answer: &DrainAnswer, shards: Option<usize>, took: Duration) -> Vec<(Metric, f64)> {
        let counts = &answer.counts;
        let mut values = vec![
            (Metric::Claimed, number(counts.claimed)),
            (Metric::ClaimConflicts, number(counts.conflicts)),
            (Metric::StaleClaims, number(counts.stale_claims)),
            (Metric::Sent, number(counts.sent)),
            (Metric::Committed, number(counts.committed)),
            (Metric::CommitsFenced, number(counts.fenced)),
            (Metric::DuplicateRisk, number(counts.duplicate_risk)),
            (Metric::SendFailures, number(counts.send_failures + counts.refused)),
            (Metric::Dead, number(counts.dead)),
            (Metric::TokenRegression, number(counts.token_regression)),
            (Metric::Held, number(counts.held + self.strays)),
            (Metric::DrainDuration, took.as_secs_f64() * 1000.0),
        ];
        if shards.is_some_and(|shards| self.heads_seen >= shards) {
            values.push((Metric::OldestOutstandingAge, self.oldest_age.map_or(0.0, |age| age.as_secs_f64())));
            if answer.done && answer.stopped_by.is_none() {
                let left = self.rows_seen.saturating_sub(counts.committed).saturating_sub(counts.dead);
                values.push((Metric::OutboxOutstanding, number(left)));
            }
        }
        values.extend(self.latencies.iter().map(|latency| (Metric::EndToEndLatency, latency.as_secs_f64() * 1000.0)));
        values
    }

    /// The event of a call in which records died: how many, by reason, as of `at`.
    pub(crate) fn records_dead(&self, lease: &LeaseName, me: &Identity, at: Timestamp) -> Option<BusEvent> {
        if self.dead.is_empty() {
            return None;
        }
        let count: u64 = self.dead.values().sum();
        let detail = json!({
            "lease": lease, "instance": me.name, "stack": me.stack, "count": count, "by_reason": self.dead, "at_ms": at,
        });
        Some(BusEvent { detail_type: "Records Dead", detail: detail.to_string() })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one call are far below 2^53")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
