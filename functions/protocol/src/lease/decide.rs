//! From what was read to what is written.

use super::deadline::{is_mine_until, renew_due_at};
use super::evidence::{Maturity, observe};
use super::{
    AcquiredAs, Command, FenceRaise, GroupRecords, InstanceRecord, LeaseRecord, LeaseWrite, Released, Rules,
    SourceMode, StepDownReason, SteppingDown,
};
use crate::ids::{AttemptId, FencingToken, Identity, Malformed, Stamp};
use crate::outbox::{Damage, Fence, Slot};
use crate::time::{Reading, Timestamp};
use crate::timing::TAKEOVER_LIMIT;

/// What was read, and with which clocks around it.
#[derive(Debug, Clone)]
pub struct Input {
    /// What was asked.
    pub command: Command,
    /// The group, by one strong read.
    pub records: GroupRecords,
    /// The clocks just before that read.
    pub before: Reading,
    /// The clocks just after it.
    pub after: Reading,
    /// The fence item, where [`needs`] asked for it.
    pub fence: Option<Slot<Fence>>,
    /// Whether a row on the first page of any shard is claimed under my token, where [`needs`] asked for it and it could be
    /// read.
    pub in_flight: Option<bool>,
    /// Whether a gated source is switched on, where [`needs`] asked for it and it could be read.
    pub source_enabled: Option<bool>,
    /// A fresh id for this tick's writes.
    pub attempt: AttemptId,
}

impl Input {
    /// The moment of the decision, by whichever clock is further on.
    pub fn now(&self) -> Timestamp {
        self.before.later_of(self.after)
    }

    /// The own instance record, where one can be read.
    pub(super) fn own(&self, me: &Identity) -> Option<&Slot<InstanceRecord>> {
        self.records.instances.iter().find(|(identity, _)| identity == me).map(|(_, slot)| slot)
    }
}

/// What else a decision needs to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The fence item: an acquisition is possible.
    pub fence: bool,
    /// The first page of every shard: a release is possible.
    pub heads: bool,
    /// Whether the gated source is on: a release is possible.
    pub source: bool,
}

/// What a lease write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To become holder.
    Acquire(AcquiredAs),
    /// To stay holder.
    Renew,
    /// To announce a step-down.
    Mark,
    /// To give the lease up.
    Release(StepDownReason),
    /// To end an abstention, or to take a mark back.
    Resume,
    /// To note that a takeover ended.
    NoteTakeover,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Raise the fence first; where that is refused or fails, nothing else is written.
    pub fence: Option<FenceRaise>,
    /// Then write the lease row.
    pub write: Option<(Purpose, LeaseWrite)>,
    /// The evidence against another holder, counted up to this look.
    pub maturity: Option<Maturity>,
    /// Why this instance may not take a released lease yet.
    pub abstaining: bool,
    /// What was damaged and therefore left alone.
    pub refused: Option<Damage>,
}

/// Says what else must be read before [`decide`].
pub fn needs(rules: &Rules, input: &Input) -> Needs {
    let now = input.now();
    let release_possible = |record: &LeaseRecord| match input.command {
        Command::Tick(_) => record.stepping_down.is_some(),
        Command::StepDown(_) => true,
        Command::Resume | Command::TakeoverFinished { .. } => false,
    };
    match &input.records.lease {
        Slot::Present(record) if is_mine_until(rules, record, now).is_some() => Needs {
            fence: false,
            heads: release_possible(record),
            source: release_possible(record) && rules.source == SourceMode::Gated,
        },
        Slot::Damaged(_) => Needs::default(),
        // Whether the fence is used is [`decide`]'s business; one read too many in a failover costs nothing.
        Slot::Absent | Slot::Present(_) => Needs { fence: wants_lease(rules, input), heads: false, source: false },
    }
}

/// May this tick acquire?
fn wants_lease(rules: &Rules, input: &Input) -> bool {
    if !matches!(input.command, Command::Tick(_)) {
        return false;
    }
    match &input.records.lease {
        Slot::Damaged(_) => false,
        Slot::Absent => true,
        Slot::Present(record) => match &record.owner {
            None => !abstains(rules, record, input.now()),
            Some(owner) if *owner == rules.me => {
                is_mine_until(rules, record, input.now()).is_none() && record.stepping_down.is_none()
            }
            Some(owner) => look(rules, input, record, owner).mature,
        },
    }
}

/// Decides what to write.
pub fn decide(rules: &Rules, input: &Input) -> Decision {
    let record = match &input.records.lease {
        Slot::Damaged(damage) => return Decision { refused: Some(damage.clone()), ..Decision::default() },
        Slot::Absent => None,
        Slot::Present(record) => Some(record),
    };
    match &input.command {
        Command::Tick(_) => tick(rules, input, record),
        Command::StepDown(reason) => written(record.and_then(|record| step_down(rules, input, record, *reason))),
        Command::Resume => written(record.and_then(|record| resume(rules, input, record))),
        Command::TakeoverFinished { token, try_number, succeeded } => {
            written(record.and_then(|record| note_takeover(rules, input, record, *token, *try_number, *succeeded)))
        }
    }
}

fn written(write: Option<(Purpose, LeaseWrite)>) -> Decision {
    Decision { write, ..Decision::default() }
}

fn tick(rules: &Rules, input: &Input, record: Option<&LeaseRecord>) -> Decision {
    let now = input.now();
    let Some(record) = record else {
        return acquire(rules, input, None, AcquiredAs::Acquired);
    };
    match &record.owner {
        None if abstains(rules, record, now) => Decision { abstaining: true, ..Decision::default() },
        None => acquire(rules, input, Some(record), AcquiredAs::Acquired),
        Some(owner) if *owner == rules.me => match is_mine_until(rules, record, now) {
            Some(_) => written(hold(rules, input, record)),
            // Past the deadline the row is still mine: nobody is waited for, but a step-down is finished, not undone.
            None => match &record.stepping_down {
                Some(mark) => written(Some(release(rules, input, record, mark.reason))),
                None => acquire(rules, input, Some(record), AcquiredAs::Reclaimed),
            },
        },
        Some(owner) => {
            let maturity = look(rules, input, record, owner);
            let decision = if maturity.mature {
                acquire(rules, input, Some(record), AcquiredAs::Seized)
            } else {
                Decision::default()
            };
            Decision { maturity: Some(maturity), ..decision }
        }
    }
}

fn look(rules: &Rules, input: &Input, record: &LeaseRecord, owner: &Identity) -> Maturity {
    let previous = input.own(&rules.me).and_then(Slot::present).and_then(|own| own.evidence.as_ref());
    observe(rules, &input.records, record, owner, previous, input.before, input.after)
}

/// Does this instance abstain from a lease that it released itself? A release that lies ahead of the clock by more than the
/// margin comes from before a step back and is not waited for.
fn abstains(rules: &Rules, record: &LeaseRecord, now: Timestamp) -> bool {
    record.released.as_ref().is_some_and(|released| {
        released.by == rules.me
            && released.at <= now.plus(rules.timing.clock_margin)
            && now < released.at.plus(rules.timing.lease_ttl)
    })
}

/// The holder before its deadline: finish a step-down, renew, or raise the try of a takeover that nobody finished.
fn hold(rules: &Rules, input: &Input, record: &LeaseRecord) -> Option<(Purpose, LeaseWrite)> {
    let now = input.now();
    if let Some(mark) = &record.stepping_down
        && may_release(rules, input, mark, now)
    {
        return Some(release(rules, input, record, mark.reason));
    }
    let due = renew_due_at(rules, record) <= now.plus(rules.timing.tick_interval);
    let ttl_changed = record.lease_ttl != rules.timing.lease_ttl;
    let try_overdue = takeover_is_overdue(record, now);
    if !(due || ttl_changed || try_overdue) {
        return None;
    }
    let mut next = renewed(rules, input, record);
    if try_overdue {
        next_try(&mut next, now);
    }
    Some((Purpose::Renew, over(record, next)))
}

/// A release needs an idle outbox and a disconnected source, or the end of the grace.
fn may_release(rules: &Rules, input: &Input, mark: &SteppingDown, now: Timestamp) -> bool {
    let source_off = rules.source == SourceMode::Open || input.source_enabled == Some(false);
    let idle = input.in_flight == Some(false);
    // A mark ahead of the clock comes from before a step back; without this the grace would last as long as the step.
    let clock_was_set_back = mark.since > now.plus(rules.timing.clock_margin);
    (idle && source_off) || now >= mark.since.plus(rules.timing.step_down_grace) || clock_was_set_back
}

/// Has the workflow of this token's takeover had its pause and all its time, and still not reported?
fn takeover_is_overdue(record: &LeaseRecord, now: Timestamp) -> bool {
    record.takeover_done.is_below(record.token)
        && record.stepping_down.is_none()
        && now >= record.takeover_try_at.plus(takeover_pause(record.takeover_try)).plus(TAKEOVER_LIMIT)
}

/// Try n starts n minutes after try n − 1 ended, 15 minutes at most.
pub(super) fn takeover_pause(try_number: u32) -> std::time::Duration {
    std::time::Duration::from_secs(60) * try_number.min(15)
}

fn next_try(record: &mut LeaseRecord, now: Timestamp) {
    record.takeover_try = record.takeover_try.saturating_add(1);
    record.takeover_try_at = now;
}

/// The row one renewal on: confirmed by the clock from before the write.
fn renewed(rules: &Rules, input: &Input, record: &LeaseRecord) -> LeaseRecord {
    LeaseRecord {
        renewal: record.renewal.saturating_add(1),
        lease_ttl: rules.timing.lease_ttl,
        confirmed_at: input.after.wall,
        attempt: input.attempt.clone(),
        ..record.clone()
    }
}

fn release(rules: &Rules, input: &Input, record: &LeaseRecord, reason: StepDownReason) -> (Purpose, LeaseWrite) {
    let released = Released { by: rules.me.clone(), at: input.after.wall, reason };
    let next = LeaseRecord {
        owner: None,
        stepping_down: None,
        released: Some(released),
        attempt: input.attempt.clone(),
        ..record.clone()
    };
    (Purpose::Release(reason), over(record, next))
}

fn over(read: &LeaseRecord, record: LeaseRecord) -> LeaseWrite {
    LeaseWrite { expected: Some(read.attempt.clone()), record }
}

/// Takes the lease under a token above everything that was ever issued: the row's and the fence's.
fn acquire(rules: &Rules, input: &Input, record: Option<&LeaseRecord>, how: AcquiredAs) -> Decision {
    let fence = match &input.fence {
        Some(Slot::Present(fence)) => Some(fence.clone()),
        Some(Slot::Absent) => None,
        Some(Slot::Damaged(damage)) => return Decision { refused: Some(damage.clone()), ..Decision::default() },
        // The fence could not be read: no token can be proven to be new.
        None => return Decision::default(),
    };
    let highest = record.map(|record| record.token).max(fence.as_ref().map(|fence| fence.highest));
    let token = match highest.map_or(Ok(FencingToken::FIRST), FencingToken::next) {
        Ok(token) => token,
        Err(malformed) => return Decision { refused: Some(exhausted(rules, malformed)), ..Decision::default() },
    };
    let next = LeaseRecord {
        lease: rules.lease.clone(),
        owner: Some(rules.me.clone()),
        token,
        renewal: 0,
        lease_ttl: rules.timing.lease_ttl,
        confirmed_at: input.after.wall,
        acquired_as: how,
        stepping_down: None,
        released: None,
        takeover_done: record.map_or(Stamp::NONE, |record| record.takeover_done),
        takeover_try: 0,
        takeover_try_at: input.after.wall,
        attempt: input.attempt.clone(),
    };
    Decision {
        fence: Some(FenceRaise {
            lease: rules.lease.clone(),
            expected: fence,
            fence: Fence { highest: token, attempt: input.attempt.clone() },
        }),
        write: Some((
            Purpose::Acquire(how),
            LeaseWrite { expected: record.map(|record| record.attempt.clone()), record: next },
        )),
        ..Decision::default()
    }
}

fn exhausted(rules: &Rules, malformed: Malformed) -> Damage {
    Damage { record: format!("lease {} or its fence", rules.lease), malformed, newer_schema: false }
}

fn step_down(
    rules: &Rules,
    input: &Input,
    record: &LeaseRecord,
    reason: StepDownReason,
) -> Option<(Purpose, LeaseWrite)> {
    if !record.is_owned_by(&rules.me) {
        return None;
    }
    let now = input.now();
    if is_mine_until(rules, record, now).is_none() {
        return Some(release(rules, input, record, reason));
    }
    let since = input.after.wall;
    let mark = record.stepping_down.unwrap_or(SteppingDown { since, reason });
    if may_release(rules, input, &mark, now) {
        return Some(release(rules, input, record, mark.reason));
    }
    if record.stepping_down.is_some() {
        return None;
    }
    let next = LeaseRecord { stepping_down: Some(mark), ..renewed(rules, input, record) };
    Some((Purpose::Mark, over(record, next)))
}

fn resume(rules: &Rules, input: &Input, record: &LeaseRecord) -> Option<(Purpose, LeaseWrite)> {
    let now = input.now();
    if record.stepping_down.is_some() && is_mine_until(rules, record, now).is_some() {
        let next = LeaseRecord { stepping_down: None, ..renewed(rules, input, record) };
        return Some((Purpose::Resume, over(record, next)));
    }
    if !abstains(rules, record, now) {
        return None;
    }
    // The releaser stays named; only its abstention ends, by a release that lies a whole epoch back.
    let released = record.released.clone().map(|released| Released { at: Timestamp::default(), ..released });
    let next = LeaseRecord { released, attempt: input.attempt.clone(), ..record.clone() };
    Some((Purpose::Resume, over(record, next)))
}

fn note_takeover(
    rules: &Rules,
    input: &Input,
    record: &LeaseRecord,
    token: FencingToken,
    try_number: u32,
    succeeded: bool,
) -> Option<(Purpose, LeaseWrite)> {
    let current = record.is_owned_by(&rules.me) && record.token == token && record.takeover_done.is_below(token);
    if !current || (!succeeded && try_number != record.takeover_try) {
        return None;
    }
    let mut next = LeaseRecord { attempt: input.attempt.clone(), ..record.clone() };
    if succeeded {
        next.takeover_done = token.into();
    } else {
        next_try(&mut next, input.after.wall);
    }
    Some((Purpose::NoteTakeover, over(record, next)))
}
