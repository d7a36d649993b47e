//! Names and identifiers, each its own type, each checked where it enters.
//!
//! A value of one of these types is well formed: it has a bounded length and only characters that are safe in a key, in a
//! log line and in a queue attribute. What is not well formed becomes a [`Malformed`] that names the field.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::limits;
use crate::time::Timestamp;

/// A value that does not fit its field: which field, and what would fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Malformed {
    /// The field's name as its writer knows it.
    pub field: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl Malformed {
    /// A malformed `field`, with the `problem` in words.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// Declares a checked text type: its name, its field name in errors, its greatest length and its alphabet.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:expr, $allowed:expr, $alphabet:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text`.
            ///
            /// # Errors
            /// [`Malformed`] where it is empty, too long, or has a character outside the alphabet.
            pub fn new(text: impl Into<String>) -> Result<Self, Malformed> {
                let text = text.into();
                let allowed: fn(char) -> bool = $allowed;
                if text.is_empty() {
                    return Err(Malformed::new($field, "is empty"));
                }
                if text.chars().count() > $max {
                    return Err(Malformed::new($field, format!("is longer than {} characters", $max)));
                }
                if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
                    return Err(Malformed::new($field, format!("has the character {bad:?}; allowed are {}", $alphabet)));
                }
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Malformed;
            fn try_from(text: String) -> Result<Self, Malformed> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

fn name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.'
}

fn stack_char(c: char) -> bool {
    name_char(c) || c == '/' || c == ':'
}

text_id!(
    /// A lease group's name, for example `telemetry`. At most 40 characters, so that an execution name
    /// (`lease-token-try`, 80 characters at AWS) holds it.
    LeaseName, "lease", 40, name_char, "letters, digits, '-', '_' and '.'"
);
text_id!(
    /// An instance's name: the region unless set.
    InstanceName, "instance", 64, name_char, "letters, digits, '-', '_' and '.'"
);
text_id!(
    /// The stack's own id: the last part of CloudFormation's, which a re-created stack does not share.
    StackId, "stack", 200, stack_char, "letters, digits and -_./:"
);
text_id!(
    /// The unique id of one lease or fence write. A write finds its own id in the row and knows that it was applied.
    AttemptId, "attempt", 64, name_char, "letters, digits, '-', '_' and '.'"
);
text_id!(
    /// The unique id of one page's claim.
    ClaimId, "claim", 64, name_char, "letters, digits, '-', '_' and '.'"
);
text_id!(
    /// A message's id inside the outbox and at the consumer.
    MessageId, "message_id", limits::MESSAGE_ID_CHARS_MAX, name_char, "letters, digits, '-', '_' and '.'"
);

/// Who an instance is: its name and the stack that it belongs to. Two stacks with one name are two instances.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The instance's name.
    pub name: InstanceName,
    /// Its stack.
    pub stack: StackId,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.stack)
    }
}

/// A fencing token: 1 to [`limits::FENCING_TOKEN_MAX`], and larger at each acquisition, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct FencingToken(u64);

impl FencingToken {
    /// The first token of a lease group.
    pub const FIRST: Self = Self(1);

    /// Checks `number`.
    ///
    /// # Errors
    /// [`Malformed`] for 0 and for more than [`limits::FENCING_TOKEN_MAX`].
    pub fn new(number: u64) -> Result<Self, Malformed> {
        if (1..=limits::FENCING_TOKEN_MAX).contains(&number) {
            Ok(Self(number))
        } else {
            Err(Malformed::new(
                "fencing_token",
                format!("is {number}; a token is between 1 and {}", limits::FENCING_TOKEN_MAX),
            ))
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The token above this one.
    ///
    /// # Errors
    /// [`Malformed`] where this one is the last.
    pub fn next(self) -> Result<Self, Malformed> {
        Self::new(self.0.saturating_add(1))
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = Malformed;
    fn try_from(number: u64) -> Result<Self, Malformed> {
        Self::new(number)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> u64 {
        token.0
    }
}

/// What a row was stamped with: a token, or 0 where ingest knew none. Anybody's claim is at or above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Stamp(u64);

impl Stamp {
    /// No token was known.
    pub const NONE: Self = Self(0);

    /// Checks `number`.
    ///
    /// # Errors
    /// [`Malformed`] for more than [`limits::FENCING_TOKEN_MAX`].
    pub fn new(number: u64) -> Result<Self, Malformed> {
        if number <= limits::FENCING_TOKEN_MAX {
            Ok(Self(number))
        } else {
            Err(Malformed::new(
                "fencing_token",
                format!("is {number}; a stamp is at most {}", limits::FENCING_TOKEN_MAX),
            ))
        }
    }

    /// The number, 0 for none.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Is this stamp above `token`?
    pub const fn is_above(self, token: FencingToken) -> bool {
        self.0 > token.0
    }

    /// Is this stamp below `token`?
    pub const fn is_below(self, token: FencingToken) -> bool {
        self.0 < token.0
    }
}

impl From<FencingToken> for Stamp {
    fn from(token: FencingToken) -> Self {
        Self(token.0)
    }
}

impl TryFrom<u64> for Stamp {
    type Error = Malformed;
    fn try_from(number: u64) -> Result<Self, Malformed> {
        Self::new(number)
    }
}

impl From<Stamp> for u64 {
    fn from(stamp: Stamp) -> u64 {
        stamp.0
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

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
        let bad = || Malformed::new("position", format!("{text:?} is not <13 digits>#<message id>"));
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

/// SHA-256 of a payload, in lower-case hexadecimal: which bytes a tombstone stands for, without keeping them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PayloadDigest(String);

impl PayloadDigest {
    /// The digest of `payload`.
    pub fn of(payload: &[u8]) -> Self {
        Self(hex(&Sha256::digest(payload)))
    }

    /// Reads a digest.
    ///
    /// # Errors
    /// [`Malformed`] where it is not 64 lower-case hexadecimal digits.
    pub fn parse(text: impl Into<String>) -> Result<Self, Malformed> {
        let text = text.into();
        if text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            Ok(Self(text))
        } else {
            Err(Malformed::new("digest", "is not 64 lower-case hexadecimal digits"))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first `digits` digits (64 at most).
    pub fn short(&self, digits: usize) -> &str {
        &self.0[..digits.min(self.0.len())]
    }
}

impl fmt::Display for PayloadDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for PayloadDigest {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        Self::parse(text)
    }
}

impl From<PayloadDigest> for String {
    fn from(digest: PayloadDigest) -> String {
        digest.0
    }
}

/// Bytes as lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
