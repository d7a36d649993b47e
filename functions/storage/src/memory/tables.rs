//! The two tables as items, with the conditional write and the reads that everything else is made of.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::limits::{ITEM_BYTES_MAX, QUERY_PAGE_BYTES_MAX};

use super::usage::{Meter, Usage};
use crate::StoreError;
use crate::item::{Item, Key, Value, size_bytes};
use crate::records::{Table, tombstone};

/// Both tables of a deployment; clones share them, as instances do.
#[derive(Debug, Clone, Default)]
pub struct MemoryTables {
    state: Arc<Mutex<State>>,
}

impl MemoryTables {
    /// Two empty tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts any item, unconditionally and uncounted: also one that no codec would write.
    ///
    /// # Errors
    /// `Invalid` where a key attribute is missing or no text, or the item is too large: no table could hold it.
    pub fn plant(&self, table: Table, item: Item) -> Result<(), StoreError> {
        let key = table.key_of(&item).ok_or_else(|| {
            let (partition, sort) = (table.partition_attribute(), table.sort_attribute());
            let detail = format!("the item has no text in its key attributes {partition} and {sort}");
            StoreError::new(FailureKind::Invalid, "plant", detail)
        })?;
        check_size("plant", &item)?;
        self.with(|state| state.rows(table).insert(key, item));
        Ok(())
    }

    /// Takes an item away, unconditionally and uncounted, and returns it.
    pub fn remove(&self, table: Table, key: &Key) -> Option<Item> {
        self.with(|state| state.rows(table).remove(key))
    }

    /// Takes all items of a table away, as a lost or newly made table would show.
    pub fn clear(&self, table: Table) {
        self.with(|state| state.rows(table).clear());
    }

    /// What `look` sees in the item at `key`; uncounted. Nothing where there is none.
    pub fn look<T>(&self, table: Table, key: &Key, look: impl FnOnce(&Item) -> T) -> Option<T> {
        self.with(|state| state.rows(table).get(key).map(look))
    }

    /// Every item of a table, in key order.
    pub fn dump(&self, table: Table) -> Vec<Item> {
        self.with(|state| state.rows(table).values().cloned().collect())
    }

    /// Deletes every item of the outbox table, of whatever kind, whose `expires_at` lies before `now_secs` (epoch seconds):
    /// what DynamoDB's TTL does in its own time. Returns how many.
    pub fn expire(&self, now_secs: u64) -> usize {
        self.with(|state| {
            let before = state.outbox.len();
            state.outbox.retain(|_, item| number_of(item, tombstone::EXPIRES_AT).is_none_or(|at| at >= now_secs));
            before - state.outbox.len()
        })
    }

    /// What the calls of `operation` ([`crate::operation`]) took so far.
    pub fn usage_of(&self, operation: &str) -> Usage {
        self.with(|state| state.meter.of(operation))
    }

    /// What all calls took so far.
    pub fn usage(&self) -> Usage {
        self.with(|state| state.meter.total())
    }

    /// Works on the tables, alone. Nothing in `work` can wait, so nothing is held across a wait.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The tables' content and the meter.
#[derive(Debug, Default)]
pub(super) struct State {
    lease: BTreeMap<Key, Item>,
    outbox: BTreeMap<Key, Item>,
    pub(super) meter: Meter,
}

/// What became of a conditional write.
pub(super) enum Written {
    /// Applied.
    Applied,
    /// The condition did not hold; this is what stands there.
    Refused(Option<Item>),
}

/// What a query returned: items in order, and whether more may follow the last.
pub(super) struct Queried {
    pub(super) items: Vec<Item>,
    pub(super) more: bool,
}

impl State {
    fn rows(&mut self, table: Table) -> &mut BTreeMap<Key, Item> {
        match table {
            Table::Lease => &mut self.lease,
            Table::Outbox => &mut self.outbox,
        }
    }

    /// One item, strongly consistent.
    pub(super) fn get(&mut self, operation: &'static str, table: Table, key: &Key) -> Option<Item> {
        let item = self.rows(table).get(key).cloned();
        self.meter.read(operation, item.as_ref().map_or(0, size_bytes));
        item
    }

    /// Items of one partition after `after` (exclusive), in order, until `limit` or the page's size is reached.
    pub(super) fn query(
        &mut self,
        operation: &'static str,
        table: Table,
        partition: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Queried {
        let from = Key { partition: partition.to_owned(), sort: after.unwrap_or_default().to_owned() };
        let start = if after.is_some() { Bound::Excluded(from) } else { Bound::Included(from) };
        let mut queried = Queried { items: Vec::new(), more: false };
        let mut bytes = 0;
        for (key, item) in self.rows(table).range((start, Bound::Unbounded)) {
            if key.partition != partition {
                break;
            }
            bytes += size_bytes(item);
            if bytes > QUERY_PAGE_BYTES_MAX && !queried.items.is_empty() {
                queried.more = true;
                bytes -= size_bytes(item);
                break;
            }
            queried.items.push(item.clone());
            if queried.items.len() == limit {
                // Whether anything follows is not looked at, exactly as DynamoDB does not.
                queried.more = true;
                break;
            }
        }
        self.meter.requests(operation, 1);
        self.meter.read(operation, bytes);
        queried
    }

    /// Makes `change` of the item at `key` if `condition` holds for it. `change` gets the item as it stands and returns what
    /// shall stand there; nothing means that it is deleted.
    pub(super) fn write(
        &mut self,
        operation: &'static str,
        table: Table,
        key: &Key,
        condition: impl FnOnce(Option<&Item>) -> bool,
        change: impl FnOnce(Option<&Item>) -> Option<Item>,
    ) -> Result<Written, StoreError> {
        let before = self.rows(table).get(key).cloned();
        if !condition(before.as_ref()) {
            self.meter.write(operation, before.as_ref(), None);
            return Ok(Written::Refused(before));
        }
        let after = change(before.as_ref());
        if let Some(item) = &after {
            check_size(operation, item)?;
        }
        self.meter.write(operation, before.as_ref(), after.as_ref());
        match after {
            Some(item) => self.rows(table).insert(key.clone(), item),
            None => self.rows(table).remove(key),
        };
        Ok(Written::Applied)
    }
}

fn check_size(operation: &'static str, item: &Item) -> Result<(), StoreError> {
    let bytes = size_bytes(item);
    if bytes <= ITEM_BYTES_MAX {
        return Ok(());
    }
    let detail =
        format!("an item of {bytes} bytes is over the table's limit of {ITEM_BYTES_MAX}; send a smaller payload");
    Err(StoreError::new(FailureKind::Invalid, operation, detail))
}

/// Is the attribute this very text?
pub(super) fn text_is(item: &Item, name: &str, wanted: &str) -> bool {
    matches!(item.get(name), Some(Value::Text(text)) if text == wanted)
}

/// The attribute as a whole number, where it is one.
pub(super) fn number_of(item: &Item, name: &str) -> Option<u64> {
    match item.get(name) {
        Some(Value::Number(digits)) => digits.parse().ok(),
        _ => None,
    }
}
