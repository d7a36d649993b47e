//! The lease table's port.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_protocol::ids::{AttemptId, LeaseName};
use fencepost_protocol::lease::{GroupRecords, InstanceRecord, InstanceWrite, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::{Damage, Slot};

use super::faults::{FaultPlan, Gate, NoFaults};
use super::tables::{MemoryTables, State, Written, number_of, text_is};
use crate::item::{Item, Key};
use crate::ports::{LeaseStore, WriteAnswer};
use crate::records::{Table, gather_group, instance, lease, slot};
use crate::{StoreError, operation};

/// [`LeaseStore`] over [`MemoryTables`].
#[derive(Clone)]
pub struct MemoryLeaseStore {
    tables: MemoryTables,
    gate: Gate,
}

impl MemoryLeaseStore {
    /// The port of `tables`, without faults.
    pub fn new(tables: MemoryTables) -> Self {
        Self { tables, gate: Gate::new(Arc::new(NoFaults)) }
    }

    /// The same, with the faults of `plan`. Calls are counted from 1 for this adapter and its clones.
    #[must_use]
    pub fn with_faults(self, plan: Arc<dyn FaultPlan>) -> Self {
        Self { gate: Gate::new(plan), ..self }
    }

    async fn call<T: Send>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let pass = self.gate.enter(operation, 1).await?;
        let answer = self.tables.with(work);
        pass.leave().await?;
        answer
    }
}

#[async_trait]
impl LeaseStore for MemoryLeaseStore {
    async fn read_group(&self, lease: &LeaseName) -> Result<GroupRecords, StoreError> {
        let name = operation::READ_GROUP;
        let read = |state: &mut State| {
            let mut items: Vec<Item> = Vec::new();
            loop {
                let after = items.last().and_then(|item| Table::Lease.key_of(item)).map(|key| key.sort);
                let queried = state.query(name, Table::Lease, lease.as_str(), after.as_deref(), usize::MAX);
                items.extend(queried.items);
                if !queried.more {
                    return Ok(gather_group(&items));
                }
            }
        };
        self.call(name, read).await
    }

    async fn read_lease(&self, lease: &LeaseName) -> Result<Slot<LeaseRecord>, StoreError> {
        let name = operation::READ_LEASE;
        let read = |state: &mut State| {
            state.meter.requests(name, 1);
            Ok(slot(state.get(name, Table::Lease, &lease::key(lease)).as_ref(), lease::decode))
        };
        self.call(name, read).await
    }

    async fn write_lease(&self, write: &LeaseWrite) -> Result<WriteAnswer<LeaseRecord>, StoreError> {
        let replacement = Replacement {
            operation: operation::WRITE_LEASE,
            table: Table::Lease,
            key: lease::key(&write.record.lease),
            attributes: &lease::ATTRIBUTES,
            item: lease::encode(&write.record),
        };
        let expected = |standing: Option<&Item>| match (&write.expected, standing) {
            (None, None) => true,
            (Some(attempt), Some(item)) => text_is(item, lease::ATTEMPT, attempt.as_str()),
            _ => false,
        };
        let work = |state: &mut State| {
            replacement.apply(state, expected, lease::decode, |record| record.attempt == write.record.attempt)
        };
        self.call(operation::WRITE_LEASE, work).await
    }

    async fn write_instance(&self, write: &InstanceWrite) -> Result<WriteAnswer<InstanceRecord>, StoreError> {
        let replacement = Replacement {
            operation: operation::WRITE_INSTANCE,
            table: Table::Lease,
            key: instance::key(&write.record.lease, &write.record.identity),
            attributes: &instance::ATTRIBUTES,
            item: instance::encode(&write.record),
        };
        let expected = |standing: Option<&Item>| match (write.expected_generation, standing) {
            (0, None) => true,
            (0, Some(_)) | (_, None) => false,
            (generation, Some(item)) => number_of(item, instance::GENERATION) == Some(generation),
        };
        let attempt: &AttemptId = &write.record.attempt;
        let work = |state: &mut State| {
            replacement.apply(state, expected, instance::decode, |record| record.attempt == *attempt)
        };
        self.call(operation::WRITE_INSTANCE, work).await
    }
}

/// A whole new version of an item that is known by the attempt id it bears. Attributes that this version of the code does
/// not know stay, as they do under an update of single attributes.
pub(super) struct Replacement<'a> {
    pub(super) operation: &'static str,
    pub(super) table: Table,
    pub(super) key: Key,
    pub(super) attributes: &'a [&'static str],
    pub(super) item: Item,
}

impl Replacement<'_> {
    /// Writes it where `expected` holds. What stands there instead is a success where it `is_mine`.
    pub(super) fn apply<T>(
        self,
        state: &mut State,
        expected: impl FnOnce(Option<&Item>) -> bool,
        decode: impl FnOnce(&Item) -> Result<T, Damage>,
        is_mine: impl FnOnce(&T) -> bool,
    ) -> Result<WriteAnswer<T>, StoreError> {
        let Self { operation, table, key, attributes, item } = self;
        state.meter.requests(operation, 1);
        let change = |standing: Option<&Item>| {
            let mut next = standing.cloned().unwrap_or_default();
            next.retain(|name, _| !attributes.contains(&name.as_str()));
            next.extend(item);
            Some(next)
        };
        let standing = match state.write(operation, table, &key, expected, change)? {
            Written::Applied => return Ok(WriteAnswer::Written),
            Written::Refused(standing) => slot(standing.as_ref(), decode),
        };
        match &standing {
            Slot::Present(record) if is_mine(record) => Ok(WriteAnswer::Written),
            _ => Ok(WriteAnswer::Refused(standing)),
        }
    }
}
