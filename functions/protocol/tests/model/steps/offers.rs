//! Which steps a world offers.

use fencepost_protocol::outbox::Slot;

use super::{Bridge, Fate, SendFate, Step};
use crate::bounds::Fault;
use crate::draining::{Phase, leads};
use crate::ticking::{Look, Order, fates};
use crate::world::World;

impl Bridge {
    pub(super) fn offer(&self, world: &World, steps: &mut Vec<Step>) {
        self.offer_writes(world, steps);
        self.offer_drains(world, steps);
        for who in 0..world.hosts.len() {
            self.offer_ticks(world, who, steps);
        }
        self.offer_damage(world, steps);
        self.offer_time(world, steps);
    }

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
            steps.extend([true, false].map(|back| Step::TurnClock { who, back }));
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
                let look = Look { who, order, ahead, slow: false, forgets: false };
                self.offer_look(world, look, steps);
                if world.left.disturbed_looks == Some(0) {
                    continue;
                }
                if self.has(Fault::SlowRead, world) {
                    self.offer_look(world, Look { slow: true, ..look }, steps);
                }
                if self.has(Fault::ForgetEvidence, world) {
                    self.offer_look(world, Look { forgets: true, ..look }, steps);
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
        if world.left.faults > look.faults() {
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
            Phase::PutBack | Phase::EndBuried(_) => &[(Fault::Late, Fate::Late), (Fault::Throttle, Fate::Throttled)],
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
}
