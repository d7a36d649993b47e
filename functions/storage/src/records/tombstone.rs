//! A tombstone: proof that the queue accepted a message.
//!
//! Key: `shard` = `sent#<message id>`, `position` = `sent`. Cardinality: one per message committed inside `dedupe_window`.
//! Mutability: written before the commit; replaced by a later life of the record (`redriven`), never by an earlier one. It
//! is the one record with `expires_at`, the table's TTL attribute, in epoch **seconds**: the database forgets it.

use fencepost_protocol::ids::{Malformed, MessageId, PayloadDigest};
use fencepost_protocol::outbox::{Damage, SCHEMA, Tombstone};

use super::fields::{self, Fields, SCHEMA_ATTRIBUTE};
use super::table::Table;
use crate::item::{Item, Key, Value};

/// The beginning of a tombstone's partition key.
pub const PARTITION_PREFIX: &str = "sent#";
/// The sort key of every tombstone.
pub const POSITION: &str = "sent";

/// SHA-256 of the payload, in hexadecimal.
pub const DIGEST: &str = "digest";
/// Which life of the record.
pub const REDRIVEN: &str = "redriven";
/// The table's TTL attribute, in epoch seconds.
pub const EXPIRES_AT: &str = fencepost_protocol::tables::EXPIRES_AT;

/// Where the tombstone of message `id` is.
pub fn key(id: &MessageId) -> Key {
    Key { partition: format!("{PARTITION_PREFIX}{id}"), sort: POSITION.to_owned() }
}

/// The whole item of `tombstone`.
pub fn encode(tombstone: &Tombstone) -> Item {
    let mut item = Table::Outbox.item_of(&key(&tombstone.id));
    item.insert(DIGEST.to_owned(), Value::text(tombstone.digest.as_str()));
    item.insert(REDRIVEN.to_owned(), Value::number(tombstone.redriven.into()));
    item.insert(EXPIRES_AT.to_owned(), Value::number(tombstone.expires_at_secs));
    item.insert(SCHEMA_ATTRIBUTE.to_owned(), Value::number(SCHEMA.into()));
    item
}

/// Reads a tombstone.
///
/// # Errors
/// [`Damage`] with the first field that is missing, of the wrong type or out of range.
pub fn decode(item: &Item) -> Result<Tombstone, Damage> {
    fields::decode(item, || Table::Outbox.describe("tombstone", item), read)
}

fn read(fields: &Fields<'_>) -> Result<Tombstone, Malformed> {
    let id = fields.parsed(Table::Outbox.partition_attribute(), |text| {
        let bad = || Malformed::new(PARTITION_PREFIX, format!("must be {PARTITION_PREFIX}<message id>"));
        MessageId::new(text.strip_prefix(PARTITION_PREFIX).ok_or_else(bad)?)
    })?;
    if fields.text(Table::Outbox.sort_attribute())? != POSITION {
        return Err(fields.malformed(Table::Outbox.sort_attribute(), format!("must be {POSITION}")));
    }
    Ok(Tombstone {
        id,
        digest: fields.parsed(DIGEST, PayloadDigest::parse)?,
        redriven: fields.count(REDRIVEN)?,
        expires_at_secs: fields.number(EXPIRES_AT, 1..=u64::MAX)?,
    })
}
