//! The two clocks of a host, as plain numbers.
//!
//! Nothing here reads a clock: a [`Reading`] is always an argument. A wall clock may step in either direction; a monotonic
//! one never does, but it stands still while a function is frozen. Whoever has to stop in time therefore believes the
//! **later** of the two ([`Reading::later_of`]), so that whichever clock reaches a deadline first decides.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Malformed;

/// A moment of a wall clock: milliseconds since 1970-01-01T00:00:00Z.
///
/// Two timestamps of different instances are never compared (promise P5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest moment that fits a position's 13 digits: 2286-11-20.
    pub const MAX: Self = Self(9_999_999_999_999);

    /// A moment from milliseconds since the epoch.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded up: the form of DynamoDB's TTL attribute.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// This moment and `by` later; stays at the largest number instead of wrapping.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(duration_ms(by)))
    }

    /// This moment less `by`; stays at the epoch instead of wrapping.
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(duration_ms(by)))
    }

    /// How long after `earlier` this moment is; zero where it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// What comes from outside is a moment that a row can hold, or refused: one beyond would be written and never read again.
impl TryFrom<u64> for Timestamp {
    type Error = Malformed;

    fn try_from(ms: u64) -> Result<Self, Malformed> {
        if ms <= Self::MAX.0 {
            return Ok(Self(ms));
        }
        Err(Malformed::new("moment", format!("is {ms}; it must be milliseconds since 1970, of 13 digits at most")))
    }
}

impl From<Timestamp> for u64 {
    fn from(at: Timestamp) -> u64 {
        at.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// One look at both clocks of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reading {
    /// The wall clock.
    pub wall: Timestamp,
    /// The monotonic clock: time since an origin that only this process knows.
    pub monotonic: Duration,
}

impl Reading {
    /// The wall time of `now` as far as a deadline is concerned, given that this reading was taken earlier in the same
    /// process: the wall clock, or what the monotonic clock makes of this reading, whichever is later.
    pub fn later_of(&self, now: Reading) -> Timestamp {
        let by_monotonic = self.wall.plus(now.monotonic.saturating_sub(self.monotonic));
        now.wall.max(by_monotonic)
    }
}

/// A duration in whole milliseconds, at most `u64::MAX`.
pub fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(wall_ms: u64, monotonic_ms: u64) -> Reading {
        Reading { wall: Timestamp::from_ms(wall_ms), monotonic: Duration::from_millis(monotonic_ms) }
    }

    #[test]
    fn whichever_clock_is_further_on_decides() {
        let start = reading(10_000, 500);
        assert_eq!(start.later_of(reading(12_000, 2_500)).as_ms(), 12_000, "both agree");
        assert_eq!(start.later_of(reading(3_000, 2_500)).as_ms(), 12_000, "wall clock set back");
        assert_eq!(start.later_of(reading(90_000, 600)).as_ms(), 90_000, "frozen: the monotonic clock stood still");
    }

    #[test]
    fn arithmetic_never_wraps() {
        assert_eq!(Timestamp::from_ms(u64::MAX).plus(Duration::MAX).as_ms(), u64::MAX);
        assert_eq!(Timestamp::from_ms(1).minus(Duration::from_secs(9)).as_ms(), 0);
        assert_eq!(Timestamp::from_ms(1).since(Timestamp::from_ms(5)), Duration::ZERO);
        assert_eq!(Timestamp::from_ms(1_001).as_secs_ceil(), 2);
    }
}
