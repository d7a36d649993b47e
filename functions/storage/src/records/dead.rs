//! A dead record: it stays until an operator redrives or purges it.
//!
//! Key: `shard` = `dead#<lease>#<nnnn>`, `position` as it was while outstanding. Cardinality: one per record that died and was
//! not yet decided on. Mutability: put whole, over an earlier life of the same record but never over a later one
//! (`redriven`); otherwise only deleted, on condition of its `redriven`. It has every attribute of an outstanding record,
//! with the status as it stood, and two of its own.

use fencepost_protocol::ids::{Malformed, RowKey, Shard};
use fencepost_protocol::outbox::{Damage, DeadRow, DeathReason};

use super::fields;
use super::outstanding;
use super::table::Table;
use crate::item::{Item, Key, Value};

/// The beginning of a dead record's partition key.
pub const PARTITION_PREFIX: &str = "dead#";

/// Why it died.
pub const REASON: &str = "reason";
/// When, on the clock of who buried it, in milliseconds.
pub const DIED_AT: &str = "died_at";

/// Where the dead row of the record at `key` is.
pub fn key(key: &RowKey) -> Key {
    Key { partition: key.shard.dead_key(), sort: key.position.to_string() }
}

/// The whole item of `dead`.
pub fn encode(dead: &DeadRow) -> Item {
    let mut item = Table::Outbox.item_of(&key(&dead.row.key));
    outstanding::encode_body(&dead.row, &mut item);
    item.insert(REASON.to_owned(), Value::text(dead.reason.as_str()));
    item.insert(DIED_AT.to_owned(), Value::number(dead.died_at.as_ms()));
    item
}

/// Reads a dead record.
///
/// # Errors
/// [`Damage`] with the first field that is missing, of the wrong type, out of range or impossible beside the others.
pub fn decode(item: &Item) -> Result<DeadRow, Damage> {
    fields::decode(
        item,
        || Table::Outbox.describe("dead row", item),
        |fields| {
            let shard = fields.parsed(Table::Outbox.partition_attribute(), |text| {
                let bad =
                    || Malformed::new(PARTITION_PREFIX, format!("must be {PARTITION_PREFIX}<lease>#<four digits>"));
                Shard::parse(text.strip_prefix(PARTITION_PREFIX).ok_or_else(bad)?)
            })?;
            Ok(DeadRow {
                row: outstanding::read_body(fields, shard)?,
                reason: fields.parsed(REASON, DeathReason::parse)?,
                died_at: fields.moment(DIED_AT)?,
            })
        },
    )
}
