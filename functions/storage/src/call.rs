//! How long a call to a service may take, how often it is tried, and who hears about it.
//!
//! Nothing here reads a clock: an observer measures with its own, from [`CallObserver::begin`] to [`CallInProgress::end`].

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;

/// The bounds of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPolicy {
    /// The whole call, with every try and every pause between two.
    pub call_timeout: Duration,
    /// One try.
    pub attempt_timeout: Duration,
    /// Tries in all, at least 1.
    pub max_attempts: u32,
}

impl CallPolicy {
    /// Three tries within `call_timeout`, each of a third of it: what the protocol asks of the lease's calls.
    pub fn in_thirds(call_timeout: Duration) -> Self {
        Self { call_timeout, attempt_timeout: call_timeout / 3, max_attempts: 3 }
    }

    /// One try within `call_timeout`: for a call whose caller must know which try it was.
    pub const fn once(call_timeout: Duration) -> Self {
        Self { call_timeout, attempt_timeout: call_timeout, max_attempts: 1 }
    }
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallReport {
    /// Capacity units that the reply states (read or write units, as the operation is); 0 where it states none, which is
    /// so for every failure and for a refused condition of a single-item call.
    pub capacity_units: f64,
    /// `None`: answered, a refused condition included. Otherwise how it failed.
    pub failure: Option<FailureKind>,
}

/// Hears of every request to a service. A request that the SDK tries again is still one.
pub trait CallObserver: Send + Sync {
    /// A request begins. `operation` is one of a small fixed set, for example `claim`.
    fn begin(&self, operation: &'static str) -> Box<dyn CallInProgress>;
}

/// A request that has begun. Dropped without [`CallInProgress::end`] where its caller gave it up.
pub trait CallInProgress: Send {
    /// The request has ended.
    fn end(self: Box<Self>, report: CallReport);
}
