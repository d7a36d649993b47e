//! The one error of every port.

use fencepost_protocol::failure::FailureKind;

/// A call that did not answer: which one, what kind of failure, and the service's own words (never a payload).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} failed ({}): {detail}", kind.as_str())]
pub struct StoreError {
    /// What the caller should do.
    pub kind: FailureKind,
    /// The call, for example `lease write`.
    pub operation: &'static str,
    /// The service's code and message.
    pub detail: String,
}

impl StoreError {
    /// A failure of `operation`.
    pub fn new(kind: FailureKind, operation: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, operation, detail: detail.into() }
    }
}
