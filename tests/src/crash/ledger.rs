//! The judge's book: every write and send that the services applied, in the order in which they did, fed to the protocol's
//! own [`Audit`].
//!
//! Judged are I1, I2, I3, I4, I5, I6 and I8, and beside them: the fence is raised before each acquisition, and nothing is
//! sent after its commit unless its sender was frozen, or the send was late on the wire. I7 is not: when a frozen process
//! decided something cannot be seen from outside. I9 and I10 do not apply (a standard queue; the faults bind every instance).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fencepost_protocol::ids::{
    ClaimId, FencingToken, Identity, InstanceName, MessageId, Position, RowKey, Shard, StackId,
};
use fencepost_protocol::invariants::{Audit, AuditTerms, Conservation, Observation, Violation};
use fencepost_protocol::time::Timestamp;
use fencepost_storage::records::outstanding;
use fencepost_storage::records::tombstone::EXPIRES_AT;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use super::wire::{self, Kind, Write};
use crate::proxy::{Exchange, Fault};

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claims that were applied.
    pub claims: u64,
    /// Commits that were applied.
    pub commits: u64,
    /// Commits that found the row gone, or under another claim or token; a client's own second try among them.
    pub commits_fenced: u64,
    /// Acquisitions of the lease.
    pub acquisitions: u64,
    /// Of those, from another instance.
    pub takeovers: u64,
    /// Messages that the queue accepted again.
    pub second_sends: u64,
    /// Of those, after the commit, by a sender that had been frozen or by a send that was late on the wire.
    pub late_sends: u64,
    /// Writes that came late (from a frozen process, or late on the wire) and were refused.
    pub late_writes_refused: u64,
    /// Records that died.
    pub died: u64,
}

/// The book. One for a run.
pub(super) struct Ledger(Mutex<Book>);

struct Book {
    audit: Audit,
    counts: Counts,
    holder: Option<(u64, Identity)>,
    fence: u64,
    accepted: HashMap<MessageId, u64>,
    committed: HashSet<MessageId>,
    /// Processes that were stopped at least once.
    frozen: HashSet<String>,
    violations: Vec<String>,
    rows_at_end: Conservation,
    rows: UnboundedSender<RowKey>,
    history: BufWriter<File>,
    started: Instant,
}

impl Ledger {
    /// An empty book that writes its history into `history` and tells `rows` of each new row.
    pub(super) fn new(history: File, rows: UnboundedSender<RowKey>) -> Self {
        Self(Mutex::new(Book {
            audit: Audit::new(AuditTerms::default()),
            counts: Counts::default(),
            holder: None,
            fence: 0,
            accepted: HashMap::new(),
            committed: HashSet::new(),
            frozen: HashSet::new(),
            violations: Vec::new(),
            rows_at_end: Conservation::default(),
            rows,
            history: BufWriter::new(history),
            started: Instant::now(),
        }))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an exchange. The proxy's name is `<process>/tables` or `<process>/queue`.
    pub(super) fn see(&self, exchange: &Exchange<'_>) {
        let mut book = self.book();
        let process = exchange.proxy.rsplit_once('/').map_or("", |(process, _)| process).to_owned();
        // A delay is shorter than a call's time-out: its sender still waits for it.
        let by_late_packet = exchange.fault.is_some_and(|fault| matches!(fault, Fault::ApplyLate(_)));
        let late = by_late_packet || book.frozen.contains(&process);
        for write in wire::writes(exchange) {
            book.tell_write(exchange, &write);
            if late && !write.applied {
                book.counts.late_writes_refused += 1;
            }
            book.write(&write);
        }
        for sent in wire::accepted(exchange) {
            book.tell(exchange, json!({ "accepted": sent.id.as_str() }));
            book.accepted(sent, &process, late);
        }
    }

    /// Notes something that was done to the world.
    pub(super) fn note(&self, what: &str) {
        let mut book = self.book();
        let line = json!({ "ms": book.elapsed_ms(), "trouble": what });
        book.line(&line);
    }

    /// Notes that a process was stopped: what it does from now on may be late.
    pub(super) fn froze(&self, process: &str) {
        self.book().frozen.insert(process.to_owned());
    }

    /// What was counted so far.
    pub(super) fn counts(&self) -> Counts {
        self.book().counts.clone()
    }

    /// Where the rows were when the book was closed.
    pub(super) fn rows(&self) -> Conservation {
        self.book().rows_at_end
    }

    /// Has the queue accepted this message?
    pub(super) fn was_accepted(&self, id: &MessageId) -> bool {
        self.book().accepted.contains_key(id)
    }

    /// The violations so far.
    pub(super) fn violations(&self) -> Vec<String> {
        let book = self.book();
        book.audit.violations().iter().map(Violation::to_string).chain(book.violations.iter().cloned()).collect()
    }

    /// Closes the book: compares it with what stands in the table, and gives every violation.
    pub(super) fn close(&self, at: Timestamp, outstanding: &[RowKey], dead: &[RowKey]) -> Vec<String> {
        let mut book = self.book();
        drop(book.history.flush());
        book.rows_at_end = book.audit.conservation();
        let audit = std::mem::replace(&mut book.audit, Audit::new(AuditTerms::default()));
        let judged = audit.finish(at, outstanding, dead);
        // What the audit finds may follow from what was seen here.
        std::mem::take(&mut book.violations).into_iter().chain(judged.iter().map(Violation::to_string)).collect()
    }
}

impl Book {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn line(&mut self, line: &serde_json::Value) {
        // A full disk must not end the run; the verdict does not depend on the history.
        drop(writeln!(self.history, "{line}"));
    }

    fn tell(&mut self, exchange: &Exchange<'_>, what: serde_json::Value) {
        let fault = exchange.fault.map(Fault::kind);
        let line = json!({ "ms": self.elapsed_ms(), "by": exchange.proxy, "fault": fault, "did": what });
        self.line(&line);
    }

    /// One line without a payload.
    fn tell_write(&mut self, exchange: &Exchange<'_>, write: &Write) {
        let token = Write::number(&write.set, "fencing_token").or(Write::number(&write.tests, "fencing_token"));
        let what = json!({
            "write": format!("{:?}", write.kind).to_lowercase(),
            "partition": write.text("shard").or_else(|| write.text("lease")),
            "sort": write.text("position").or_else(|| write.text("record")),
            "status": write.set.get("status").and(write.text("status")),
            "claim": write.text("claim"),
            "owner": write.text("owner"),
            "token": token,
            "applied": write.applied,
        });
        self.tell(exchange, what);
    }

    fn write(&mut self, write: &Write) {
        if write.text("record") == Some("LEASE") {
            return self.lease(write);
        }
        let Some(partition) = write.text("shard") else { return };
        if partition.starts_with("fence#") {
            let highest = Write::number(&write.set, "fencing_token").filter(|_| write.applied);
            self.fence = self.fence.max(highest.unwrap_or_default());
            return;
        }
        if write.applied && write.kind != Kind::Delete && !partition.starts_with("sent#") {
            let carries_expiry = write.set.contains_key(EXPIRES_AT);
            self.audit.observe(Observation::Stored { record: partition.to_owned(), carries_expiry });
        }
        let (Ok(shard), Some(Ok(position))) = (Shard::parse(partition), write.text("position").map(Position::parse))
        else {
            return;
        };
        self.row(write, RowKey { shard, position });
    }

    fn lease(&mut self, write: &Write) {
        let Some(token) = Write::number(&write.set, "fencing_token").filter(|_| write.applied) else { return };
        let (Some(name), Some(stack)) = (write.text("owner"), write.text("owner_stack")) else { return };
        let (Ok(name), Ok(stack)) = (InstanceName::new(name), StackId::new(stack)) else { return };
        let owner = Identity { name, stack };
        let before = self.holder.replace((token, owner.clone()));
        if before.as_ref().is_some_and(|(earlier, by)| (*earlier, by) == (token, &owner)) {
            return;
        }
        self.counts.acquisitions += 1;
        self.counts.takeovers += u64::from(before.is_some_and(|(_, by)| by != owner));
        if token > self.fence {
            self.violations.push(format!("P4: {owner} acquired token {token} and the fence stood at {}", self.fence));
        }
        match FencingToken::new(token) {
            Ok(token) => self.audit.observe(Observation::Acquired { token, owner }),
            Err(refused) => self.violations.push(format!("P4: a lease row bears an impossible token: {refused}")),
        }
    }

    fn row(&mut self, write: &Write, key: RowKey) {
        match write.kind {
            Kind::Put if write.applied => match outstanding::decode(&write.set) {
                Ok(row) => {
                    let digest = fencepost_protocol::ids::PayloadDigest::of(&row.payload);
                    let ordering_key = row.client_id.clone().unwrap_or_else(|| row.topic.clone());
                    drop(self.rows.send(key.clone()));
                    self.audit.observe(Observation::Ingested { key, digest, stamp: row.stamp, ordering_key });
                }
                Err(damage) => self.violations.push(format!("a damaged row was put: {damage}")),
            },
            Kind::Update if write.applied => self.claimed(write, key),
            Kind::Delete => self.deleted(write, key),
            Kind::Put | Kind::Update => {}
        }
    }

    fn claimed(&mut self, write: &Write, key: RowKey) {
        let claim = write.set.get("claim").and(write.text("claim")).map(ClaimId::new);
        let token = Write::number(&write.set, "fencing_token").map(FencingToken::new);
        // A hand-back sets neither.
        let (Some(Ok(claim)), Some(Ok(token))) = (claim, token) else { return };
        self.counts.claims += 1;
        let unknown = Timestamp::from_ms(0);
        self.audit.observe(Observation::Claimed { key, claim, token, decided_at: unknown, deadline: unknown });
    }

    fn deleted(&mut self, write: &Write, key: RowKey) {
        if write.tests.contains_key("redriven") {
            if write.applied {
                self.counts.died += 1;
                self.audit.observe(Observation::Died { key });
            }
            return;
        }
        if !write.applied {
            self.counts.commits_fenced += 1;
            return;
        }
        self.counts.commits += 1;
        self.committed.insert(key.position.id().clone());
        let token = Write::number(&write.tests, "fencing_token").map(FencingToken::new);
        let claim = write.tests.contains_key("claim");
        match token {
            Some(Ok(token)) if claim => self.audit.observe(Observation::Committed { key, token }),
            _ => self.violations.push(format!("P2: {key} was deleted on no condition of claim and token")),
        }
    }

    fn accepted(&mut self, sent: wire::Sent, process: &str, late: bool) {
        let times = self.accepted.entry(sent.id.clone()).or_default();
        *times += 1;
        self.counts.second_sends += u64::from(*times > 1);
        if self.committed.contains(&sent.id) {
            if late {
                self.counts.late_sends += 1;
            } else {
                self.violations.push(format!("P2: {process} sent {} after its commit", sent.id));
            }
        }
        self.audit.observe(Observation::Accepted { id: sent.id, digest: sent.digest });
    }
}

#[cfg(test)]
mod tests;
