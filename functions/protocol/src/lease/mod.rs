//! The lease: one tick of one instance, decided.
//!
//! A tick is a conversation of pure functions with a thin handler. The handler reads, asks [`needs`] what else must be read,
//! asks [`decide`] what to write, carries that out, asks [`must_verify`] whether a failed renewal needs one more read, and
//! asks [`conclude`] what the instance now is and what the world must be told.
//!
//! Guarantees
//! - At most one lease write a tick, always conditioned on the `attempt` that was read, so no two writers overwrite each
//!   other; an acquisition raises the fence first, so tokens only grow even when the lease table is lost (P4).
//! - No comparison of two instances' clocks: a holder reads only its own `confirmed_at`, an observer only counts how long it
//!   saw the row stand still (P5).
//! - A holder stops believing in itself no later than its own deadline, whatever the store says or fails to say.
//! - What cannot be read or does not decode takes away (demotion) and never gives (acquisition, claim of being the holder).
//!
//! What must stay out: I/O, clocks, random numbers; the rows of messages ([`crate::drain`]).

mod conclude;
mod deadline;
mod decide;
mod evidence;
mod record;
mod report;

pub use conclude::{Conclusion, LeaseOutcome, TakeoverDue, Verified, conclude, must_verify, unreadable};
pub(crate) use deadline::{deadline, was_set_back};
pub use deadline::{is_mine_until, renew_due_at};
pub use decide::{Decision, Input, Needs, Purpose, decide, needs};
pub use evidence::{Maturity, observe};
pub use record::*;
pub use report::{Carried, Holding, LostReason, Role, Transition, TransitionKind};

use serde::{Deserialize, Serialize};

use crate::ids::{FencingToken, Identity, LeaseName};
use crate::timing::Timing;

/// Does the topic rule listen all the time, or only while its instance leads?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceMode {
    /// The rule stays enabled in every region; a standby's ingest writes rows for the holder to drain. Nothing that is
    /// published during a failover is lost.
    #[default]
    Open,
    /// The rule is enabled only while leading, for fleets that publish to every region. A disabled rule keeps nothing.
    Gated,
}

/// What does not change from tick to tick.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The group.
    pub lease: LeaseName,
    /// Who I am.
    pub me: Identity,
    /// Checked durations.
    pub timing: Timing,
    /// How the source is switched.
    pub source: SourceMode,
}

/// What a lease function can be asked to do with the lease row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// One step of the loop.
    Tick {
        /// Which loop.
        me_loop: LoopId,
        /// Has everything that earlier ticks of this loop put out reached the event bus? What has not is not confirmed.
        delivered: bool,
    },
    /// Give the lease up in a planned way.
    StepDown(StepDownReason),
    /// End the abstention after a step-down, or take an unfinished step-down back.
    Resume,
    /// The takeover workflow of `token` ended.
    TakeoverFinished {
        /// Whose takeover.
        token: FencingToken,
        /// Which try of it.
        try_number: u32,
        /// Did it drain what it had to?
        succeeded: bool,
    },
}

#[cfg(test)]
mod tests;
