//! What happened, in numbers: the drainer's answer and its metrics.

use serde::{Deserialize, Serialize};

use crate::drain::ChangeAnswer;
use crate::failure::FailureKind;

/// Counters of a page, a shard or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Rows claimed.
    pub claimed: u64,
    /// Entries that the queue accepted.
    pub sent: u64,
    /// Rows deleted after the queue accepted them.
    pub committed: u64,
    /// Commits that found the row ended or touched by another.
    pub fenced: u64,
    /// Rows handed back.
    pub handed_back: u64,
    /// Rows that died.
    pub dead: u64,
    /// Claims and other changes that lost against somebody else's.
    pub conflicts: u64,
    /// Entries that the queue refused, for now or for good.
    pub refused: u64,
    /// Claims, sends, tombstones and commits whose outcome nobody knows; the claim ages.
    pub unknown: u64,
    /// Rows seen and left: not due, claimed by others, blocked, not of this mode.
    pub skipped: u64,
    /// Rows held because they do not decode or are of a newer schema.
    pub held: u64,
    /// Claims taken from a drainer that the platform had ended.
    pub stale_claims: u64,
    /// Sends that may have been second ones.
    pub duplicate_risk: u64,
    /// Whole requests that failed.
    pub send_failures: u64,
    /// Rows whose token was above what the lease knew.
    pub token_regression: u64,
}

impl Counts {
    /// Adds `other` to this.
    pub fn add(&mut self, other: &Counts) {
        let Counts {
            claimed,
            sent,
            committed,
            fenced,
            handed_back,
            dead,
            conflicts,
            refused,
            unknown,
            skipped,
            held,
            stale_claims,
            duplicate_risk,
            send_failures,
            token_regression,
        } = other;
        self.claimed += claimed;
        self.sent += sent;
        self.committed += committed;
        self.fenced += fenced;
        self.handed_back += handed_back;
        self.dead += dead;
        self.conflicts += conflicts;
        self.refused += refused;
        self.unknown += unknown;
        self.skipped += skipped;
        self.held += held;
        self.stale_claims += stale_claims;
        self.duplicate_risk += duplicate_risk;
        self.send_failures += send_failures;
        self.token_regression += token_regression;
    }

    /// Counts the answers to hand-backs that freed their rows.
    pub fn handed_back(&mut self, answers: &[Result<ChangeAnswer, FailureKind>]) {
        for answer in answers {
            match answer {
                Ok(ChangeAnswer::Done) => self.handed_back += 1,
                Ok(ChangeAnswer::Absent | ChangeAnswer::Fenced(_)) => self.conflicts += 1,
                Err(_) => self.unknown += 1,
            }
        }
    }

    /// Counts the answer to one burial.
    pub fn buried(&mut self, answer: &Result<ChangeAnswer, FailureKind>) {
        match answer {
            Ok(ChangeAnswer::Done) => self.dead += 1,
            Ok(ChangeAnswer::Absent | ChangeAnswer::Fenced(_)) => self.conflicts += 1,
            Err(_) => self.unknown += 1,
        }
    }
}
