//! The true time of a run, the clocks of its hosts, and the gate that stops a frozen instance.
//!
//! The true time is tokio's, paused: it moves on only when nothing else can happen. A host's wall clock is the true time with
//! an offset and a drift; its monotonic clock drifts alike, never steps, and stands still while the host is frozen.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_protocol::time::{Reading, Timestamp, duration_ms};
use fencepost_runtime::clock::Clock;
use tokio::time::Instant;

/// The wall time at which every run begins: a morning in November 2023.
pub const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
/// Parts of a million.
const MILLION: i64 = 1_000_000;

/// The true time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrueTime {
    origin: Instant,
}

impl TrueTime {
    /// A time that begins now. Inside a paused runtime only.
    pub(crate) fn begin() -> Self {
        Self { origin: Instant::now() }
    }

    /// Since the beginning of the run.
    pub(crate) fn elapsed(self) -> Duration {
        Instant::now().duration_since(self.origin)
    }

    /// What a perfect wall clock shows.
    pub(crate) fn wall(self) -> Timestamp {
        START.plus(self.elapsed())
    }

    /// Waits until `moment` of the run.
    pub(crate) async fn until(self, moment: Duration) {
        tokio::time::sleep_until(self.origin + moment).await;
    }
}

/// The clocks of an instance's hosts.
#[derive(Debug)]
pub(crate) struct HostClock {
    time: TrueTime,
    state: Mutex<ClockState>,
    changes: Mutex<Vec<Change>>,
}

/// A change of the clocks: from `at` on they drift so, and the wall clock jumped by so much.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: Duration,
    drift_ppm: i64,
    jump_us: i64,
}

/// What both clocks showed at `at`, and how they go on from there.
#[derive(Debug, Clone, Copy)]
struct ClockState {
    at: Duration,
    wall_us: i64,
    monotonic: Duration,
    drift_ppm: i64,
    frozen: bool,
}

impl HostClock {
    /// Clocks that are right.
    pub(crate) fn new(time: TrueTime) -> Self {
        let wall_us = micros(Duration::from_millis(START.as_ms())) + micros(time.elapsed());
        let state = ClockState { at: time.elapsed(), wall_us, monotonic: Duration::ZERO, drift_ppm: 0, frozen: false };
        Self { time, state: Mutex::new(state), changes: Mutex::default() }
    }

    fn change(&self, change: impl FnOnce(&mut ClockState)) {
        let mut state = self.lock();
        *state = state.at_time(self.time.elapsed());
        let before_us = state.wall_us;
        change(&mut state);
        let change = Change { at: state.at, drift_ppm: state.drift_ppm, jump_us: state.wall_us - before_us };
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }

    /// The most that an observer on these hosts can have counted, by their wall clocks alone, between two moments of the run:
    /// how far the clocks ran, and of each jump forward at most `jump_max`.
    pub(crate) fn counted_max(&self, from: Duration, to: Duration, jump_max: Duration) -> Duration {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut at, mut drift_ppm, mut counted_us) = (from, 0, 0_i64);
        for change in changes.iter().take_while(|change| change.at <= to) {
            if change.at > at {
                counted_us += own_micros(change.at - at, drift_ppm);
                at = change.at;
            }
            if change.at > from {
                counted_us += change.jump_us.clamp(0, micros(jump_max));
            }
            drift_ppm = change.drift_ppm;
        }
        counted_us += own_micros(to.saturating_sub(at), drift_ppm);
        Duration::from_micros(u64::try_from(counted_us).unwrap_or(0))
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the wall clock forward or back.
    pub(crate) fn step(&self, by_ms: i64) {
        self.change(|state| state.wall_us = state.wall_us.saturating_add(by_ms.saturating_mul(1_000)).max(0));
    }

    /// Lets both clocks run too fast (above 0) or too slow by so many parts of a million.
    pub(crate) fn drift(&self, ppm: i32) {
        self.change(|state| state.drift_ppm = i64::from(ppm));
    }

    /// Stops or starts the monotonic clock.
    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.change(|state| state.frozen = frozen);
    }

    /// Makes the wall clock right again and ends its drift.
    pub(crate) fn set_right(&self) {
        let right = micros(Duration::from_millis(START.as_ms())) + micros(self.time.elapsed());
        self.change(|state| (state.wall_us, state.drift_ppm) = (right, 0));
    }
}

impl ClockState {
    fn at_time(self, now: Duration) -> Self {
        let passed = now.saturating_sub(self.at);
        let own_us = own_micros(passed, self.drift_ppm);
        let own = Duration::from_micros(u64::try_from(own_us).unwrap_or(0));
        let monotonic = if self.frozen { self.monotonic } else { self.monotonic + own };
        Self { at: now, wall_us: self.wall_us.saturating_add(own_us), monotonic, ..self }
    }
}

/// How far a clock of that drift runs while so much time passes.
fn own_micros(passed: Duration, drift_ppm: i64) -> i64 {
    micros(passed).saturating_mul(MILLION + drift_ppm) / MILLION
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Clock for HostClock {
    fn now(&self) -> Reading {
        let state = self.lock().at_time(self.time.elapsed());
        let wall_ms = u64::try_from(state.wall_us / 1_000).unwrap_or(0);
        Reading { wall: Timestamp::from_ms(wall_ms), monotonic: state.monotonic }
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now().monotonic.saturating_add(duration);
        loop {
            let (left, drift_ppm) = {
                let state = self.lock().at_time(self.time.elapsed());
                (until.saturating_sub(state.monotonic), state.drift_ppm)
            };
            if left.is_zero() {
                return;
            }
            let true_us = micros(left).saturating_mul(MILLION) / (MILLION + drift_ppm).max(1);
            let pause = Duration::from_micros(u64::try_from(true_us).unwrap_or(0));
            tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
        }
    }
}

/// A gate in front of everything that an instance does. While it is shut nothing behind it is polled.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
}

#[derive(Debug, Default)]
struct GateState {
    shut: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it shut?
    pub(crate) fn is_shut(&self) -> bool {
        self.lock().shut
    }

    pub(crate) fn shut(&self) {
        self.lock().shut = true;
    }

    pub(crate) fn open(&self) {
        let waiting = {
            let mut state = self.lock();
            state.shut = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// `work` behind this gate.
    pub(crate) fn behind<F: Future + Send + 'static>(self: &Arc<Self>, work: F) -> Gated<F::Output> {
        Gated { gate: Arc::clone(self), work: Box::pin(work) }
    }
}

/// A future behind a [`Gate`].
pub(crate) struct Gated<T> {
    gate: Arc<Gate>,
    work: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Future for Gated<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        {
            let mut gate = self.gate.lock();
            if gate.shut {
                gate.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.work.as_mut().poll(context)
    }
}

/// Milliseconds of a duration, for texts and data.
pub(crate) fn ms(duration: Duration) -> u64 {
    duration_ms(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms_of(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn an_observer_counts_what_its_clock_ran_and_a_part_of_each_jump_forward() {
        let time = TrueTime::begin();
        let clock = HostClock::new(time);
        let counted = |from, to| clock.counted_max(ms_of(from), ms_of(to), ms_of(1_500));
        time.until(ms_of(10_000)).await;
        clock.drift(10_000);
        time.until(ms_of(20_000)).await;
        clock.step(60_000);
        time.until(ms_of(30_000)).await;
        clock.step(-60_000);
        time.until(ms_of(40_000)).await;
        clock.set_frozen(true);
        time.until(ms_of(50_000)).await;
        assert_eq!(counted(0, 10_000), ms_of(10_000), "a change counts from its moment on");
        assert_eq!(counted(10_000, 20_000), ms_of(10_100 + 1_500), "fast, and a jump at the end");
        assert_eq!(counted(20_000, 40_000), ms_of(20_200), "a jump back gives nothing and takes nothing");
        assert_eq!(counted(40_000, 50_000), ms_of(10_100), "the wall clock of a frozen host goes on");
        assert_eq!(counted(5_000, 15_000), ms_of(5_000 + 5_050));
        assert_eq!(counted(0, 50_000), ms_of(50_400 + 1_500));
    }
}
