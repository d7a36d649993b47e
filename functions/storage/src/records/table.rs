//! The two tables and the names of their key attributes.

use crate::item::{Item, Key, Value};

/// One of the two tables of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The lease row and the instance rows of every lease group.
    Lease,
    /// Outstanding records, dead records, tombstones and fences.
    Outbox,
}

impl Table {
    /// The partition key's attribute.
    pub const fn partition_attribute(self) -> &'static str {
        match self {
            Table::Lease => "lease",
            Table::Outbox => "shard",
        }
    }

    /// The sort key's attribute.
    pub const fn sort_attribute(self) -> &'static str {
        match self {
            Table::Lease => "record",
            Table::Outbox => "position",
        }
    }

    /// The key that `item` states; `None` where a key attribute is missing or no text.
    pub fn key_of(self, item: &Item) -> Option<Key> {
        let text = |name| match item.get(name) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        Some(Key { partition: text(self.partition_attribute())?, sort: text(self.sort_attribute())? })
    }

    /// An item that consists of `key` alone.
    pub fn item_of(self, key: &Key) -> Item {
        Item::from([
            (self.partition_attribute().to_owned(), Value::text(&key.partition)),
            (self.sort_attribute().to_owned(), Value::text(&key.sort)),
        ])
    }

    /// A record's name in errors: its kind and the key that it states.
    pub(super) fn describe(self, kind: &str, item: &Item) -> String {
        let part = |name| match item.get(name) {
            Some(Value::Text(text)) => text.escape_debug().to_string(),
            _ => "?".to_owned(),
        };
        format!("{kind} {}/{}", part(self.partition_attribute()), part(self.sort_attribute()))
    }
}
