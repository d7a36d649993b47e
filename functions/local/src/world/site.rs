//! What every part of a running world shares: who it is, whom it tells, what it counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::ids::LeaseName;
use fencepost_runtime::clock::Clock;
use fencepost_storage::ClientOptions;

use super::counters::Counters;
use super::event::{WorldEvent, WorldObserver};
use super::history::History;
use super::options::REGION;
use crate::shipped::Machines;

/// The target of log lines whose text the observer is told as [`WorldEvent::Trouble`], too.
pub const TOLD: &str = "fencepost_local::told";

/// The shared part of a world.
pub(super) struct Site {
    pub(super) lease: LeaseName,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<Counters>,
    pub(super) machines: Machines,
    pub(super) body_format: BodyFormat,
    dynamodb_url: String,
    sqs_url: String,
    observer: Arc<dyn WorldObserver>,
    history: Option<Mutex<History>>,
}

impl Site {
    #[expect(clippy::too_many_arguments, reason = "built in one place, once")]
    pub(super) fn new(
        lease: LeaseName,
        clock: Arc<dyn Clock>,
        machines: Machines,
        body_format: BodyFormat,
        dynamodb_url: String,
        sqs_url: String,
        observer: Arc<dyn WorldObserver>,
        history: Option<History>,
    ) -> Self {
        Self {
            lease,
            clock,
            counters: Arc::default(),
            machines,
            body_format,
            dynamodb_url,
            sqs_url,
            observer,
            history: history.map(Mutex::new),
        }
    }

    /// Tells the observer, at this moment of the world's clock.
    pub(super) fn tell(&self, event: &WorldEvent) {
        self.observer.observe(self.clock.now().wall, event);
    }

    /// Tells that something is wrong with the world itself.
    pub(super) fn trouble(&self, what: String) {
        tracing::error!(target: TOLD, "{what}");
        self.tell(&WorldEvent::Trouble { what });
    }

    /// The history, where one is kept.
    pub(super) fn history(&self) -> Option<MutexGuard<'_, History>> {
        self.history.as_ref().map(|history| history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where DynamoDB is.
    pub(super) fn dynamodb(&self) -> ClientOptions {
        ClientOptions::loopback(&self.dynamodb_url, REGION)
    }

    /// Where SQS is.
    pub(super) fn sqs(&self) -> ClientOptions {
        ClientOptions::loopback(&self.sqs_url, REGION)
    }
}
