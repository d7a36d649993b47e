//! Which steps a world offers, and what each does: the model that is checked.

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::ids::Malformed;
use fencepost_protocol::invariants::{Invariant, Observation};
use fencepost_protocol::outbox::{Damage, Slot};
use stateright::{Model, Property};

use crate::bounds::{Bounds, Fault};
use crate::draining::{Phase, leads};
use crate::ends::{End, Reached};
use crate::rules;
use crate::ticking::{Look, Order, fates};
use crate::world::World;

/// What becomes of a call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Applied where its condition holds, and answered.
    Fine,
    /// The same, and the answer is lost.
    Lost,
    /// Given up; it may be applied later.
    Late,
    /// Applied, and it comes once more.
    Twice,
    /// Refused for being one too many. For a read: it fails.
    Throttled,
    /// The tick's last write, of its instance record, is not made.
    Forgotten,
}

/// What becomes of a request to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendFate {
    Accepted,
    /// Every entry refused, for now.
    Busy,
    /// Every entry refused, for good.
    Permanent,
    /// The request refused for being one too many.
    Throttled,
    /// Accepted; the answer is lost.
    Lost,
    /// Not accepted; the answer is lost as well.
    Dropped,
    /// Accepted; the answer names none of the entries.
    Forgotten,
}

/// A step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A second passes. The processes of `frozen` stand still meanwhile.
    Second { frozen: Option<usize> },
    /// A tick or command begins and reads.
    Look(Look),
    /// A tick that is never interrupted; `fate` is that of its lease write.
    WholeTick { look: Look, fate: Fate },
    /// A tick begins and cannot read.
    LookInVain(usize),
    /// A tick makes its next write.
    Write { tick: usize, fate: Fate },
    /// The process of a tick ends.
    Die(usize),
    Crash(usize),
    Restart(usize),
    /// A late write reaches the store.
    Arrive(usize),
    /// A wall clock steps.
    ClockStep { who: usize, back: bool },
    LoseTable,
    Damage,
    /// Rows are claimed, or are not any more (in models without rows).
    Busy(bool),
    /// A drain call begins.
    Begin { who: usize, settled: bool },
    Call { call: usize, fate: Fate, send: SendFate },
    /// A drain call is ended by the platform.
    EndCall(usize),
    BeginRedrive,
    Redrive { operator: usize, fate: Fate },
    /// The operator gives a redrive up.
    EndRedrive(usize),
    /// The broker delivers a message again.
    Redeliver(usize),
}

/// The model of these bounds.
#[derive(Debug, Clone)]
pub(crate) struct Bridge {
    pub(crate) bounds: Bounds,
    /// Shared by all workers.
    pub(crate) reached: Arc<Reached>,
}

impl Bridge {
    fn has(&self, kind: Fault, world: &World) -> bool {
        world.left.faults > 0 && self.bounds.kinds.contains(&kind)
    }

    /// Has every instance that ticks in each second done so?
    fn may_pass(&self, world: &World) -> bool {
        world.now_s < self.bounds.seconds
            && self.bounds.steady.iter().all(|who| {
                let host = &world.hosts[*who];
                host.down || host.begun > 0 && world.ticks.iter().all(|tick| tick.who != *who)
            })
    }

    fn offer_time(&self, world: &World, steps: &mut Vec<Step>) {
        if !self.may_pass(world) {
            return;
        }
        steps.push(Step::Second { frozen: None });
        if self.has(Fault::Freeze, world) {
            steps.extend((0..world.hosts.len()).map(|who| Step::Second { frozen: Some(who) }));
        }
    }

    fn offer_ticks(&self, world: &World, who: usize, steps: &mut Vec<Step>) {
        let host = &world.hosts[who];
        if host.down {
            steps.push(Step::Restart(who));
            return;
        }
        if self.has(Fault::Crash, world) && !self.bounds.steady.contains(&who) {
            steps.push(Step::Crash(who));
        }
        if self.has(Fault::ClockStep, world) {
            steps.extend([true, false].map(|back| Step::ClockStep { who, back }));
        }
        let under_way = world.ticks.iter().filter(|tick| tick.who == who).count();
        if under_way >= self.bounds.ticks_at_once {
            return;
        }
        let orders: &[Order] = match (host.begun < self.bounds.pace, world.left.commands > 0) {
            (true, true) => &[Order::Tick, Order::StepDown, Order::Resume],
            (true, false) => &[Order::Tick],
            (false, true) => &[Order::StepDown, Order::Resume],
            (false, false) => &[],
        };
        for order in orders.iter().copied() {
            let hosts: &[bool] = if self.bounds.two_hosts { &[false, true] } else { &[false] };
            for ahead in hosts.iter().copied() {
                let look = Look { who, order, ahead, slow: false };
                self.offer_look(world, look, steps);
                if self.has(Fault::SlowRead, world) {
                    self.offer_look(world, Look { slow: true, ..look }, steps);
                }
            }
        }
        if host.begun < self.bounds.pace && self.has(Fault::Unreadable, world) {
            steps.push(Step::LookInVain(who));
        }
    }

    fn offer_look(&self, world: &World, look: Look, steps: &mut Vec<Step>) {
        if !self.bounds.whole_ticks {
            steps.push(Step::Look(look));
            return;
        }
        steps.push(Step::WholeTick { look, fate: Fate::Fine });
        // A slow read is a fault itself.
        if world.left.faults > u8::from(look.slow) {
            steps.extend(fates(&self.bounds).into_iter().map(|fate| Step::WholeTick { look, fate }));
        }
    }

    fn offer_writes(&self, world: &World, steps: &mut Vec<Step>) {
        for tick in 0..world.ticks.len() {
            steps.push(Step::Write { tick, fate: Fate::Fine });
            if world.left.faults > 0 {
                steps.extend(fates(&self.bounds).into_iter().map(|fate| Step::Write { tick, fate }));
            }
            if self.has(Fault::Die, world) {
                steps.push(Step::Die(tick));
            }
        }
        steps.extend((0..world.late.len()).map(Step::Arrive));
    }

    fn offer_damage(&self, world: &World, steps: &mut Vec<Step>) {
        let is_damaged = matches!(*world.store.lease, Slot::Damaged(_));
        if self.has(Fault::LoseTable, world) && *world.store.lease != Slot::Absent || is_damaged {
            steps.push(Step::LoseTable);
        }
        if self.has(Fault::Damage, world) && world.store.lease.present().is_some() {
            steps.push(Step::Damage);
        }
        if self.bounds.commands > 0 && self.bounds.drains.is_none() {
            // Rows come into flight before a step-down is asked for, and go out of it after that.
            let marked = world.store.lease.present().is_some_and(|record| record.stepping_down.is_some());
            if if world.busy { marked } else { world.left.commands == self.bounds.commands } {
                steps.push(Step::Busy(!world.busy));
            }
        }
    }

    fn offer_drains(&self, world: &World, steps: &mut Vec<Step>) {
        let Some(drains) = self.bounds.drains else { return };
        for who in 0..world.hosts.len() {
            let under_way = world.calls.iter().filter(|call| call.who == who).count();
            let may_begin = world.left.calls > 0 && under_way < drains.at_once && !world.store.rows.is_empty();
            if may_begin && leads(world.store.lease.present(), &self.bounds, who) {
                steps.push(Step::Begin { who, settled: false });
                if !world.settled(&self.bounds).is_empty() {
                    steps.push(Step::Begin { who, settled: true });
                }
            }
        }
        for (index, call) in world.calls.iter().enumerate() {
            self.offer_call(world, index, &call.phase, steps);
        }
        if world.left.redrives > 0 && !world.store.dead.is_empty() {
            steps.push(Step::BeginRedrive);
        }
        for operator in 0..world.operators.len() {
            steps.push(Step::Redrive { operator, fate: Fate::Fine });
            let faulty = [(Fault::LostReply, Fate::Lost), (Fault::Late, Fate::Late)];
            let faulty = faulty.into_iter().filter(|(kind, _)| self.has(*kind, world));
            steps.extend(faulty.map(|(_, fate)| Step::Redrive { operator, fate }));
            if self.has(Fault::Die, world) {
                steps.push(Step::EndRedrive(operator));
            }
        }
        if world.left.redeliveries > 0 {
            steps.extend((0..drains.messages).map(Step::Redeliver));
        }
    }

    fn offer_call(&self, world: &World, call: usize, phase: &Phase, steps: &mut Vec<Step>) {
        let plain = Step::Call { call, fate: Fate::Fine, send: SendFate::Accepted };
        steps.push(plain);
        if self.has(Fault::Die, world) {
            steps.push(Step::EndCall(call));
        }
        let fates: &[(Fault, Fate)] = match phase {
            Phase::Page => &[(Fault::Throttle, Fate::Throttled)],
            Phase::Claim(_) => &[
                (Fault::LostReply, Fate::Lost),
                (Fault::Late, Fate::Late),
                (Fault::Twice, Fate::Twice),
                (Fault::Throttle, Fate::Throttled),
            ],
            Phase::Confirm(_) => &[(Fault::Throttle, Fate::Throttled), (Fault::Unreadable, Fate::Lost)],
            Phase::Stones(_) | Phase::Commit { .. } => {
                &[(Fault::LostReply, Fate::Lost), (Fault::Late, Fate::Late), (Fault::Throttle, Fate::Throttled)]
            }
            Phase::PutBack | Phase::EndBuried(_) => {
                &[(Fault::Late, Fate::Late), (Fault::Throttle, Fate::Throttled)]
            }
            Phase::Send => {
                let sends = [
                    (Fault::Refuse, SendFate::Busy),
                    (Fault::Refuse, SendFate::Permanent),
                    (Fault::Throttle, SendFate::Throttled),
                    (Fault::LostReply, SendFate::Lost),
                    (Fault::LostReply, SendFate::Dropped),
                    (Fault::LostReply, SendFate::Forgotten),
                ];
                let sends = sends.into_iter().filter(|(kind, _)| self.has(*kind, world));
                steps.extend(sends.map(|(_, send)| Step::Call { call, fate: Fate::Fine, send }));
                &[]
            }
            Phase::Ended => &[],
        };
        let fates = fates.iter().filter(|(kind, _)| self.has(*kind, world));
        steps.extend(fates.map(|(_, fate)| Step::Call { call, fate: *fate, send: SendFate::Accepted }));
    }

    fn tick(&self, world: &mut World, look: Look) {
        if look.order == Order::Tick {
            world.hosts[look.who].begun += 1;
        } else {
            world.left.commands -= 1;
        }
        if look.slow {
            world.left.faults -= 1;
        }
        world.look(&self.bounds, look, &self.reached);
    }

    fn whole_tick(&self, world: &mut World, look: Look, fate: Fate) {
        let before = world.ticks.len();
        self.tick(world, look);
        if fate != Fate::Fine {
            world.left.faults -= 1;
        }
        while world.ticks.len() > before {
            let is_last = world.ticks[before].is_at_the_lease(&self.bounds);
            let fate = if is_last { fate } else { Fate::Fine };
            world.go_on(&self.bounds, before, fate, &self.reached);
        }
    }

    fn apply(&self, world: &mut World, step: Step) -> bool {
        match step {
            Step::Second { frozen } => {
                world.now_s += 1;
                world.hosts.iter_mut().for_each(|host| host.begun = 0);
                if let Some(who) = frozen {
                    world.hosts[who].frozen_s += 1;
                    world.left.faults -= 1;
                }
            }
            Step::Look(look) => self.tick(world, look),
            Step::WholeTick { look, fate } => self.whole_tick(world, look, fate),
            Step::LookInVain(who) => {
                world.hosts[who].begun += 1;
                world.left.faults -= 1;
                world.look_in_vain(&self.bounds, who, &self.reached);
            }
            Step::Write { tick, fate } => {
                world.left.faults -= u8::from(fate != Fate::Fine);
                world.go_on(&self.bounds, tick, fate, &self.reached);
            }
            Step::Die(tick) => {
                world.left.faults -= 1;
                world.die(tick);
            }
            Step::Crash(who) => {
                world.left.faults -= 1;
                world.crash(who);
            }
            Step::Restart(who) => world.hosts[who].down = false,
            Step::Arrive(index) => world.arrive_late(index, &self.reached),
            Step::ClockStep { who, back } => {
                let step = i64::try_from(self.bounds.clock_step_s).unwrap();
                world.left.faults -= 1;
                world.hosts[who].wall_ahead_s += if back { -step } else { step };
            }
            Step::LoseTable => {
                let is_damaged = matches!(*world.store.lease, Slot::Damaged(_));
                world.left.faults -= u8::from(!is_damaged);
                world.lose_lease_table();
            }
            Step::Damage => {
                world.left.faults -= 1;
                let malformed = Malformed::new("fencing_token", "is 0");
                let damage = Damage { record: "lease".to_owned(), malformed, newer_schema: false };
                world.store.lease = Arc::new(Slot::Damaged(damage));
            }
            Step::Busy(busy) => world.busy = busy,
            Step::Begin { who, settled } => {
                if !world.begin_call(&self.bounds, who, settled) {
                    return false;
                }
                world.left.calls -= 1;
            }
            Step::Call { call, fate, send } => {
                world.left.faults -= u8::from(fate != Fate::Fine || send != SendFate::Accepted);
                world.step_call(&self.bounds, call, fate, send, &self.reached);
            }
            Step::EndCall(call) => {
                world.left.faults -= 1;
                world.calls.remove(call);
            }
            Step::BeginRedrive => {
                world.left.redrives -= 1;
                return world.begin_redrive();
            }
            Step::Redrive { operator, fate } => {
                world.left.faults -= u8::from(fate != Fate::Fine);
                world.step_redrive(operator, fate, &self.reached);
            }
            Step::EndRedrive(operator) => {
                world.left.faults -= 1;
                world.operators.remove(operator);
            }
            Step::Redeliver(message) => {
                world.left.redeliveries -= 1;
                if !world.ingest(self.bounds.rows().swap_remove(message)) {
                    self.reached.note(End::Duplicate);
                }
            }
        }
        true
    }

    /// What the judge must be told after each step, and what it says at once.
    fn judge(&self, world: &mut World) {
        if self.bounds.vacancy_max.is_some() {
            let record = world.store.lease.present();
            let leader = record.and_then(|record| {
                let who = self.bounds.cast.iter().position(|rules| record.is_owned_by(&rules.me))?;
                let until = rules::deadline(&self.bounds.cast[who], record);
                (record.stepping_down.is_none() && world.reading(who, Duration::ZERO).wall < until).then_some(who)
            });
            let (at, somebody) = (world.now(), leader.is_some());
            world.observe(Observation::Leading { at, somebody });
        }
        let outstanding: Vec<_> = world.store.rows.keys().cloned().collect();
        let dead: Vec<_> = world.store.dead.keys().cloned().collect();
        let found = (*world.audit).clone().finish(world.now(), &outstanding, &dead);
        if let Some(violation) = found.first() {
            world.breach(name_of(violation.invariant), violation.what.clone());
        }
    }
}

impl Model for Bridge {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.broken.is_some() {
            return;
        }
        self.offer_writes(world, steps);
        self.offer_drains(world, steps);
        for who in 0..world.hosts.len() {
            self.offer_ticks(world, who, steps);
        }
        self.offer_damage(world, steps);
        self.offer_time(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        if !self.apply(&mut next, step) {
            return None;
        }
        self.judge(&mut next);
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = Property::<Self>::always;
        vec![
            always("I1: tokens grow", |_, world| world.keeps(Invariant::I1)),
            always("I2: one owner for a token", |_, world| world.keeps(Invariant::I2)),
            always("I3: one commit for a row", |_, world| world.keeps(Invariant::I3)),
            always("I4: committed means accepted", |_, world| world.keeps(Invariant::I4)),
            always("I5: conservation", |_, world| world.keeps(Invariant::I5)),
            always("I6: no commit under a lower token", |_, world| world.keeps(Invariant::I6)),
            always("I7: nothing decided too late", |_, world| world.keeps(Invariant::I7)),
            always("I9: order within a key", |_, world| world.keeps(Invariant::I9)),
            always("I10: somebody leads", |_, world| world.keeps(Invariant::I10)),
            always(rules::SEIZED_TOO_EARLY, |_, world| !world.breaks(rules::SEIZED_TOO_EARLY)),
            always(rules::HOLDER_TOO_LONG, |_, world| !world.breaks(rules::HOLDER_TOO_LONG)),
            always(rules::NO_ABSTENTION, |_, world| !world.breaks(rules::NO_ABSTENTION)),
            always(rules::SENT_AGAIN, |_, world| !world.breaks(rules::SENT_AGAIN)),
            always(rules::SENT_UNPERMITTED, |_, world| !world.breaks(rules::SENT_UNPERMITTED)),
            always(rules::FREED_A_SENT_ROW, |_, world| !world.breaks(rules::FREED_A_SENT_ROW)),
        ]
    }
}

impl World {
    fn keeps(&self, invariant: Invariant) -> bool {
        !self.breaks(name_of(invariant))
    }

    fn breaks(&self, rule: &str) -> bool {
        self.broken.as_ref().is_some_and(|breach| breach.rule == rule)
    }
}

const fn name_of(invariant: Invariant) -> &'static str {
    match invariant {
        Invariant::I1 => "I1",
        Invariant::I2 => "I2",
        Invariant::I3 => "I3",
        Invariant::I4 => "I4",
        Invariant::I5 => "I5",
        Invariant::I6 => "I6",
        Invariant::I7 => "I7",
        Invariant::I8 => "I8",
        Invariant::I9 => "I9",
        Invariant::I10 => "I10",
    }
}
