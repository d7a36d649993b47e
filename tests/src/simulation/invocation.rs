//! One invocation of a function, as the ports under it see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_protocol::ids::{ClaimId, MessageId, Shard};
use fencepost_protocol::time::Timestamp;
use fencepost_protocol::timing::Timing;
use tokio::sync::Notify;

use super::time::HostClock;

tokio::task_local! {
    static CURRENT: Arc<Invocation>;
}

/// A process at work on one event.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The execution that asked for it, or another name that its passes share.
    pub(crate) scope: String,
    crashed: AtomicBool,
    crash: Notify,
    reads: Mutex<BTreeMap<Shard, ClaimId>>,
    sent: Mutex<BTreeSet<MessageId>>,
}

impl Invocation {
    pub(crate) fn new(scope: String) -> Arc<Self> {
        Arc::new(Self {
            scope,
            crashed: AtomicBool::new(false),
            crash: Notify::new(),
            reads: Mutex::default(),
            sent: Mutex::default(),
        })
    }

    /// The one whose task this is.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// `work` as this invocation's.
    pub(crate) async fn of<F: Future>(self: &Arc<Self>, work: F) -> F::Output {
        CURRENT.scope(Arc::clone(self), work).await
    }

    /// The process dies here and now.
    pub(crate) async fn die<T>(&self) -> T {
        self.crashed.store(true, Ordering::SeqCst);
        self.crash.notify_waiters();
        std::future::pending().await
    }

    /// Returns when the process has died.
    pub(crate) async fn died(&self) {
        loop {
            let notified = self.crash.notified();
            if self.crashed.load(Ordering::SeqCst) {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn sends(&self, id: &MessageId) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
    }

    /// Did it send this message?
    pub(crate) fn has_sent(&self, id: &MessageId) -> bool {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    pub(crate) fn read_page(&self, shard: &Shard, read: ClaimId) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).insert(shard.clone(), read);
    }
}

/// Who makes a call, and when it decided to.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) instance: usize,
    /// The own wall clock.
    pub(crate) wall: Timestamp,
    /// The true time.
    pub(crate) entered: Duration,
    pub(crate) timing: Timing,
    /// The own clocks, as everybody else may ask them later.
    pub(crate) clock: Arc<HostClock>,
    pub(crate) invocation: Option<Arc<Invocation>>,
}

impl Caller {
    /// The read of the page of `shard` that this invocation is at work on.
    pub(crate) fn read_of(&self, shard: &Shard) -> Option<ClaimId> {
        let invocation = self.invocation.as_ref()?;
        invocation.reads.lock().unwrap_or_else(PoisonError::into_inner).get(shard).cloned()
    }
}
