//! One durable row per message, before anything else happens to it.
//!
//! A handler parses ([`parse`]), decides ([`decide`]), puts the row where its key is absent, and where the key is taken asks
//! [`on_exists`]. Guarantees: the same delivery decided twice is the same row (nothing of it comes from a clock or a random
//! number unless the event states no time at all); two messages never share a row; a message is never refused for want of a
//! lease. What must stay out: reads on the warm path, and any look at what the payload says.
//!
//! Identity is the broker's (`traceid()`, else the rule's `newuuid()`), never the device's: equal payloads are two messages.

mod event;
mod fields;

use crate::ids::{InstanceName, LeaseName, Malformed, MessageId, PayloadDigest, Position, RowKey, Shard, Stamp};
use crate::lease::LeaseRecord;
use crate::limits;
use crate::outbox::{OutboxRow, Slot, ordering_key};
use crate::time::Timestamp;

pub use event::{BatchRecord, Event, parse};

/// A published message, as an event states it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// The exact bytes.
    pub payload: Vec<u8>,
    /// The topic.
    pub topic: String,
    /// The client id, where the broker knew one.
    pub client_id: Option<String>,
    /// The broker's id of this message.
    pub id: MessageId,
    /// An id that the device made.
    pub device_message_id: Option<String>,
    /// When the broker received it; where the event does not say, when its queue or stream did; `None` where nobody says.
    pub received_at: Option<Timestamp>,
}

/// What every row of one ingest has in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IngestTerms {
    /// The lease group.
    pub lease: LeaseName,
    /// This instance.
    pub origin: InstanceName,
    /// Shards of the group, 1 to [`limits::SHARDS_MAX`].
    pub shards: u16,
}

/// What to stamp a row with: the token that the lease row shows, held or released; [`Stamp::NONE`] where it could not be read
/// (`None`), is absent or must not be believed.
pub fn stamp(lease: Option<&Slot<LeaseRecord>>) -> Stamp {
    lease.and_then(Slot::present).map_or(Stamp::NONE, |record| record.token.into())
}

/// The row of a message. `now` is used only where the event states no time: then a second delivery may become a second row.
///
/// # Errors
/// [`Malformed`] where the message does not fit one row, or states an impossible time.
pub fn decide(message: Message, terms: &IngestTerms, stamp: Stamp, now: Timestamp) -> Result<OutboxRow, Malformed> {
    check_size(&message)?;
    let shard = Shard::of_key(&terms.lease, ordering_key(message.client_id.as_deref(), &message.topic), terms.shards);
    let position = Position::new(message.received_at.unwrap_or(now), message.id)?;
    Ok(OutboxRow {
        client_id: message.client_id,
        device_message_id: message.device_message_id,
        stamp,
        ..OutboxRow::pending(RowKey { shard, position }, message.payload, message.topic, terms.origin.clone())
    })
}

/// IoT Core's own limits lie far below; what fits a row is accepted from wherever it comes.
fn check_size(message: &Message) -> Result<(), Malformed> {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let beside = message.topic.len()
        + length(&message.client_id)
        + length(&message.device_message_id)
        + limits::ROW_OVERHEAD_BYTES_MAX;
    let bytes = message.payload.len() + beside;
    if bytes > limits::ITEM_BYTES_MAX {
        let most = limits::ITEM_BYTES_MAX.saturating_sub(beside);
        let problem =
            format!("has {} bytes; with this topic and these ids at most {most} fit a row", message.payload.len());
        return Err(Malformed::new("payload", problem));
    }
    Ok(())
}

/// What to do where a row's key is taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OnExists {
    /// The same message was delivered before: success.
    Duplicate,
    /// Another message has that id, or one that cannot be compared: put this row instead, whose id is the old one and the
    /// payload's hash, so that it repeats.
    Suffixed(OutboxRow),
    /// The row is gone again: put the same row once more. If it was this message and was sent, its tombstone will say so.
    PutAgain,
    /// Even the suffixed id is taken by other bytes: keep the event and fail.
    Clash,
}

/// Hexadecimal digits of the payload's hash in a suffixed id.
const SUFFIX_DIGITS: usize = 16;
/// Characters of an id before any suffix, so that the suffixed one still fits.
const BASE_ID_CHARS_MAX: usize = 80;
const _: () = assert!(BASE_ID_CHARS_MAX + 1 + SUFFIX_DIGITS <= limits::MESSAGE_ID_CHARS_MAX);

/// Decides about a put whose key was taken by `existing`.
pub fn on_exists(row: &OutboxRow, existing: &Slot<OutboxRow>) -> OnExists {
    match existing {
        Slot::Absent => OnExists::PutAgain,
        Slot::Present(other) if other.payload == row.payload => OnExists::Duplicate,
        Slot::Present(_) | Slot::Damaged(_) => suffixed(row).map_or(OnExists::Clash, OnExists::Suffixed),
    }
}

/// The row under its suffixed id; `None` where it has one already.
fn suffixed(row: &OutboxRow) -> Option<OutboxRow> {
    let digest = PayloadDigest::of(&row.payload);
    let suffix = format!(".{}", digest.short(SUFFIX_DIGITS));
    if row.id().as_str().ends_with(&suffix) {
        return None;
    }
    let id = MessageId::new(format!("{}{suffix}", row.id())).ok()?;
    let position = Position::new(row.key.position.received_at(), id).ok()?;
    Some(OutboxRow { key: RowKey { shard: row.key.shard.clone(), position }, ..row.clone() })
}

/// An id from any text, by a rule that always gives the same id for the same text: itself where it is short and has only
/// letters, digits, '-', '_' and '.'; else every other character becomes '_', it is cut, and a hash of the whole is added.
///
/// # Errors
/// [`Malformed`] for the empty text.
pub fn sanitised_id(text: &str) -> Result<MessageId, Malformed> {
    if text.is_empty() {
        return MessageId::new(text);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.chars().count() <= BASE_ID_CHARS_MAX && text.chars().all(fits) {
        return MessageId::new(text);
    }
    let digest = PayloadDigest::of(text.as_bytes());
    let kept: String =
        text.chars().map(|c| if fits(c) { c } else { '_' }).take(BASE_ID_CHARS_MAX - 1 - SUFFIX_DIGITS).collect();
    MessageId::new(format!("{kept}-{}", digest.short(SUFFIX_DIGITS)))
}

#[cfg(test)]
mod tests;
