//! Which bytes a tombstone stands for, without keeping them.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Malformed;

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
