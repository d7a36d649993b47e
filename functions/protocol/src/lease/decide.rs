//! From what was read to what is written.

use super::deadline::{is_mine_until, renew_due_at};
use super::evidence::{Maturity, observe};
use super::{
    AcquiredAs, Command, FenceRaise, GroupRecords, InstanceRecord, LastRelease, LeaseRecord, LeaseWrite, Released,
    Rules, SourceMode, StepDownReason, SteppingDown,
};
use crate::ids::{AttemptId, FencingToken, Identity, Malformed, Stamp};
use crate::outbox::{Damage, Fence, Slot};
use crate::time::{Reading, Timestamp};
use crate::timing::TAKEOVER_LIMIT;

/// What was read, and with which clocks around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Decision {
    /// Raise the fence first; where that is refused or fails, nothing else is written.
    pub fence: Option<FenceRaise>,
    /// Then write the lease row.
    pub write: Option<(Purpose, LeaseWrite)>,
    /// The evidence against another holder, counted up to this look.
    pub maturity: Option<Maturity>,
    /// What was damaged and therefore left alone.
    pub refused: Option<Damage>,
}

/// Says what else must be read before [`decide`].
pub fn needs(rules: &Rules, input: &Input) -> Needs {
    let record = match &input.records.lease {
        Slot::Damaged(_) => return Needs::default(),
        Slot::Absent => None,
        Slot::Present(record) => Some(record),
    };
    match &input.command {
        Command::Tick { .. } => {
            let stepping_down = record.is_some_and(|record| record.stepping_down.is_some());
            match intent(rules, input, record).0 {
                Intent::Acquire(_) => Needs { fence: true, ..Needs::default() },
                Intent::Hold if stepping_down => Needs::of_release(rules),
                Intent::Hold | Intent::Finish(_) | Intent::Abstain | Intent::Watch => Needs::default(),
            }
        }
        Command::StepDown(_) if record.is_some_and(|record| is_mine_until(rules, record, input.now()).is_some()) => {
            Needs::of_release(rules)
        }
        Command::StepDown(_) | Command::Resume | Command::TakeoverFinished { .. } => Needs::default(),
    }
}

impl Needs {
    fn of_release(rules: &Rules) -> Self {
        Self { fence: false, heads: true, source: rules.source == SourceMode::Gated }
    }
}

/// What a tick is about.
enum Intent {
    /// Take the lease.
    Acquire(AcquiredAs),
    /// Stay holder, before the deadline.
    Hold,
    /// Finish a step-down whose deadline has passed.
    Finish(StepDownReason),
    /// Leave a lease alone that I released myself.
    Abstain,
    /// Count evidence against another holder.
    Watch,
}

/// What a tick that reads `record` is about, and the evidence where another holds the lease.
fn intent(rules: &Rules, input: &Input, record: Option<&LeaseRecord>) -> (Intent, Option<Maturity>) {
    let now = input.now();
    let Some(record) = record else { return (Intent::Acquire(AcquiredAs::Acquired), None) };
    match &record.owner {
        None if abstains(rules, record, now) => (Intent::Abstain, None),
        None => (Intent::Acquire(AcquiredAs::Acquired), None),
        Some(owner) if *owner == rules.me => match (is_mine_until(rules, record, now), &record.stepping_down) {
            (Some(_), _) => (Intent::Hold, None),
            // Past the deadline the row is still mine: nobody is waited for, but a step-down is finished, not undone.
            (None, Some(mark)) => (Intent::Finish(mark.reason), None),
            (None, None) => (Intent::Acquire(AcquiredAs::Reclaimed), None),
        },
        Some(owner) => {
            let maturity = look(rules, input, record, owner);
            let intent = if maturity.mature { Intent::Acquire(AcquiredAs::Seized) } else { Intent::Watch };
            (intent, Some(maturity))
        }
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
        Command::Tick { .. } => tick(rules, input, record),
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
    let (intent, maturity) = intent(rules, input, record);
    let decision = match (intent, record) {
        (Intent::Acquire(how), _) => acquire(rules, input, record, how),
        (Intent::Hold, Some(record)) => written(hold(rules, input, record)),
        (Intent::Finish(reason), Some(record)) => written(Some(release(rules, input, record, reason))),
        (Intent::Hold | Intent::Finish(_) | Intent::Abstain | Intent::Watch, _) => Decision::default(),
    };
    Decision { maturity, ..decision }
}

fn look(rules: &Rules, input: &Input, record: &LeaseRecord, owner: &Identity) -> Maturity {
    let previous = input.own(&rules.me).and_then(Slot::present).and_then(|own| own.evidence.as_ref());
    observe(rules, &input.records, record, owner, previous, input.before, input.after)
}

/// Does this instance abstain from a lease that it released itself? A release that lies ahead of the clock by more than the
/// margin comes from before a step back and is not waited for.
pub(super) fn abstains(rules: &Rules, record: &LeaseRecord, now: Timestamp) -> bool {
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
    (idle && source_off) || now >= mark.since.plus(rules.timing.step_down_grace)
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
        last_release: record.and_then(followed),
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

/// The release that an acquisition over `record` follows.
fn followed(record: &LeaseRecord) -> Option<LastRelease> {
    let released = record.released.as_ref()?;
    Some(LastRelease { by: released.by.clone(), token: record.token, reason: released.reason })
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
