//! What the lease function answers.

use fencepost_protocol::ids::{FencingToken, Identity, Stamp};
use fencepost_protocol::lease::{Carried, Conclusion, Role, Rules, StepDownReason, Transition};
use fencepost_protocol::outbox::Damage;
use fencepost_protocol::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// An event for the bus, source `fencepost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Its detail type, for example `Lease Seized`.
    pub detail_type: &'static str,
    /// Its detail.
    pub detail: Value,
}

impl Event {
    /// The event of a transition of this instance.
    pub(crate) fn of(rules: &Rules, transition: &Transition, at: Timestamp) -> Self {
        let mut detail = json!({
            "lease": rules.lease,
            "instance": rules.me.name,
            "stack": rules.me.stack,
            "token": transition.token,
            "at_ms": at,
        });
        if let Some(reason) = transition.reason {
            detail["reason"] = json!(reason);
        }
        Self { detail_type: transition.kind.event_name(), detail }
    }
}

/// The takeover execution to start; starting one that exists is success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TakeoverStart {
    /// `lease-token-try`.
    pub name: String,
    /// Its input.
    pub input: Value,
}

/// A switch to throw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SourceSwitch {
    /// On or off.
    pub enabled: bool,
}

/// What was damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Which item.
    pub record: String,
    /// Which field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl From<&Damage> for Refused {
    fn from(damage: &Damage) -> Self {
        Self {
            record: damage.record.clone(),
            field: damage.malformed.field.clone(),
            problem: damage.malformed.problem.clone(),
        }
    }
}

/// The answer to a tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TickReply {
    /// What this instance is now.
    pub role: Role,
    /// The token that it holds.
    pub token: Option<FencingToken>,
    /// The loop's variable for the next tick.
    pub carried: Carried,
    /// Events to put on the bus.
    pub events: Vec<Event>,
    /// A takeover that should be running.
    pub takeover: Option<TakeoverStart>,
    /// What a gated source should be switched to.
    pub source: Option<SourceSwitch>,
    /// When to tick next.
    pub wait_seconds: u64,
    /// Two newer loops are ticking: this one ends.
    pub end: bool,
    /// Does anybody hold the lease, as far as this instance can tell?
    pub group_has_holder: bool,
    /// A damaged item that was left alone.
    pub refused: Option<Refused>,
}

impl TickReply {
    pub(crate) fn of(rules: &Rules, conclusion: &Conclusion, now: Timestamp) -> Self {
        use fencepost_protocol::lease::Standing;
        let token = match conclusion.standing {
            Standing::Holder { token, .. } => Some(token),
            Standing::Standby => None,
        };
        let takeover = conclusion.takeover.as_ref().map(|due| TakeoverStart {
            name: due.execution_name.clone(),
            input: json!({ "lease": rules.lease, "token": due.token, "try": due.try_number }),
        });
        Self {
            role: conclusion.role,
            token,
            carried: conclusion.carried,
            events: conclusion.transitions.iter().map(|transition| Event::of(rules, transition, now)).collect(),
            takeover,
            source: conclusion.source.map(|enabled| SourceSwitch { enabled }),
            wait_seconds: rules.timing.tick_interval.as_secs().max(1),
            end: conclusion.end,
            group_has_holder: conclusion.group_has_holder,
            refused: conclusion.refused.as_ref().map(Refused::from),
        }
    }
}

/// How far a step-down is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepDownState {
    /// This instance no longer holds the lease.
    Released,
    /// It was asked for; the tick will finish it.
    Marked,
    /// It had been asked for before.
    AlreadyMarked,
    /// This instance does not hold the lease.
    NotHolder,
}

/// The answer to a step-down or a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepDownReply {
    /// How far it is.
    pub state: StepDownState,
    /// The token that is or was held.
    pub token: Option<FencingToken>,
    /// Who holds the lease now.
    pub holder: Option<Identity>,
    /// The release comes within this time.
    pub handover_bound_seconds: u64,
    /// A successor, where a standby ticks, comes within this time; past it there is none.
    pub successor_bound_seconds: u64,
}

/// The answer to a takeover's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct WriteReply {
    /// What became of it: `written`, `outdated`, `resumed` or `nothing_to_resume`.
    pub state: &'static str,
}

/// The answer to a switch of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct SourceReply {
    /// How it stands now.
    pub enabled: bool,
    /// Was it otherwise before?
    pub changed: bool,
}

/// A step-down in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MarkReply {
    /// Since when, on the holder's clock.
    pub since_ms: Timestamp,
    /// Why.
    pub reason: StepDownReason,
}

/// The lease row, for people and for the step-down workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseReply {
    /// The holder; null when released.
    pub owner: Option<Identity>,
    /// The token of the present or last holder.
    pub token: FencingToken,
    /// Renewals since the acquisition.
    pub renewal: u64,
    /// The last confirmation, on the holder's clock.
    pub confirmed_at_ms: Timestamp,
    /// A step-down in progress.
    pub stepping_down: Option<MarkReply>,
    /// Who released it last.
    pub released_by: Option<Identity>,
    /// The highest token whose takeover was finished.
    pub takeover_done: Stamp,
    /// Which try of the present takeover is due or running.
    pub takeover_try: u32,
}

/// The answer to a status request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatusReply {
    /// The lease row; null where there is none.
    pub lease: Option<LeaseReply>,
    /// Who answers.
    pub me: Identity,
    /// Does the answering instance hold the lease, before its deadline?
    pub leading: bool,
}
