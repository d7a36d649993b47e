//! The rows of the outbox table, as values.
//!
//! | partition | row | type |
//! |---|---|---|
//! | `<lease>#<nnnn>` | an outstanding record | [`OutboxRow`] |
//! | `dead#<lease>#<nnnn>` | a dead record | [`DeadRow`] |
//! | `sent#<message id>` | a tombstone: the queue accepted this payload | [`Tombstone`] |
//! | `fence#<lease>` | the highest token ever issued | [`Fence`] |
//!
//! What a row may hold is checked when it is decoded; how it is encoded is the store's business. What must stay out: keys of
//! a particular database, and every decision (those are in [`crate::ingest`], [`crate::drain`] and [`crate::lease`]).

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, ClaimId, FencingToken, InstanceName, Malformed, MessageId, PayloadDigest, RowKey, Stamp};
use crate::time::Timestamp;

/// The newest schema of every record kind that this code reads. A row of a newer one is held and counted, never touched.
pub const SCHEMA: u32 = 1;

/// A place in the store that was read: nothing, a record, or something that must not be believed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Slot<T> {
    /// No item.
    Absent,
    /// A well-formed record.
    Present(T),
    /// An item that does not decode. Nothing may be overwritten and nothing decided from it.
    Damaged(Damage),
}

impl<T> Slot<T> {
    /// The record, where it is well formed.
    pub fn present(&self) -> Option<&T> {
        match self {
            Slot::Present(record) => Some(record),
            Slot::Absent | Slot::Damaged(_) => None,
        }
    }
}

/// Why an item was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{record}: {malformed}")]
pub struct Damage {
    /// Which item: its key in words.
    pub record: String,
    /// The field and what is wrong with it.
    pub malformed: Malformed,
    /// Is it merely newer than this code (a schema number above [`SCHEMA`])?
    pub newer_schema: bool,
}

/// Is an outstanding record free or in somebody's hands?
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody works on it.
    Pending,
    /// Claimed under this id.
    Claimed(ClaimId),
}

/// An outstanding record: a message that ingest acknowledged and that nobody committed yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutboxRow {
    /// Where it is.
    pub key: RowKey,
    /// The exact bytes that the device published.
    pub payload: Vec<u8>,
    /// The topic.
    pub topic: String,
    /// The client id, where the rule knew one.
    pub client_id: Option<String>,
    /// A message id that the device made itself (a user property); passed on, never used for the outbox's own identity.
    pub device_message_id: Option<String>,
    /// The token of who wrote or last claimed it.
    pub stamp: Stamp,
    /// Free or claimed.
    pub status: Status,
    /// Claims that were not handed back.
    pub attempts: u32,
    /// Claims that went stale: the drainer that held them was ended by the platform.
    pub stale: u32,
    /// When it was first claimed, on the claimer's clock.
    pub first_attempt_at: Option<Timestamp>,
    /// Not due before this moment (back-off).
    pub not_before: Option<Timestamp>,
    /// The last refusal in words, at most [`crate::limits::LAST_ERROR_BYTES_MAX`] bytes.
    pub last_error: Option<String>,
    /// How often an operator put it back from the dead.
    pub redriven: u32,
    /// The instance whose ingest wrote it.
    pub origin: InstanceName,
}

impl OutboxRow {
    /// A row that nobody has touched: pending, stamped with no token, of no known client.
    pub fn pending(key: RowKey, payload: Vec<u8>, topic: String, origin: InstanceName) -> Self {
        Self {
            key,
            payload,
            topic,
            client_id: None,
            device_message_id: None,
            stamp: Stamp::NONE,
            status: Status::Pending,
            attempts: 0,
            stale: 0,
            first_attempt_at: None,
            not_before: None,
            last_error: None,
            redriven: 0,
            origin,
        }
    }

    /// The message's id.
    pub fn id(&self) -> &MessageId {
        self.key.position.id()
    }

    /// The key whose messages keep their order: the device, else the topic.
    pub fn ordering_key(&self) -> &str {
        ordering_key(self.client_id.as_deref(), &self.topic)
    }

    /// The claim, where it is claimed.
    pub fn claim(&self) -> Option<&ClaimId> {
        match &self.status {
            Status::Pending => None,
            Status::Claimed(claim) => Some(claim),
        }
    }
}

/// The key whose messages keep their order: the device (client id), else the topic.
pub fn ordering_key<'a>(client_id: Option<&'a str>, topic: &'a str) -> &'a str {
    match client_id {
        Some(client) if !client.is_empty() => client,
        _ => topic,
    }
}

/// Why a record died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeathReason {
    /// Attempts **and** age ran out.
    Exhausted,
    /// Larger than the queue takes, by our own measure.
    Oversize,
    /// Refused by a permanent code that is on the allow-list.
    Refused,
}

impl DeathReason {
    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeathReason::Exhausted => "exhausted",
            DeathReason::Oversize => "oversize",
            DeathReason::Refused => "refused",
        }
    }

    /// Reads the stable name.
    ///
    /// # Errors
    /// [`Malformed`] for any other text.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        match text {
            "exhausted" => Ok(DeathReason::Exhausted),
            "oversize" => Ok(DeathReason::Oversize),
            "refused" => Ok(DeathReason::Refused),
            other => Err(Malformed::new("reason", format!("is {other:?}; it is exhausted, oversize or refused"))),
        }
    }
}

/// A dead record: it stays until an operator redrives or purges it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeadRow {
    /// The record as it was when it died; [`Status`] is kept as it stood.
    pub row: OutboxRow,
    /// Why.
    pub reason: DeathReason,
    /// When, on the clock of who buried it.
    pub died_at: Timestamp,
}

/// Proof that the queue accepted a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tombstone {
    /// The message.
    pub id: MessageId,
    /// Of which bytes.
    pub digest: PayloadDigest,
    /// Of which life of the record.
    pub redriven: u32,
    /// When the database may forget it, in epoch **seconds**: the one record that carries this attribute.
    pub expires_at_secs: u64,
}

impl Tombstone {
    /// Does it prove that this very record was accepted: these bytes, in this life or a later one? A row of an earlier life
    /// than the tombstone's is a late delivery of the event that was redriven since.
    pub fn proves(&self, row: &OutboxRow) -> bool {
        self.id == *row.id() && self.redriven >= row.redriven && self.digest == PayloadDigest::of(&row.payload)
    }
}

/// The highest token ever issued for a lease group, kept apart from the lease table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    /// That token.
    pub highest: FencingToken,
    /// The write that raised it.
    pub attempt: AttemptId,
}

#[cfg(test)]
mod tests {
    use super::DeathReason::{Exhausted, Oversize, Refused};
    use super::*;

    #[test]
    fn the_name_of_a_death_is_the_one_that_is_read() {
        for reason in [Exhausted, Oversize, Refused] {
            assert_eq!(
                (DeathReason::parse(reason.as_str()).unwrap(), serde_json::to_value(reason).unwrap()),
                (reason, reason.as_str().into())
            );
        }
    }

    #[test]
    fn a_device_without_a_name_keeps_its_topics_order() {
        assert_eq!(ordering_key(Some("device-1"), "topic"), "device-1");
        assert_eq!((ordering_key(Some(""), "topic"), ordering_key(None, "topic")), ("topic", "topic"));
    }
}
