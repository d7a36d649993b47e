//! Who sees every applied write and feeds the judge: [`fencepost_protocol::invariants::Audit`], the same as everywhere else.
//!
//! Four more rules are judged here, because they need the true time or the whole ledger: P2 (no second send of a committed
//! message inside the window), P6 and P7 (how long a change of holder takes), and that no handler panics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_protocol::body::{BodyFormat, MESSAGE_ID, QueueEntry, attribute, decode_body};
use fencepost_protocol::drain::{Claim, Commit};
use fencepost_protocol::ids::{ClaimId, FencingToken, Identity, MessageId, PayloadDigest, Position, RowKey, Shard};
use fencepost_protocol::invariants::{Audit, AuditTerms, Conservation, Observation};
use fencepost_protocol::lease::{AcquiredAs, LeaseRecord};
use fencepost_protocol::outbox::{OutboxRow, Status};
use fencepost_protocol::time::Timestamp;
use fencepost_protocol::timing::Timing;

use super::invocation::Caller;
use super::leadership::Leadership;
use super::reached::{Reached, Sometimes};
use super::time::START;

/// Stale claims from which on a record is claimed alone.
const STALE_CLAIMS_MAX: u32 = 3;

/// What was broken, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Since the beginning of the run.
    pub at: Duration,
    /// Which rule, for example `I3`.
    pub rule: String,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {:.3}s: {}", self.rule, self.at.as_secs_f64(), self.what)
    }
}

/// A token in use.
#[derive(Debug, Clone)]
struct Held {
    confirmed_at: Timestamp,
    lease_ttl: Duration,
}

/// A message that was stored.
#[derive(Debug, Clone)]
struct Known {
    key: RowKey,
    digest: PayloadDigest,
    life: u32,
    committed_life: Option<u32>,
}

/// The observer.
#[derive(Debug)]
pub(crate) struct Observer {
    body_format: BodyFormat,
    keeps_tombstones: bool,
    audit: Audit,
    judged: usize,
    broken: Vec<Broken>,
    held: BTreeMap<FencingToken, Held>,
    known: BTreeMap<MessageId, Known>,
    claims: BTreeSet<(RowKey, ClaimId)>,
    attempts: BTreeSet<String>,
    reads: u64,
    passes: BTreeMap<(String, Shard), ClaimId>,
    pub(crate) leadership: Leadership,
    pub(crate) reached: Reached,
}

impl Observer {
    pub(crate) fn new(ordered: bool, timing: &Timing, body_format: BodyFormat) -> Self {
        let leadership = Leadership::new(timing);
        let terms = AuditTerms { ordered, vacancy_max: Some(leadership.vacancy_max()) };
        Self {
            body_format,
            keeps_tombstones: !timing.dedupe_window.is_zero(),
            audit: Audit::new(terms),
            judged: 0,
            broken: Vec::new(),
            held: BTreeMap::new(),
            known: BTreeMap::new(),
            claims: BTreeSet::new(),
            attempts: BTreeSet::new(),
            reads: 0,
            passes: BTreeMap::new(),
            leadership,
            reached: Reached::default(),
        }
    }

    /// Everything broken so far.
    pub(crate) fn broken(&self) -> &[Broken] {
        &self.broken
    }

    pub(crate) fn conservation(&self) -> Conservation {
        self.audit.conservation()
    }

    pub(crate) fn inversions(&self) -> u64 {
        self.audit.inversions()
    }

    /// Notes a broken rule of our own.
    pub(crate) fn break_rule(&mut self, at: Duration, rule: &str, what: String) {
        self.broken.push(Broken { at, rule: rule.to_owned(), what });
    }

    pub(crate) fn observe(&mut self, at: Duration, observation: Observation) {
        self.audit.observe(observation);
        let new = self.audit.violations()[self.judged..].iter().map(|violation| Broken {
            at,
            rule: format!("{:?}", violation.invariant),
            what: violation.what.clone(),
        });
        self.broken.extend(new);
        self.judged = self.audit.violations().len();
    }

    /// Whether somebody leads, and whether somebody could, as of now.
    pub(crate) fn watch(&mut self, at: Duration, leading: bool, able: bool, troubled: bool) {
        let now = START.plus(at);
        if troubled {
            self.observe(at, Observation::Able { at: now, able: false });
        }
        self.observe(at, Observation::Leading { at: now, somebody: leading });
        self.observe(at, Observation::Able { at: now, able });
    }

    /// Ends the history: what stands in the store is compared with it.
    pub(crate) fn finish(&mut self, at: Duration, outstanding: &[RowKey], dead: &[RowKey]) {
        let all = self.audit.clone().finish(START.plus(at), outstanding, dead);
        let new = all[self.judged..].iter().map(|violation| Broken {
            at,
            rule: format!("{:?}", violation.invariant),
            what: violation.what.clone(),
        });
        self.broken.extend(new);
    }

    /// A lease write was applied, by an instance that nothing has disturbed since `healthy_since`; gives what it did in words,
    /// unless it was one more renewal.
    pub(crate) fn lease_written(
        &mut self,
        at: Duration,
        caller: &Caller,
        before: Option<&LeaseRecord>,
        record: &LeaseRecord,
        healthy_since: Option<Duration>,
    ) -> Option<String> {
        if !self.attempts.insert(record.attempt.to_string()) {
            return None;
        }
        if let Some(owner) = &record.owner {
            let is_acquisition = self.is_acquisition(before, record, owner);
            let held = Held { confirmed_at: record.confirmed_at, lease_ttl: record.lease_ttl };
            self.held.insert(record.token, held);
            if is_acquisition {
                self.observe(at, Observation::Acquired { token: record.token, owner: owner.clone() });
                let broken = self.leadership.acquired(at, caller, before, record);
                if let Some((rule, what)) = broken {
                    self.break_rule(at, rule, what);
                }
                return Some(self.acquisition(before, record, owner));
            }
        }
        let words = changed_words(before, record);
        match words.as_deref() {
            Some("step-down marked") => self.reached.add(Sometimes::StepDownMarked, 1),
            Some("released") => self.reached.add(Sometimes::Released, 1),
            _ => {}
        }
        let released = record.owner.is_none().then(|| self.leadership.released(at, healthy_since)).flatten();
        if let Some((rule, what)) = released {
            self.break_rule(at, rule, what);
        }
        let late = self.leadership.written(at, caller.entered, record);
        self.reached.add(Sometimes::RenewedLate, u64::from(late));
        words.map(|words| format!("{words} (token {})", record.token))
    }

    /// Does this write make a holder? Over a row that shows a holder or a release that there was: where it changes token or owner.
    fn is_acquisition(&self, before: Option<&LeaseRecord>, record: &LeaseRecord, owner: &Identity) -> bool {
        if let Some(before) = before.filter(|before| self.held.contains_key(&before.token)) {
            return before.token != record.token || before.owner.as_ref() != Some(owner);
        }
        // No row, or one that a hand has damaged under a write in flight. The newest holder's renewal stays one, and so does its
        // note of a takeover's end, which keeps the time of the confirmation.
        let newest = self.held.last_key_value().filter(|(token, _)| **token == record.token);
        newest.is_none_or(|(_, held)| record.renewal == 0 && held.confirmed_at != record.confirmed_at)
    }

    fn acquisition(&mut self, before: Option<&LeaseRecord>, record: &LeaseRecord, owner: &Identity) -> String {
        let token = record.token;
        match record.acquired_as {
            AcquiredAs::Seized => {
                self.reached.add(Sometimes::Takeover, 1);
                format!("seized the lease, token {token}")
            }
            AcquiredAs::Reclaimed => {
                self.reached.add(Sometimes::Reclaim, 1);
                format!("reclaimed the lease, token {token}")
            }
            AcquiredAs::Acquired => {
                let by_other =
                    before.and_then(|before| before.released.as_ref()).is_some_and(|released| released.by != *owner);
                self.reached.add(Sometimes::Handover, u64::from(by_other));
                format!("acquired the lease, token {token}")
            }
        }
    }

    /// A drainer read a page; what it claims from it is judged by this read.
    pub(crate) fn page_read(&mut self, at: Duration, caller: &Caller, shard: &Shard, after: Option<&Position>) {
        let Some(invocation) = &caller.invocation else { return };
        self.reads += 1;
        let Ok(read) = ClaimId::new(format!("read-{}", self.reads)) else { return };
        let place = (invocation.scope.clone(), shard.clone());
        let pass = match after {
            None => read.clone(),
            Some(_) => self.passes.get(&place).cloned().unwrap_or_else(|| read.clone()),
        };
        self.passes.insert(place, pass.clone());
        invocation.read_page(shard, read.clone());
        self.observe(at, Observation::PageRead { shard: shard.clone(), claim: read, pass, after: after.cloned() });
    }

    /// A row was put where none was.
    pub(crate) fn stored_row(&mut self, at: Duration, row: &OutboxRow) {
        let digest = PayloadDigest::of(&row.payload);
        let committed_life = self.known.get(row.id()).and_then(|known| known.committed_life);
        let known = Known { key: row.key.clone(), digest: digest.clone(), life: row.redriven, committed_life };
        self.known.insert(row.id().clone(), known);
        let ordering_key = row.ordering_key().to_owned();
        self.observe(at, Observation::Ingested { key: row.key.clone(), digest, stamp: row.stamp, ordering_key });
    }

    /// A dead record came back.
    pub(crate) fn redriven(&mut self, at: Duration, row: &OutboxRow) {
        self.reached.add(Sometimes::Redriven, 1);
        if let Some(known) = self.known.get_mut(row.id()) {
            known.life = row.redriven;
        }
        self.observe(at, Observation::Redriven { key: row.key.clone(), stamp: row.stamp });
    }

    /// A claim stands; `false` where it stood before.
    pub(crate) fn claimed(&mut self, at: Duration, caller: &Caller, claim: &Claim) -> bool {
        if !self.claims.insert((claim.key.clone(), claim.claim.clone())) {
            return false;
        }
        let Some(deadline) = self.deadline(caller, claim.token) else {
            self.break_rule(
                at,
                "I2",
                format!("{} was claimed under token {}, which nobody got", claim.key, claim.token),
            );
            return true;
        };
        self.reached.add(Sometimes::StaleReclaim, u64::from(claim.seen != Status::Pending));
        self.reached.add(Sometimes::ClaimedAlone, u64::from(claim.stale >= STALE_CLAIMS_MAX));
        let woken = caller.invocation.as_ref().is_some_and(|invocation| invocation.scope.contains("-stream-"));
        self.reached.add(Sometimes::WokenByStream, u64::from(woken));
        let read = caller.read_of(&claim.key.shard).unwrap_or_else(|| claim.claim.clone());
        let key = claim.key.clone();
        let observation =
            Observation::Claimed { key, claim: read, token: claim.token, decided_at: caller.wall, deadline };
        self.observe(at, observation);
        true
    }

    /// The last moment, on the instance's own clock, at which something may be decided under `token`.
    fn deadline(&self, caller: &Caller, token: FencingToken) -> Option<Timestamp> {
        let held = self.held.get(&token)?;
        let ttl = held.lease_ttl.min(caller.timing.lease_ttl);
        Some(held.confirmed_at.plus(ttl.saturating_sub(caller.timing.clock_margin)))
    }

    /// A send is about to be tried.
    pub(crate) fn send_started(&mut self, at: Duration, caller: &Caller, entries: &[QueueEntry]) {
        for entry in entries {
            let Some((id, _)) = self.told(entry) else { continue };
            if let Some(invocation) = &caller.invocation {
                invocation.sends(&id);
            }
            let Some(known) = self.known.get(&id).cloned() else {
                self.break_rule(at, "I5", format!("{id} is sent and was never stored"));
                continue;
            };
            if self.keeps_tombstones && known.committed_life == Some(known.life) {
                self.break_rule(at, "P2", format!("{id} is sent again although it was committed"));
            }
            let token = attribute(&entry.attributes, fencepost_protocol::body::FENCING_TOKEN).ok().flatten();
            let token = token.and_then(|token| token.parse().ok()).and_then(|token| FencingToken::new(token).ok());
            let deadline = token.and_then(|token| self.deadline(caller, token));
            let (Some(deadline), Some(read)) = (deadline, caller.read_of(&known.key.shard)) else {
                self.break_rule(at, "I2", format!("{id} is sent by nobody who claimed it"));
                continue;
            };
            let ends_by = caller.wall.plus(caller.timing.send_timeout);
            let (key, decided_at) = (known.key, caller.wall);
            self.observe(at, Observation::SendStarted { key, claim: read, decided_at, ends_by, deadline });
        }
    }

    /// The queue accepted an entry.
    pub(crate) fn accepted(&mut self, at: Duration, entry: &QueueEntry) {
        let Some((id, payload)) = self.told(entry) else {
            self.break_rule(at, "body", format!("entry {} does not decode", entry.entry_id));
            return;
        };
        let digest = PayloadDigest::of(&payload);
        if self.known.get(&id).is_some_and(|known| known.digest != digest) {
            self.break_rule(at, "I4", format!("{id} was sent with other bytes than were stored"));
        }
        self.observe(at, Observation::Accepted { id, digest });
    }

    fn told(&self, entry: &QueueEntry) -> Option<(MessageId, Vec<u8>)> {
        let id = MessageId::new(attribute(&entry.attributes, MESSAGE_ID).ok()??).ok()?;
        Some((id, decode_body(self.body_format, &entry.body, &entry.attributes).ok()?))
    }

    /// A commit was applied.
    pub(crate) fn committed(&mut self, at: Duration, caller: &Caller, commit: &Commit) {
        let id = commit.key.position.id();
        let unsent = caller.invocation.as_ref().is_some_and(|invocation| !invocation.has_sent(id));
        self.reached.add(Sometimes::ProvenBefore, u64::from(unsent));
        if let Some(known) = self.known.get_mut(commit.key.position.id()) {
            known.committed_life = Some(known.life);
        }
        self.observe(at, Observation::Committed { key: commit.key.clone(), token: commit.token });
    }

    /// The outstanding row of a dead record is gone.
    pub(crate) fn died(&mut self, at: Duration, key: &RowKey) {
        self.reached.add(Sometimes::Dead, 1);
        self.observe(at, Observation::Died { key: key.clone() });
    }
}

/// What a write of the same holder changed; nothing for a renewal.
fn changed_words(before: Option<&LeaseRecord>, record: &LeaseRecord) -> Option<String> {
    let before = before?;
    if record.owner.is_none() && before.owner.is_some() {
        return Some("released".to_owned());
    }
    if record.stepping_down.is_some() && before.stepping_down.is_none() {
        return Some("step-down marked".to_owned());
    }
    if record.stepping_down.is_none() && before.stepping_down.is_some() {
        return Some("step-down taken back".to_owned());
    }
    if record.takeover_done != before.takeover_done {
        return Some("takeover done".to_owned());
    }
    if record.takeover_try != before.takeover_try {
        return Some(format!("takeover try {}", record.takeover_try));
    }
    if record.owner.is_none() && record.released != before.released {
        return Some("abstention ended".to_owned());
    }
    None
}
