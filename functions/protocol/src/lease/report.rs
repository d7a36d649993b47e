//! What the world is told: roles, transitions, and the memory of what was told.
//!
//! Transitions are derived from the difference between what an instance is and what the world was last told, never from
//! "I just wrote". So an acquisition whose reply was lost is told by the next tick. A telling is confirmed by the next tick of
//! the loop that told it; where that confirmation does not come, another loop tells it again: at least once, never lost.
//!
//! A planned release is told as one although its successor may be quicker than the releaser's next tick: the row keeps it through
//! the acquisition that follows and that successor's own release ([`LeaseRecord::release_of`]); where the releaser's next tick
//! is itself the second acquisition, what it read still tells. Two acquisitions by others before that tick hide it: then it is
//! `Lost`.

use serde::{Deserialize, Serialize};

use super::{AcquiredAs, InstanceRecord, LeaseRecord, LoopId, Reporting, Standing, StepDownReason};
use crate::ids::{FencingToken, Identity, Stamp};
use crate::outbox::Slot;
use crate::time::Timestamp;

/// After how many generations of the instance record an unconfirmed telling is told again by another loop. Two loops tick
/// at a time, so a living loop confirms within two or three.
const TELLING_GENERATIONS: u64 = 4;

/// What an instance is, after a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Holds the lease, before its deadline.
    Leader,
    /// Holds it, and is giving it up.
    SteppingDown,
    /// Does not hold it and would take it.
    Standby,
    /// Does not hold it and may not take it yet: it released it itself, or a namesake is alive.
    Abstaining,
    /// The lease row or the fence does not decode: holds nothing, overwrites nothing.
    Refused,
    /// The store could not be read: nothing is claimed, what was held may still be.
    Unknown,
}

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// Released because the stack is being deleted.
    Shutdown,
    /// Released because an operator or a deployment asked.
    StepDown,
    /// Another instance holds it.
    Superseded,
    /// The own deadline passed.
    Deadline,
    /// Renewals failed and the store could not confirm the holder.
    StoreUnreadable,
    /// The row does not decode.
    InvalidRecord,
}

impl From<StepDownReason> for LostReason {
    fn from(reason: StepDownReason) -> Self {
        match reason {
            StepDownReason::StepDown => LostReason::StepDown,
            StepDownReason::Shutdown => LostReason::Shutdown,
        }
    }
}

/// What happened to the lease, as far as this instance is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransitionKind {
    /// Taken while nobody held it.
    Acquired,
    /// Taken from a holder that stood still.
    Seized,
    /// Taken anew by its own holder.
    Reclaimed,
    /// Given up as planned.
    Released,
    /// Lost in any other way.
    Lost,
    /// A step-down was asked for.
    StepDownRequested,
    /// The lease is held by another stack under my own name.
    DuplicateInstance,
}

impl TransitionKind {
    /// The event's `detail-type` on the bus.
    pub const fn event_name(self) -> &'static str {
        match self {
            TransitionKind::Acquired => "Lease Acquired",
            TransitionKind::Seized => "Lease Seized",
            TransitionKind::Reclaimed => "Lease Reclaimed",
            TransitionKind::Released => "Lease Released",
            TransitionKind::Lost => "Lease Lost",
            TransitionKind::StepDownRequested => "Step Down Requested",
            TransitionKind::DuplicateInstance => "Duplicate Instance",
        }
    }
}

impl From<AcquiredAs> for TransitionKind {
    fn from(how: AcquiredAs) -> Self {
        match how {
            AcquiredAs::Acquired => TransitionKind::Acquired,
            AcquiredAs::Seized => TransitionKind::Seized,
            AcquiredAs::Reclaimed => TransitionKind::Reclaimed,
        }
    }
}

/// One transition to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transition {
    /// What happened.
    pub kind: TransitionKind,
    /// Under which token.
    pub token: FencingToken,
    /// Why, where a lease was given up or lost.
    pub reason: Option<LostReason>,
}

/// What a loop remembers of its hold on the lease, for ticks that cannot read the store. It only ever takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holding {
    /// The token held.
    pub token: FencingToken,
    /// The last confirmation, on this instance's clock.
    pub confirmed_at: Timestamp,
    /// The TTL that the row stated then: others may go by it, whatever this instance's own has become. A loop that began
    /// under a version which did not carry it ticks on: 0 only takes the hold away at a tick that cannot read.
    #[serde(default)]
    pub row_ttl_ms: u64,
}

/// The loop's variable: the output of each tick replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// What is held.
    #[serde(default)]
    pub holding: Option<Holding>,
    /// What this loop told the world in its last tick.
    #[serde(default)]
    pub told: Option<Standing>,
    /// Was it told without a note in the instance record (the store could not be reached)?
    #[serde(default)]
    pub unrecorded: bool,
}

/// The instance record's account of what was told, brought up to this tick.
pub(super) struct Telling {
    /// What the world knows, as far as is confirmed.
    pub(super) reported: Standing,
    /// What is being told.
    pub(super) reporting: Option<Reporting>,
    /// What this tick tells.
    pub(super) transitions: Vec<Transition>,
}

/// The loop that ticks.
pub(super) struct ThisLoop<'a> {
    pub(super) me_loop: &'a LoopId,
    pub(super) carried: &'a Carried,
    /// Everything that this loop was told to tell has reached the bus.
    pub(super) delivered: bool,
}

/// Works out what this tick has to tell, from the instance record, the loop's variable and the present standing.
pub(super) fn tell(
    own: &InstanceRecord,
    this: &ThisLoop<'_>,
    standing: Standing,
    derive: impl Fn(Standing, Standing) -> Vec<Transition>,
) -> Telling {
    let generation = own.generation.saturating_add(1);
    let (mut reported, mut reporting) = (own.reported, own.reporting.clone());
    if let Some(told) = this.carried.told.filter(|_| this.delivered) {
        if reporting.as_ref().is_some_and(|telling| telling.standing == told) {
            (reported, reporting) = (told, None);
        } else if this.carried.unrecorded {
            reported = told;
        }
    }
    // In somebody's hands: another loop's that should live, or this one's events still wait for the bus.
    let in_hand = reporting.filter(|telling| {
        let fresh = generation.saturating_sub(telling.since_generation) < TELLING_GENERATIONS;
        if telling.by == *this.me_loop { !this.delivered } else { fresh }
    });
    let from = in_hand.as_ref().map_or(reported, |telling| telling.standing);
    let transitions = derive(from, standing);
    if transitions.is_empty() {
        return match in_hand {
            Some(telling) => Telling { reported, reporting: Some(telling), transitions },
            None => Telling { reported: standing, reporting: None, transitions },
        };
    }
    let telling = Reporting { standing, by: this.me_loop.clone(), since_generation: generation };
    Telling { reported: from, reporting: Some(telling), transitions }
}

/// The lease row around a tick's own write.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// As it was read. An acquisition by this very tick overwrites what it told of the release before the last.
    pub(super) read: &'a Slot<LeaseRecord>,
    /// As it stands, as far as is known.
    pub(super) stands: &'a Slot<LeaseRecord>,
}

/// The transitions that lead from what was told to what is.
///
/// `told_token` is the highest token already told as held; `rows` are the lease row as it was read and as it stands; `lost` is
/// why this instance is no holder, where a failed call or a damaged row made it so.
pub(super) fn transitions(
    me: &Identity,
    told_token: Stamp,
    from: Standing,
    to: Standing,
    rows: Rows<'_>,
    lost: Option<LostReason>,
) -> Vec<Transition> {
    match (from, to) {
        (Standing::Standby, Standing::Standby) => Vec::new(),
        (Standing::Standby, Standing::Holder { token, stepping_down }) => {
            gained(told_token, rows.stands, token, stepping_down)
        }
        (Standing::Holder { token: old, stepping_down: was }, Standing::Holder { token, stepping_down })
            if token != old =>
        {
            let mut all = given_up(me, old, was, rows, lost.unwrap_or(LostReason::Deadline));
            all.extend(gained(told_token, rows.stands, token, stepping_down));
            all
        }
        (Standing::Holder { stepping_down: was, .. }, Standing::Holder { token, stepping_down }) => {
            requested(token, was, stepping_down).into_iter().collect()
        }
        (Standing::Holder { token, stepping_down }, Standing::Standby) => {
            given_up(me, token, stepping_down, rows, lost.unwrap_or(LostReason::Superseded))
        }
    }
}

fn gained(
    told_token: Stamp,
    record: &Slot<LeaseRecord>,
    token: FencingToken,
    stepping_down: Option<StepDownReason>,
) -> Vec<Transition> {
    // Told before: a holder that had demoted itself takes up what it still holds.
    let kind = if told_token.is_below(token) {
        record.present().map_or(TransitionKind::Acquired, |record| record.acquired_as.into())
    } else {
        TransitionKind::Reclaimed
    };
    let mut all = vec![Transition { kind, token, reason: None }];
    all.extend(requested(token, None, stepping_down));
    all
}

fn requested(token: FencingToken, was: Option<StepDownReason>, is: Option<StepDownReason>) -> Option<Transition> {
    match (was, is) {
        (None, Some(reason)) => {
            Some(Transition { kind: TransitionKind::StepDownRequested, token, reason: Some(reason.into()) })
        }
        _ => None,
    }
}

/// A planned release is told as one, also where a successor has acquired the lease meanwhile; anything else as `lost`.
fn given_up(
    me: &Identity,
    token: FencingToken,
    was_stepping_down: Option<StepDownReason>,
    rows: Rows<'_>,
    lost: LostReason,
) -> Vec<Transition> {
    let mut rows = [rows.stands, rows.read].into_iter().filter_map(Slot::present);
    match rows.find_map(|record| record.release_of(me, token)) {
        Some(reason) => {
            let mut all: Vec<_> = requested(token, was_stepping_down, Some(reason)).into_iter().collect();
            all.push(Transition { kind: TransitionKind::Released, token, reason: Some(reason.into()) });
            all
        }
        None => vec![Transition { kind: TransitionKind::Lost, token, reason: Some(lost) }],
    }
}
