//! Somebody who sees every write that was applied, in the order in which it was.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use super::{Fault, locked};

/// A write that the service itself applied or refused.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The name of the proxy.
    pub proxy: &'a str,
    /// The operation, for example `PutItem`.
    pub operation: &'a str,
    /// The request's body.
    pub request: &'a [u8],
    /// The status of the service's reply, whatever the client saw of it.
    pub status: u16,
    /// The body of the service's reply, whatever the client saw of it.
    pub reply: &'a [u8],
    /// What was done to the request.
    pub fault: Option<&'a Fault>,
}

/// A tap on one proxy or several. While one is set, writes are applied one after another.
pub struct Tap {
    order: tokio::sync::Mutex<()>,
    faults: Mutex<BTreeMap<&'static str, u64>>,
    unseen: Mutex<Vec<String>>,
    see: Box<dyn Fn(&Exchange<'_>) + Send + Sync>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tap")
    }
}

/// The right to apply the next write.
pub(super) struct Turn<'a>(#[expect(dead_code, reason = "held, never read")] tokio::sync::MutexGuard<'a, ()>);

impl Tap {
    /// A tap that calls `see` for each exchange. It must not block.
    pub fn new(see: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        Self {
            order: tokio::sync::Mutex::new(()),
            faults: Mutex::default(),
            unseen: Mutex::default(),
            see: Box::new(see),
        }
    }

    /// Waits until no other write is being applied.
    pub(super) async fn turn(&self) -> Turn<'_> {
        Turn(self.order.lock().await)
    }

    /// Shows what was applied in this turn.
    pub(super) fn show(&self, _turn: &Turn<'_>, exchange: &Exchange<'_>) {
        (self.see)(exchange);
    }

    /// Notes a write of which nobody knows whether it was applied: the service itself did not answer.
    pub(super) fn miss(&self, operation: &str, error: &std::io::Error) {
        locked(&self.unseen).push(format!("{operation}: {error}"));
    }

    /// The writes of which nobody knows whether they were applied. Where there are any, what was seen is not the whole.
    #[must_use]
    pub fn unseen(&self) -> Vec<String> {
        locked(&self.unseen).clone()
    }

    /// Counts a fault, whether or not its request was applied.
    pub(super) fn count(&self, fault: &Fault) {
        *locked(&self.faults).entry(fault.kind()).or_default() += 1;
    }

    /// How often each kind of fault was injected by all proxies together.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.faults).clone()
    }

    /// Runs `work` while no write is being applied: what it reads of the service agrees with what was seen.
    pub async fn quiet<T>(&self, work: impl Future<Output = T>) -> T {
        let _turn = self.turn().await;
        work.await
    }
}
