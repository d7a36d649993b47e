//! What can be done to a request. Each fault says whether the service applied it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use serde_json::Value;
use tokio::sync::Semaphore;

/// A fault.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The connection is closed. Not applied.
    DropBefore,
    /// Applied; the connection is closed instead of the reply.
    DropAfter,
    /// Applied after this time, also when the client has given up by then; the reply follows.
    DelayBefore(Duration),
    /// Applied when the gate is opened, also when the client has given up by then; the reply follows.
    HoldUntil(Gate),
    /// Applied at once; the reply comes after this time.
    DelayAfter(Duration),
    /// The connection is closed at once, and the request is applied after this time: a packet that was on its way.
    ApplyLate(Duration),
    /// HTTP 500 in the service's own form. Not applied.
    FailBefore,
    /// Applied; HTTP 500 instead of the reply.
    FailAfter,
    /// The service's own throttling error. Not applied.
    Throttle,
    /// The service's own access denial. Not applied.
    Deny,
    /// Never answered, connection open. Not applied.
    BlackHole,
    /// Applied and never answered, connection open.
    BlackHoleAfter,
    /// Applied; the reply's JSON is changed on its way back.
    Edit(Edit),
}

impl Fault {
    /// Its name in counts and reports.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::DropBefore => "drop_before",
            Self::DropAfter => "drop_after",
            Self::DelayBefore(_) => "delay_before",
            Self::HoldUntil(_) => "hold_until",
            Self::DelayAfter(_) => "delay_after",
            Self::ApplyLate(_) => "apply_late",
            Self::FailBefore => "fail_before",
            Self::FailAfter => "fail_after",
            Self::Throttle => "throttle",
            Self::Deny => "deny",
            Self::BlackHole => "black_hole",
            Self::BlackHoleAfter => "black_hole_after",
            Self::Edit(_) => "edit",
        }
    }

    /// A fault that changes the reply: `|reply| reply["Failed"] = json!([…])`.
    pub fn edit(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::Edit(Edit(Arc::new(change)))
    }
}

/// What holds requests up until somebody opens it: for an order of events that no length of time can promise. Clones are one
/// gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// Lets through whatever waits, and all that comes.
    pub fn open(&self) {
        self.0.close();
    }

    /// Waits until it is open.
    pub(super) async fn opened(&self) {
        // There are no permits, so this ends when the semaphore is closed, which it reports as an error.
        drop(self.0.acquire().await);
    }
}

/// A change of a reply's JSON.
#[derive(Clone)]
pub struct Edit(Arc<dyn Fn(&mut Value) + Send + Sync>);

impl fmt::Debug for Edit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Edit")
    }
}

impl Edit {
    /// The changed reply, without the headers that count or sum up its bytes.
    pub(super) fn applied_to(&self, reply: Response<Bytes>) -> Response<Bytes> {
        let (mut head, body) = reply.into_parts();
        let mut value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        (self.0)(&mut value);
        for stale in ["content-length", "x-amz-crc32"] {
            head.headers.remove(stale);
        }
        Response::from_parts(head, Bytes::from(value.to_string()))
    }
}
