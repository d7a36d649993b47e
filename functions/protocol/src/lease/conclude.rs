//! From what became of the writes to what this instance now is, and what it says.

use std::time::Duration;

use super::deadline::{deadline, failures, is_mine_until, was_set_back};
use super::decide::{abstains, takeover_pause};
use super::report::{
    Carried, Holding, LostReason, Role, Rows, Telling, ThisLoop, Transition, TransitionKind, tell, transitions,
};
use super::{
    Command, Decision, Input, InstanceRecord, InstanceWrite, LeaseRecord, LoopId, Purpose, Rules, SourceMode, Standing,
};
use crate::failure::FailureKind;
use crate::ids::{FencingToken, Stamp};
use crate::outbox::{Damage, Slot};
use crate::time::{Timestamp, duration_ms};
use crate::timing::RenewFailurePolicy;

/// What became of a decision's writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeaseOutcome {
    /// There was nothing to write.
    NothingToWrite,
    /// The lease row was written.
    Written,
    /// Another version stood there; this is it.
    Refused(Slot<LeaseRecord>),
    /// The lease write failed, or its reply did not come.
    Failed(FailureKind),
    /// Another instance raised the fence first; the lease row was not tried.
    FenceRefused,
    /// The fence write failed; the lease row was not tried.
    FenceFailed(FailureKind),
}

/// The one strong read that a failed renewal may ask for.
pub type Verified = Result<Slot<LeaseRecord>, FailureKind>;

/// A takeover that should be running.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TakeoverDue {
    /// Of which token.
    pub token: FencingToken,
    /// Which try.
    pub try_number: u32,
    /// The workflow execution's name, `lease-token-try`: the same for every tick that says it, so it starts once.
    pub execution_name: String,
}

/// What a tick found and decided, whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Conclusion {
    /// What the instance is.
    pub role: Role,
    /// The same, as the world is told it.
    pub standing: Standing,
    /// Until when it may believe in it, where it is a holder.
    pub deadline: Option<Timestamp>,
    /// The lease row as it stands, as far as is known.
    pub record: Slot<LeaseRecord>,
    /// What must be told now. Dropped when the instance record could not be written: a later tick tells it.
    pub transitions: Vec<Transition>,
    /// The instance record to write; `None` where it is damaged or the store cannot be read.
    pub instance_write: Option<InstanceWrite>,
    /// The loop's variable for the next tick.
    pub carried: Carried,
    /// The takeover that should be running.
    pub takeover: Option<TakeoverDue>,
    /// What a gated source should be switched to now.
    pub source: Option<bool>,
    /// Two newer loops are ticking: this one ends.
    pub end: bool,
    /// Does anybody hold the lease, as far as this instance can tell?
    pub group_has_holder: bool,
    /// Did the own renewal fail?
    pub renewal_failed: bool,
    /// What was damaged and left alone.
    pub refused: Option<Damage>,
}

impl Conclusion {
    /// Takes note that evidence cannot be kept: whether another holder lives cannot be told, and nobody may be put at ease.
    pub fn evidence_lost(&mut self) {
        self.group_has_holder &= matches!(self.standing, Standing::Holder { .. });
    }

    /// Takes note that the instance record was not (certainly) written: its evidence and its telling are void, and what is
    /// still to be told is told by a later tick.
    pub fn instance_write_lost(&mut self) {
        self.transitions.clear();
        self.carried.told = None;
        self.carried.unrecorded = false;
        self.end = false;
    }
}

/// Must the lease row be read once more, strongly, before [`conclude`]? Only where this tick's own renewal failed, for the
/// `max_renew_fails`-th time or later, under the policy `verify`.
pub fn must_verify(rules: &Rules, decision: &Decision, input: &Input, outcome: &LeaseOutcome, now: Timestamp) -> bool {
    rules.timing.renew_failure_policy == RenewFailurePolicy::Verify
        && renewals_ran_out(rules, decision, input, outcome, now)
}

fn renewal_failed(decision: &Decision, outcome: &LeaseOutcome) -> bool {
    matches!((&decision.write, outcome), (Some((Purpose::Renew, _)), LeaseOutcome::Failed(_)))
}

fn renewals_ran_out(rules: &Rules, decision: &Decision, input: &Input, outcome: &LeaseOutcome, now: Timestamp) -> bool {
    renewal_failed(decision, outcome)
        && input
            .records
            .lease
            .present()
            .is_some_and(|record| failures(rules, record.confirmed_at, now) >= rules.timing.max_renew_fails)
}

/// Concludes a tick (or another command) whose read succeeded. `now` is the later of the clocks after the last call.
pub fn conclude(
    rules: &Rules,
    input: &Input,
    carried: &Carried,
    decision: &Decision,
    outcome: &LeaseOutcome,
    verified: Option<&Verified>,
    now: Timestamp,
) -> Conclusion {
    let demoted = match verified {
        Some(Err(_)) => true,
        Some(Ok(_)) => false,
        None => renewals_ran_out(rules, decision, input, outcome, now),
    };
    let record = standing_record(input, decision, outcome, verified);
    let found = Found::judge(rules, &record, decision, demoted, now);
    let mut conclusion = Conclusion {
        role: found.role,
        standing: found.standing,
        deadline: found.deadline,
        transitions: Vec::new(),
        instance_write: None,
        carried: Carried { holding: found.holding, told: None, unrecorded: false },
        takeover: takeover_due(rules, &record, found.standing, now),
        source: None,
        end: false,
        group_has_holder: group_has_holder(decision, &record, &found),
        renewal_failed: renewal_failed(decision, outcome),
        refused: decision.refused.clone().or_else(|| damage_of(&record)),
        record,
    };
    if let Command::Tick { me_loop, delivered } = &input.command {
        let this = ThisLoop { me_loop, carried, delivered: *delivered };
        conclude_loop(rules, input, &this, decision, outcome, &found, now, &mut conclusion);
    }
    conclusion
}

/// The lease row as it stands after the writes.
fn standing_record(
    input: &Input,
    decision: &Decision,
    outcome: &LeaseOutcome,
    verified: Option<&Verified>,
) -> Slot<LeaseRecord> {
    if let Some(Ok(slot)) = verified {
        return slot.clone();
    }
    match (outcome, &decision.write) {
        (LeaseOutcome::Written, Some((_, write))) => Slot::Present(write.record.clone()),
        (LeaseOutcome::Refused(slot), _) => slot.clone(),
        _ => input.records.lease.clone(),
    }
}

fn damage_of(record: &Slot<LeaseRecord>) -> Option<Damage> {
    match record {
        Slot::Damaged(damage) => Some(damage.clone()),
        Slot::Absent | Slot::Present(_) => None,
    }
}

/// What the lease row says about this instance.
struct Found {
    role: Role,
    standing: Standing,
    deadline: Option<Timestamp>,
    holding: Option<Holding>,
    lost: Option<LostReason>,
    duplicate: bool,
}

impl Found {
    fn judge(rules: &Rules, slot: &Slot<LeaseRecord>, decision: &Decision, demoted: bool, now: Timestamp) -> Self {
        let record = match slot {
            Slot::Damaged(_) => return Self::none(Role::Refused, Some(LostReason::InvalidRecord)),
            Slot::Absent if decision.refused.is_some() => return Self::none(Role::Refused, None),
            Slot::Absent => return Self::none(Role::Standby, None),
            Slot::Present(record) => record,
        };
        if record.is_owned_by(&rules.me) {
            return Self::owner(rules, record, demoted, now);
        }
        let duplicate = record.owner.as_ref().is_some_and(|owner| owner.name == rules.me.name);
        let role = if decision.refused.is_some() {
            Role::Refused
        } else if duplicate || (record.owner.is_none() && abstains(rules, record, now)) {
            Role::Abstaining
        } else {
            Role::Standby
        };
        Self { duplicate, ..Self::none(role, None) }
    }

    fn owner(rules: &Rules, record: &LeaseRecord, demoted: bool, now: Timestamp) -> Self {
        let Some(deadline) = is_mine_until(rules, record, now) else {
            return Self::none(Role::Standby, Some(LostReason::Deadline));
        };
        if demoted {
            return Self::none(Role::Standby, Some(LostReason::StoreUnreadable));
        }
        let stepping_down = record.stepping_down.as_ref().map(|mark| mark.reason);
        Self {
            role: if stepping_down.is_some() { Role::SteppingDown } else { Role::Leader },
            standing: Standing::Holder { token: record.token, stepping_down },
            deadline: Some(deadline),
            holding: Some(Holding {
                token: record.token,
                confirmed_at: record.confirmed_at,
                // The smaller: this tick may have written its own, and not have been told.
                row_ttl_ms: duration_ms(record.lease_ttl.min(rules.timing.lease_ttl)),
            }),
            lost: None,
            duplicate: false,
        }
    }

    fn none(role: Role, lost: Option<LostReason>) -> Self {
        Self { role, standing: Standing::Standby, deadline: None, holding: None, lost, duplicate: false }
    }
}

/// A standby may say that somebody holds the lease as long as it has not seen that holder stand still for a whole TTL.
fn group_has_holder(decision: &Decision, record: &Slot<LeaseRecord>, found: &Found) -> bool {
    if matches!(found.standing, Standing::Holder { .. }) {
        return true;
    }
    let owned_by_another = record.present().is_some_and(|record| record.owner.is_some()) && found.lost.is_none();
    owned_by_another && decision.maturity.as_ref().is_none_or(|maturity| !maturity.mature)
}

fn takeover_due(rules: &Rules, record: &Slot<LeaseRecord>, standing: Standing, now: Timestamp) -> Option<TakeoverDue> {
    let Standing::Holder { token, stepping_down: None } = standing else { return None };
    let record = record.present()?;
    let due =
        record.takeover_done.is_below(token) && now >= record.takeover_try_at.plus(takeover_pause(record.takeover_try));
    due.then(|| TakeoverDue {
        token,
        try_number: record.takeover_try,
        execution_name: format!("{}-{}-{}", rules.lease, token, record.takeover_try),
    })
}

/// What concerns the loop alone: the instance record, the telling, the source, the end.
#[expect(clippy::too_many_arguments, reason = "one call site; a struct would only rename the arguments")]
fn conclude_loop(
    rules: &Rules,
    input: &Input,
    this: &ThisLoop<'_>,
    decision: &Decision,
    outcome: &LeaseOutcome,
    found: &Found,
    now: Timestamp,
    conclusion: &mut Conclusion,
) {
    let own = match input.own(&rules.me) {
        Some(Slot::Damaged(damage)) => {
            // Without a memory nothing can be counted or told; a holder goes on by its lease row.
            conclusion.refused = conclusion.refused.take().or_else(|| Some(damage.clone()));
            conclusion.evidence_lost();
            conclusion.source = source_wanted(rules, found.standing, false, now);
            return;
        }
        Some(Slot::Present(own)) => own.clone(),
        Some(Slot::Absent) | None => InstanceRecord {
            lease: rules.lease.clone(),
            identity: rules.me.clone(),
            evidence: None,
            loops: Vec::new(),
            generation: 0,
            reported: Standing::Standby,
            reporting: None,
            told_token: Stamp::NONE,
            attempt: input.attempt.clone(),
        },
    };
    let rows = Rows { read: &input.records.lease, stands: &conclusion.record };
    let Telling { reported, reporting, mut transitions } =
        tell(&own, this, found.standing, |from, to| transitions(&rules.me, own.told_token, from, to, rows, found.lost));
    conclusion.source = source_wanted(rules, found.standing, !transitions.is_empty(), now);
    conclusion.carried.told = match transitions.is_empty() {
        false => Some(found.standing),
        // Not confirmed yet: it still waits for the bus.
        true => this.carried.told.filter(|_| !this.delivered),
    };
    transitions.extend(duplicate_seen(&own, found, &conclusion.record));
    let gained = *outcome == LeaseOutcome::Written && decision.fence.is_some();
    let evidence = decision.maturity.as_ref().filter(|_| !gained).map(|maturity| maturity.evidence.clone());
    let loops = newest_loops(&own.loops, this.me_loop);
    conclusion.end = !loops.contains(this.me_loop);
    conclusion.transitions = transitions;
    conclusion.instance_write = Some(InstanceWrite {
        expected_generation: own.generation,
        record: InstanceRecord {
            evidence,
            loops,
            generation: own.generation.saturating_add(1),
            reported,
            reporting,
            told_token: own.told_token.max(token_of(reported)),
            attempt: input.attempt.clone(),
            ..own
        },
    });
}

fn token_of(standing: Standing) -> Stamp {
    match standing {
        Standing::Holder { token, .. } => token.into(),
        Standing::Standby => Stamp::NONE,
    }
}

/// The first look at a namesake's lease is told; later looks at the same one are not.
fn duplicate_seen(own: &InstanceRecord, found: &Found, record: &Slot<LeaseRecord>) -> Option<Transition> {
    let record = record.present().filter(|_| found.duplicate)?;
    let known = own.evidence.as_ref().map(|evidence| &evidence.of.owner);
    (known != record.owner.as_ref()).then_some(Transition {
        kind: TransitionKind::DuplicateInstance,
        token: record.token,
        reason: None,
    })
}

/// The two newest loops, newest first.
fn newest_loops(known: &[LoopId], me_loop: &LoopId) -> Vec<LoopId> {
    let mut loops: Vec<LoopId> = known.to_vec();
    if !loops.contains(me_loop) {
        loops.push(me_loop.clone());
    }
    loops.sort_by(|a, b| b.cmp(a));
    loops.truncate(2);
    loops
}

/// A gated source is reconciled at each change and once a minute (the API allows five calls a second).
fn source_wanted(rules: &Rules, standing: Standing, changed: bool, now: Timestamp) -> Option<bool> {
    const MINUTE_MS: u64 = 60_000;
    let previous_tick = now.minus(rules.timing.tick_interval);
    let new_minute = now.as_ms() / MINUTE_MS != previous_tick.as_ms() / MINUTE_MS;
    let wanted = matches!(standing, Standing::Holder { stepping_down: None, .. });
    (rules.source == SourceMode::Gated && (changed || new_minute)).then_some(wanted)
}

/// Concludes a tick that could not read the store: it may demote, never more.
pub fn unreadable(rules: &Rules, carried: &Carried, now: Timestamp) -> Conclusion {
    let lost = carried.holding.and_then(|holding| {
        let row_ttl = Duration::from_millis(holding.row_ttl_ms);
        let late = now >= deadline(&rules.timing, holding.confirmed_at, row_ttl)
            || was_set_back(&rules.timing, holding.confirmed_at, now);
        let ran_out = failures(rules, holding.confirmed_at, now) >= rules.timing.max_renew_fails;
        match (late, ran_out) {
            (true, _) => Some((holding, LostReason::Deadline)),
            (false, true) => Some((holding, LostReason::StoreUnreadable)),
            (false, false) => None,
        }
    });
    let (holding, told, unrecorded) = match lost {
        Some(_) => (None, Some(Standing::Standby), true),
        // An earlier demotion that was told stays to be recorded.
        None if carried.unrecorded => (carried.holding, carried.told, true),
        None => (carried.holding, None, false),
    };
    Conclusion {
        role: Role::Unknown,
        standing: Standing::Standby,
        deadline: None,
        record: Slot::Absent,
        transitions: lost
            .map(|(holding, reason)| Transition {
                kind: TransitionKind::Lost,
                token: holding.token,
                reason: Some(reason),
            })
            .into_iter()
            .collect(),
        instance_write: None,
        carried: Carried { holding, told, unrecorded },
        takeover: None,
        source: source_wanted(rules, Standing::Standby, lost.is_some(), now).filter(|_| holding.is_none()),
        end: false,
        group_has_holder: false,
        renewal_failed: carried.holding.is_some(),
        refused: None,
    }
}
