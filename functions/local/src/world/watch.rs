//! Ports that pass every call on and tell the world about it.
//!
//! They change nothing: a call, its answer and its failure are those of the port behind. What is about to be written is
//! noted before the call, so that it is known even if the caller is killed in the middle of it.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_protocol::body::{MESSAGE_ID, QueueEntry, attribute, decode_body};
use fencepost_protocol::drain::{Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack, QueueReply, Redrive};
use fencepost_protocol::ids::{InstanceName, LeaseName, MessageId, PayloadDigest, Position, RowKey, Shard};
use fencepost_protocol::lease::{FenceRaise, GroupRecords, InstanceRecord, InstanceWrite, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::{DeadRow, Fence, OutboxRow, Slot, Tombstone};
use fencepost_storage::{LeaseStore, Outbox, Page, PutAnswer, Queue, StoreError, WriteAnswer};

use super::event::WorldEvent;
use super::site::Site;

/// A port of one instance, watched.
pub(super) struct Watched<T: ?Sized> {
    site: Arc<Site>,
    instance: InstanceName,
    port: Arc<T>,
}

impl<T: ?Sized> Watched<T> {
    pub(super) fn new(site: Arc<Site>, instance: InstanceName, port: Arc<T>) -> Self {
        Self { site, instance, port }
    }
}

fn count<T>(items: &[T], wanted: impl Fn(&T) -> bool) -> u64 {
    items.iter().map(|item| u64::from(wanted(item))).sum()
}

#[async_trait]
impl LeaseStore for Watched<dyn LeaseStore> {
    async fn read_group(&self, lease: &LeaseName) -> Result<GroupRecords, StoreError> {
        self.port.read_group(lease).await
    }

    async fn read_lease(&self, lease: &LeaseName) -> Result<Slot<LeaseRecord>, StoreError> {
        self.port.read_lease(lease).await
    }

    async fn write_lease(&self, write: &LeaseWrite) -> Result<WriteAnswer<LeaseRecord>, StoreError> {
        let answer = self.port.write_lease(write).await;
        if let (Ok(WriteAnswer::Written), Some(mut history)) = (&answer, self.site.history()) {
            history.lease_written(&write.record);
        }
        answer
    }

    async fn write_instance(&self, write: &InstanceWrite) -> Result<WriteAnswer<InstanceRecord>, StoreError> {
        self.port.write_instance(write).await
    }
}

#[async_trait]
impl Queue for Watched<dyn Queue> {
    async fn send(&self, entries: &[QueueEntry]) -> Result<QueueReply, StoreError> {
        let answer = self.port.send(entries).await;
        if let Ok(reply) = &answer {
            let accepted: Vec<&QueueEntry> =
                entries.iter().filter(|entry| reply.accepted.contains(&entry.entry_id)).collect();
            self.note_accepted(&accepted);
        }
        answer
    }
}

impl Watched<dyn Queue> {
    fn note_accepted(&self, accepted: &[&QueueEntry]) {
        if let Some(mut history) = self.site.history() {
            for entry in accepted {
                let id = attribute(&entry.attributes, MESSAGE_ID).ok().flatten().map(MessageId::new);
                let payload = decode_body(self.site.body_format, &entry.body, &entry.attributes);
                if let (Some(Ok(id)), Ok(payload)) = (id, payload) {
                    history.accepted(id, PayloadDigest::of(&payload));
                }
            }
        }
        let rows = count(accepted, |_| true);
        self.site.counters.sent.add(rows);
        if rows > 0 {
            self.site.tell(&WorldEvent::Sent { instance: self.instance.clone(), rows });
        }
    }
}

impl Watched<dyn Outbox> {
    fn note_claims(&self, claims: &[Claim], answers: &[Result<ClaimAnswer, StoreError>]) {
        let rows = count(answers, |answer| matches!(answer, Ok(ClaimAnswer::Claimed)));
        self.site.counters.claimed.add(rows);
        if let Some(claim) = claims.first().filter(|_| rows > 0) {
            let (instance, token) = (self.instance.clone(), claim.token.get());
            self.site.tell(&WorldEvent::Claimed { instance, token, rows });
        }
    }

    fn note_commits(&self, commits: &[Commit], answers: &[Result<ChangeAnswer, StoreError>]) {
        if let Some(mut history) = self.site.history() {
            for (commit, answer) in commits.iter().zip(answers) {
                if let Ok(ChangeAnswer::Fenced(_) | ChangeAnswer::Absent) = answer {
                    history.commit_refused(&commit.key, commit.token);
                }
            }
        }
        let rows = count(answers, |answer| matches!(answer, Ok(ChangeAnswer::Done)));
        self.site.counters.committed.add(rows);
        if let Some(commit) = commits.first().filter(|_| rows > 0) {
            let (instance, token) = (self.instance.clone(), commit.token.get());
            self.site.tell(&WorldEvent::Committed { instance, token, rows });
        }
    }

    fn note_puts(&self, rows: &[OutboxRow]) {
        if let Some(mut history) = self.site.history() {
            rows.iter().for_each(|row| history.putting(row, false));
        }
    }
}

#[async_trait]
impl Outbox for Watched<dyn Outbox> {
    async fn put(&self, row: &OutboxRow) -> Result<PutAnswer, StoreError> {
        self.note_puts(std::slice::from_ref(row));
        self.port.put(row).await
    }

    async fn put_many(&self, rows: &[OutboxRow]) -> Vec<Result<PutAnswer, StoreError>> {
        self.note_puts(rows);
        self.port.put_many(rows).await
    }

    async fn page(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Result<Page<OutboxRow>, StoreError> {
        self.port.page(shard, after, limit).await
    }

    async fn row(&self, key: &RowKey) -> Result<Slot<OutboxRow>, StoreError> {
        self.port.row(key).await
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<Result<ClaimAnswer, StoreError>> {
        let answers = self.port.claim(claims).await;
        self.note_claims(claims, &answers);
        answers
    }

    async fn hand_back(&self, rows: &[HandBack]) -> Vec<Result<ChangeAnswer, StoreError>> {
        let answers = self.port.hand_back(rows).await;
        let freed =
            rows.iter().zip(&answers).filter(|(row, answer)| row.free && matches!(answer, Ok(ChangeAnswer::Done)));
        self.site.counters.handed_back.add(freed.map(|_| 1).sum());
        answers
    }

    async fn tombstones(&self, ids: &[MessageId]) -> Result<Vec<Slot<Tombstone>>, StoreError> {
        self.port.tombstones(ids).await
    }

    async fn write_tombstones(&self, tombstones: &[Tombstone]) -> Vec<Result<(), StoreError>> {
        self.port.write_tombstones(tombstones).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Result<ChangeAnswer, StoreError>> {
        if let Some(mut history) = self.site.history() {
            commits.iter().for_each(|commit| history.committing(&commit.key, commit.token));
        }
        let answers = self.port.commit(commits).await;
        self.note_commits(commits, &answers);
        answers
    }

    async fn kill(&self, burial: &Burial) -> Result<ChangeAnswer, StoreError> {
        if let Some(mut history) = self.site.history() {
            history.dying(&burial.dead.row.key);
        }
        let answer = self.port.kill(burial).await;
        self.site.counters.dead.add(u64::from(matches!(answer, Ok(ChangeAnswer::Done))));
        answer
    }

    async fn dead_page(
        &self,
        shard: &Shard,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Page<DeadRow>, StoreError> {
        self.port.dead_page(shard, after, limit).await
    }

    async fn put_redriven(&self, redrive: &Redrive) -> Result<PutAnswer, StoreError> {
        if let Some(mut history) = self.site.history() {
            history.putting(&redrive.row, true);
        }
        let answer = self.port.put_redriven(redrive).await;
        self.site.counters.redriven.add(u64::from(matches!(answer, Ok(PutAnswer::Stored))));
        answer
    }

    async fn delete_dead(&self, key: &RowKey, dead_redriven: u32) -> Result<ChangeAnswer, StoreError> {
        self.port.delete_dead(key, dead_redriven).await
    }

    async fn read_fence(&self, lease: &LeaseName) -> Result<Slot<Fence>, StoreError> {
        self.port.read_fence(lease).await
    }

    async fn raise_fence(&self, raise: &FenceRaise) -> Result<WriteAnswer<Fence>, StoreError> {
        self.port.raise_fence(raise).await
    }
}
