//! The outbox table: the port's calls, one file for each kind of act.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_protocol::drain::{Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack, Redrive};
use fencepost_protocol::ids::{LeaseName, MessageId, Position, RowKey, Shard};
use fencepost_protocol::lease::FenceRaise;
use fencepost_protocol::outbox::{DeadRow, Fence, OutboxRow, Slot, Tombstone};

use super::table::TableClient;
use crate::call::{CallObserver, CallPolicy};
use crate::clients::Clients;
use crate::item::Item;
use crate::ports::{Outbox, Page, PutAnswer, WriteAnswer};
use crate::records::{Table, dead, outstanding};
use crate::{StoreError, operation, records};

mod change;
mod claim;
mod dead_rows;
mod fence;
mod page;
mod put;
mod tombstones;

/// The outbox table in DynamoDB.
#[derive(Clone)]
pub struct DynamoOutbox {
    table: TableClient,
    batching: bool,
}

impl std::fmt::Debug for DynamoOutbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DynamoOutbox")
            .field("table", &self.table.name)
            .field("batching", &self.batching)
            .finish_non_exhaustive()
    }
}

impl DynamoOutbox {
    /// The outbox table `table_name`. Opens no connection.
    ///
    /// `batching`: many-row calls travel 25 to a request. Switched off, each row is a call of its own under the same
    /// condition: for strongly consistent global tables, which answer batches with conflicts.
    pub fn new(
        clients: &Clients,
        table_name: impl Into<String>,
        policy: CallPolicy,
        batching: bool,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Self {
        let client = clients.dynamodb().clone();
        Self { table: TableClient::new(client, table_name.into(), Table::Outbox, policy, observer), batching }
    }
}

/// The outstanding row that an item is, if there is one.
fn row_slot(item: Option<&Item>) -> Slot<OutboxRow> {
    records::slot(item, outstanding::decode)
}

#[async_trait]
impl Outbox for DynamoOutbox {
    async fn put(&self, row: &OutboxRow) -> Result<PutAnswer, StoreError> {
        self.put_row(operation::PUT, row).await
    }

    async fn put_many(&self, rows: &[OutboxRow]) -> Vec<Result<PutAnswer, StoreError>> {
        self.put_rows(rows).await
    }

    async fn page(&self, shard: &Shard, after: Option<&Position>, limit: usize) -> Result<Page<OutboxRow>, StoreError> {
        self.read_page(operation::PAGE, &shard.to_string(), after, limit, outstanding::decode).await
    }

    async fn row(&self, key: &RowKey) -> Result<Slot<OutboxRow>, StoreError> {
        let item = self.table.get(operation::ROW, outstanding::key(key)).await?;
        Ok(row_slot(item.as_ref()))
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<Result<ClaimAnswer, StoreError>> {
        self.claim_rows(claims).await
    }

    async fn hand_back(&self, rows: &[HandBack]) -> Vec<Result<ChangeAnswer, StoreError>> {
        self.hand_rows_back(rows).await
    }

    async fn tombstones(&self, ids: &[MessageId]) -> Result<Vec<Slot<Tombstone>>, StoreError> {
        self.read_tombstones(ids).await
    }

    async fn write_tombstones(&self, tombstones: &[Tombstone]) -> Vec<Result<(), StoreError>> {
        self.put_tombstones(tombstones).await
    }

    async fn commit(&self, commits: &[Commit]) -> Vec<Result<ChangeAnswer, StoreError>> {
        self.delete_committed(commits).await
    }

    async fn kill(&self, burial: &Burial) -> Result<ChangeAnswer, StoreError> {
        self.put_dead(&burial.dead).await?;
        self.delete_killed(burial).await
    }

    async fn dead_page(
        &self,
        shard: &Shard,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Page<DeadRow>, StoreError> {
        self.read_page(operation::DEAD_PAGE, &shard.dead_key(), after, limit, dead::decode).await
    }

    async fn put_redriven(&self, redrive: &Redrive) -> Result<PutAnswer, StoreError> {
        self.put_row(operation::PUT_REDRIVEN, &redrive.row).await
    }

    async fn delete_dead(&self, key: &RowKey, dead_redriven: u32) -> Result<ChangeAnswer, StoreError> {
        self.delete_dead_row(key, dead_redriven).await
    }

    async fn read_fence(&self, lease: &LeaseName) -> Result<Slot<Fence>, StoreError> {
        self.get_fence(lease).await
    }

    async fn raise_fence(&self, raise: &FenceRaise) -> Result<WriteAnswer<Fence>, StoreError> {
        self.update_fence(raise).await
    }
}
