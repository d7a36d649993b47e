//! What a drainer asks the outbox to do, as values. Each write states the condition under which it may happen; a lost
//! condition is an answer that carries the row that won, never an error.

use crate::ids::{ClaimId, FencingToken, RowKey, Stamp};
use crate::outbox::{DeadRow, OutboxRow, Slot, Status};
use crate::time::Timestamp;

/// Take a row: status, claim, attempts and life as read, and a stamp not above the claimer's token. The life is named because
/// a record that died and was redriven since the read looks like the one that was read; its tombstone would be of the wrong life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Which row.
    pub key: RowKey,
    /// Its status as read.
    pub seen: Status,
    /// Its attempts as read.
    pub seen_attempts: u32,
    /// Its `redriven` as read.
    pub seen_redriven: u32,
    /// The claimer's token; the row's stamp must not be above it, and becomes it.
    pub token: FencingToken,
    /// The page's fresh claim id.
    pub claim: ClaimId,
    /// The new number of attempts.
    pub attempts: u32,
    /// The new number of stale claims.
    pub stale: u32,
    /// When it was first claimed.
    pub first_attempt_at: Timestamp,
}

/// What became of a [`Claim`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimAnswer {
    /// The row is ours.
    Claimed,
    /// The condition did not hold; this is what stands there now. A row that bears the very claim id is ours all the same
    /// ([`crate::drain::claim_is_mine`]).
    Refused(Slot<OutboxRow>),
}

/// Put a claimed row back, or change it while it stays claimed. Condition: claim and token are mine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HandBack {
    /// Which row.
    pub key: RowKey,
    /// My claim.
    pub claim: ClaimId,
    /// My token.
    pub token: FencingToken,
    /// The number of attempts to leave in the row.
    pub attempts: u32,
    /// The number of stale claims to leave in the row.
    pub stale: u32,
    /// `true`: pending again. `false`: only the attempts are restored and the claim ages (the outcome of a send is unknown).
    pub free: bool,
    /// Not due before this moment; `None` leaves the row's own value.
    pub not_before: Option<Timestamp>,
    /// Why; `None` leaves the row's own text.
    pub last_error: Option<String>,
}

/// Delete a row whose message the queue accepted. Condition: claim and token are mine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Commit {
    /// Which row.
    pub key: RowKey,
    /// My claim.
    pub claim: ClaimId,
    /// My token.
    pub token: FencingToken,
}

/// What became of a conditional change of a row that we held ([`HandBack`], [`Commit`], the second half of [`Burial`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChangeAnswer {
    /// Done.
    Done,
    /// No such row. After a first try of known outcome somebody else ended it; after a try of unknown outcome it was us.
    Absent,
    /// The row is another's by now.
    Fenced(Slot<OutboxRow>),
}

/// Let a record die: put it under `dead#…` (idempotent, never lowering `redriven`), then delete the outstanding row on
/// condition of its status, stamp and `redriven` as seen: a late second step must not end the next life of the record. The second step happens only after the first was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Burial {
    /// The dead row to put.
    pub dead: DeadRow,
    /// The status that the outstanding row must still have.
    pub seen: Status,
    /// The stamp that it must still have.
    pub seen_stamp: Stamp,
}

/// Put a dead record back: put `row` if nothing stands there, then delete the dead row on condition of `dead_redriven`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Redrive {
    /// The row as it comes back: `redriven` one higher, attempts and stale 0, pending.
    pub row: OutboxRow,
    /// The dead row's `redriven` as read.
    pub dead_redriven: u32,
}
