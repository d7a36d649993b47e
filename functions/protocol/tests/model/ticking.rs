//! One tick or command of an instance, as the lease function takes it: read, ask what else is needed, decide, raise the
//! fence, write, conclude, remember. Between the calls anything may happen.

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::FencingToken;
use fencepost_protocol::lease::{
    AcquiredAs, Carried, Command, Conclusion, GroupRecords, Input, LeaseOutcome, LoopId, LostReason, Purpose, Role,
    Standing, StepDownReason, TransitionKind, conclude, decide, must_verify, needs, unreadable,
};
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::{Reading, Timestamp};

use crate::bounds::{Bounds, Fault};
use crate::ends::{End, Reached};
use crate::rules;
use crate::steps::Fate;
use crate::store::{Memory, Write};
use crate::world::World;

/// A tick between its read and its last call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ticking {
    /// Whose.
    pub(crate) who: usize,
    /// By how much its host is ahead of the instance's other one.
    ahead: Duration,
    input: Input,
    carried: Carried,
    /// Was the fence raised?
    raised: bool,
    /// Will its instance record not be written?
    forgets: bool,
}

/// What an instance is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Tick,
    StepDown,
    Resume,
}

/// How a tick looks at the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) who: usize,
    pub(crate) order: Order,
    /// By the host whose clock is ahead?
    pub(crate) ahead: bool,
    /// Did the read take a second?
    pub(crate) slow: bool,
    /// Is the tick's last write, of its instance record, not made?
    pub(crate) forgets: bool,
}

impl Look {
    /// How many faults there are in it.
    pub(crate) fn faults(self) -> u8 {
        u8::from(self.slow) + u8::from(self.forgets)
    }
}

impl Ticking {
    /// The attempt ids that it bears and waits for.
    pub(crate) fn attempts(&self) -> [Option<&str>; 3] {
        let records = &self.input.records.lease;
        let fence = self.input.fence.as_ref().and_then(Slot::present);
        [
            Some(self.input.attempt.as_str()),
            records.present().map(|record| record.attempt.as_str()),
            fence.map(|fence| fence.attempt.as_str()),
        ]
    }

    /// Is the lease row its next write?
    pub(crate) fn is_at_the_lease(&self, bounds: &Bounds) -> bool {
        self.raised || decide(&bounds.cast[self.who], &self.input).fence.is_none()
    }

    /// The generation of the own record that it has read.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.input.records.instances.iter().filter_map(|(_, slot)| slot.present()).map(|own| own.generation).min()
    }

    /// The same record, counted from `by` lower.
    pub(crate) fn lower_generation(&mut self, by: u64) {
        for (_, slot) in &mut self.input.records.instances {
            if let Slot::Present(own) = slot {
                own.generation -= by;
            }
        }
    }
}

impl World {
    /// A tick begins and reads. Where it has nothing to write it ends in this step; else it waits for its first write.
    pub(crate) fn look(&mut self, bounds: &Bounds, look: Look, reached: &Reached) {
        let rules = &bounds.cast[look.who];
        let ahead = if look.ahead { rules.timing.clock_margin } else { Duration::ZERO };
        let after = self.reading(look.who, ahead);
        let input = Input {
            command: match look.order {
                Order::Tick => Command::Tick { me_loop: this_loop(), delivered: true },
                Order::StepDown => Command::StepDown(StepDownReason::StepDown),
                Order::Resume => Command::Resume,
            },
            records: self.read_group(bounds, look.who),
            before: if look.slow { a_second_before(after) } else { after },
            after,
            fence: None,
            in_flight: None,
            source_enabled: None,
            attempt: self.fresh_attempt(),
        };
        let needs = needs(rules, &input);
        let in_flight = needs.heads.then(|| self.in_flight(&input));
        let fence = needs
            .fence
            .then(|| self.store.fence.as_ref().map_or(Slot::Absent, |fence| Slot::Present((**fence).clone())));
        let input = Input { fence, in_flight, ..input };
        let carried = self.hosts[look.who].carried;
        let tick = Ticking { who: look.who, ahead, input, carried, raised: false, forgets: look.forgets };
        self.note_decision(bounds, &tick, reached);
        if decide(rules, &tick.input).write.is_none() {
            self.conclude(bounds, &tick, &LeaseOutcome::NothingToWrite, reached);
        } else {
            self.ticks.push(Arc::new(tick));
        }
    }

    /// The lease row, the own record, and those of namesakes: nobody looks at the others.
    fn read_group(&self, bounds: &Bounds, who: usize) -> GroupRecords {
        let me = &bounds.cast[who].me;
        let memories = self.store.memories.iter().zip(&bounds.cast);
        let named = memories.filter(|(_, rules)| rules.me.name == me.name);
        let instances = named.filter_map(|(memory, rules)| {
            let record = memory.as_ref()?.record(rules);
            Some((rules.me.clone(), Slot::Present(record)))
        });
        GroupRecords { lease: (*self.store.lease).clone(), instances: instances.collect() }
    }

    /// Is a row claimed under the token of the lease row that was read?
    fn in_flight(&self, input: &Input) -> bool {
        let token = input.records.lease.present().map(|record| record.token);
        let mut rows = self.store.rows.values();
        self.busy || rows.any(|row| row.claim().is_some() && token.is_some_and(|token| row.stamp == token.into()))
    }

    /// A tick that cannot read.
    pub(crate) fn look_in_vain(&mut self, bounds: &Bounds, who: usize, reached: &Reached) {
        let rules = &bounds.cast[who];
        let conclusion = unreadable(rules, &self.hosts[who].carried, self.reading(who, Duration::ZERO).wall);
        for transition in &conclusion.transitions {
            if transition.kind == TransitionKind::Lost {
                reached.note(End::DemotedUnread);
                if transition.reason == Some(LostReason::Deadline) {
                    reached.note(End::OwnDeadline);
                }
            }
        }
        if conclusion.standing != Standing::Standby {
            self.breach(rules::HOLDER_TOO_LONG, format!("{} without a read", rules.me));
        }
        self.hosts[who].carried = Carried { told: None, unrecorded: false, ..conclusion.carried };
    }

    /// The next call of tick `index`: the fence, then the lease row. Then the tick concludes.
    pub(crate) fn go_on(&mut self, bounds: &Bounds, index: usize, fate: Fate, reached: &Reached) {
        let tick = self.ticks.remove(index);
        let decision = decide(&bounds.cast[tick.who], &tick.input);
        let outcome = match (&decision.fence, &decision.write) {
            (Some(raise), _) if !tick.raised => match self.delivered(Write::Fence(raise.clone()), fate) {
                Ok(()) if self.raise_fence(raise) => {
                    let tick = Ticking { raised: true, ..(*tick).clone() };
                    self.ticks.insert(index, Arc::new(tick));
                    return;
                }
                Ok(()) => {
                    reached.note(End::FenceRefused);
                    LeaseOutcome::FenceRefused
                }
                Err(kind) => {
                    if fate == Fate::Lost {
                        self.raise_fence(raise);
                    }
                    LeaseOutcome::FenceFailed(kind)
                }
            },
            (_, Some((purpose, write))) => {
                match self.delivered(Write::Lease(*purpose, write.clone()), fate) {
                    Ok(()) => match self.write_lease(*purpose, write) {
                        Ok(()) => LeaseOutcome::Written,
                        Err(slot) => LeaseOutcome::Refused(slot),
                    },
                    Err(kind) => {
                        if fate == Fate::Lost {
                            // Applied, or refused: nobody hears of it.
                            let _ = self.write_lease(*purpose, write);
                        }
                        LeaseOutcome::Failed(kind)
                    }
                }
            }
            (_, None) => LeaseOutcome::NothingToWrite,
        };
        if outcome == LeaseOutcome::Written {
            self.note_written(bounds, &tick, reached);
        }
        self.conclude(bounds, &tick, &outcome, reached);
    }

    /// Does the writer get an answer? A late write waits in the bag; one that comes twice leaves a copy there.
    fn delivered(&mut self, write: Write, fate: Fate) -> Result<(), FailureKind> {
        match fate {
            Fate::Fine => Ok(()),
            Fate::Twice => {
                self.late.push(Arc::new(write));
                Ok(())
            }
            Fate::Late => {
                self.late.push(Arc::new(write));
                Err(FailureKind::TimedOut)
            }
            Fate::Lost => Err(FailureKind::TimedOut),
            Fate::Throttled => Err(FailureKind::Throttled),
        }
    }

    fn conclude(&mut self, bounds: &Bounds, tick: &Ticking, outcome: &LeaseOutcome, reached: &Reached) {
        let rules = &bounds.cast[tick.who];
        let decision = decide(rules, &tick.input);
        let now = tick.input.before.later_of(self.reading(tick.who, tick.ahead));
        let verified =
            must_verify(rules, &decision, &tick.input, outcome, now).then(|| Ok((*self.store.lease).clone()));
        let conclusion = conclude(rules, &tick.input, &tick.carried, &decision, outcome, verified.as_ref(), now);
        rules::judge_standing(self, rules, &conclusion, now);
        self.note_conclusion(rules, tick, &conclusion, outcome, now, reached);
        if let Some(write) = &conclusion.instance_write {
            let standing = self.store.memories[tick.who].as_ref().map_or(0, |memory| memory.generation);
            if tick.forgets {
                reached.note(End::EvidenceForgotten);
            } else if standing == write.expected_generation {
                let memory = Memory { generation: write.record.generation, evidence: write.record.evidence.clone() };
                self.store.memories[tick.who] = Some(Arc::new(memory));
            } else {
                reached.note(End::EvidenceDiscarded);
            }
        }
        let host = &mut self.hosts[tick.who];
        // What was told is left out, and the variable with it.
        host.carried = Carried { told: None, unrecorded: false, ..conclusion.carried };
        if *outcome == LeaseOutcome::Written {
            host.is_out_of_step = false;
        }
        if let (Standing::Holder { token, .. }, Some(until)) = (conclusion.standing, conclusion.deadline)
            && !host.is_out_of_step
        {
            host.belief = host.belief.max(Some((token, until)));
        }
    }

    /// Notes what the decision shows.
    fn note_decision(&self, bounds: &Bounds, tick: &Ticking, reached: &Reached) {
        let decision = decide(&bounds.cast[tick.who], &tick.input);
        if decision.refused.is_some() {
            reached.note(End::DamageRefused);
        }
        match &decision.write {
            Some((Purpose::Acquire(AcquiredAs::Reclaimed), _)) => reached.note(End::OwnDeadline),
            Some((Purpose::Resume, write)) if write.record.owner.is_some() => reached.note(End::MarkTakenBack),
            Some((Purpose::Resume, _)) => reached.note(End::Resumed),
            _ => {}
        }
    }

    /// Notes what a write that was applied and answered shows.
    fn note_written(&self, bounds: &Bounds, tick: &Ticking, reached: &Reached) {
        let rules = &bounds.cast[tick.who];
        let Some((purpose, write)) = decide(rules, &tick.input).write else { return };
        let read = tick.input.records.lease.present();
        match purpose {
            Purpose::Acquire(AcquiredAs::Seized) => {
                reached.note(End::Takeover);
                if read.is_some_and(|read| read.stepping_down.is_some()) {
                    reached.note(End::TakeoverByPatience);
                }
                if read.and_then(|read| read.owner.as_ref()).is_some_and(|owner| owner.name == rules.me.name) {
                    reached.note(End::NamesakeSeized);
                }
            }
            Purpose::Acquire(AcquiredAs::Reclaimed)
                if read.is_some_and(|read| read.token.next() == Ok(write.record.token)) =>
            {
                reached.note(End::Reacquired);
            }
            Purpose::Acquire(AcquiredAs::Acquired) if read.is_none() && write.record.token > FencingToken::FIRST => {
                reached.note(End::AboveTheFence);
            }
            Purpose::Release(_) => {
                let end = if matches!(tick.input.command, Command::Tick { .. }) {
                    End::Released
                } else {
                    End::ReleasedAtOnce
                };
                reached.note(end);
            }
            _ => {}
        }
    }

    /// Notes what the instance is now.
    fn note_conclusion(
        &self,
        rules: &fencepost_protocol::lease::Rules,
        tick: &Ticking,
        conclusion: &Conclusion,
        outcome: &LeaseOutcome,
        now: Timestamp,
        reached: &Reached,
    ) {
        let owner = conclusion.record.present().and_then(|record| record.owner.as_ref());
        match (conclusion.role, owner) {
            (Role::Abstaining, None) => reached.note(End::Abstention),
            (Role::Abstaining, Some(_)) => reached.note(End::NamesakeWaits),
            _ => {}
        }
        if matches!(outcome, LeaseOutcome::Refused(_)) {
            reached.note(End::RefusedWrite);
        }
        let told = tick.carried.holding.zip(conclusion.record.present());
        if told
            .is_some_and(|(held, record)| record.owner.is_some() && record.release_of(&rules.me, held.token).is_some())
        {
            reached.note(End::FollowedAtOnce);
        }
        let holds = matches!(conclusion.standing, Standing::Holder { .. });
        let is_mine = conclusion.record.present().filter(|record| record.is_owned_by(&rules.me));
        if conclusion.renewal_failed {
            match (holds, is_mine.is_some_and(|record| now < rules::deadline(rules, record))) {
                (true, _) => reached.note(End::KeptByReading),
                (false, true) => reached.note(End::DemotedByFailure),
                (false, false) => {}
            }
        }
        let acquired_now = matches!(outcome, LeaseOutcome::Written);
        if holds && !acquired_now && self.hosts[tick.who].belief.is_none() {
            reached.note(End::TakenUp);
        }
    }

    /// The process of a tick ends.
    pub(crate) fn die(&mut self, index: usize) {
        self.ticks.remove(index);
    }

    /// An instance ends, with all that was under way.
    pub(crate) fn crash(&mut self, who: usize) {
        self.ticks.retain(|tick| tick.who != who);
        self.calls.retain(|call| call.who != who);
        self.hosts[who].down = true;
        self.hosts[who].carried = Carried::default();
    }

    /// A late write reaches the store.
    pub(crate) fn arrive_late(&mut self, index: usize, reached: &Reached) {
        let write = self.late.remove(index);
        let applied = self.arrive(&write);
        if let (false, Write::Lease(purpose, _)) = (applied, &*write) {
            reached.note(End::LateWriteRefused);
            if matches!(purpose, Purpose::Release(_)) {
                reached.note(End::LateRelease);
            }
        }
    }
}

/// The faults that a call of a tick may meet, beside none.
pub(crate) fn fates(bounds: &Bounds) -> Vec<Fate> {
    let pairs = [(Fault::LostReply, Fate::Lost), (Fault::Late, Fate::Late), (Fault::Twice, Fate::Twice)];
    pairs.into_iter().filter(|(kind, _)| bounds.kinds.contains(kind)).map(|(_, fate)| fate).collect()
}

fn this_loop() -> LoopId {
    LoopId { started_at_ms: Timestamp::from_ms(0), name: "x".to_owned() }
}

fn a_second_before(reading: Reading) -> Reading {
    let second = Duration::from_secs(1);
    Reading { wall: reading.wall.minus(second), monotonic: reading.monotonic.saturating_sub(second) }
}
