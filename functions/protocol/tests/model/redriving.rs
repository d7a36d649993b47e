//! An operator's redrive of one dead record: read, decide, put, delete, with the drain going on in between.

use std::sync::Arc;

use fencepost_protocol::drain::{ChangeAnswer, Redrive, RedriveDecision, redrive, redriven_is_mine};
use fencepost_protocol::ids::{RowKey, Stamp};
use fencepost_protocol::outbox::{DeadRow, Slot};

use crate::ends::{End, Reached};
use crate::steps::Fate;
use crate::store::Write;
use crate::world::World;

/// A redrive under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    /// The dead row was read, and before it the lease's token.
    Read { dead: DeadRow, lease: Stamp },
    /// The row is to be put.
    Put(Redrive),
    /// The dead row is to be deleted, on condition of this life.
    Delete { key: RowKey, redriven: u32 },
}

impl World {
    /// A redrive of the oldest dead record begins.
    pub(crate) fn begin_redrive(&mut self) -> bool {
        let Some(dead) = self.store.dead.values().next() else { return false };
        let lease = self.store.lease.present().map_or(Stamp::NONE, |record| record.token.into());
        let operator = Operator::Read { dead: (**dead).clone(), lease };
        self.operators.push(Arc::new(operator));
        true
    }

    /// The next step of redrive `index`.
    pub(crate) fn step_redrive(&mut self, index: usize, fate: Fate, reached: &Reached) {
        let operator = Arc::unwrap_or_clone(self.operators.remove(index));
        let next = match operator {
            Operator::Read { dead, lease } => self.decide_redrive(&dead, lease, reached),
            Operator::Put(plan) => self.put(plan, fate, reached),
            Operator::Delete { key, redriven } => {
                match fate {
                    Fate::Late => self.late.push(Arc::new(Write::DeleteDead { key, redriven })),
                    Fate::Throttled => {}
                    Fate::Fine | Fate::Lost | Fate::Twice => match self.delete_dead(&key, redriven) {
                        ChangeAnswer::Fenced(_) => reached.note(End::LateRedrive),
                        ChangeAnswer::Done | ChangeAnswer::Absent => {}
                    },
                }
                None
            }
        };
        if let Some(next) = next {
            self.operators.insert(index, Arc::new(next));
        }
    }

    fn decide_redrive(&mut self, dead: &DeadRow, lease: Stamp, reached: &Reached) -> Option<Operator> {
        let live = self.store.row(&dead.row.key);
        let stones = self.store.read_stones(&[dead.row.id().clone()]);
        match redrive(dead, &live, stones.first(), lease) {
            RedriveDecision::Redrive(plan) => Some(Operator::Put(plan)),
            RedriveDecision::DeleteDead { dead_redriven } => {
                Some(Operator::Delete { key: dead.row.key.clone(), redriven: dead_redriven })
            }
            RedriveDecision::Phantom => {
                reached.note(End::Phantom);
                None
            }
            RedriveDecision::Skip(_) => None,
        }
    }

    fn put(&mut self, plan: Redrive, fate: Fate, reached: &Reached) -> Option<Operator> {
        match fate {
            Fate::Late => {
                self.late.push(Arc::new(Write::PutRedriven(plan)));
                return None;
            }
            Fate::Throttled => return None,
            Fate::Fine | Fate::Lost | Fate::Twice => {}
        }
        let exists: Option<Slot<_>> = self.put_redriven(&plan);
        if fate == Fate::Lost {
            return None;
        }
        let mine = redriven_is_mine(&plan, exists.as_ref());
        if mine {
            reached.note(End::Redriven);
        }
        mine.then(|| Operator::Delete { key: plan.row.key.clone(), redriven: plan.dead_redriven })
    }
}
