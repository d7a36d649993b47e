//! Fencing tokens, and the stamps that rows carry.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Malformed;
use crate::limits;

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
