//! The tables, each write with the condition that its type states, and writes that are on their way.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_protocol::drain::{Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack, Redrive};
use fencepost_protocol::ids::Stamp;
use fencepost_protocol::ids::{AttemptId, ClaimId, FencingToken, MessageId, PayloadDigest, RowKey};
use fencepost_protocol::invariants::Observation;
use fencepost_protocol::lease::{
    Evidence, FenceRaise, InstanceRecord, LeaseRecord, LeaseWrite, Purpose, Rules, Standing,
};
use fencepost_protocol::outbox::{DeadRow, Fence, OutboxRow, Slot, Status, Tombstone};
use fencepost_protocol::time::Timestamp;

use crate::rules;
use crate::ticking::Ticking;
use crate::world::World;

/// What an instance record keeps, as far as it decides anything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    pub(crate) generation: u64,
    pub(crate) evidence: Option<Evidence>,
}

impl Memory {
    /// The record as it is read.
    pub(crate) fn record(&self, rules: &Rules) -> InstanceRecord {
        InstanceRecord {
            lease: rules.lease.clone(),
            identity: rules.me.clone(),
            evidence: self.evidence.clone(),
            loops: Vec::new(),
            generation: self.generation,
            reported: Standing::Standby,
            told_token: Stamp::NONE,
            reporting: None,
            attempt: AttemptId::new("i").unwrap(),
        }
    }
}

/// Both tables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) lease: Arc<Slot<LeaseRecord>>,
    pub(crate) fence: Option<Arc<Fence>>,
    /// The instance records, in the order of the cast.
    pub(crate) memories: Vec<Option<Arc<Memory>>>,
    pub(crate) rows: BTreeMap<RowKey, Arc<OutboxRow>>,
    pub(crate) dead: BTreeMap<RowKey, Arc<DeadRow>>,
    pub(crate) stones: BTreeMap<MessageId, Arc<Tombstone>>,
}

/// A write on its way to the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    Fence(FenceRaise),
    Lease(Purpose, LeaseWrite),
    Claim { claim: Claim, decided_at: Timestamp, deadline: Timestamp },
    HandBack(HandBack),
    Stone(Tombstone),
    Commit(Commit),
    EndBuried(Burial),
    PutRedriven(Redrive),
    DeleteDead { key: RowKey, redriven: u32 },
}

impl Write {
    /// The attempt ids that it bears and waits for.
    pub(crate) fn attempts(&self) -> [Option<&str>; 2] {
        match self {
            Write::Fence(raise) => {
                [Some(raise.fence.attempt.as_str()), raise.expected.as_ref().map(|fence| fence.attempt.as_str())]
            }
            Write::Lease(_, write) => {
                [Some(write.record.attempt.as_str()), write.expected.as_ref().map(AttemptId::as_str)]
            }
            _ => [None, None],
        }
    }

    /// The claim id that it bears.
    pub(crate) fn claim(&self) -> Option<&ClaimId> {
        match self {
            Write::Claim { claim, .. } => Some(&claim.claim),
            Write::HandBack(back) => Some(&back.claim),
            Write::Commit(commit) => Some(&commit.claim),
            Write::EndBuried(burial) => match &burial.seen {
                Status::Claimed(claim) => Some(claim),
                Status::Pending => None,
            },
            _ => None,
        }
    }
}

impl Store {
    pub(crate) fn new(instances: usize) -> Self {
        Self {
            lease: Arc::new(Slot::Absent),
            fence: None,
            memories: vec![None; instances],
            rows: BTreeMap::new(),
            dead: BTreeMap::new(),
            stones: BTreeMap::new(),
        }
    }

    /// The claim ids in rows, outstanding and dead.
    pub(crate) fn claims(&self) -> Vec<&str> {
        let rows = self.rows.values().map(|row| &**row).chain(self.dead.values().map(|dead| &dead.row));
        rows.filter_map(|row| row.claim()).map(ClaimId::as_str).collect()
    }

    /// What a strong read of these ids returns.
    pub(crate) fn read_stones(&self, ids: &[MessageId]) -> Vec<Slot<Tombstone>> {
        ids.iter().filter_map(|id| self.stones.get(id)).map(|stone| Slot::Present((**stone).clone())).collect()
    }

    /// What stands at `key`.
    pub(crate) fn row(&self, key: &RowKey) -> Slot<OutboxRow> {
        self.rows.get(key).map_or(Slot::Absent, |row| Slot::Present((**row).clone()))
    }

    /// Counts the generations of each instance record anew where only their differences can show: between the record and
    /// what ticks in progress have read. A namesake's generation is evidence and stays.
    pub(crate) fn renumber(&mut self, ticks: &mut [Arc<Ticking>]) {
        for who in 0..self.memories.len() {
            let Some(memory) = &self.memories[who] else { continue };
            let read = ticks.iter().filter(|tick| tick.who == who).filter_map(|tick| tick.generation());
            let lowest = read.chain([memory.generation]).min().unwrap_or(1);
            let is_evidence = self.memories.iter().flatten().any(|memory| rules::counts_a_namesake(memory));
            if lowest <= 1 || is_evidence {
                continue;
            }
            let mut fresh = (**memory).clone();
            fresh.generation -= lowest - 1;
            self.memories[who] = Some(Arc::new(fresh));
            for tick in ticks.iter_mut().filter(|tick| tick.who == who) {
                Arc::make_mut(tick).lower_generation(lowest - 1);
            }
        }
    }
}

impl World {
    /// The lease table is lost and made anew, or a damaged row is deleted. P4 assumes (see the crate's own page) that no lease
    /// write from before reaches the new table: making one takes longer than any call's time-out, and the runbook stops the
    /// ticks before it. So those writes are gone here, and with them the ticks that would make them.
    pub(crate) fn lose_lease_table(&mut self) {
        self.store.lease = Arc::new(Slot::Absent);
        self.store.memories.fill(None);
        self.ticks.clear();
        self.late.retain(|write| !matches!(**write, Write::Lease(..)));
    }

    /// Ingest: one put where the key is absent.
    pub(crate) fn ingest(&mut self, row: OutboxRow) -> bool {
        if self.store.rows.contains_key(&row.key) {
            return false;
        }
        self.observe(Observation::Ingested {
            key: row.key.clone(),
            digest: PayloadDigest::of(&row.payload),
            stamp: row.stamp,
            ordering_key: row.ordering_key().to_owned(),
        });
        self.store.rows.insert(row.key.clone(), Arc::new(row));
        true
    }

    /// Condition: exactly the version that was read. One's own version that stands there is a success.
    pub(crate) fn raise_fence(&mut self, raise: &FenceRaise) -> bool {
        if self.store.fence.as_deref() == raise.expected.as_ref() {
            self.store.fence = Some(Arc::new(raise.fence.clone()));
            return true;
        }
        self.store.fence.as_ref().is_some_and(|fence| fence.attempt == raise.fence.attempt)
    }

    /// Condition: the attempt that was read. `Err`: what stands there instead. One's own version is a success.
    pub(crate) fn write_lease(&mut self, purpose: Purpose, write: &LeaseWrite) -> Result<(), Slot<LeaseRecord>> {
        let standing = Arc::clone(&self.store.lease);
        let attempt = standing.present().map(|record| &record.attempt);
        let damaged = matches!(*standing, Slot::Damaged(_));
        if damaged || attempt != write.expected.as_ref() {
            return if attempt == Some(&write.record.attempt) { Ok(()) } else { Err((*standing).clone()) };
        }
        rules::judge_lease_write(self, purpose, standing.present(), &write.record);
        self.store.lease = Arc::new(Slot::Present(write.record.clone()));
        if matches!(purpose, Purpose::Acquire(_)) {
            let owner = write.record.owner.clone().unwrap();
            self.observe(Observation::Acquired { token: write.record.token, owner });
        }
        Ok(())
    }

    /// Condition: status, claim, attempts and life as seen, stamp not above the claimer's token.
    pub(crate) fn claim(&mut self, claim: &Claim, decided_at: Timestamp, deadline: Timestamp) -> ClaimAnswer {
        let Some(row) = self.store.rows.get(&claim.key) else { return ClaimAnswer::Refused(Slot::Absent) };
        let as_seen =
            (&row.status, row.attempts, row.redriven) == (&claim.seen, claim.seen_attempts, claim.seen_redriven);
        if !as_seen || row.stamp.is_above(claim.token) {
            return ClaimAnswer::Refused(Slot::Present((**row).clone()));
        }
        let row = OutboxRow {
            status: Status::Claimed(claim.claim.clone()),
            stamp: claim.token.into(),
            attempts: claim.attempts,
            stale: claim.stale,
            first_attempt_at: Some(claim.first_attempt_at),
            ..(**row).clone()
        };
        self.store.rows.insert(claim.key.clone(), Arc::new(row));
        self.observe(Observation::Claimed {
            key: claim.key.clone(),
            claim: claim.claim.clone(),
            token: claim.token,
            decided_at,
            deadline,
        });
        ClaimAnswer::Claimed
    }

    /// Condition: claim and token mine.
    pub(crate) fn hand_back(&mut self, back: &HandBack) -> ChangeAnswer {
        let row = match self.held(&back.key, &back.claim, back.token) {
            Ok(row) => row,
            Err(answer) => return answer,
        };
        let row = OutboxRow {
            status: if back.free { Status::Pending } else { row.status.clone() },
            attempts: back.attempts,
            stale: back.stale,
            not_before: back.not_before.or(row.not_before),
            ..(*row).clone()
        };
        self.store.rows.insert(back.key.clone(), Arc::new(row));
        ChangeAnswer::Done
    }

    /// Condition: claim and token mine.
    pub(crate) fn commit(&mut self, commit: &Commit) -> ChangeAnswer {
        let row = match self.held(&commit.key, &commit.claim, commit.token) {
            Ok(row) => row,
            Err(answer) => return answer,
        };
        self.store.rows.remove(&commit.key);
        self.committed.insert(row.id().clone());
        self.observe(Observation::Committed { key: commit.key.clone(), token: commit.token });
        ChangeAnswer::Done
    }

    fn held(&self, key: &RowKey, claim: &ClaimId, token: FencingToken) -> Result<Arc<OutboxRow>, ChangeAnswer> {
        match self.store.rows.get(key) {
            None => Err(ChangeAnswer::Absent),
            Some(row) if row.claim() == Some(claim) && row.stamp == token.into() => Ok(Arc::clone(row)),
            Some(row) => Err(ChangeAnswer::Fenced(Slot::Present((**row).clone()))),
        }
    }

    /// Condition: none there, or one of an earlier life.
    pub(crate) fn write_stone(&mut self, stone: &Tombstone) {
        if self.store.stones.get(&stone.id).is_none_or(|standing| standing.redriven < stone.redriven) {
            self.store.stones.insert(stone.id.clone(), Arc::new(stone.clone()));
        }
    }

    /// Condition: none there, or one of the same or an earlier life.
    pub(crate) fn bury(&mut self, dead: &DeadRow) {
        let key = &dead.row.key;
        if self.store.dead.get(key).is_none_or(|standing| standing.row.redriven <= dead.row.redriven) {
            self.store.dead.insert(key.clone(), Arc::new(dead.clone()));
        }
    }

    /// Condition: status, claim and stamp as seen, and the very life that died.
    pub(crate) fn end_buried(&mut self, burial: &Burial) -> ChangeAnswer {
        let key = &burial.dead.row.key;
        let Some(row) = self.store.rows.get(key) else { return ChangeAnswer::Absent };
        let as_seen = row.status == burial.seen && row.stamp == burial.seen_stamp;
        if !as_seen || row.redriven != burial.dead.row.redriven {
            return ChangeAnswer::Fenced(Slot::Present((**row).clone()));
        }
        self.store.rows.remove(key);
        self.observe(Observation::Died { key: key.clone() });
        ChangeAnswer::Done
    }

    /// Condition: nothing there. `Some`: what stands there.
    pub(crate) fn put_redriven(&mut self, redrive: &Redrive) -> Option<Slot<OutboxRow>> {
        let key = &redrive.row.key;
        if let Some(row) = self.store.rows.get(key) {
            return Some(Slot::Present((**row).clone()));
        }
        self.store.rows.insert(key.clone(), Arc::new(redrive.row.clone()));
        // The late put of a redrive that another redrive's row has overtaken is no new life: the tombstone proves it.
        let proven = self.store.stones.get(redrive.row.id()).is_some_and(|stone| stone.proves(&redrive.row));
        if self.committed.contains(redrive.row.id()) && !proven {
            self.breach(rules::SENT_AGAIN, format!("{key} was redriven as a new life"));
        }
        self.observe(Observation::Redriven { key: key.clone(), stamp: redrive.row.stamp });
        None
    }

    /// Condition: the dead row is of this life.
    pub(crate) fn delete_dead(&mut self, key: &RowKey, redriven: u32) -> ChangeAnswer {
        match self.store.dead.get(key) {
            None => ChangeAnswer::Absent,
            Some(dead) if dead.row.redriven == redriven => {
                self.store.dead.remove(key);
                ChangeAnswer::Done
            }
            Some(_) => ChangeAnswer::Fenced(Slot::Absent),
        }
    }

    /// A late write arrives. Was it applied (or there already)?
    pub(crate) fn arrive(&mut self, write: &Write) -> bool {
        match write {
            Write::Fence(raise) => self.raise_fence(raise),
            Write::Lease(purpose, write) => self.write_lease(*purpose, write).is_ok(),
            Write::Claim { claim, decided_at, deadline } => {
                self.claim(claim, *decided_at, *deadline) == ClaimAnswer::Claimed
            }
            Write::HandBack(back) => self.hand_back(back) == ChangeAnswer::Done,
            Write::Stone(stone) => {
                self.write_stone(stone);
                true
            }
            Write::Commit(commit) => self.commit(commit) == ChangeAnswer::Done,
            Write::EndBuried(burial) => self.end_buried(burial) == ChangeAnswer::Done,
            Write::PutRedriven(redrive) => self.put_redriven(redrive).is_none(),
            Write::DeleteDead { key, redriven } => self.delete_dead(key, *redriven) == ChangeAnswer::Done,
        }
    }
}
