//! Runs the state machine files that are shipped, as AWS Step Functions would run them.
//!
//! Purpose: one machine's world has no Step Functions, yet the files under `statemachines/` carry part of the promise
//! (the tick loop, the stale wait, the pages of a drain). So the very files are executed here: Amazon States Language in the
//! JSONata query language, expressions by the crate `jsonata-core`, the walk over states by this module.
//!
//! Guarantees:
//! - A definition is either understood completely or refused by the name of the state and field. Nothing is ignored: an
//!   unknown field, a state that cannot be reached, an unknown variable or a `Task` without a time-out is a fault.
//! - No clock, no randomness: time is a [`Time`], and what spreads a jittered retry is the execution's name. The same
//!   resources and the same time give the same run.
//! - Dropping the future of [`Execution::run`] ends the execution where it stands.
//!
//! Absent on purpose: JSONPath, activities and task tokens, distributed maps, `$random`, `$uuid` and `$hash`, and any AWS
//! client. What a resource string means is decided by the [`Resources`] given.
//!
//! Known differences from AWS: numbers in expressions are doubles (whole numbers stay whole up to 2^53 - 1), the limit
//! against endless loops counts states entered rather than history events, and a failing branch or item reports its own
//! error name.

mod children;
mod definition;
mod execution;
mod expression;
mod fields;
mod functions;
mod json;
mod placeholders;
mod read;
mod retry;
mod scan;
mod timestamp;
mod view;

#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

pub use definition::{Definition, DefinitionError};
pub use execution::{Execution, STATES_ENTERED_MAX};
pub use timestamp::{format_timestamp, parse_timestamp};

/// The largest JSON that may leave a state, enter a task or be assigned in one go, in bytes of UTF-8: 256 KiB.
pub const DATA_BYTES_MAX: usize = 256 * 1024;

/// A failure with the stable name that `Retry` and `Catch` match on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}: {cause}")]
pub struct TaskError {
    /// The name, such as `StoreUnavailable` or `States.Timeout`.
    pub error: String,
    /// What happened, for people.
    pub cause: String,
}

impl TaskError {
    /// A failure called `error` because of `cause`.
    pub fn new(error: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { error: error.into(), cause: cause.into() }
    }

    pub(crate) fn query(cause: impl Into<String>) -> Self {
        Self::new("States.QueryEvaluationError", cause)
    }

    pub(crate) fn runtime(cause: impl Into<String>) -> Self {
        Self::new("States.Runtime", cause)
    }
}

/// What the `Resource` strings of `Task` states reach.
#[async_trait]
pub trait Resources: Send + Sync {
    /// Carries out `resource` (for example `arn:aws:states:::lambda:invoke`) with the state's evaluated `arguments` and gives
    /// what AWS would give as `$states.result`.
    ///
    /// `timeout` is the state's `TimeoutSeconds`. When it has passed, the runner drops the call's future and goes on; work that
    /// would outlive the time-out on AWS, as a function does, has to be spawned.
    ///
    /// # Errors
    /// A [`TaskError`] under the name that the service would report.
    async fn call(&self, resource: &str, arguments: Value, timeout: Duration) -> Result<Value, TaskError>;
}

/// The only clock of an execution.
#[async_trait]
pub trait Time: Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> u64;
    /// Returns once `duration` has passed on this clock.
    async fn sleep(&self, duration: Duration);
}

/// What is told to an [`Observer`]. It never carries input or output of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation<'a> {
    /// When, in milliseconds since the epoch, on the execution's clock.
    pub at_ms: u64,
    /// The execution's name.
    pub execution: &'a str,
    /// The state's name.
    pub state: &'a str,
    /// The index of the innermost map item that the state runs for, if any.
    pub item: Option<usize>,
    /// What happened.
    pub step: Step<'a>,
}

/// One step of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// The state was entered.
    Entered,
    /// The state was left for `next`, or ended its graph (`None`).
    Exited {
        /// The state that follows.
        next: Option<&'a str>,
    },
    /// The state failed and runs again.
    Retried {
        /// The failure.
        failure: &'a TaskError,
        /// Which retry this is, from 1.
        retry: u32,
        /// How long the execution waits before it.
        delay: Duration,
    },
    /// The state failed and a catcher took over.
    Caught {
        /// The failure.
        failure: &'a TaskError,
        /// The state that follows.
        next: &'a str,
    },
    /// The state failed for good.
    Failed {
        /// The failure.
        failure: &'a TaskError,
    },
}

/// Somebody who watches an execution, for timelines.
pub trait Observer: Send + Sync {
    /// Called at each step, on the execution's own task: it must not block.
    fn observe(&self, observation: &Observation<'_>);
}

/// Watches nothing.
impl Observer for () {
    fn observe(&self, _observation: &Observation<'_>) {}
}

impl<F: Fn(&Observation<'_>) + Send + Sync> Observer for F {
    fn observe(&self, observation: &Observation<'_>) {
        self(observation);
    }
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It reached an end; the output of its last state.
    Succeeded(Value),
    /// It failed, by a `Fail` state or by an error that nothing caught.
    Failed {
        /// The name of the error.
        error: String,
        /// What happened, for people.
        cause: String,
    },
}
