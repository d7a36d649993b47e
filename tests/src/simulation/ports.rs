//! The ports that an instance's functions get: each call goes over the [`Wire`].

use std::time::Duration;

use async_trait::async_trait;
use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::drain::{
    Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack, QueueRefusal, QueueReply, Redrive,
};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::{LeaseName, MessageId, Position, RowKey, Shard};
use fencepost_protocol::lease::{FenceRaise, GroupRecords, InstanceRecord, InstanceWrite, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::{DeadRow, Fence, OutboxRow, Slot, Tombstone};
use fencepost_runtime::clock::Clock as _;
use fencepost_storage::{
    BusEvent, CallPolicy, EventBus, LeaseStore, Outbox, Page, PutAnswer, Queue, Source, StoreError, WriteAnswer,
    operation,
};

use super::fault::{CallFault, has_row, platform};
use super::wire::{Wire, failed};

type Answer<T> = Result<T, StoreError>;

/// The code of an entry that the queue refuses for now.
const REFUSED_FOR_NOW: &str = "InternalError";
/// The code of an entry that no queue will ever take.
const REFUSED_FOR_GOOD: &str = "InvalidMessageContents";

#[async_trait]
impl LeaseStore for Wire {
    async fn read_group(&self, lease: &LeaseName) -> Answer<GroupRecords> {
        let lease = lease.clone();
        self.call(operation::READ_GROUP, self.policy, move |site, _| site.read_group(&lease)).await
    }

    async fn read_lease(&self, lease: &LeaseName) -> Answer<Slot<LeaseRecord>> {
        let lease = lease.clone();
        self.call(operation::READ_LEASE, self.policy, move |site, _| site.read_lease(&lease)).await
    }

    async fn write_lease(&self, write: &LeaseWrite) -> Answer<WriteAnswer<LeaseRecord>> {
        let write = write.clone();
        self.call(operation::WRITE_LEASE, self.policy, move |site, caller| site.write_lease(caller, &write)).await
    }

    async fn write_instance(&self, write: &InstanceWrite) -> Answer<WriteAnswer<InstanceRecord>> {
        let write = write.clone();
        self.call(operation::WRITE_INSTANCE, self.policy, move |site, _| site.write_instance(&write)).await
    }
}

#[async_trait]
impl Outbox for Wire {
    async fn put(&self, row: &OutboxRow) -> Answer<PutAnswer> {
        let row = row.clone();
        self.call(operation::PUT, self.policy, move |site, _| site.put(&row)).await
    }

    async fn put_many(&self, rows: &[OutboxRow]) -> Vec<Answer<PutAnswer>> {
        self.many(operation::PUT_MANY, self.policy, rows.to_vec(), |site, _, row| site.put(row)).await
    }

    async fn page(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Answer<Page<OutboxRow>> {
        let (shard, after) = (shard.clone(), after.cloned());
        let read = move |site: &_, caller: &_| super::site::Site::page(site, caller, &shard, after.as_ref(), limit);
        self.call(operation::PAGE, self.policy, read).await
    }

    async fn row(&self, key: &RowKey) -> Answer<Slot<OutboxRow>> {
        let key = key.clone();
        self.call(operation::ROW, self.policy, move |site, _| site.row(&key)).await
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<Answer<ClaimAnswer>> {
        let work = |site: &super::site::Site, caller: &_, claim: &Claim| site.claim(caller, claim);
        self.many(operation::CLAIM, self.policy, claims.to_vec(), work).await
    }

    async fn hand_back(&self, rows: &[HandBack]) -> Vec<Answer<ChangeAnswer>> {
        let work = |site: &super::site::Site, caller: &_, back: &HandBack| site.hand_back(caller, back);
        self.many(operation::HAND_BACK, self.policy, rows.to_vec(), work).await
    }

    async fn tombstones(&self, ids: &[MessageId]) -> Answer<Vec<Slot<Tombstone>>> {
        let ids = ids.to_vec();
        self.call(operation::TOMBSTONES, self.policy, move |site, _| site.tombstones(&ids)).await
    }

    async fn write_tombstones(&self, tombstones: &[Tombstone]) -> Vec<Answer<()>> {
        let work = |site: &super::site::Site, _: &_, tombstone: &Tombstone| site.write_tombstone(tombstone);
        self.many(operation::WRITE_TOMBSTONES, self.policy, tombstones.to_vec(), work).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Answer<ChangeAnswer>> {
        // Tried once: the caller must know which try it was.
        let once = CallPolicy::once(self.policy.call_timeout);
        let work = |site: &super::site::Site, caller: &_, commit: &Commit| site.commit(caller, commit);
        self.many(operation::COMMIT, once, commits.to_vec(), work).await
    }

    async fn kill(&self, burial: &Burial) -> Answer<ChangeAnswer> {
        let first = burial.clone();
        self.call(operation::KILL, self.policy, move |site, _| site.bury(&first)).await?;
        let second = burial.clone();
        self.call(operation::KILL_DELETE, self.policy, move |site, caller| site.end_buried(caller, &second)).await
    }

    async fn dead_page(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Answer<Page<DeadRow>> {
        let (shard, after) = (shard.clone(), after.cloned());
        self.call(operation::DEAD_PAGE, self.policy, move |site, _| site.dead_page(&shard, after.as_ref(), limit)).await
    }

    async fn put_redriven(&self, redrive: &Redrive) -> Answer<PutAnswer> {
        let redrive = redrive.clone();
        self.call(operation::PUT_REDRIVEN, self.policy, move |site, caller| site.put_redriven(caller, &redrive)).await
    }

    async fn delete_dead(&self, key: &RowKey, dead_redriven: u32) -> Answer<ChangeAnswer> {
        let key = key.clone();
        self.call(operation::DELETE_DEAD, self.policy, move |site, _| site.delete_dead(&key, dead_redriven)).await
    }

    async fn read_fence(&self, lease: &LeaseName) -> Answer<Slot<Fence>> {
        let lease = lease.clone();
        self.call(operation::READ_FENCE, self.policy, move |site, _| site.read_fence(&lease)).await
    }

    async fn raise_fence(&self, raise: &FenceRaise) -> Answer<WriteAnswer<Fence>> {
        let raise = raise.clone();
        self.call(operation::RAISE_FENCE, self.policy, move |site, _| site.raise_fence(&raise)).await
    }
}

/// The queue's port: one try, whose entries may fare differently.
#[async_trait]
impl Queue for Wire {
    async fn send(&self, entries: &[QueueEntry]) -> Answer<QueueReply> {
        let caller = self.caller();
        self.site.observer().send_started(self.site.now(), &caller, entries);
        let course = self.course(&caller, operation::SEND);
        let limit = self.host.settings.timing.send_timeout;
        let fail = |kind: FailureKind| Err(failed(kind, operation::SEND));
        self.host.clock.sleep(course.before).await;
        let Some(fault) = course.fault else {
            let reply = self.site.send(&caller, entries);
            self.host.clock.sleep(course.after).await;
            return reply;
        };
        if let CallFault::Slow { ms } = fault {
            let delay = Duration::from_millis(ms);
            if delay < limit {
                self.host.clock.sleep(delay).await;
                return self.site.send(&caller, entries);
            }
            let (site, entries) = (std::sync::Arc::clone(&self.site), entries.to_vec());
            drop(tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                drop(site.send(&caller, &entries));
            }));
            self.host.clock.sleep(limit).await;
            return fail(FailureKind::TimedOut);
        }
        if matches!(fault, CallFault::TimeoutAfter | CallFault::ErrorAfter | CallFault::CrashAfter) {
            drop(self.site.send(&caller, entries));
        }
        if matches!(fault, CallFault::TimeoutBefore | CallFault::TimeoutAfter) {
            self.host.clock.sleep(limit).await;
        }
        if let (CallFault::CrashBefore | CallFault::CrashAfter, Some(invocation)) = (&fault, &caller.invocation) {
            return invocation.die().await;
        }
        if let Some(kind) = fault.failure() {
            return fail(kind);
        }
        self.send_some(&caller, entries, &fault)
    }
}

impl Wire {
    /// Some entries go wrong, by their place.
    fn send_some(
        &self,
        caller: &super::invocation::Caller,
        entries: &[QueueEntry],
        fault: &CallFault,
    ) -> Answer<QueueReply> {
        let (which, kept_out) = match fault {
            CallFault::Refused { rows } | CallFault::RefusedForGood { rows } | CallFault::Lost { rows } => {
                (*rows, true)
            }
            CallFault::Unmentioned { rows } | CallFault::MentionedTwice { rows } | CallFault::Renamed { rows } => {
                (*rows, false)
            }
            _ => (0, false),
        };
        let numbered = || entries.iter().enumerate();
        let hit = |index: usize| has_row(which, index);
        let given: Vec<QueueEntry> =
            numbered().filter(|(index, _)| !(kept_out && hit(*index))).map(|(_, entry)| entry.clone()).collect();
        let mut reply = if given.is_empty() { QueueReply::default() } else { self.site.send(caller, &given)? };
        let wrong: Vec<&str> =
            numbered().filter(|(index, _)| hit(*index)).map(|(_, entry)| entry.entry_id.as_str()).collect();
        match fault {
            CallFault::Refused { .. } | CallFault::RefusedForGood { .. } => {
                let for_good = matches!(fault, CallFault::RefusedForGood { .. });
                let code = if for_good { REFUSED_FOR_GOOD } else { REFUSED_FOR_NOW };
                reply.refused.extend(wrong.iter().map(|id| QueueRefusal {
                    entry_id: (*id).to_owned(),
                    code: code.to_owned(),
                    message: "injected fault".to_owned(),
                }));
            }
            CallFault::Unmentioned { .. } => reply.accepted.retain(|id| !wrong.contains(&id.as_str())),
            CallFault::MentionedTwice { .. } => reply.accepted.extend(wrong.iter().map(|id| (*id).to_owned())),
            CallFault::Renamed { .. } => {
                for id in &mut reply.accepted {
                    if wrong.contains(&id.as_str()) {
                        *id = format!("nobody-{id}");
                    }
                }
            }
            _ => {}
        }
        Ok(reply)
    }
}

/// The bus as the drainer reaches it.
#[async_trait]
impl EventBus for Wire {
    async fn put_event(&self, event: &BusEvent) -> Answer<()> {
        let detail = serde_json::from_str(&event.detail).unwrap_or_default();
        let (kind, index) = (event.detail_type, self.host.index);
        let put = move |site: &super::site::Site, _: &_| {
            site.put_event(index, kind, &detail);
            Ok(())
        };
        self.call(platform::PUT_EVENTS, CallPolicy::once(fencepost_drainer::PUT_TIMEOUT), put).await
    }
}

/// The topic rule of the instance.
#[async_trait]
impl Source for Wire {
    async fn is_enabled(&self) -> Answer<bool> {
        let index = self.host.index;
        self.call(operation::IS_ENABLED, self.policy, move |site, _| Ok(site.is_enabled(index))).await
    }

    async fn set_enabled(&self, enabled: bool) -> Answer<()> {
        let index = self.host.index;
        let set = move |site: &super::site::Site, _: &_| {
            site.set_enabled(index, enabled);
            Ok(())
        };
        self.call(operation::SET_ENABLED, self.policy, set).await
    }
}
