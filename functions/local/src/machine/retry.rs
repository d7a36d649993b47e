//! Which errors a `Retry` or `Catch` answers to, and how long a retry waits.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::TaskError;

/// Names that begin with `States.` and may stand in `ErrorEquals`.
pub(super) const RESERVED_NAMES: [&str; 12] = [
    "States.ALL",
    "States.TaskFailed",
    "States.Timeout",
    "States.HeartbeatTimeout",
    "States.Permissions",
    "States.QueryEvaluationError",
    "States.DataLimitExceeded",
    "States.Runtime",
    "States.BranchFailed",
    "States.NoChoiceMatched",
    "States.ExceedToleratedFailureThreshold",
    "States.Http.Socket",
];

/// Whether `error` is answered by one of `error_equals`.
///
/// The wildcards leave out what AWS calls terminal: a machine that hit a limit or is broken ends, unless the error is named.
/// `States.Runtime` ends it in any case.
pub(super) fn answers(error_equals: &[String], error: &str) -> bool {
    let terminal = matches!(error, "States.Runtime" | "States.DataLimitExceeded");
    error != "States.Runtime"
        && error_equals.iter().any(|pattern| match pattern.as_str() {
            "States.ALL" => !terminal,
            "States.TaskFailed" => !terminal && error != "States.Timeout",
            named => named == error,
        })
}

/// One entry of `Retry`.
#[derive(Debug, Clone)]
pub(super) struct Retrier {
    pub(super) error_equals: Vec<String>,
    pub(super) interval_seconds: u32,
    pub(super) attempts_max: u32,
    pub(super) backoff_rate: f64,
    pub(super) delay_seconds_max: Option<u32>,
    pub(super) full_jitter: bool,
}

impl Retrier {
    /// The wait before this retrier's `retry`-th retry, from 1; `spread` in 0..1 is the part of it that full jitter leaves.
    fn delay(&self, retry: u32, spread: f64) -> Duration {
        let power = i32::try_from(retry.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = f64::from(self.interval_seconds) * self.backoff_rate.powi(power);
        let capped = seconds.min(f64::from(self.delay_seconds_max.unwrap_or(DELAY_SECONDS_MAX)));
        let spread = if self.full_jitter { spread } else { 1.0 };
        Duration::try_from_secs_f64(capped * spread).unwrap_or(Duration::ZERO)
    }
}

/// A retry never waits longer than a year, which is as long as an execution may last.
pub(super) const DELAY_SECONDS_MAX: u32 = 31_622_400;

/// The retries of one state that was entered once: each retrier counts for itself.
pub(super) struct Attempts<'a> {
    retriers: &'a [Retrier],
    used: Vec<u32>,
    /// Retries in all, as `$states.context.State.RetryCount` counts them.
    pub(super) total: u32,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(retriers: &'a [Retrier]) -> Self {
        Self { retriers, used: vec![0; retriers.len()], total: 0 }
    }

    /// How long to wait before running again after `failure`, or `None` if it is not retried. `seed` names the execution and
    /// the state: two executions spread differently, the same one always alike.
    pub(super) fn after(&mut self, failure: &TaskError, seed: &str) -> Option<Duration> {
        let first = self.retriers.iter().position(|retrier| answers(&retrier.error_equals, &failure.error))?;
        let (retrier, used) = (self.retriers.get(first)?, self.used.get_mut(first)?);
        if *used >= retrier.attempts_max {
            return None;
        }
        *used += 1;
        self.total += 1;
        Some(retrier.delay(*used, spread(seed, self.total)))
    }
}

/// A number in 0..1 that depends on nothing but its arguments.
fn spread(seed: &str, retry: u32) -> f64 {
    let mut hasher = DefaultHasher::new();
    (seed, retry).hash(&mut hasher);
    let [a, b, ..] = hasher.finish().to_be_bytes();
    f64::from(u16::from_be_bytes([a, b])) / 65_536.0
}
