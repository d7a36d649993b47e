//! The ports: what a handler may ask of a store, a queue and a source.
//!
//! Many-row calls answer with one result per plan, in order: one refused or failed row never hides the others.

use async_trait::async_trait;
use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::drain::{Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack, QueueReply, Redrive};
use fencepost_protocol::ids::{LeaseName, MessageId, Position, RowKey, Shard};
use fencepost_protocol::lease::{FenceRaise, GroupRecords, InstanceRecord, InstanceWrite, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::{Damage, DeadRow, Fence, OutboxRow, Slot, Tombstone};

use crate::StoreError;

/// What became of a conditional write of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteAnswer<T> {
    /// Written, now or by an earlier try whose reply was lost (the item bears this write's attempt id).
    Written,
    /// The condition did not hold; this is what stands there.
    Refused(Slot<T>),
}

/// The lease table of a group.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// The whole group by one strongly consistent read.
    async fn read_group(&self, lease: &LeaseName) -> Result<GroupRecords, StoreError>;
    /// The lease row alone, strongly consistent.
    async fn read_lease(&self, lease: &LeaseName) -> Result<Slot<LeaseRecord>, StoreError>;
    /// Writes the lease row if `expected` still stands. Retries inside stop within the store's call time-out.
    async fn write_lease(&self, write: &LeaseWrite) -> Result<WriteAnswer<LeaseRecord>, StoreError>;
    /// Writes the own instance row if `expected_generation` still stands.
    async fn write_instance(&self, write: &InstanceWrite) -> Result<WriteAnswer<InstanceRecord>, StoreError>;
}

/// What became of a put of a new row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutAnswer {
    /// It is stored.
    Stored,
    /// The key is taken; this is what stands there.
    Exists(Slot<OutboxRow>),
}

/// One page of a shard, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows, each with the position that its key states (damaged ones too).
    pub rows: Vec<(Position, Slot<T>)>,
    /// Where the next page begins (exclusive); `None`: the shard ends here. It may be set although nothing follows.
    pub next: Option<Position>,
    /// Items of the shard whose sort key is no position: to be counted and alarmed, for nothing can be done with them by
    /// position. One may be seen again on the next page.
    pub strays: Vec<Damage>,
}

/// The outbox table.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Puts a new row where its key is absent. One request, no read.
    async fn put(&self, row: &OutboxRow) -> Result<PutAnswer, StoreError>;
    /// Puts several new rows, each where its key is absent. Of two with one key the first is stored, the second finds it.
    async fn put_many(&self, rows: &[OutboxRow]) -> Vec<Result<PutAnswer, StoreError>>;
    /// A page of outstanding rows after `after`, at most `limit` items (1 at least), strongly consistent.
    async fn page(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Result<Page<OutboxRow>, StoreError>;
    /// One outstanding row, strongly consistent.
    async fn row(&self, key: &RowKey) -> Result<Slot<OutboxRow>, StoreError>;
    /// Claims rows. A refused condition that shows the plan's own claim id is answered as claimed.
    async fn claim(&self, claims: &[Claim]) -> Vec<Result<ClaimAnswer, StoreError>>;
    /// Hands claimed rows back, or restores their attempts. A refused condition that shows the row as this hand-back leaves it
    /// (pending, with this token, these attempts and this due time) is answered as done.
    async fn hand_back(&self, rows: &[HandBack]) -> Vec<Result<ChangeAnswer, StoreError>>;
    /// The tombstones of `ids`, strongly consistent, one per id that has one.
    async fn tombstones(&self, ids: &[MessageId]) -> Result<Vec<Slot<Tombstone>>, StoreError>;
    /// Writes tombstones. One that stands already is replaced by a later life (`redriven`), and never by an earlier one; either
    /// way the answer is success.
    async fn write_tombstones(&self, tombstones: &[Tombstone]) -> Vec<Result<(), StoreError>>;
    /// Deletes committed rows. Tried once, without retries inside: the caller must know which try it was.
    async fn commit(&self, commits: &[Commit]) -> Vec<Result<ChangeAnswer, StoreError>>;
    /// Lets one record die: the dead row first, the outstanding row only after that was acknowledged. A dead row of a later
    /// life stays as it is; one that does not decode is not overwritten, and the call fails as invalid.
    async fn kill(&self, burial: &Burial) -> Result<ChangeAnswer, StoreError>;
    /// A page of dead rows.
    async fn dead_page(
        &self,
        shard: &Shard,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Page<DeadRow>, StoreError>;
    /// Puts a redriven row if absent.
    async fn put_redriven(&self, redrive: &Redrive) -> Result<PutAnswer, StoreError>;
    /// Deletes a dead row if its `redriven` is still `dead_redriven`; [`ChangeAnswer::Fenced`] cannot carry the row and
    /// carries [`Slot::Absent`].
    async fn delete_dead(&self, key: &RowKey, dead_redriven: u32) -> Result<ChangeAnswer, StoreError>;
    /// The fence item of a group, strongly consistent.
    async fn read_fence(&self, lease: &LeaseName) -> Result<Slot<Fence>, StoreError>;
    /// Raises the fence if exactly the version that was read still stands.
    async fn raise_fence(&self, raise: &FenceRaise) -> Result<WriteAnswer<Fence>, StoreError>;
}

/// The destination.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends one batch, at most ten entries and the queue's size limit. Not retried inside: a second send is the caller's
    /// decision.
    async fn send(&self, entries: &[QueueEntry]) -> Result<QueueReply, StoreError>;
}

/// The topic rule, as a switch.
#[async_trait]
pub trait Source: Send + Sync {
    /// Is it on?
    async fn is_enabled(&self) -> Result<bool, StoreError>;
    /// Switches it.
    async fn set_enabled(&self, enabled: bool) -> Result<(), StoreError>;
}

/// An event for the bus; its source is `fencepost`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusEvent {
    /// Its detail type, for example `Records Dead`.
    pub detail_type: &'static str,
    /// Its detail, a JSON object as text.
    pub detail: String,
}

/// The event bus.
#[async_trait]
pub trait EventBus: Send + Sync {
    /// Puts one event. Not retried inside; an event whose put failed with a kind that leaves doubt may be on the bus.
    async fn put_event(&self, event: &BusEvent) -> Result<(), StoreError>;
}
