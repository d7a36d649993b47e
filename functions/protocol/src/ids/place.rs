//! Where a row is: shard, position, and both together. Each has one text form, which is its key in the store.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{LeaseName, Malformed, MessageId};
use crate::limits;
use crate::time::Timestamp;

/// One shard of a lease group's outbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    lease: LeaseName,
    index: u16,
}

impl Shard {
    /// Shard `index` of `lease`.
    ///
    /// # Errors
    /// [`Malformed`] for an index of [`limits::SHARDS_MAX`] or more.
    pub fn new(lease: LeaseName, index: u16) -> Result<Self, Malformed> {
        if index < limits::SHARDS_MAX {
            Ok(Self { lease, index })
        } else {
            Err(Malformed::new("shard", format!("index {index} is not below {}", limits::SHARDS_MAX)))
        }
    }

    /// The shard that `ordering_key` falls into, of `count` shards (at least 1, at most [`limits::SHARDS_MAX`]).
    ///
    /// The hash is SHA-256, so that it never changes with a compiler or a library.
    pub fn of_key(lease: &LeaseName, ordering_key: &str, count: u16) -> Self {
        let hash = Sha256::digest(ordering_key.as_bytes());
        let number = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        let count = u32::from(count.clamp(1, limits::SHARDS_MAX));
        let index = u16::try_from(number % count).unwrap_or(0);
        Self { lease: lease.clone(), index }
    }

    /// Reads the partition key of outstanding rows, `<lease>#<nnnn>`.
    ///
    /// # Errors
    /// [`Malformed`] where it is not one.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let bad = || Malformed::new("shard", format!("{text:?} is not <lease>#<four digits>"));
        let (lease, digits) = text.rsplit_once('#').ok_or_else(bad)?;
        if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let index = digits.parse().map_err(|_| bad())?;
        Self::new(LeaseName::new(lease)?, index)
    }

    /// The group that the shard belongs to.
    pub fn lease(&self) -> &LeaseName {
        &self.lease
    }

    /// Its number, from 0.
    pub const fn index(&self) -> u16 {
        self.index
    }

    /// The partition key of its dead rows: `dead#<lease>#<nnnn>`.
    pub fn dead_key(&self) -> String {
        format!("dead#{self}")
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:04}", self.lease, self.index)
    }
}

impl TryFrom<String> for Shard {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        Self::parse(&text)
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

/// A row's place in its shard: when it was received, then its id. Ordered as its text is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Position {
    received_at: Timestamp,
    id: MessageId,
}

impl Position {
    /// The place of message `id`, received at `received_at`.
    ///
    /// # Errors
    /// [`Malformed`] for a moment that does not fit 13 digits.
    pub fn new(received_at: Timestamp, id: MessageId) -> Result<Self, Malformed> {
        if received_at > Timestamp::MAX {
            return Err(Malformed::new(
                "received_at",
                format!("is {}; it must be milliseconds since 1970, of 13 digits at most", received_at.as_ms()),
            ));
        }
        Ok(Self { received_at, id })
    }

    /// Reads the sort key of a row, `<13 digits>#<message id>`.
    ///
    /// # Errors
    /// [`Malformed`] where it is not one.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let bad = || Malformed::new("position", format!("must be <13 digits>#<message id>; it is {text:?}"));
        let (digits, id) = text.split_once('#').ok_or_else(bad)?;
        if digits.len() != 13 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let ms = digits.parse().map_err(|_| bad())?;
        Self::new(Timestamp::from_ms(ms), MessageId::new(id).map_err(|_| bad())?)
    }

    /// When the message was received.
    pub const fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// The message's id.
    pub const fn id(&self) -> &MessageId {
        &self.id
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013}#{}", self.received_at.as_ms(), self.id)
    }
}

impl TryFrom<String> for Position {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        Self::parse(&text)
    }
}

impl From<Position> for String {
    fn from(position: Position) -> String {
        position.to_string()
    }
}

/// Where a row is: its shard and its position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowKey {
    /// The shard.
    pub shard: Shard,
    /// The position in it.
    pub position: Position,
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shard, self.position)
    }
}
