//! What each step does: the model that is checked.
//!
//! Which steps a world offers stands in [`offers`].

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::ids::Malformed;
use fencepost_protocol::invariants::{Invariant, Observation};
use fencepost_protocol::outbox::{Damage, Slot};
use stateright::{Model, Property};

use crate::bounds::Bounds;
use crate::ends::{End, Reached};
use crate::rules;
use crate::ticking::{Look, Order};
use crate::world::World;

mod offers;

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
    Second {
        frozen: Option<usize>,
    },
    /// A tick or command begins and reads.
    Look(Look),
    /// A tick that is never interrupted; `fate` is that of its lease write.
    WholeTick {
        look: Look,
        fate: Fate,
    },
    /// A tick begins and cannot read.
    LookInVain(usize),
    /// A tick makes its next write.
    Write {
        tick: usize,
        fate: Fate,
    },
    /// The process of a tick ends.
    Die(usize),
    Crash(usize),
    Restart(usize),
    /// A late write reaches the store.
    Arrive(usize),
    /// A wall clock steps.
    TurnClock {
        who: usize,
        back: bool,
    },
    LoseTable,
    Damage,
    /// Rows are claimed, or are not any more (in models without rows).
    Busy(bool),
    /// A drain call begins.
    Begin {
        who: usize,
        settled: bool,
    },
    Call {
        call: usize,
        fate: Fate,
        send: SendFate,
    },
    /// A drain call is ended by the platform.
    EndCall(usize),
    BeginRedrive,
    Redrive {
        operator: usize,
        fate: Fate,
    },
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
    fn tick(&self, world: &mut World, look: Look) {
        if look.order == Order::Tick {
            world.hosts[look.who].begun += 1;
        } else {
            world.left.commands -= 1;
        }
        world.left.faults -= look.faults();
        if let Some(left) = &mut world.left.disturbed_looks {
            *left -= look.faults();
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
            Step::TurnClock { who, back } => {
                let step = i64::try_from(self.bounds.clock_step_s).unwrap();
                world.left.faults -= 1;
                let host = &mut world.hosts[who];
                host.wall_ahead_s += if back { -step } else { step };
                // What it believes was told by another clock until it renews; nobody else can wait for that.
                host.belief = None;
                host.is_out_of_step = true;
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
        if world.broken.is_none() {
            self.offer(world, steps);
        }
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
            // Also for a rule that nobody has listed here.
            always("no rule is broken", |_, world| world.broken.is_none()),
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
