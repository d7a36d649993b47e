//! The loop around a handler.
//!
//! [`serve`] builds what the handler needs in the init phase, then hands it one invocation at a time. Around each there is a
//! span with the request id, a limit that lies before the function's own, and a net for panics. Nothing of an invocation
//! outlives its answer: at the hard limit the handler's future is dropped, so that a thawed process resumes nothing.
//!
//! An init phase that fails does not end the process: the invocation that follows tries again, and answers with the failure's
//! own error type. A process that ends would only tell `Runtime.ExitError`, and a state machine could not tell a wrong
//! setting from a crash.
//!
//! What must stay out: what a function does.

use std::future::Future;
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::time::{Reading, Timestamp};
use futures::FutureExt as _;
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::Value;
use tokio::sync::OnceCell;
use tracing::Instrument as _;

use crate::clock::Clock;
use crate::failure::{ErrorType, FunctionError};

/// How long before the function's own limit a handler is asked to have ended.
const SOFT_RESERVE: Duration = Duration::from_secs(1);
/// How long before the function's own limit its future is dropped.
const HARD_RESERVE: Duration = Duration::from_millis(250);

/// By when a handler must have ended. It counts from one reading, by whichever clock is further on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    started: Reading,
    budget: Duration,
}

impl Limit {
    /// A limit `budget` after `started`.
    pub const fn new(started: Reading, budget: Duration) -> Self {
        Self { started, budget }
    }

    /// When the work began.
    pub const fn started(&self) -> Reading {
        self.started
    }

    /// The last moment, by the wall clock of the reading that it counts from.
    pub fn stop_at(&self) -> Timestamp {
        self.started.wall.plus(self.budget)
    }

    /// What is left at `now`; zero when it is over.
    pub fn remaining(&self, now: Reading) -> Duration {
        self.stop_at().since(self.started.later_of(now))
    }

    /// Does `work` fit before the limit when it starts at `now`?
    pub fn fits(&self, now: Reading, work: Duration) -> bool {
        !self.is_over(now) && self.remaining(now) >= work
    }

    /// Is it over at `now`?
    pub fn is_over(&self, now: Reading) -> bool {
        self.remaining(now).is_zero()
    }
}

/// How guarded work ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// By itself, with an answer or a failure of its own.
    Answered(Result<Value, FunctionError>),
    /// It panicked.
    Panicked,
    /// It was still waiting shortly before this time limit, and its future was dropped.
    TooLate(Duration),
}

impl From<Ended> for Result<Value, FunctionError> {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Answered(outcome) => outcome,
            Ended::Panicked => Err(panicked()),
            Ended::TooLate(whole) => Err(too_late(whole)),
        }
    }
}

/// Runs the work of one invocation as every function does: it is told a limit that lies before `whole`, the function's own
/// time limit counted from now; a panic ends only it; and at the hard limit its future is dropped, whatever it waits for.
pub async fn guard<W>(clock: &dyn Clock, whole: Duration, work: impl FnOnce(Limit) -> W) -> Ended
where
    W: Future<Output = Result<Value, FunctionError>>,
{
    let limit = Limit::new(clock.now(), whole.saturating_sub(SOFT_RESERVE));
    // The call that makes the future may panic too.
    let work = async { work(limit).await };
    tokio::select! {
        biased;
        outcome = AssertUnwindSafe(work).catch_unwind() => outcome.map_or(Ended::Panicked, Ended::Answered),
        () = clock.sleep(whole.saturating_sub(HARD_RESERVE)) => Ended::TooLate(whole),
    }
}

/// What a handler is told about the invocation beside its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The platform's id of it.
    pub request_id: String,
    /// The function that was invoked, with its alias.
    pub function_arn: String,
    /// By when the handler must have ended.
    pub limit: Limit,
}

/// Runs `handler` on the platform's invocations until the process ends.
///
/// `init` builds what all invocations share. It runs once, before the first; where it fails it runs again before the next.
///
/// # Errors
/// Where this is no Lambda environment, or the platform's runtime API is lost.
pub async fn serve<S, I, InitFuture, H, HandlerFuture>(
    clock: Arc<dyn Clock>,
    init: I,
    handler: H,
) -> Result<(), lambda_runtime::Error>
where
    I: Fn() -> InitFuture,
    InitFuture: Future<Output = Result<S, FunctionError>>,
    H: Fn(Arc<S>, Value, Invocation) -> HandlerFuture,
    HandlerFuture: Future<Output = Result<Value, FunctionError>>,
{
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        return Err("this program runs inside AWS Lambda: AWS_LAMBDA_RUNTIME_API is not set. \
                    On your own machine use `cargo run --release`"
            .into());
    }
    let edge = Edge { clock, init, handler, shared: OnceCell::new() };
    if let Err(error) = edge.shared().await {
        tracing::error!(error_type = error.error_type.as_str(), "the init phase failed: {}", error.message);
    }
    let edge = &edge;
    let service = service_fn(move |event: LambdaEvent<Value>| async move {
        let LambdaEvent { payload, context } = event;
        let deadline = Timestamp::from_ms(context.deadline);
        edge.invoke(payload, context.request_id, context.invoked_function_arn, deadline).await
    });
    lambda_runtime::run(service).await
}

/// Runs `main` on a runtime of one thread (a function has one virtual processor or less) and gives the process's exit code;
/// an error goes to stderr.
pub fn start(main: impl Future<Output = Result<(), lambda_runtime::Error>>) -> ExitCode {
    // The default hook prints the panic's message, which can quote what was being handled.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked");
    }));
    let outcome = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(main),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told where stderr is gone.
            drop(writeln!(std::io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

/// A handler with everything around it, still without the platform.
struct Edge<S, I, H> {
    clock: Arc<dyn Clock>,
    init: I,
    handler: H,
    shared: OnceCell<Arc<S>>,
}

impl<S, I, InitFuture, H, HandlerFuture> Edge<S, I, H>
where
    I: Fn() -> InitFuture,
    InitFuture: Future<Output = Result<S, FunctionError>>,
    H: Fn(Arc<S>, Value, Invocation) -> HandlerFuture,
    HandlerFuture: Future<Output = Result<Value, FunctionError>>,
{
    async fn shared(&self) -> Result<Arc<S>, FunctionError> {
        let build = || async { (self.init)().await.map(Arc::new) };
        self.shared.get_or_try_init(build).await.cloned()
    }

    /// One invocation, to be answered before `deadline`.
    async fn invoke(
        &self,
        input: Value,
        request_id: String,
        function_arn: String,
        deadline: Timestamp,
    ) -> Result<Value, FunctionError> {
        let whole = deadline.since(self.clock.now().wall);
        let span = tracing::info_span!("invocation", request_id);
        let work = |limit| async move {
            let shared = self.shared().await?;
            (self.handler)(shared, input, Invocation { request_id, function_arn, limit }).await
        };
        let outcome: Result<_, _> = guard(&*self.clock, whole, work).instrument(span.clone()).await.into();
        if let Err(error) = &outcome {
            span.in_scope(|| tracing::error!(error_type = error.error_type.as_str(), "{}", error.message));
        }
        outcome
    }
}

fn panicked() -> FunctionError {
    FunctionError::new(ErrorType::HandlerPanicked, "the handler panicked, which is a defect; its place is in the log")
}

fn too_late(whole: Duration) -> FunctionError {
    FunctionError::new(
        ErrorType::StoreTimedOut,
        format!("the handler was still waiting {HARD_RESERVE:?} before the function's time limit of {whole:?}"),
    )
}

#[cfg(test)]
mod tests;
