//! An outstanding record: a message that ingest acknowledged and nobody committed yet.
//!
//! Key: `shard` = `<lease>#<nnnn>`, `position` = `<received_at ms, 13 digits>#<message id>`, so that the head of a shard is its
//! oldest record. Cardinality: one per message between ingest and commit. Mutability: payload, topic, client id, origin and
//! `redriven` never change; stamp, status, claim, counters and times change by claims and hand-backs, each conditional;
//! a fenced commit or a burial deletes it.
//!
//! The attributes beside payload, topic, client id and the last error's text stay within
//! [`fencepost_protocol::limits::ROW_OVERHEAD_BYTES_MAX`] for names and ids of ordinary length. `expires_at` never stands here.

use fencepost_protocol::ids::{ClaimId, InstanceName, Malformed, Position, RowKey, Shard};
use fencepost_protocol::limits::LAST_ERROR_BYTES_MAX;
use fencepost_protocol::outbox::{Damage, OutboxRow, SCHEMA, Status};

use super::fields::{self, Fields, SCHEMA_ATTRIBUTE};
use super::table::Table;
use crate::item::{Item, Key, Value};

/// The exact bytes (binary).
pub const PAYLOAD: &str = "payload";
/// The topic.
pub const TOPIC: &str = "topic";
/// The client id, where the rule knew one.
pub const CLIENT_ID: &str = "client_id";
/// A message id that the device made itself.
pub const DEVICE_MESSAGE_ID: &str = "device_message_id";
/// The stamp: the token of who wrote or last claimed it; 0 for none.
pub const FENCING_TOKEN: &str = "fencing_token";
/// [`PENDING`] or [`CLAIMED`].
pub const STATUS: &str = "status";
/// The claim id; absent while pending.
pub const CLAIM: &str = "claim";
/// Claims that were not handed back.
pub const ATTEMPTS: &str = "attempts";
/// Claims that went stale.
pub const STALE: &str = "stale";
/// When it was first claimed, in milliseconds.
pub const FIRST_ATTEMPT_AT: &str = "first_attempt_at";
/// Not due before this moment, in milliseconds.
pub const NOT_BEFORE: &str = "not_before";
/// The last refusal in words.
pub const LAST_ERROR: &str = "last_error";
/// How often an operator put it back.
pub const REDRIVEN: &str = "redriven";
/// The instance whose ingest wrote it.
pub const ORIGIN: &str = "origin";

/// [`STATUS`] of a free row.
pub const PENDING: &str = "pending";
/// [`STATUS`] of a claimed row.
pub const CLAIMED: &str = "claimed";

/// Where the row of `key` is.
pub fn key(key: &RowKey) -> Key {
    Key { partition: key.shard.to_string(), sort: key.position.to_string() }
}

/// The stored status of `status`, and its claim.
pub fn status_parts(status: &Status) -> (&'static str, Option<&ClaimId>) {
    match status {
        Status::Pending => (PENDING, None),
        Status::Claimed(claim) => (CLAIMED, Some(claim)),
    }
}

/// `text` cut to the length that a row keeps of an error, at a character's boundary.
pub fn clip_error(text: &str) -> &str {
    &text[..text.floor_char_boundary(LAST_ERROR_BYTES_MAX)]
}

/// The whole item of `row`.
pub fn encode(row: &OutboxRow) -> Item {
    let mut item = Table::Outbox.item_of(&key(&row.key));
    encode_body(row, &mut item);
    item
}

/// Everything but the key.
pub(super) fn encode_body(row: &OutboxRow, item: &mut Item) {
    let mut set = |name: &str, value: Value| item.insert(name.to_owned(), value);
    let (status, claim) = status_parts(&row.status);
    set(PAYLOAD, Value::Bytes(row.payload.clone()));
    set(TOPIC, Value::text(&row.topic));
    set(FENCING_TOKEN, Value::number(row.stamp.get()));
    set(STATUS, Value::text(status));
    set(ATTEMPTS, Value::number(row.attempts.into()));
    set(STALE, Value::number(row.stale.into()));
    set(REDRIVEN, Value::number(row.redriven.into()));
    set(ORIGIN, Value::text(row.origin.as_str()));
    set(SCHEMA_ATTRIBUTE, Value::number(SCHEMA.into()));
    let texts = [
        (CLIENT_ID, row.client_id.as_deref()),
        (DEVICE_MESSAGE_ID, row.device_message_id.as_deref()),
        (CLAIM, claim.map(ClaimId::as_str)),
        (LAST_ERROR, row.last_error.as_deref().map(clip_error)),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            set(name, Value::text(text));
        }
    }
    for (name, moment) in [(FIRST_ATTEMPT_AT, row.first_attempt_at), (NOT_BEFORE, row.not_before)] {
        if let Some(moment) = moment {
            set(name, Value::number(moment.as_ms()));
        }
    }
}

/// Reads an outstanding record.
///
/// # Errors
/// [`Damage`] with the first field that is missing, of the wrong type, out of range or impossible beside the others.
pub fn decode(item: &Item) -> Result<OutboxRow, Damage> {
    fields::decode(
        item,
        || Table::Outbox.describe("outbox row", item),
        |fields| {
            let shard = fields.parsed(Table::Outbox.partition_attribute(), Shard::parse)?;
            read_body(fields, shard)
        },
    )
}

/// Everything but the partition key.
pub(super) fn read_body(fields: &Fields<'_>, shard: Shard) -> Result<OutboxRow, Malformed> {
    let position = fields.parsed(Table::Outbox.sort_attribute(), Position::parse)?;
    Ok(OutboxRow {
        key: RowKey { shard, position },
        payload: fields.bytes(PAYLOAD)?.to_vec(),
        topic: fields.text(TOPIC)?.to_owned(),
        client_id: fields.text_opt(CLIENT_ID)?.map(str::to_owned),
        device_message_id: fields.text_opt(DEVICE_MESSAGE_ID)?.map(str::to_owned),
        stamp: fields.stamp(FENCING_TOKEN)?,
        status: read_status(fields)?,
        attempts: fields.count(ATTEMPTS)?,
        stale: fields.count(STALE)?,
        first_attempt_at: fields.moment_opt(FIRST_ATTEMPT_AT)?,
        not_before: fields.moment_opt(NOT_BEFORE)?,
        last_error: fields.text_opt(LAST_ERROR)?.map(str::to_owned),
        redriven: fields.count(REDRIVEN)?,
        origin: fields.parsed(ORIGIN, InstanceName::new)?,
    })
}

fn read_status(fields: &Fields<'_>) -> Result<Status, Malformed> {
    match fields.text(STATUS)? {
        PENDING if fields.has(CLAIM) => Err(fields.malformed(CLAIM, format!("stands beside the status {PENDING}"))),
        PENDING => Ok(Status::Pending),
        CLAIMED => Ok(Status::Claimed(fields.parsed(CLAIM, ClaimId::new)?)),
        other => Err(fields.malformed(STATUS, format!("is {other:?}; it must be {PENDING} or {CLAIMED}"))),
    }
}
