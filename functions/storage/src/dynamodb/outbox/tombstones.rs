//! Tombstones: read many by one strong batch, written 25 to a request.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aws_sdk_dynamodb::types::KeysAndAttributes;
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::MessageId;
use fencepost_protocol::limits::BATCH_GET_KEYS_MAX;
use fencepost_protocol::outbox::{Slot, Tombstone};

use super::DynamoOutbox;
use crate::dynamodb::convert::{Attributes, from_attributes};
use crate::dynamodb::table::{Retry, units};
use crate::dynamodb::write::{Condition, Outcome, Test, Write};
use crate::item::{Item, Value};
use crate::records::{Table, tombstone};
use crate::{StoreError, operation, records};

/// The pause before keys that the service left unprocessed are asked for again; doubled each time.
const UNPROCESSED_BACKOFF: Duration = Duration::from_millis(50);

impl DynamoOutbox {
    /// The tombstones of `ids` that exist, in the order of `ids`.
    pub(super) async fn read_tombstones(&self, ids: &[MessageId]) -> Result<Vec<Slot<Tombstone>>, StoreError> {
        let mut seen = HashSet::new();
        let unique: Vec<&MessageId> = ids.iter().filter(|id| seen.insert(*id)).collect();
        let mut found: HashMap<String, Item> = HashMap::new();
        for chunk in unique.chunks(BATCH_GET_KEYS_MAX) {
            for item in self.get_tombstone_items(chunk).await? {
                if let Some(key) = Table::Outbox.key_of(&item) {
                    found.insert(key.partition, item);
                }
            }
        }
        let items = unique.iter().filter_map(|id| found.get(&tombstone::key(id).partition));
        Ok(items.map(|item| records::slot(Some(item), tombstone::decode)).collect())
    }

    /// One batch of reads, asked for again until it is whole, or the tries or the time are used up: a part of it would be taken
    /// for the absence of the rest.
    async fn get_tombstone_items(&self, ids: &[&MessageId]) -> Result<Vec<Item>, StoreError> {
        let all = async {
            let mut keys: Vec<Attributes> =
                ids.iter().map(|id| self.table.key_attributes(tombstone::key(id))).collect();
            let mut items = Vec::with_capacity(keys.len());
            let mut pause = UNPROCESSED_BACKOFF;
            for attempt in 1..=self.table.policy.max_attempts.max(1) {
                if attempt > 1 {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                let (part, unprocessed) = self.get_batch(keys).await?;
                items.extend(part);
                if unprocessed.is_empty() {
                    return Ok(items);
                }
                keys = unprocessed;
            }
            let detail = format!("{} of {} keys were left unprocessed", keys.len(), ids.len());
            Err(StoreError::new(FailureKind::Throttled, operation::TOMBSTONES, detail))
        };
        tokio::time::timeout(self.table.policy.call_timeout, all).await.unwrap_or_else(|_| {
            Err(StoreError::new(FailureKind::TimedOut, operation::TOMBSTONES, "the call's time was used up"))
        })
    }

    async fn get_batch(&self, keys: Vec<Attributes>) -> Result<(Vec<Item>, Vec<Attributes>), StoreError> {
        let invalid = |detail: String| StoreError::new(FailureKind::Invalid, operation::TOMBSTONES, detail);
        let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let wanted = wanted.map_err(|error| invalid(error.to_string()))?;
        self.table
            .observed(operation::TOMBSTONES, async {
                let output = self
                    .table
                    .client
                    .batch_get_item()
                    .request_items(&self.table.name, wanted)
                    .set_return_consumed_capacity(self.table.capacity())
                    .customize()
                    .config_override(self.table.bounds(Retry::ByPolicy))
                    .send()
                    .await
                    .map_err(|error| self.table.failed(operation::TOMBSTONES, &error))?;
                let units = output.consumed_capacity().iter().map(|capacity| units(Some(capacity))).sum();
                // One table was asked for, so whatever name it answers under (a name or an ARN) is that table.
                let items = output.responses.unwrap_or_default().into_values().flatten().map(from_attributes).collect();
                let unprocessed = output.unprocessed_keys.unwrap_or_default().into_values();
                Ok(((items, unprocessed.flat_map(|left| left.keys).collect()), units))
            })
            .await
    }

    /// Inserts tombstones. One that stands already gets the later of the two lives.
    pub(super) async fn put_tombstones(&self, tombstones: &[Tombstone]) -> Vec<Result<(), StoreError>> {
        let insert = |tombstone: &Tombstone| Write::Put { item: tombstone::encode(tombstone), when: Condition::Absent };
        let mut results: Vec<Result<(), StoreError>> = Vec::with_capacity(tombstones.len());
        let mut standing = Vec::new();
        let outcomes = self.write_tombstone_batch(tombstones.iter().map(insert).collect()).await;
        for (index, outcome) in outcomes.into_iter().enumerate() {
            if matches!(outcome, Ok(Outcome::Refused(_) | Outcome::Taken)) {
                standing.push(index);
            }
            results.push(outcome.map(|_| ()));
        }
        let raises = standing.iter().map(|index| raise(&tombstones[*index])).collect();
        // Refused here: what stands is of the same life or a later one.
        for (index, outcome) in standing.iter().zip(self.write_tombstone_batch(raises).await) {
            results[*index] = outcome.map(|_| ());
        }
        results
    }

    async fn write_tombstone_batch(&self, writes: Vec<Write>) -> Vec<Result<Outcome, StoreError>> {
        if writes.is_empty() {
            return Vec::new();
        }
        self.table.write_all(operation::WRITE_TOMBSTONES, writes, Retry::ByPolicy, self.batching).await
    }
}

/// Makes a standing tombstone one of a later life.
fn raise(to: &Tombstone) -> Write {
    let life = Value::number(to.redriven.into());
    Write::Update {
        key: tombstone::key(&to.id),
        set: vec![
            (tombstone::DIGEST, Value::text(to.digest.as_str())),
            (tombstone::REDRIVEN, life.clone()),
            (tombstone::EXPIRES_AT, Value::number(to.expires_at_secs)),
        ],
        remove: Vec::new(),
        when: Condition::Holds(vec![Test::below(tombstone::REDRIVEN, life)]),
    }
}
