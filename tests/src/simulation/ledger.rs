//! What was published, and what became of it: the expectation that the end of a run is compared with.

use std::time::Duration;

use fencepost_protocol::ids::PayloadDigest;

/// A message of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The broker's id of it.
    pub id: String,
    /// The device.
    pub device: String,
    /// Of the payload.
    pub digest: PayloadDigest,
    /// The payload's length.
    pub bytes: usize,
    /// When it was published, since the beginning of the run.
    pub at: Duration,
    /// When ingest first acknowledged it.
    pub acknowledged: Option<Duration>,
}

/// The ledger.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    messages: Vec<Published>,
}

impl Ledger {
    /// The next id of a message that brings none.
    pub(crate) fn next_id(&self) -> String {
        format!("m{:05}", self.messages.len() + 1)
    }

    /// Writes a message down and gives its line.
    pub(crate) fn published(&mut self, message: Published) -> usize {
        self.messages.push(message);
        self.messages.len() - 1
    }

    /// Ingest acknowledged the message of this line.
    pub(crate) fn acknowledge(&mut self, line: usize, at: Duration) {
        if let Some(message) = self.messages.get_mut(line) {
            message.acknowledged = message.acknowledged.or(Some(at));
        }
    }

    pub(crate) fn all(&self) -> Vec<Published> {
        self.messages.clone()
    }

    /// How many are not acknowledged yet.
    pub(crate) fn open(&self) -> usize {
        self.messages.iter().filter(|message| message.acknowledged.is_none()).count()
    }
}
