//! What a page in work has learned so far: counts, keys that must wait, and why to stop.

use crate::drain::{BlockedKeys, Counts, Stop};

/// A page's notes: made by [`crate::drain::choose`], passed to every later step, and given back to the shard by
/// [`crate::drain::ShardState::absorb`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Notes {
    /// What happened on this page.
    pub counts: Counts,
    pub(crate) blocked: BlockedKeys,
    pub(crate) stop: Option<Stop>,
}

impl Notes {
    pub(crate) fn new(blocked: BlockedKeys) -> Self {
        Self { counts: Counts::default(), blocked, stop: None }
    }

    /// Why the page ends early, if it does.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Ends the page. A reason that ends the call outweighs one that ends only the page; else the first one stays.
    pub fn stop_for(&mut self, reason: Stop) {
        if matches!(reason, Stop::TokenRegression { .. }) {
            self.counts.token_regression += 1;
        }
        if self.stop.as_ref().is_none_or(|stop| !stop.ends_call() && reason.ends_call()) {
            self.stop = Some(reason);
        }
    }
}
