//! How a call to a store, a queue or a source can fail, as far as a decision needs to know.

use serde::{Deserialize, Serialize};

/// What kind of failure it was. Adapters map every error of theirs to one of these, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The service asked to slow down. Not applied.
    Throttled,
    /// The service could not be reached, or answered 5xx. May have been applied.
    Unavailable,
    /// No answer in time. May have been applied.
    TimedOut,
    /// Credentials or policy forbid the call. Not applied.
    Denied,
    /// The request can never succeed as it is. Not applied.
    Invalid,
}

impl FailureKind {
    /// Is it certain that the call changed nothing?
    pub const fn certainly_not_applied(self) -> bool {
        matches!(self, FailureKind::Throttled | FailureKind::Denied | FailureKind::Invalid)
    }

    /// May the same call succeed later without anybody's help?
    pub const fn is_transient(self) -> bool {
        matches!(self, FailureKind::Throttled | FailureKind::Unavailable | FailureKind::TimedOut)
    }

    /// The stable name, as it stands in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureKind::Throttled => "throttled",
            FailureKind::Unavailable => "unavailable",
            FailureKind::TimedOut => "timed_out",
            FailureKind::Denied => "denied",
            FailureKind::Invalid => "invalid",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FailureKind::{Denied, Invalid, Throttled, TimedOut, Unavailable};

    #[test]
    fn the_name_in_logs_is_the_name_in_answers() {
        for kind in [Throttled, Unavailable, TimedOut, Denied, Invalid] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
