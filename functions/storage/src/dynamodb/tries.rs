//! How certain the failure of a write is that was tried more than once.
//!
//! A last try that was turned away proves nothing about an earlier one: that may have been applied, and its reply lost. So
//! the answer is that of the least certain try. Tries that the SDK makes inside are seen by an interceptor, one for each
//! call; tries that we make ourselves are remembered by their maker.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{Error, FinalizerInterceptorContextRef};
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use fencepost_protocol::failure::FailureKind;

use super::error::ServiceFailure;
use crate::{StoreError, sdk_failure};

/// The kind, where a try that failed so may have been applied.
pub(super) fn doubt(kind: FailureKind) -> Option<FailureKind> {
    (!kind.certainly_not_applied()).then_some(kind)
}

/// The failure of the last try, which takes the kind of an earlier try where that one may have been applied and the last
/// one certainly was not.
pub(super) fn least_certain(last: StoreError, earlier: Option<FailureKind>) -> StoreError {
    match earlier {
        Some(kind) if last.kind.certainly_not_applied() => {
            let detail = format!(
                "an earlier try may have been applied ({}); the last one failed ({}): {}",
                kind.as_str(),
                last.kind.as_str(),
                last.detail
            );
            StoreError { kind, detail, ..last }
        }
        _ => last,
    }
}

/// The tries of one call through the SDK.
#[derive(Debug, Clone, Default)]
pub(super) struct Tries {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The first doubt that a try before the last one left.
    earlier: Option<FailureKind>,
    /// The doubt that the last try left.
    last: Option<FailureKind>,
}

impl Tries {
    /// What sees the tries of an operation that fails with `E`.
    pub(super) fn watch<E: ServiceFailure>(&self) -> Watch<E> {
        Watch { tries: self.clone(), failure: PhantomData }
    }

    /// How a try before the last one failed that may have been applied.
    pub(super) fn earlier_doubt(&self) -> Option<FailureKind> {
        self.lock().earlier
    }

    fn ended(&self, last: Option<FailureKind>) {
        let mut seen = self.lock();
        *seen = Seen { earlier: seen.earlier.or(seen.last), last };
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // A value of two copies is whole at any moment.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the end of each try.
pub(super) struct Watch<E> {
    tries: Tries,
    failure: PhantomData<fn() -> E>,
}

impl<E> std::fmt::Debug for Watch<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watch").field("tries", &self.tries).finish()
    }
}

impl<E: ServiceFailure> Intercept for Watch<E> {
    fn name(&self) -> &'static str {
        "tries of one call"
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let status = context.response().map_or(0, |response| response.status().as_u16());
        let failure = context.output_or_error().and_then(Result::err);
        self.tries.ended(failure.and_then(|error| doubt(kind_of_try::<E>(error, status))));
        Ok(())
    }
}

/// As [`sdk_failure::store_error`] maps the last try. What is neither the service's own answer nor a time-out leaves doubt.
fn kind_of_try<E: ServiceFailure>(error: &OrchestratorError<Error>, status: u16) -> FailureKind {
    let answer = error.as_operation_error().and_then(|error| error.downcast_ref::<E>());
    let timed_out =
        error.is_timeout_error() || error.as_connector_error().is_some_and(|connector| connector.is_timeout());
    match answer {
        Some(answer) => sdk_failure::kind_of_code(answer.code().unwrap_or("no code"), status),
        None if timed_out => FailureKind::TimedOut,
        None => FailureKind::Unavailable,
    }
}
