//! The two clocks of a host, behind one trait.
//!
//! Everything that must know the time takes a [`Clock`]; nothing else in the project reads one. [`SystemClock`] is the
//! host's; [`ManualClock`] moves only when it is told to, so that tests wait for nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use fencepost_protocol::time::{Reading, Timestamp, duration_ms};
use tokio::sync::Notify;

/// A wall clock and a monotonic clock, and a way to wait.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Looks at both clocks.
    fn now(&self) -> Reading;
    /// Waits for `duration` by the monotonic clock.
    async fn sleep(&self, duration: Duration);
}

/// The host's clocks. Inside a frozen function the monotonic one stands still.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now. Readings of two such clocks are not comparable: one process, one clock.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Reading {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Reading { wall: Timestamp::from_ms(duration_ms(since_epoch)), monotonic: self.origin.elapsed() }
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A clock that its owner moves.
///
/// A sleeper wakes when the monotonic time has come that it waits for. With [`ManualClock::skipping`] a sleep moves the clock
/// itself and returns at once: for code with one line of execution.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<Reading>,
    moved: Notify,
    skips: bool,
}

impl ManualClock {
    /// A clock that shows `wall`.
    pub fn new(wall: Timestamp) -> Self {
        Self { state: Mutex::new(Reading { wall, monotonic: Duration::ZERO }), moved: Notify::new(), skips: false }
    }

    /// A clock that shows `wall` and is moved by every sleep.
    pub fn skipping(wall: Timestamp) -> Self {
        Self { skips: true, ..Self::new(wall) }
    }

    /// Lets `duration` pass.
    pub fn advance(&self, duration: Duration) {
        self.change(|reading| {
            reading.wall = reading.wall.plus(duration);
            reading.monotonic = reading.monotonic.saturating_add(duration);
        });
    }

    /// Sets the wall clock, forward or back; the monotonic clock does not notice.
    pub fn step_wall_to(&self, wall: Timestamp) {
        self.change(|reading| reading.wall = wall);
    }

    /// Wakes the process after it was frozen for `duration`: the wall clock went on, the monotonic one did not.
    pub fn thaw_after(&self, duration: Duration) {
        self.change(|reading| reading.wall = reading.wall.plus(duration));
    }

    fn change(&self, change: impl FnOnce(&mut Reading)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.moved.notify_waiters();
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Reading {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep(&self, duration: Duration) {
        if self.skips {
            self.advance(duration);
            return;
        }
        let until = self.now().monotonic.saturating_add(duration);
        loop {
            // Listening begins before the look, so that no move between the two is missed.
            let moved = self.moved.notified();
            if self.now().monotonic >= until {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests;
