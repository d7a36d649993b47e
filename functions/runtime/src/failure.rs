//! What a function answers when it fails.
//!
//! State machines and alarms go by the error type, so it is one of a closed list and never the name of a Rust type. The
//! message is for people: it names the field and the fix, and holds no payload.

use std::fmt;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::Malformed;
use fencepost_protocol::outbox::Damage;
use fencepost_storage::StoreError;
use lambda_runtime::Diagnostic;

use crate::settings::SettingsFaults;

/// The closed list of error types (`errorType` of a Lambda error).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// A store could not be reached, or answered 5xx. Transient.
    StoreUnavailable,
    /// A store asked to slow down. Transient.
    StoreThrottled,
    /// A store did not answer in time, or the work did not end before the function's own limit. Transient.
    StoreTimedOut,
    /// Credentials or policy forbid a call.
    AccessDenied,
    /// A store says that the request can never succeed: usually a table or queue that does not exist.
    RequestInvalid,
    /// The lease row, or the fence, must not be believed.
    LeaseRecordInvalid,
    /// The environment variables are wrong; each fault is in the message.
    SettingsInvalid,
    /// The invocation's input is not one that this function takes.
    InputInvalid,
    /// One event of a rule is malformed; the field is in the message.
    EventMalformed,
    /// A defect in our own code.
    HandlerPanicked,
}

impl ErrorType {
    /// The whole list.
    pub const ALL: [Self; 10] = [
        Self::StoreUnavailable,
        Self::StoreThrottled,
        Self::StoreTimedOut,
        Self::AccessDenied,
        Self::RequestInvalid,
        Self::LeaseRecordInvalid,
        Self::SettingsInvalid,
        Self::InputInvalid,
        Self::EventMalformed,
        Self::HandlerPanicked,
    ];

    /// The name that stands in `errorType`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StoreUnavailable => "StoreUnavailable",
            Self::StoreThrottled => "StoreThrottled",
            Self::StoreTimedOut => "StoreTimedOut",
            Self::AccessDenied => "AccessDenied",
            Self::RequestInvalid => "RequestInvalid",
            Self::LeaseRecordInvalid => "LeaseRecordInvalid",
            Self::SettingsInvalid => "SettingsInvalid",
            Self::InputInvalid => "InputInvalid",
            Self::EventMalformed => "EventMalformed",
            Self::HandlerPanicked => "HandlerPanicked",
        }
    }

    /// May the same call succeed later without anybody's help?
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::StoreUnavailable | Self::StoreThrottled | Self::StoreTimedOut)
    }
}

impl From<FailureKind> for ErrorType {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Throttled => Self::StoreThrottled,
            FailureKind::Unavailable => Self::StoreUnavailable,
            FailureKind::TimedOut => Self::StoreTimedOut,
            FailureKind::Denied => Self::AccessDenied,
            FailureKind::Invalid => Self::RequestInvalid,
        }
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A function's failure: its stable type and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error_type}: {message}")]
pub struct FunctionError {
    /// Which kind.
    pub error_type: ErrorType,
    /// What happened, and what to do.
    pub message: String,
}

impl FunctionError {
    /// A failure of `error_type`.
    pub fn new(error_type: ErrorType, message: impl Into<String>) -> Self {
        Self { error_type, message: message.into() }
    }

    /// A record of the lease table, or a fence, that must not be believed.
    pub fn lease_record(damage: &Damage) -> Self {
        Self::new(ErrorType::LeaseRecordInvalid, damage.to_string())
    }

    /// An event that ingest cannot store.
    pub fn event(malformed: &Malformed) -> Self {
        Self::new(ErrorType::EventMalformed, malformed.to_string())
    }
}

impl From<StoreError> for FunctionError {
    fn from(error: StoreError) -> Self {
        Self::new(error.kind.into(), error.to_string())
    }
}

impl From<Malformed> for FunctionError {
    fn from(malformed: Malformed) -> Self {
        Self::new(ErrorType::InputInvalid, malformed.to_string())
    }
}

impl From<SettingsFaults> for FunctionError {
    fn from(faults: SettingsFaults) -> Self {
        Self::new(ErrorType::SettingsInvalid, faults.to_string())
    }
}

impl From<FunctionError> for Diagnostic {
    fn from(error: FunctionError) -> Self {
        Self { error_type: error.error_type.as_str().to_owned(), error_message: error.message }
    }
}

#[cfg(test)]
mod tests;
