//! The ten invariants, as predicates over what was observed. The model, the simulator and the audit of a real run all feed
//! the same [`Audit`]; none of them has a second opinion.
//!
//! | | predicate |
//! |---|---|
//! | I1 | each acquisition's token is above every earlier one |
//! | I2 | at any token at most one owner, instance and stack |
//! | I3 | at most one commit for each row (for each life of it) |
//! | I4 | a committed record was accepted by the queue, with these very bytes |
//! | I5 | ingested = committed + dead + outstanding + purged, row by row |
//! | I6 | no commit under a token lower than the row's |
//! | I7 | no claim or send is decided after the deadline |
//! | I8 | no pending, claimed or dead row carries `expires_at` |
//! | I9 | no first send while an earlier visible row of its key is outstanding and not yet accepted (ordered only) |
//! | I10 | while a standby ticks and the store works, somebody leads and is not stepping down, within the bound |
//!
//! Observations come in one order, that of the world that makes them. An observer who saw only a part (an audit that has no
//! claims) feeds that part: a predicate is judged from what it needs and from nothing else.

mod audit;
mod order;
mod vacancy;

use std::fmt;

use crate::ids::{ClaimId, FencingToken, Identity, MessageId, PayloadDigest, Position, RowKey, Shard, Stamp};
use crate::time::Timestamp;

pub use audit::{Audit, AuditTerms, Conservation};

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Tokens grow.
    I1,
    /// One owner for a token.
    I2,
    /// One commit for a row.
    I3,
    /// Committed means accepted.
    I4,
    /// Nothing is lost and nothing comes from nowhere.
    I5,
    /// No commit under a lower token.
    I6,
    /// Nothing is decided too late.
    I7,
    /// Only tombstones expire.
    I8,
    /// Order within a key.
    I9,
    /// Somebody leads.
    I10,
}

/// A broken invariant and what broke it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{invariant:?}: {what}")]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What happened, with keys and tokens, never a payload.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(invariant: Invariant, what: impl fmt::Display) -> Self {
        Self { invariant, what: what.to_string() }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Observation {
    /// The lease was acquired, seized or reclaimed.
    Acquired {
        /// The new token.
        token: FencingToken,
        /// By whom.
        owner: Identity,
    },
    /// A row was stored, and ingest may acknowledge it.
    Ingested {
        /// The row.
        key: RowKey,
        /// Of its payload.
        digest: PayloadDigest,
        /// As written.
        stamp: Stamp,
        /// Whose messages keep their order with it.
        ordering_key: String,
    },
    /// A page was read, strongly. What lies before it was read by earlier pages of the same pass; a row that appears behind
    /// the cursor is invisible to the rest of the pass.
    PageRead {
        /// The shard.
        shard: Shard,
        /// The fresh id under which its rows will be claimed.
        claim: ClaimId,
        /// The fresh id of the first page of this pass (over all its calls); its own for the first page.
        pass: ClaimId,
        /// The position after which the page begins.
        after: Option<Position>,
    },
    /// A claim was applied.
    Claimed {
        /// The row.
        key: RowKey,
        /// The id.
        claim: ClaimId,
        /// The claimer's token.
        token: FencingToken,
        /// When the claimer decided it, on its own clock.
        decided_at: Timestamp,
        /// The claimer's deadline at that time, on its own clock.
        deadline: Timestamp,
    },
    /// A send of the row was started.
    SendStarted {
        /// The row.
        key: RowKey,
        /// The sender's claim.
        claim: ClaimId,
        /// When the sender decided it, on its own clock.
        decided_at: Timestamp,
        /// When the call ends at the latest, on its own clock.
        ends_by: Timestamp,
        /// The sender's deadline at that time, on its own clock.
        deadline: Timestamp,
    },
    /// The queue accepted a message, whether or not the sender ever learns it.
    Accepted {
        /// The message.
        id: MessageId,
        /// Of its payload.
        digest: PayloadDigest,
    },
    /// A commit was applied.
    Committed {
        /// The row.
        key: RowKey,
        /// The committer's token.
        token: FencingToken,
    },
    /// The outstanding row of a dead record was deleted.
    Died {
        /// The row.
        key: RowKey,
    },
    /// A dead record came back: its outstanding row was put.
    Redriven {
        /// The row.
        key: RowKey,
        /// As written.
        stamp: Stamp,
    },
    /// An operator ended a dead record that was no phantom.
    Purged {
        /// The row.
        key: RowKey,
    },
    /// A stored row that is no tombstone was looked at.
    Stored {
        /// Its key in words.
        record: String,
        /// Has it the attribute `expires_at`?
        carries_expiry: bool,
    },
    /// From now on somebody leads (holds the lease before its deadline and is not stepping down), or nobody does.
    Leading {
        /// The world's time.
        at: Timestamp,
        /// Does somebody?
        somebody: bool,
    },
    /// From now on a standby ticks and the store works, or not.
    Able {
        /// The world's time.
        at: Timestamp,
        /// Could somebody take the lease?
        able: bool,
    },
}

#[cfg(test)]
mod tests;
