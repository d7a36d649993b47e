//! The outbox table's port: the calls. What each does to a single row is in [`rows`].

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_protocol::drain::{Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack, Redrive};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::{LeaseName, MessageId, Position, RowKey, Shard};
use fencepost_protocol::lease::FenceRaise;
use fencepost_protocol::limits::{BATCH_GET_KEYS_MAX, BATCH_STATEMENTS_MAX};
use fencepost_protocol::outbox::{Damage, DeadRow, Fence, OutboxRow, Slot, Tombstone};

use super::faults::{FaultPlan, Gate, NoFaults, RowFault, injected};
use super::lease_store::Replacement;
use super::tables::{MemoryTables, State, number_of, text_is};
use crate::item::Item;
use crate::ports::{Outbox, Page, PutAnswer, WriteAnswer};
use crate::records::{Table, dead, fence, gather_page, outstanding, slot, tombstone};
use crate::{StoreError, operation};

mod rows;

/// [`Outbox`] over [`MemoryTables`].
#[derive(Clone)]
pub struct MemoryOutbox {
    tables: MemoryTables,
    gate: Gate,
}

impl MemoryOutbox {
    /// The port of `tables`, without faults.
    pub fn new(tables: MemoryTables) -> Self {
        Self { tables, gate: Gate::new(Arc::new(NoFaults)) }
    }

    /// The same, with the faults of `plan`. Calls are counted from 1 for this adapter and its clones.
    #[must_use]
    pub fn with_faults(self, plan: Arc<dyn FaultPlan>) -> Self {
        Self { gate: Gate::new(plan), ..self }
    }

    /// The first half of [`Outbox::kill`] alone: the dead row. For worlds in which a drainer dies between the two.
    ///
    /// # Errors
    /// As [`Outbox::kill`].
    pub async fn bury(&self, burial: &Burial) -> Result<(), StoreError> {
        self.call(operation::KILL, 1, |state| rows::bury(state, &burial.dead)).await
    }

    /// The second half of [`Outbox::kill`] alone: the outstanding row's end.
    ///
    /// # Errors
    /// As [`Outbox::kill`].
    pub async fn end_buried(&self, burial: &Burial) -> Result<ChangeAnswer, StoreError> {
        self.call(operation::KILL_DELETE, 1, |state| rows::end_buried(state, burial)).await
    }

    /// A call of one request, except where `work` counts its own.
    async fn call<T: Send>(
        &self,
        operation: &'static str,
        requests: usize,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let pass = self.gate.enter(operation, requests).await?;
        let answer = self.tables.with(|state| {
            state.meter.requests(operation, requests);
            work(state)
        });
        pass.leave().await?;
        answer
    }

    /// A call of many rows, each answered by itself.
    async fn each<P: Sync, T: Send>(
        &self,
        operation: &'static str,
        plans: &[P],
        work: impl Fn(&mut State, &P) -> Result<T, StoreError> + Send,
    ) -> Vec<Result<T, StoreError>> {
        let all_fail = |failure: &StoreError| plans.iter().map(|_| Err(failure.clone())).collect();
        if plans.is_empty() {
            return Vec::new();
        }
        let pass = match self.gate.enter(operation, plans.len()).await {
            Ok(pass) => pass,
            Err(failure) => return all_fail(&failure),
        };
        let answers = self.tables.with(|state| {
            state.meter.requests(operation, plans.len().div_ceil(BATCH_STATEMENTS_MAX));
            let one = |(index, plan)| match pass.row(index) {
                Some(RowFault::Before(kind)) => Err(injected(kind, operation)),
                Some(RowFault::After(kind)) => work(state, plan).and(Err(injected(kind, operation))),
                None => work(state, plan),
            };
            plans.iter().enumerate().map(one).collect()
        });
        match pass.leave().await {
            Ok(()) => answers,
            Err(failure) => all_fail(&failure),
        }
    }

    async fn read_page<T: Send>(
        &self,
        operation: &'static str,
        partition: String,
        after: Option<&Position>,
        limit: usize,
        decode: impl Fn(&Item) -> Result<T, Damage> + Send + Sync,
    ) -> Result<Page<T>, StoreError> {
        if limit == 0 {
            return Err(StoreError::new(FailureKind::Invalid, operation, "limit is 0; ask for one row at least"));
        }
        let mut cursor = after.map(Position::to_string);
        let read = |state: &mut State| {
            let mut strays = Vec::new();
            loop {
                let queried = state.query(operation, Table::Outbox, &partition, cursor.as_deref(), limit);
                let mut page = gather_page(&queried.items, queried.more, &decode);
                strays.append(&mut page.strays);
                if !queried.more || !page.rows.is_empty() {
                    return Ok(Page { strays, ..page });
                }
                cursor = queried.items.last().and_then(|item| Table::Outbox.key_of(item)).map(|key| key.sort);
            }
        };
        self.call(operation, 0, read).await
    }
}

#[async_trait]
impl Outbox for MemoryOutbox {
    async fn put(&self, row: &OutboxRow) -> Result<PutAnswer, StoreError> {
        self.call(operation::PUT, 1, |state| rows::put(state, operation::PUT, row)).await
    }

    async fn put_many(&self, rows: &[OutboxRow]) -> Vec<Result<PutAnswer, StoreError>> {
        self.each(operation::PUT_MANY, rows, |state, row| rows::put(state, operation::PUT_MANY, row)).await
    }

    async fn page(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Result<Page<OutboxRow>, StoreError> {
        self.read_page(operation::PAGE, shard.to_string(), after, limit, outstanding::decode).await
    }

    async fn row(&self, key: &RowKey) -> Result<Slot<OutboxRow>, StoreError> {
        let read = |state: &mut State| {
            let item = state.get(operation::ROW, Table::Outbox, &outstanding::key(key));
            Ok(slot(item.as_ref(), outstanding::decode))
        };
        self.call(operation::ROW, 1, read).await
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<Result<ClaimAnswer, StoreError>> {
        self.each(operation::CLAIM, claims, rows::claim).await
    }

    async fn hand_back(&self, rows: &[HandBack]) -> Vec<Result<ChangeAnswer, StoreError>> {
        self.each(operation::HAND_BACK, rows, rows::hand_back).await
    }

    async fn tombstones(&self, ids: &[MessageId]) -> Result<Vec<Slot<Tombstone>>, StoreError> {
        let mut keys: Vec<_> = ids.iter().map(tombstone::key).collect();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let read = |state: &mut State| {
            let found = keys.iter().filter_map(|key| state.get(operation::TOMBSTONES, Table::Outbox, key));
            Ok(found.map(|item| slot(Some(&item), tombstone::decode)).collect())
        };
        self.call(operation::TOMBSTONES, keys.len().div_ceil(BATCH_GET_KEYS_MAX), read).await
    }

    async fn write_tombstones(&self, tombstones: &[Tombstone]) -> Vec<Result<(), StoreError>> {
        self.each(operation::WRITE_TOMBSTONES, tombstones, rows::write_tombstone).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Result<ChangeAnswer, StoreError>> {
        self.each(operation::COMMIT, commits, rows::commit).await
    }

    async fn kill(&self, burial: &Burial) -> Result<ChangeAnswer, StoreError> {
        self.bury(burial).await?;
        self.end_buried(burial).await
    }

    async fn dead_page(
        &self,
        shard: &Shard,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Page<DeadRow>, StoreError> {
        self.read_page(operation::DEAD_PAGE, shard.dead_key(), after, limit, dead::decode).await
    }

    async fn put_redriven(&self, redrive: &Redrive) -> Result<PutAnswer, StoreError> {
        let name = operation::PUT_REDRIVEN;
        self.call(name, 1, |state| rows::put(state, name, &redrive.row)).await
    }

    async fn delete_dead(&self, key: &RowKey, dead_redriven: u32) -> Result<ChangeAnswer, StoreError> {
        self.call(operation::DELETE_DEAD, 1, |state| rows::delete_dead(state, key, dead_redriven)).await
    }

    async fn read_fence(&self, lease: &LeaseName) -> Result<Slot<Fence>, StoreError> {
        let read = |state: &mut State| {
            let item = state.get(operation::READ_FENCE, Table::Outbox, &fence::key(lease));
            Ok(slot(item.as_ref(), fence::decode))
        };
        self.call(operation::READ_FENCE, 1, read).await
    }

    async fn raise_fence(&self, raise: &FenceRaise) -> Result<WriteAnswer<Fence>, StoreError> {
        let replacement = Replacement {
            operation: operation::RAISE_FENCE,
            table: Table::Outbox,
            key: fence::key(&raise.lease),
            attributes: &fence::ATTRIBUTES,
            item: fence::encode(&raise.lease, &raise.fence),
        };
        let expected = |standing: Option<&Item>| match (&raise.expected, standing) {
            (None, None) => true,
            (Some(seen), Some(item)) => {
                text_is(item, fence::ATTEMPT, seen.attempt.as_str())
                    && number_of(item, fence::FENCING_TOKEN) == Some(seen.highest.get())
            }
            _ => false,
        };
        // The replacement counts its own request.
        self.call(operation::RAISE_FENCE, 0, |state| {
            replacement.apply(state, expected, fence::decode, |standing| standing.attempt == raise.fence.attempt)
        })
        .await
    }
}
