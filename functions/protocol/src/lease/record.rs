//! The rows of the lease table, as values, and what makes their fields possible or impossible.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, FencingToken, Identity, LeaseName, Malformed, Stamp};
use crate::outbox::Slot;
use crate::time::Timestamp;

/// How the present holder came by the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcquiredAs {
    /// Nobody held it: no row, or a released one.
    Acquired,
    /// Taken from another instance whose record stood still for a whole TTL.
    Seized,
    /// Taken anew by its own holder, after its own deadline.
    Reclaimed,
}

/// Why a holder gives the lease up in a planned way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepDownReason {
    /// An operator or a deployment asked.
    StepDown,
    /// The stack is being deleted.
    Shutdown,
}

/// A step-down that was asked for and is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SteppingDown {
    /// When it was asked for, on the holder's clock.
    pub since: Timestamp,
    /// Why.
    pub reason: StepDownReason,
}

/// Who released the lease last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Released {
    /// The releaser, who abstains for one TTL.
    pub by: Identity,
    /// When, on the releaser's clock; only the releaser reads it.
    pub at: Timestamp,
    /// Why.
    pub reason: StepDownReason,
}

/// The planned release that the present holder's acquisition followed. The releaser may come to look only after it, and this tells
/// it that nothing went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LastRelease {
    /// The releaser.
    pub by: Identity,
    /// The token that it held the lease under.
    pub token: FencingToken,
    /// Why.
    pub reason: StepDownReason,
}

/// The lease row of a group. Every write makes a new version under a new `attempt`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseRecord {
    /// The group.
    pub lease: LeaseName,
    /// The holder; `None` when released.
    pub owner: Option<Identity>,
    /// The token of the present or last holder.
    pub token: FencingToken,
    /// Renewals since the acquisition.
    pub renewal: u64,
    /// How long the holder's word lasts, by the settings of the holder.
    pub lease_ttl: Duration,
    /// The owner's clock from before the write that was accepted. Only the owner's side reads it.
    pub confirmed_at: Timestamp,
    /// How the holder came by it.
    pub acquired_as: AcquiredAs,
    /// A step-down in progress.
    pub stepping_down: Option<SteppingDown>,
    /// By whom it is free, and who abstains; an acquisition makes [`LeaseRecord::last_release`] of it.
    pub released: Option<Released>,
    /// The release that the acquisition of the present or last holder followed; `None` where it followed none: a first, a seized,
    /// a reclaimed lease. It only tells: no decision asks for it. Damaged it keeps everybody from the lease all the same, as each
    /// field does: a row whose `last_release` does not decode, or is of a token not below the row's, is refused whole, and
    /// nobody leads until it is repaired by hand.
    pub last_release: Option<LastRelease>,
    /// The highest token whose takeover was finished; [`Stamp::NONE`] for none.
    pub takeover_done: Stamp,
    /// Which try of this token's takeover is due or running, from 0.
    pub takeover_try: u32,
    /// When that try became due, on the owner's clock.
    pub takeover_try_at: Timestamp,
    /// The id of the write that made this version.
    pub attempt: AttemptId,
}

/// The smallest and the largest TTL that a row may state; outside lies damage.
const LEASE_TTL_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

impl LeaseRecord {
    /// Are the values possible together?
    ///
    /// # Errors
    /// [`Malformed`] with the first field that is not.
    pub fn check(&self) -> Result<(), Malformed> {
        if !LEASE_TTL_RANGE.contains(&self.lease_ttl) {
            return Err(Malformed::new("lease_ttl_ms", "must lie between 1s and 24h"));
        }
        if self.confirmed_at > Timestamp::MAX {
            return Err(Malformed::new("confirmed_at", "is no moment of this age (more than 13 digits)"));
        }
        if self.owner.is_none() && self.released.is_none() {
            return Err(Malformed::new("owner", "is missing, and the row names nobody who released it"));
        }
        if self.owner.is_some() && self.released.is_some() {
            return Err(Malformed::new("released_by", "stands beside an owner"));
        }
        // A version without this field leaves it as it was, beside whatever it writes; tokens grow all the same.
        if self.last_release.as_ref().is_some_and(|last| last.token >= self.token) {
            return Err(Malformed::new("last_release.fencing_token", "is not below the row's fencing_token"));
        }
        if self.takeover_done.is_above(self.token) {
            return Err(Malformed::new("takeover_done", "is above the row's fencing_token"));
        }
        Ok(())
    }

    /// Why `me` released this lease as planned, having held it under `token`; `None` where the row tells of no such release. The
    /// row tells of a release until the second acquisition after it.
    pub fn release_of(&self, me: &Identity, token: FencingToken) -> Option<StepDownReason> {
        let free = self.released.as_ref().map(|released| (&released.by, self.token, released.reason));
        let followed = self.last_release.as_ref().map(|last| (&last.by, last.token, last.reason));
        let mut releases = [free, followed].into_iter().flatten();
        releases.find(|(by, under, _)| *by == me && *under == token).map(|(.., reason)| reason)
    }

    /// Is `me` the owner, name and stack?
    pub fn is_owned_by(&self, me: &Identity) -> bool {
        self.owner.as_ref() == Some(me)
    }
}

/// The tuple that a live holder keeps changing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// The holder.
    pub owner: Identity,
    /// Its token.
    pub token: FencingToken,
    /// Its renewals.
    pub renewal: u64,
    /// Where the holder bears my own name under another stack: the generation of that stack's instance record, which moves
    /// as long as its loop ticks.
    pub namesake_generation: Option<u64>,
}

/// How long an instance has seen a holder stand still, in its own clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// What was seen.
    pub of: Liveness,
    /// Up to which moment (observer's clock) standing still has been counted.
    pub counted_to: Timestamp,
    /// For how long in all.
    pub unchanged_for: Duration,
}

/// One execution of the tick loop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoopId {
    /// When the execution started, milliseconds since the epoch (Step Functions' clock).
    pub started_at_ms: Timestamp,
    /// The execution's name.
    pub name: String,
}

/// What an instance last told the world about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Standing {
    /// It does not hold the lease.
    Standby,
    /// It holds the lease.
    Holder {
        /// Under this token.
        token: FencingToken,
        /// And is giving it up, for this reason.
        stepping_down: Option<StepDownReason>,
    },
}

/// A transition that one loop is telling the world; confirmed by that loop's next tick, or told again by another loop when
/// the confirmation does not come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reporting {
    /// The standing being told.
    pub standing: Standing,
    /// By which loop.
    pub by: LoopId,
    /// The instance record's generation when it began.
    pub since_generation: u64,
}

/// What an instance remembers between ticks, in `INSTANCE#<name>#<stack>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InstanceRecord {
    /// The group.
    pub lease: LeaseName,
    /// Whose record it is.
    pub identity: Identity,
    /// Against the present holder.
    pub evidence: Option<Evidence>,
    /// The two newest loops, newest first.
    pub loops: Vec<LoopId>,
    /// Raised by one at each write; a write is conditioned on the one that was read (0 = no record yet).
    pub generation: u64,
    /// What the world was told, and the telling was confirmed.
    pub reported: Standing,
    /// The highest token under which the world was told that this instance holds the lease; a lease that is taken up again
    /// under it is no transfer.
    pub told_token: Stamp,
    /// What it is being told.
    pub reporting: Option<Reporting>,
    /// The id of the write that made this version.
    pub attempt: AttemptId,
}

/// Everything that one strong read of a group returns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupRecords {
    /// The lease row.
    pub lease: Slot<LeaseRecord>,
    /// The instance rows, in key order; each with the identity that its key states.
    pub instances: Vec<(Identity, Slot<InstanceRecord>)>,
}

/// A write of the lease row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseWrite {
    /// The version that must still stand: its attempt id; `None`: no row.
    pub expected: Option<AttemptId>,
    /// The new version, whole.
    pub record: LeaseRecord,
}

/// A write of the own instance row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InstanceWrite {
    /// The generation that must still stand; 0: no row.
    pub expected_generation: u64,
    /// The new version, whole.
    pub record: InstanceRecord,
}

/// A write of the fence item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FenceRaise {
    /// The group.
    pub lease: LeaseName,
    /// The version that must still stand; `None`: no item.
    pub expected: Option<crate::outbox::Fence>,
    /// The new version.
    pub fence: crate::outbox::Fence,
}
