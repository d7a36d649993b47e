//! What happened to each row, for the audit.
//!
//! Two sources: the ports say beforehand what a call is about to do (`watch`), and the outbox's own stream says what became
//! true. Only the stream counts, so a call that was applied while its caller was killed is neither missed nor counted twice.
//! The judge is [`fencepost_protocol::invariants`], the same as in the simulator.
//!
//! Rows that were there when the world started count as ingested and accepted: what was before is not judged.

use std::collections::{HashMap, HashSet};

use fencepost_protocol::ids::{
    FencingToken, Identity, LeaseName, MessageId, PayloadDigest, Position, RowKey, Shard, Stamp,
};
use fencepost_protocol::invariants::{Audit, AuditTerms, Conservation, Observation, Violation};
use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::outbox::{DeadRow, OutboxRow};
use fencepost_protocol::time::Timestamp;
use serde_json::Value;

/// What a put is about to write.
#[derive(Debug, Clone)]
struct Expected {
    digest: PayloadDigest,
    stamp: Stamp,
    ordering_key: String,
    /// Is it a redrive?
    redriven: bool,
}

/// What happened to each row.
#[derive(Debug)]
pub(super) struct History {
    lease: LeaseName,
    audit: Audit,
    /// Puts that were begun. The row's next insertion uses one up; an insertion without one is a row that came back from
    /// nowhere.
    putting: HashMap<RowKey, Vec<Expected>>,
    /// Commits that were begun and not refused, each with its token.
    committing: HashMap<RowKey, Vec<FencingToken>>,
    dying: HashSet<RowKey>,
    acquired: HashSet<(FencingToken, Identity)>,
    /// How often each row was put, rightly, and how often committed.
    lives: HashMap<RowKey, Lives>,
}

/// A row's puts and commits. One event delivered again after its commit is a second life, which its tombstone ends unsent.
#[derive(Debug, Default, Clone, Copy)]
struct Lives {
    puts: u32,
    commits: u32,
}

/// What the history says at rest.
#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) violations: Vec<Violation>,
    pub(super) conservation: Conservation,
    pub(super) committed_twice: Vec<String>,
}

impl History {
    /// Nothing happened yet. `ordered`: the destination is a FIFO queue.
    pub(super) fn new(lease: LeaseName, ordered: bool) -> Self {
        Self {
            lease,
            audit: Audit::new(AuditTerms { ordered, vacancy_max: None }),
            putting: HashMap::new(),
            committing: HashMap::new(),
            dying: HashSet::new(),
            acquired: HashSet::new(),
            lives: HashMap::new(),
        }
    }

    /// A row that is outstanding at the start.
    pub(super) fn found(&mut self, row: &OutboxRow) {
        let digest = PayloadDigest::of(&row.payload);
        self.audit.observe(Observation::Accepted { id: row.id().clone(), digest: digest.clone() });
        self.ingested(row.key.clone(), digest, row.stamp, row.ordering_key().to_owned());
    }

    /// A record that is dead at the start.
    pub(super) fn found_dead(&mut self, dead: &DeadRow) {
        self.found(&dead.row);
        self.audit.observe(Observation::Died { key: dead.row.key.clone() });
    }

    /// A put is about to be tried.
    pub(super) fn putting(&mut self, row: &OutboxRow, redriven: bool) {
        let expected = Expected {
            digest: PayloadDigest::of(&row.payload),
            stamp: row.stamp,
            ordering_key: row.ordering_key().to_owned(),
            redriven,
        };
        self.putting.entry(row.key.clone()).or_default().push(expected);
    }

    /// The queue accepted a message.
    pub(super) fn accepted(&mut self, id: MessageId, digest: PayloadDigest) {
        self.audit.observe(Observation::Accepted { id, digest });
    }

    /// A commit is about to be tried.
    pub(super) fn committing(&mut self, key: &RowKey, token: FencingToken) {
        self.committing.entry(key.clone()).or_default().push(token);
    }

    /// A commit was refused: it deleted nothing.
    pub(super) fn commit_refused(&mut self, key: &RowKey, token: FencingToken) {
        if let Some(tokens) = self.committing.get_mut(key)
            && let Some(at) = tokens.iter().position(|begun| *begun == token)
        {
            tokens.swap_remove(at);
        }
    }

    /// A burial is about to be tried.
    pub(super) fn dying(&mut self, key: &RowKey) {
        self.dying.insert(key.clone());
    }

    /// A lease write was applied.
    pub(super) fn lease_written(&mut self, record: &LeaseRecord) {
        let Some(owner) = record.owner.clone() else { return };
        if self.acquired.insert((record.token, owner.clone())) {
            self.audit.observe(Observation::Acquired { token: record.token, owner });
        }
    }

    /// The next record of the outbox's stream, in the stream's order.
    pub(super) fn changed(&mut self, record: &Value) {
        let text = |name: &str| record["dynamodb"]["Keys"][name]["S"].as_str();
        let (Some(shard), Some(position)) = (text("shard"), text("position")) else { return };
        let Ok(shard) = Shard::parse(shard) else { return };
        let Ok(position) = Position::parse(position) else { return };
        if *shard.lease() != self.lease {
            return;
        }
        let key = RowKey { shard, position };
        match record["eventName"].as_str() {
            Some("INSERT") => self.stored(key),
            Some("REMOVE") => self.removed(key),
            Some(_) | None => {}
        }
    }

    fn stored(&mut self, key: RowKey) {
        let Some(put) = self.putting.get_mut(&key).and_then(Vec::pop) else {
            // Nobody put it: a write that should have found it gone brought it back. Its commit will be one too many.
            return;
        };
        if put.redriven {
            self.lives.entry(key.clone()).or_default().puts += 1;
            self.audit.observe(Observation::Redriven { key, stamp: put.stamp });
        } else {
            self.ingested(key, put.digest, put.stamp, put.ordering_key);
        }
    }

    fn ingested(&mut self, key: RowKey, digest: PayloadDigest, stamp: Stamp, ordering_key: String) {
        self.lives.entry(key.clone()).or_default().puts += 1;
        self.audit.observe(Observation::Ingested { key, digest, stamp, ordering_key });
    }

    fn removed(&mut self, key: RowKey) {
        let token = self.committing.remove(&key).and_then(|tokens| tokens.into_iter().max());
        if let Some(token) = token {
            self.lives.entry(key.clone()).or_default().commits += 1;
            self.audit.observe(Observation::Committed { key, token });
        } else if self.dying.remove(&key) {
            self.audit.observe(Observation::Died { key });
        }
        // Removed by nobody that we know: it stays outstanding here, and the audit finds it lost.
    }

    /// Judges what happened, given what the store holds now.
    pub(super) fn judge(&self, at: Timestamp, outstanding: &[RowKey], dead: &[RowKey]) -> Judgement {
        let too_many = self.lives.iter().filter(|(_, lives)| lives.commits > lives.puts);
        let mut committed_twice: Vec<String> = too_many.map(|(key, _)| key.to_string()).collect();
        committed_twice.sort();
        Judgement {
            conservation: self.audit.conservation(),
            violations: self.audit.clone().finish(at, outstanding, dead),
            committed_twice,
        }
    }
}
