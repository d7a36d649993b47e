//! What a user chooses about draining, and the back-off that follows from it.

use std::time::Duration;

use crate::body::BodyFormat;
use crate::limits;
use crate::time::duration_ms;
use crate::timing::Timing;

/// The settings of a drainer, checked where they are parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DrainPolicy {
    /// Every duration of the protocol.
    pub timing: Timing,
    /// Is the destination a FIFO queue? Then the order rule holds.
    pub ordered: bool,
    /// How a payload becomes a body.
    pub body_format: BodyFormat,
    /// Rows of one page, 1 to 1,000. A page's claims share one claim id and one lease read.
    pub page_rows: usize,
    /// Attempts that a record has before it may die by exhaustion, which also needs [`DrainPolicy::max_age`].
    pub max_attempts: u32,
    /// Time since its first attempt that a record has before it may die by exhaustion, which also needs
    /// [`DrainPolicy::max_attempts`].
    pub max_age: Duration,
    /// Back-off after the first refused attempt; it doubles with each further one.
    pub backoff_base: Duration,
    /// The longest back-off.
    pub backoff_max: Duration,
    /// Bytes that one message and one request may have: the queue's limit unless the queue was given a lower one.
    pub request_bytes_max: usize,
}

impl DrainPolicy {
    /// 20 attempts: at the default back-off they take about an hour.
    pub const MAX_ATTEMPTS_DEFAULT: u32 = 20;
    /// One day.
    pub const MAX_AGE_DEFAULT: Duration = Duration::from_secs(86_400);
    /// 100 rows: four batches of claims, ten of sends, one of tombstone reads.
    pub const PAGE_ROWS_DEFAULT: usize = 100;
    /// One second.
    pub const BACKOFF_BASE_DEFAULT: Duration = Duration::from_secs(1);
    /// Five minutes.
    pub const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(300);

    /// The defaults for a destination.
    pub const fn new(timing: Timing, ordered: bool, body_format: BodyFormat) -> Self {
        Self {
            timing,
            ordered,
            body_format,
            page_rows: Self::PAGE_ROWS_DEFAULT,
            max_attempts: Self::MAX_ATTEMPTS_DEFAULT,
            max_age: Self::MAX_AGE_DEFAULT,
            backoff_base: Self::BACKOFF_BASE_DEFAULT,
            backoff_max: Self::BACKOFF_MAX_DEFAULT,
            request_bytes_max: limits::QUEUE_REQUEST_BYTES_MAX,
        }
    }

    /// Are tombstones written and read?
    pub fn keeps_tombstones(&self) -> bool {
        !self.timing.dedupe_window.is_zero()
    }

    /// How long a record waits after its `attempts`-th attempt (from 1) was refused: half of `base × 2^(attempts − 1)`, capped,
    /// and up to as much again by `roll`, a uniformly random number. Never more than [`DrainPolicy::backoff_max`].
    pub fn backoff(&self, attempts: u32, roll: u64) -> Duration {
        let doublings = attempts.saturating_sub(1).min(32);
        let whole_ms = duration_ms(self.backoff_base).saturating_mul(1 << doublings).min(duration_ms(self.backoff_max));
        let half_ms = whole_ms / 2;
        Duration::from_millis(half_ms + roll % (whole_ms - half_ms + 1))
    }
}
