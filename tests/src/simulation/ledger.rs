//! What was published, and what became of it: the expectation that the end of a run is compared with.

use std::collections::BTreeMap;
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
    messages: BTreeMap<String, Published>,
    count: u64,
}

impl Ledger {
    /// The next id of a message.
    pub(crate) fn next_id(&mut self) -> String {
        self.count += 1;
        format!("m{:05}", self.count)
    }

    pub(crate) fn published(&mut self, message: Published) {
        self.messages.insert(message.id.clone(), message);
    }

    /// Ingest acknowledged it; `false` where it had before.
    pub(crate) fn acknowledge(&mut self, id: &str, at: Duration) -> bool {
        match self.messages.get_mut(id) {
            Some(message) if message.acknowledged.is_none() => {
                message.acknowledged = Some(at);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn all(&self) -> Vec<Published> {
        self.messages.values().cloned().collect()
    }

    /// How many are not acknowledged yet.
    pub(crate) fn open(&self) -> usize {
        self.messages.values().filter(|message| message.acknowledged.is_none()).count()
    }
}
