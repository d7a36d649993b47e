//! The demonstration's own record of what it published, by the digest of the payload. It knows nothing of the bridge.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_protocol::ids::PayloadDigest;

/// One published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) topic: String,
    pub(crate) client_id: String,
    /// Did the broker acknowledge it?
    pub(crate) acknowledged: bool,
}

/// Everything that was published so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_digest: HashMap<PayloadDigest, Entry>,
    acknowledged: u64,
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a message before it is handed to the MQTT client.
    pub(crate) fn publishing(&self, digest: PayloadDigest, topic: &str, client_id: &str) {
        let entry = Entry { topic: topic.to_owned(), client_id: client_id.to_owned(), acknowledged: false };
        self.entries().by_digest.insert(digest, entry);
    }

    /// Notes the broker's acknowledgement.
    pub(crate) fn acknowledge(&self, digest: &PayloadDigest) {
        let mut entries = self.entries();
        let newly =
            entries.by_digest.get_mut(digest).is_some_and(|entry| !std::mem::replace(&mut entry.acknowledged, true));
        entries.acknowledged += u64::from(newly);
    }

    /// How many messages the broker acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.entries().acknowledged
    }

    /// How many messages there are, acknowledged or not.
    pub(crate) fn published(&self) -> u64 {
        u64::try_from(self.entries().by_digest.len()).unwrap_or(u64::MAX)
    }

    /// All entries.
    pub(crate) fn snapshot(&self) -> HashMap<PayloadDigest, Entry> {
        self.entries().by_digest.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_acknowledged_once_and_an_unknown_one_never() {
        let ledger = Ledger::default();
        let digest = PayloadDigest::of(b"one");
        ledger.publishing(digest.clone(), "telemetry/device-01", "device-01");
        assert_eq!(ledger.acknowledged(), 0);
        ledger.acknowledge(&digest);
        ledger.acknowledge(&digest);
        ledger.acknowledge(&PayloadDigest::of(b"another"));
        assert_eq!(ledger.acknowledged(), 1);
        assert!(ledger.snapshot()[&digest].acknowledged);
    }
}
