//! The function as the platform calls it: by our own commands, and by CloudFormation.
//!
//! A request of CloudFormation is answered whatever happens, by one PUT to the address that it brings: a stack whose custom
//! resource stays silent hangs until its time-out. So it is answered also where the environment's settings are wrong and
//! the function cannot be built, and a release is given up in time for the answer.
//!
//! What must stay out: what CloudFormation asks and is answered (`custom_resource`), how its tables are looked at
//! (`table_check`), how a lease is released (`command`).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::ids::Malformed;
use fencepost_runtime::clock::Clock;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::lambda::Limit;
use fencepost_storage::TableInspection;
use fencepost_storage::callback::Callback;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::LeaseFunction;
use crate::custom_resource::{CustomResource, Outcome, Task};
use crate::reply::{StepDownReply, StepDownState};
use crate::table_check;

/// How often the answer to CloudFormation is tried.
const ANSWER_TRIES: u32 = 3;
/// The pause after the first try; it doubles.
const ANSWER_PAUSE: Duration = Duration::from_secs(1);
/// What is kept back for the answer: every try, and the pauses between them.
const ANSWER_RESERVE: Duration =
    Callback::PUT_TIMEOUT.saturating_mul(ANSWER_TRIES).saturating_add(Duration::from_secs(3));
/// The pause before a release is tried again after a passing failure.
const RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// The lease function behind its two kinds of callers. `B` builds it.
pub struct Entry<B> {
    build: B,
    lease: OnceCell<LeaseFunction>,
    callback: Callback,
    inspection: Arc<dyn TableInspection>,
    clock: Arc<dyn Clock>,
}

impl<B, Building> Entry<B>
where
    B: Fn() -> Building,
    Building: Future<Output = Result<LeaseFunction, FunctionError>>,
{
    /// An entry whose function is built at the first use, and again at the next where that failed. `inspection` looks at
    /// the tables of a stack that is being made or changed.
    ///
    /// # Errors
    /// `RequestInvalid` where the program has no TLS stack.
    pub fn new(clock: Arc<dyn Clock>, inspection: Arc<dyn TableInspection>, build: B) -> Result<Self, FunctionError> {
        Ok(Self { build, lease: OnceCell::new(), callback: Callback::new()?, inspection, clock })
    }

    /// An entry whose function is built at once, for the init phase. Where that fails, the next caller that needs the
    /// function is told so.
    ///
    /// # Errors
    /// As [`Entry::new`].
    pub async fn open(
        clock: Arc<dyn Clock>,
        inspection: Arc<dyn TableInspection>,
        build: B,
    ) -> Result<Self, FunctionError> {
        let entry = Self::new(clock, inspection, build)?;
        if let Err(error) = entry.lease().await {
            tracing::error!(error_type = error.error_type.as_str(), "the init phase failed: {}", error.message);
        }
        Ok(entry)
    }

    /// Carries out one invocation, inside `limit`.
    ///
    /// # Errors
    /// Those of [`LeaseFunction::handle`]; of building it; and the store's kinds where CloudFormation could not be answered.
    pub async fn handle(&self, input: Value, limit: &Limit) -> Result<Value, FunctionError> {
        if CustomResource::is_one(&input) {
            return self.answer(&CustomResource::parse(input)?, limit).await;
        }
        self.lease().await?.handle(input, limit).await
    }

    async fn lease(&self) -> Result<&LeaseFunction, FunctionError> {
        self.lease.get_or_try_init(&self.build).await
    }

    async fn answer(&self, request: &CustomResource, limit: &Limit) -> Result<Value, FunctionError> {
        let outcome = match request.task() {
            Task::Answer(outcome) => outcome,
            Task::LookAtTables(check) => {
                let budget = before_the_answer(limit);
                table_check::carry_out(&check, self.inspection.as_ref(), self.clock.as_ref(), &budget).await
            }
            Task::Release => Outcome::Success(self.release_in_time(limit).await),
        };
        let (succeeded, reason) = (outcome.succeeded(), outcome.reason());
        if succeeded {
            tracing::info!(?request, reason, "CloudFormation is answered: success");
        } else {
            tracing::error!(?request, reason, "CloudFormation is answered: failed");
        }
        let body =
            request.answer(&outcome).map_err(|error| Malformed::new("answer to CloudFormation", error.to_string()))?;
        self.deliver(request.response_url(), &body, limit).await?;
        Ok(json!({ "answered": true, "succeeded": succeeded }))
    }

    /// Releases the lease while there is time, and says in words what came of it.
    async fn release_in_time(&self, limit: &Limit) -> String {
        let earlier = before_the_answer(limit);
        let budget = earlier.remaining(earlier.started());
        let outcome = tokio::select! {
            biased;
            outcome = self.release(&earlier) => outcome,
            () = self.clock.sleep(earlier.remaining(self.clock.now())) => {
                return format!("the lease was not released within {budget:?}; its TTL ends it");
            }
        };
        match outcome {
            Ok(reply) => in_words(&reply),
            Err(error) => format!("the lease could not be released; its TTL ends it ({error})"),
        }
    }

    async fn release(&self, limit: &Limit) -> Result<StepDownReply, FunctionError> {
        loop {
            let outcome = match self.lease().await {
                Ok(lease) => lease.release(limit).await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if error.error_type.is_transient() && limit.fits(self.clock.now(), RELEASE_PAUSE) => {
                    tracing::warn!(error_type = error.error_type.as_str(), "release is tried again: {}", error.message);
                    self.clock.sleep(RELEASE_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn deliver(&self, url: &str, body: &[u8], limit: &Limit) -> Result<(), FunctionError> {
        let mut pause = ANSWER_PAUSE;
        for tries_left in (0..ANSWER_TRIES).rev() {
            let Err(error) = self.callback.put(url, body.to_vec()).await else { return Ok(()) };
            let again = tries_left > 0 && error.kind.is_transient();
            if !again || !limit.fits(self.clock.now(), pause + Callback::PUT_TIMEOUT) {
                // CloudFormation invokes asynchronously: an error brings the invocation back.
                return Err(error.into());
            }
            tracing::warn!(kind = error.kind.as_str(), "the answer is tried again: {error}");
            self.clock.sleep(pause).await;
            pause *= 2;
        }
        Ok(())
    }
}

/// The same limit, less what the answer needs.
fn before_the_answer(limit: &Limit) -> Limit {
    Limit::new(limit.started(), limit.remaining(limit.started()).saturating_sub(ANSWER_RESERVE))
}

fn in_words(reply: &StepDownReply) -> String {
    match reply.state {
        StepDownState::Released => "the lease is released".to_owned(),
        StepDownState::NotHolder => "this instance does not hold the lease".to_owned(),
        StepDownState::Marked | StepDownState::AlreadyMarked => {
            "the lease is marked for release, but nobody finished it in time; its TTL ends it".to_owned()
        }
    }
}
