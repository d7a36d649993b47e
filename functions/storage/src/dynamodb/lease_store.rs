//! The lease table: one strong query reads a group, one conditional `UpdateItem` writes a row.
//!
//! A write sets every attribute that the new version has and removes every other attribute of ours, on condition of the
//! version that was read. Where the condition fails and the item that stands there bears the write's own attempt id, the
//! write was applied by an earlier try whose reply was lost.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_protocol::ids::{AttemptId, LeaseName};
use fencepost_protocol::lease::{GroupRecords, InstanceRecord, InstanceWrite, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::{Damage, Slot};

use super::table::{Query, Retry, TableClient};
use super::write::{Condition, Outcome, Test, Write};
use crate::call::{CallObserver, CallPolicy};
use crate::clients::Clients;
use crate::item::{Item, Key, Value};
use crate::ports::{LeaseStore, WriteAnswer};
use crate::records::{self, Table, instance, lease};
use crate::{StoreError, operation};

/// The lease table in DynamoDB.
#[derive(Clone)]
pub struct DynamoLeaseStore {
    table: TableClient,
}

impl std::fmt::Debug for DynamoLeaseStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DynamoLeaseStore").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl DynamoLeaseStore {
    /// The lease table `table_name`. Opens no connection.
    pub fn new(
        clients: &Clients,
        table_name: impl Into<String>,
        policy: CallPolicy,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Self {
        let client = clients.dynamodb().clone();
        Self { table: TableClient::new(client, table_name.into(), Table::Lease, policy, observer) }
    }
}

#[async_trait]
impl LeaseStore for DynamoLeaseStore {
    async fn read_group(&self, lease: &LeaseName) -> Result<GroupRecords, StoreError> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let query = Query { partition: lease.as_str(), after: after.as_deref(), limit: None };
            let page = self.table.query(operation::READ_GROUP, query).await?;
            items.extend(page.items);
            after = page.next_after;
            if after.is_none() {
                return Ok(records::gather_group(&items));
            }
        }
    }

    async fn read_lease(&self, lease: &LeaseName) -> Result<Slot<LeaseRecord>, StoreError> {
        let item = self.table.get(operation::READ_LEASE, lease::key(lease)).await?;
        Ok(records::slot(item.as_ref(), lease::decode))
    }

    async fn write_lease(&self, write: &LeaseWrite) -> Result<WriteAnswer<LeaseRecord>, StoreError> {
        let record = &write.record;
        let when = match &write.expected {
            Some(attempt) => Condition::Holds(vec![Test::equal(lease::ATTEMPT, Value::text(attempt.as_str()))]),
            None => Condition::Absent,
        };
        let update = replace(lease::key(&record.lease), lease::encode(record), &lease::ATTRIBUTES, when);
        let outcome = self.table.write_one(operation::WRITE_LEASE, update, Retry::ByPolicy).await?;
        Ok(write_answer(outcome, &record.attempt, lease::decode, |old| &old.attempt))
    }

    async fn write_instance(&self, write: &InstanceWrite) -> Result<WriteAnswer<InstanceRecord>, StoreError> {
        let record = &write.record;
        let when = match write.expected_generation {
            0 => Condition::Absent,
            read => Condition::Holds(vec![Test::equal(instance::GENERATION, Value::number(read))]),
        };
        let key = instance::key(&record.lease, &record.identity);
        let update = replace(key, instance::encode(record), &instance::ATTRIBUTES, when);
        let outcome = self.table.write_one(operation::WRITE_INSTANCE, update, Retry::ByPolicy).await?;
        Ok(write_answer(outcome, &record.attempt, instance::decode, |old| &old.attempt))
    }
}

/// An update that leaves an item with exactly the given ones of our attributes.
pub(super) fn replace(key: Key, mut item: Item, attributes: &[&'static str], when: Condition) -> Write {
    let mut set = Vec::with_capacity(attributes.len());
    let mut remove = Vec::new();
    for name in attributes {
        match item.remove(*name) {
            Some(value) => set.push((*name, value)),
            None => remove.push(*name),
        }
    }
    Write::Update { key, set, remove, when }
}

/// The answer to a write that bears an attempt id.
pub(super) fn write_answer<T>(
    outcome: Outcome,
    own: &AttemptId,
    decode: impl Fn(&Item) -> Result<T, Damage>,
    attempt_of: impl Fn(&T) -> &AttemptId,
) -> WriteAnswer<T> {
    let old = match outcome {
        Outcome::Done => return WriteAnswer::Written,
        Outcome::Refused(old) => old,
        Outcome::Taken => None,
    };
    match records::slot(old.as_ref(), decode) {
        Slot::Present(record) if attempt_of(&record) == own => WriteAnswer::Written,
        other => WriteAnswer::Refused(other),
    }
}
