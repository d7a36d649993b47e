//! Which keys must not be sent from any more in this pass (FIFO destinations only).
//!
//! Guarantee: a key that was blocked stays blocked until the pass ends, over pages and calls. It is a bounded set of 32-bit
//! hashes, so another key may be blocked by chance, and a full set blocks every key: both only delay.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::Malformed;

/// The blocked keys of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlockedKeys {
    keys: Keys,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Keys {
    /// The destination keeps no order: nothing is ever blocked.
    Unordered,
    Some(BTreeSet<u32>),
    All,
}

impl BlockedKeys {
    /// Hashes that a set keeps, 8 characters each in the cursor. One more, and every key counts as blocked.
    pub const MAX: usize = 512;

    /// No key is blocked yet; none ever will be where the destination keeps no order.
    pub const fn none(ordered: bool) -> Self {
        Self { keys: if ordered { Keys::Some(BTreeSet::new()) } else { Keys::Unordered } }
    }

    /// Blocks `key`.
    pub fn block(&mut self, key: &str) {
        if let Keys::Some(hashes) = &mut self.keys {
            hashes.insert(hash(key));
            if hashes.len() > Self::MAX {
                self.keys = Keys::All;
            }
        }
    }

    /// Blocks every key: a row's own key is unknown, or the set is elsewhere.
    pub fn block_all(&mut self) {
        if self.keys != Keys::Unordered {
            self.keys = Keys::All;
        }
    }

    /// Is `key` blocked?
    pub fn contains(&self, key: &str) -> bool {
        match &self.keys {
            Keys::Unordered => false,
            Keys::Some(hashes) => hashes.contains(&hash(key)),
            Keys::All => true,
        }
    }

    /// Is every key blocked?
    pub fn is_all(&self) -> bool {
        self.keys == Keys::All
    }

    /// Takes the set and leaves one behind that lets nothing through.
    pub(crate) fn take(&mut self) -> Self {
        let left = if self.keys == Keys::Unordered { Keys::Unordered } else { Keys::All };
        Self { keys: std::mem::replace(&mut self.keys, left) }
    }

    /// The same set for a destination that keeps order, or does not.
    pub(crate) fn for_destination(self, ordered: bool) -> Self {
        match (ordered, self.keys) {
            (false, _) => Self { keys: Keys::Unordered },
            (true, Keys::Unordered) => Self::none(true),
            (true, keys) => Self { keys },
        }
    }
}

fn hash(key: &str) -> u32 {
    let digest = Sha256::digest(key.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

const UNORDERED_TEXT: &str = "-";
const ALL_TEXT: &str = "*";

impl From<BlockedKeys> for String {
    fn from(blocked: BlockedKeys) -> String {
        match blocked.keys {
            Keys::Unordered => UNORDERED_TEXT.to_owned(),
            Keys::All => ALL_TEXT.to_owned(),
            Keys::Some(hashes) => hashes.iter().map(|hash| format!("{hash:08x}")).collect(),
        }
    }
}

impl TryFrom<String> for BlockedKeys {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Self, Malformed> {
        let bad = || Malformed::new("cursor.blocked", "is not a list of hashes as an earlier call gave it");
        let keys = match text.as_str() {
            UNORDERED_TEXT => Keys::Unordered,
            ALL_TEXT => Keys::All,
            digits => {
                if digits.len() % 8 != 0
                    || digits.len() / 8 > Self::MAX
                    || !digits.bytes().all(|b| b.is_ascii_hexdigit())
                {
                    return Err(bad());
                }
                let hashes = (0..digits.len()).step_by(8).map(|at| u32::from_str_radix(&digits[at..at + 8], 16));
                Keys::Some(hashes.collect::<Result<_, _>>().map_err(|_| bad())?)
            }
        };
        Ok(Self { keys })
    }
}
