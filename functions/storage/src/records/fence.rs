//! The fence: the highest token ever issued for a group, kept apart from the lease table so that its loss or an old backup
//! of it never makes a token come twice.
//!
//! Key: `shard` = `fence#<lease>`, `position` = `fence`. Cardinality: one per lease group, kept for ever. Mutability: raised
//! before each acquisition, on condition of exactly the value and the `attempt` that were read.

use fencepost_protocol::ids::{AttemptId, LeaseName, Malformed};
use fencepost_protocol::outbox::{Damage, Fence, SCHEMA};

use super::fields::{self, Fields, SCHEMA_ATTRIBUTE};
use super::lease::read_token;
use super::table::Table;
use crate::item::{Item, Key, Value};

/// The beginning of a fence's partition key.
pub const PARTITION_PREFIX: &str = "fence#";
/// The sort key of every fence.
pub const POSITION: &str = "fence";

/// The highest token.
pub const FENCING_TOKEN: &str = "fencing_token";
/// The id of the write that raised it.
pub const ATTEMPT: &str = "attempt";

/// Every attribute of the item but its key.
pub const ATTRIBUTES: [&str; 3] = [FENCING_TOKEN, ATTEMPT, SCHEMA_ATTRIBUTE];

/// Where the fence of `lease` is.
pub fn key(lease: &LeaseName) -> Key {
    Key { partition: format!("{PARTITION_PREFIX}{lease}"), sort: POSITION.to_owned() }
}

/// The whole item of `lease`'s fence.
pub fn encode(lease: &LeaseName, fence: &Fence) -> Item {
    let mut item = Table::Outbox.item_of(&key(lease));
    item.insert(FENCING_TOKEN.to_owned(), Value::number(fence.highest.get()));
    item.insert(ATTEMPT.to_owned(), Value::text(fence.attempt.as_str()));
    item.insert(SCHEMA_ATTRIBUTE.to_owned(), Value::number(SCHEMA.into()));
    item
}

/// Reads a fence.
///
/// # Errors
/// [`Damage`] with the first field that is missing, of the wrong type or out of range.
pub fn decode(item: &Item) -> Result<Fence, Damage> {
    fields::decode(item, || Table::Outbox.describe("fence", item), read)
}

fn read(fields: &Fields<'_>) -> Result<Fence, Malformed> {
    fields.parsed(Table::Outbox.partition_attribute(), |text| {
        let bad = || Malformed::new(PARTITION_PREFIX, format!("must be {PARTITION_PREFIX}<lease>"));
        LeaseName::new(text.strip_prefix(PARTITION_PREFIX).ok_or_else(bad)?)
    })?;
    if fields.text(Table::Outbox.sort_attribute())? != POSITION {
        return Err(fields.malformed(Table::Outbox.sort_attribute(), format!("must be {POSITION}")));
    }
    Ok(Fence { highest: read_token(fields, FENCING_TOKEN)?, attempt: fields.parsed(ATTEMPT, AttemptId::new)? })
}
