//! The queues, their file, the clock and the fault, shared by the server's requests and the owner's own calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::model::{Changes, Message, Queues};
use super::refusal::{Refusal, RefusalKind};
use super::store::{Store, StoreError};
use super::{NowMs, QueueFault};

/// A handle on the one state of a server.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    fault: Mutex<QueueFault>,
    changed: Notify,
    now_ms: NowMs,
    base_url: String,
}

struct State {
    queues: Queues,
    store: Option<Store>,
}

impl Shared {
    /// The state of a new server: what the store has, or nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn new(store: Option<Store>, now_ms: NowMs, base_url: String) -> Result<Shared, StoreError> {
        let queues = match &store {
            Some(store) => store.load()?,
            None => Queues::default(),
        };
        Ok(Shared(Arc::new(Inner {
            state: Mutex::new(State { queues, store }),
            fault: Mutex::new(QueueFault::None),
            changed: Notify::new(),
            now_ms,
            base_url,
        })))
    }

    /// Runs one operation on the queues and writes what it changed before it returns.
    ///
    /// # Errors
    /// The operation's own refusal, or an internal one when the change could not be written; then the queues are as the
    /// file has them.
    pub(crate) fn apply<T>(
        &self,
        operation: impl FnOnce(&mut Queues, u64) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let now_ms = (self.0.now_ms)();
        let mut state = self.state();
        let outcome = operation(&mut state.queues, now_ms);
        let changed = state.save()?;
        drop(state);
        if changed {
            self.0.changed.notify_waiters();
        }
        outcome
    }

    /// Resolves at the next change of any queue after it is first polled or enabled.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.0.changed.notified()
    }

    /// The messages of a queue, not consumed.
    pub(crate) fn messages(&self, name: &str) -> Vec<Message> {
        let state = self.state();
        state.queues.by_name.get(name).map(|queue| queue.messages.values().cloned().collect()).unwrap_or_default()
    }

    /// The URL of a queue.
    pub(crate) fn queue_url(&self, name: &str) -> String {
        format!("{}/{name}", self.0.base_url)
    }

    /// What is wrong at the moment.
    pub(crate) fn fault(&self) -> QueueFault {
        *self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is wrong.
    pub(crate) fn set_fault(&self, fault: QueueFault) {
        *self.0.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes what changed, and tells whether anything did.
    fn save(&mut self) -> Result<bool, Refusal> {
        let Some(store) = &mut self.store else {
            let changes = self.queues.by_name.values_mut().map(|queue| queue.take_changes());
            return Ok(changes.filter(|changes| *changes != Changes::default()).count() > 0);
        };
        let error = match store.save(&mut self.queues) {
            Ok(changed) => return Ok(changed),
            Err(error) => error,
        };
        tracing::error!(file = %store.path().display(), %error, "the queue could not write its file");
        match store.load() {
            Ok(queues) => self.queues = queues,
            Err(error) => tracing::error!(file = %store.path().display(), %error, "the queue could not read its file"),
        }
        Err(Refusal::new(RefusalKind::Internal, "The queue could not write its file; nothing was applied."))
    }
}
