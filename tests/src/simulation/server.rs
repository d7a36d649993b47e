//! The services' side of every call: the memory adapters without faults, applied in one moment, and told to the observer in
//! that very moment. What goes wrong on the way to it or back is the wire's business.

use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::drain::{Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack, QueueReply, Redrive};
use fencepost_protocol::ids::{LeaseName, MessageId, Position, RowKey, Shard};
use fencepost_protocol::invariants::Observation;
use fencepost_protocol::lease::{FenceRaise, GroupRecords, InstanceRecord, InstanceWrite, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::{DeadRow, Fence, OutboxRow, Slot, Tombstone};
use fencepost_storage::item::{Item, Key};
use fencepost_storage::memory::{MemoryLeaseStore, MemoryOutbox, MemoryQueue, MemoryTables, QueueKind};
use fencepost_storage::records::{Table, dead, fence, outstanding, tombstone};
use fencepost_storage::{LeaseStore, Outbox, Page, PutAnswer, Queue, StoreError, WriteAnswer};
use futures::FutureExt as _;

use super::invocation::Caller;
use super::reached::Sometimes;
use super::site::Site;

type Answer<T> = Result<T, StoreError>;

/// The tables and the queue.
pub(crate) struct Server {
    pub(crate) tables: MemoryTables,
    pub(crate) queue: MemoryQueue,
    leases: MemoryLeaseStore,
    outbox: MemoryOutbox,
}

/// The memory adapters wait for nothing.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().expect("the memory answers at once")
}

impl Server {
    pub(crate) fn new(kind: QueueKind) -> Self {
        let tables = MemoryTables::new();
        Self {
            leases: MemoryLeaseStore::new(tables.clone()),
            outbox: MemoryOutbox::new(tables.clone()),
            queue: MemoryQueue::new(kind),
            tables,
        }
    }

    /// The lease row as it stands.
    pub(crate) fn lease(&self, lease: &LeaseName) -> Slot<LeaseRecord> {
        at_once(self.leases.read_lease(lease)).expect("the memory answers")
    }

    pub(crate) fn page_of(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Page<OutboxRow> {
        at_once(self.outbox.page(shard, after, limit)).expect("the memory answers")
    }

    pub(crate) fn dead_page_of(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Page<DeadRow> {
        at_once(self.outbox.dead_page(shard, after, limit)).expect("the memory answers")
    }
}

/// The calls, each as [`LeaseStore`], [`Outbox`] and [`Queue`] describe it.
impl Site {
    pub(crate) fn read_group(&self, lease: &LeaseName) -> Answer<GroupRecords> {
        at_once(self.server.leases.read_group(lease))
    }

    pub(crate) fn read_lease(&self, lease: &LeaseName) -> Answer<Slot<LeaseRecord>> {
        at_once(self.server.leases.read_lease(lease))
    }

    pub(crate) fn write_lease(&self, caller: &Caller, write: &LeaseWrite) -> Answer<WriteAnswer<LeaseRecord>> {
        let before = self.server.lease(&write.record.lease);
        let answer = at_once(self.server.leases.write_lease(write))?;
        if answer == WriteAnswer::Written {
            let healthy_since = self.hosts()[caller.instance].healthy_since(self);
            let words =
                self.observer().lease_written(self.now(), caller, before.present(), &write.record, healthy_since);
            if let Some(words) = words {
                self.tell(caller.instance, words);
            }
            if write.record.owner.is_none() {
                self.hosts()[caller.instance].released(self.now());
            }
            self.look_at_leadership();
        }
        Ok(answer)
    }

    /// A row that is no tombstone was written; the judge hears how it stands there now.
    fn look_at_stored(&self, key: &Key) {
        let expires = |item: &Item| item.contains_key(tombstone::EXPIRES_AT);
        if let Some(carries_expiry) = self.server.tables.look(Table::Outbox, key, expires) {
            let record = format!("{} {}", key.partition, key.sort);
            self.observer().observe(self.now(), Observation::Stored { record, carries_expiry });
        }
    }

    pub(crate) fn write_instance(&self, write: &InstanceWrite) -> Answer<WriteAnswer<InstanceRecord>> {
        at_once(self.server.leases.write_instance(write))
    }

    pub(crate) fn put(&self, row: &OutboxRow) -> Answer<PutAnswer> {
        let answer = at_once(self.server.outbox.put(row))?;
        match &answer {
            PutAnswer::Stored => {
                self.observer().stored_row(self.now(), row);
                self.look_at_stored(&outstanding::key(&row.key));
                self.stream(&row.key);
            }
            PutAnswer::Exists(Slot::Damaged(_)) => {
                self.by_hand().met_damage.insert(row.id().to_string());
            }
            PutAnswer::Exists(_) => {}
        }
        Ok(answer)
    }

    pub(crate) fn page(
        &self,
        caller: &Caller,
        shard: &Shard,
        after: Option<&Position>,
        limit: usize,
    ) -> Answer<Page<OutboxRow>> {
        self.observer().page_read(self.now(), caller, shard, after);
        at_once(self.server.outbox.page(shard, after, limit))
    }

    pub(crate) fn row(&self, key: &RowKey) -> Answer<Slot<OutboxRow>> {
        at_once(self.server.outbox.row(key))
    }

    pub(crate) fn claim(&self, caller: &Caller, claim: &Claim) -> Answer<ClaimAnswer> {
        let answer = at_once(self.server.outbox.claim(std::slice::from_ref(claim))).remove(0)?;
        match &answer {
            ClaimAnswer::Claimed => {
                self.look_at_stored(&outstanding::key(&claim.key));
                if self.observer().claimed(self.now(), caller, claim) {
                    let id = claim.key.position.id();
                    self.tell(caller.instance, format!("claims {id} (token {}, {})", claim.token, claim.claim));
                }
            }
            ClaimAnswer::Refused(_) => self.reach(Sometimes::LostClaim),
        }
        Ok(answer)
    }

    pub(crate) fn hand_back(&self, caller: &Caller, back: &HandBack) -> Answer<ChangeAnswer> {
        let answer = at_once(self.server.outbox.hand_back(std::slice::from_ref(back))).remove(0)?;
        if answer == ChangeAnswer::Done {
            self.look_at_stored(&outstanding::key(&back.key));
            let id = back.key.position.id();
            if back.free {
                self.reach(Sometimes::HandBack);
                self.tell(caller.instance, format!("hands {id} back"));
            } else {
                self.reach(Sometimes::KeptToAge);
                self.tell(caller.instance, format!("keeps {id} claimed, its outcome unknown"));
            }
        }
        Ok(answer)
    }

    pub(crate) fn tombstones(&self, ids: &[MessageId]) -> Answer<Vec<Slot<Tombstone>>> {
        at_once(self.server.outbox.tombstones(ids))
    }

    pub(crate) fn write_tombstone(&self, tombstone: &Tombstone) -> Answer<()> {
        at_once(self.server.outbox.write_tombstones(std::slice::from_ref(tombstone))).remove(0)
    }

    pub(crate) fn commit(&self, caller: &Caller, commit: &Commit) -> Answer<ChangeAnswer> {
        let answer = at_once(self.server.outbox.commit(std::slice::from_ref(commit))).remove(0)?;
        let id = commit.key.position.id();
        match &answer {
            ChangeAnswer::Done => {
                self.observer().committed(self.now(), caller, commit);
                self.tell(caller.instance, format!("commits {id} (token {})", commit.token));
            }
            ChangeAnswer::Fenced(_) => {
                self.reach(Sometimes::FencedCommit);
                self.tell(caller.instance, format!("is fenced off from {id} (token {})", commit.token));
            }
            ChangeAnswer::Absent => {
                self.tell(caller.instance, format!("finds {id} gone (token {})", commit.token));
            }
        }
        Ok(answer)
    }

    pub(crate) fn bury(&self, burial: &Burial) -> Answer<()> {
        at_once(self.server.outbox.bury(burial))?;
        self.look_at_stored(&dead::key(&burial.dead.row.key));
        Ok(())
    }

    pub(crate) fn end_buried(&self, caller: &Caller, burial: &Burial) -> Answer<ChangeAnswer> {
        let answer = at_once(self.server.outbox.end_buried(burial))?;
        if answer == ChangeAnswer::Done {
            let key = &burial.dead.row.key;
            self.observer().died(self.now(), key);
            let reason = burial.dead.reason.as_str();
            self.tell(caller.instance, format!("lets {} die ({reason})", key.position.id()));
        }
        Ok(answer)
    }

    pub(crate) fn dead_page(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Answer<Page<DeadRow>> {
        at_once(self.server.outbox.dead_page(shard, after, limit))
    }

    pub(crate) fn put_redriven(&self, caller: &Caller, redrive: &Redrive) -> Answer<PutAnswer> {
        let answer = at_once(self.server.outbox.put_redriven(redrive))?;
        if answer == PutAnswer::Stored {
            self.observer().redriven(self.now(), &redrive.row);
            self.look_at_stored(&outstanding::key(&redrive.row.key));
            self.tell(caller.instance, format!("redrives {}", redrive.row.id()));
            self.stream(&redrive.row.key);
        }
        Ok(answer)
    }

    pub(crate) fn delete_dead(&self, key: &RowKey, dead_redriven: u32) -> Answer<ChangeAnswer> {
        at_once(self.server.outbox.delete_dead(key, dead_redriven))
    }

    pub(crate) fn read_fence(&self, lease: &LeaseName) -> Answer<Slot<Fence>> {
        at_once(self.server.outbox.read_fence(lease))
    }

    pub(crate) fn raise_fence(&self, raise: &FenceRaise) -> Answer<WriteAnswer<Fence>> {
        let answer = at_once(self.server.outbox.raise_fence(raise))?;
        if answer == WriteAnswer::Written {
            self.look_at_stored(&fence::key(&raise.lease));
        }
        Ok(answer)
    }

    /// The whole request: each entry is accepted or refused as the queue itself does.
    pub(crate) fn send(&self, caller: &Caller, entries: &[QueueEntry]) -> Answer<QueueReply> {
        let reply = at_once(self.server.queue.send(entries))?;
        let mut observer = self.observer();
        for entry in entries.iter().filter(|entry| reply.accepted.contains(&entry.entry_id)) {
            observer.accepted(self.now(), entry);
        }
        drop(observer);
        for entry in entries.iter().filter(|entry| reply.accepted.contains(&entry.entry_id)) {
            self.tell(caller.instance, format!("the queue accepts {}", super::site::id_of(entry)));
        }
        Ok(reply)
    }
}
