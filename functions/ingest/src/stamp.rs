//! The token that rows are stamped with, kept for a few seconds so that a warm ingest reads nothing.
//!
//! A stamp that is too old is harmless: it is lower than the holder's token, and the holder claims what is at or below its
//! own. A stamp that is none (0) is claimed by anybody. So a lease that cannot be read is remembered as none, and no message
//! waits for it twice within the time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fencepost_protocol::ids::{LeaseName, Stamp};
use fencepost_protocol::ingest::stamp;
use fencepost_runtime::clock::Clock;
use fencepost_storage::LeaseStore;

/// The stamp of the last few seconds.
#[derive(Debug)]
pub struct StampCache {
    keep: Duration,
    known: Mutex<Option<Known>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    stamp: Stamp,
    read_at: Duration,
}

impl StampCache {
    /// An empty cache that keeps a stamp for `keep`.
    pub const fn new(keep: Duration) -> Self {
        Self { keep, known: Mutex::new(None) }
    }

    pub(crate) async fn stamp(&self, leases: &dyn LeaseStore, lease: &LeaseName, clock: &dyn Clock) -> Stamp {
        let now = clock.now().monotonic;
        // In a thawed function the monotonic clock stood still: the stamp is older than it seems, which is harmless.
        if let Some(known) = self.known().filter(|known| now.saturating_sub(known.read_at) < self.keep) {
            return known.stamp;
        }
        let read = leases.read_lease(lease).await.inspect_err(|error| {
            tracing::warn!(kind = error.kind.as_str(), %error, "the lease cannot be read; rows are stamped with none");
        });
        let stamp = stamp(read.ok().as_ref());
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Known { stamp, read_at: clock.now().monotonic });
        stamp
    }

    fn known(&self) -> Option<Known> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
