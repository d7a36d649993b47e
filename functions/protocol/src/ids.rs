//! Names and identifiers, each its own type, each checked where it enters.
//!
//! A value of one of these types is well formed: it has a bounded length and only characters that are safe in a key, in a
//! log line and in a queue attribute. What is not well formed becomes a [`Malformed`] that names the field.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits;

mod digest;
mod place;
mod token;

pub use digest::PayloadDigest;
pub(crate) use digest::hex;
pub use place::{Position, RowKey, Shard};
pub use token::{FencingToken, Stamp};

// Half of it is more than our own words need before or after what was found.
const FIELD_CHARS_MAX: usize = 120;
const PROBLEM_CHARS_MAX: usize = 500;

/// A value that does not fit its field: which field, and what would fit.
///
/// Both may repeat what was found, which may be as long as whoever sent it liked; so of more than 120 and 500 characters the
/// middle gives way to one '…': the words before and after what was found stay.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
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
        Self { field: cut(field.into(), FIELD_CHARS_MAX), problem: cut(problem.into(), PROBLEM_CHARS_MAX) }
    }
}

fn cut(text: String, chars_max: usize) -> String {
    let count = text.chars().count();
    if count <= chars_max {
        return text;
    }
    let tail = chars_max / 2;
    let head = chars_max - tail;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail)).collect()
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

#[cfg(test)]
mod tests;
