//! The judgement: the ledger of what was published against what the stores hold, and the times against their bounds.
//!
//! It takes the bridge's word for nothing that it can see itself: delivered is what lies in the queue, by the bytes of each
//! body; the bridge's own counters are only shown beside it.

use std::collections::{BTreeSet, HashMap, HashSet};

use fencepost_local::world::{AuditReport, Counts, DeliveredMessage};
use fencepost_protocol::ids::PayloadDigest;
use serde::Serialize;

use super::ledger::Entry;

/// Faults of one kind that are told one by one; the rest is a number.
const TOLD_MAX: usize = 5;

/// The numbers of a run: what `--json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Figures {
    /// Messages that the broker acknowledged.
    pub(crate) published: u64,
    /// Messages that ingest acknowledged.
    pub(crate) ingested: u64,
    /// Message ids in the queue.
    pub(crate) delivered_unique: u64,
    /// Messages in the queue.
    pub(crate) delivered_total: u64,
    /// Sends that the bridge itself counted as possibly second ones.
    pub(crate) duplicates_known: u64,
    /// Published, and in no store.
    pub(crate) lost: u64,
    /// Dead records.
    pub(crate) dead: u64,
    /// Commits that were refused because a successor had touched the row.
    pub(crate) commits_fenced: u64,
    /// Of every acquisition, in order.
    pub(crate) tokens: Vec<u64>,
    /// From the dead leader's last renewal to the takeover; absent where there was none.
    pub(crate) takeover_ms: Option<u64>,
    /// Promise P6.
    pub(crate) takeover_bound_ms: u64,
    /// From the request to step down to the successor; absent where there was none.
    pub(crate) handover_ms: Option<u64>,
    /// Promise P7, with an idle outbox.
    pub(crate) handover_bound_ms: u64,
}

/// How long the changes of the leader took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    pub(crate) takeover: Option<u64>,
    pub(crate) takeover_from_kill: Option<u64>,
    pub(crate) takeover_bound: u64,
    pub(crate) handover: Option<u64>,
    pub(crate) handover_bound: u64,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) figures: Figures,
    pub(crate) times: Times,
    /// Rows that were committed more than once.
    pub(crate) committed_twice: u64,
    /// Messages that are stored and not delivered yet.
    pub(crate) outstanding: u64,
    /// Each broken promise, as a sentence; empty: everything was kept.
    pub(crate) broken: Vec<String>,
}

/// Judges a run at rest.
pub(crate) fn judge(
    ledger: &HashMap<PayloadDigest, Entry>,
    report: &AuditReport,
    counts: &Counts,
    tokens: Vec<u64>,
    times: Times,
) -> Verdict {
    let published = ledger.values().filter(|entry| entry.acknowledged).count();
    let lost = lost(ledger, report);
    let delivered_ids: BTreeSet<&str> = report.delivered.iter().map(|message| message.message_id.as_str()).collect();
    let mut broken = Vec::new();
    tell(&mut broken, "lost: acknowledged by the broker, and neither delivered nor stored", &lost);
    tell(&mut broken, "committed twice", &report.committed_twice);
    tell(&mut broken, "delivered although it was never published", &strangers(ledger, &report.delivered));
    tell(&mut broken, "delivered under another topic or client than published", &misnamed(ledger, &report.delivered));
    tell(&mut broken, "in the queue with a body that does not decode", &report.undecodable);
    tell(&mut broken, "damaged in the store", &report.damaged);
    tell(&mut broken, "invariant", &report.violations.iter().map(ToString::to_string).collect::<Vec<_>>());
    tell(&mut broken, "not delivered in time, though stored", &outstanding(report));
    if let Some(violation) = report.conservation.as_ref().and_then(|conservation| conservation.violation()) {
        broken.push(format!("conservation: {violation}"));
    }
    if !tokens.is_sorted_by(|earlier, later| earlier < later) {
        broken.push(format!("tokens do not grow: {tokens:?}"));
    }
    let unacknowledged = ledger.len() - published;
    if unacknowledged > 0 {
        broken.push(format!("{unacknowledged} published messages were never acknowledged by the broker"));
    }
    bound(&mut broken, "takeover after the crash", times.takeover, times.takeover_bound);
    bound(&mut broken, "planned handover", times.handover, times.handover_bound);
    Verdict {
        figures: Figures {
            published: number(published),
            ingested: counts.acknowledged(),
            delivered_unique: number(delivered_ids.len()),
            delivered_total: number(report.delivered.len() + report.undecodable.len()),
            duplicates_known: counts.duplicates_known,
            lost: number(lost.len()),
            dead: number(report.dead.len()),
            commits_fenced: counts.fenced,
            tokens,
            takeover_ms: times.takeover,
            takeover_bound_ms: times.takeover_bound,
            handover_ms: times.handover,
            handover_bound_ms: times.handover_bound,
        },
        times,
        committed_twice: number(report.committed_twice.len()),
        outstanding: number(report.outstanding.len()),
        broken,
    }
}

/// Acknowledged by the broker, and now in no store: neither in the queue, nor outstanding, nor dead.
fn lost(ledger: &HashMap<PayloadDigest, Entry>, report: &AuditReport) -> Vec<String> {
    let delivered = report.delivered.iter().map(|message| &message.digest);
    let stored = report.outstanding.iter().chain(&report.dead).map(|record| &record.digest);
    let somewhere: HashSet<&PayloadDigest> = delivered.chain(stored).collect();
    let nowhere = ledger.iter().filter(|(digest, entry)| entry.acknowledged && !somewhere.contains(digest));
    nowhere.map(|(digest, entry)| format!("{} of {}", digest.short(12), entry.client_id)).collect()
}

fn strangers(ledger: &HashMap<PayloadDigest, Entry>, delivered: &[DeliveredMessage]) -> Vec<String> {
    let unknown = delivered.iter().filter(|message| !ledger.contains_key(&message.digest));
    unknown.map(|message| format!("{} on {}", message.message_id, message.topic)).collect()
}

fn misnamed(ledger: &HashMap<PayloadDigest, Entry>, delivered: &[DeliveredMessage]) -> Vec<String> {
    let wrong = delivered.iter().filter(|message| {
        ledger.get(&message.digest).is_some_and(|entry| {
            entry.topic != message.topic || message.client_id.as_ref().is_some_and(|client| *client != entry.client_id)
        })
    });
    wrong.map(|message| format!("{} on {}", message.message_id, message.topic)).collect()
}

fn outstanding(report: &AuditReport) -> Vec<String> {
    report.outstanding.iter().map(|record| record.key.to_string()).collect()
}

fn tell(broken: &mut Vec<String>, what: &str, cases: &[String]) {
    if cases.is_empty() {
        return;
    }
    let more = cases.len().saturating_sub(TOLD_MAX);
    let told = cases.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join("; ");
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    broken.push(format!("{} {what}: {told}{rest}", cases.len()));
}

fn bound(broken: &mut Vec<String>, what: &str, took_ms: Option<u64>, bound_ms: u64) {
    match took_ms {
        None => broken.push(format!("{what}: nobody took the lease in time (the bound is {bound_ms}ms)")),
        Some(took_ms) if took_ms > bound_ms => {
            broken.push(format!("{what}: took {took_ms}ms, the bound is {bound_ms}ms"));
        }
        Some(_) => {}
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
