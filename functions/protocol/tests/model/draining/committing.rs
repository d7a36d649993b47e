//! The end of a page: tombstones, commits, hand-backs and burials, each a step of its own with a fate.

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::drain::{Burial, ChangeAnswer, ClaimedRow, Committing, commits, tombstones};
use fencepost_protocol::failure::FailureKind;

use super::{Call, Phase};
use crate::ends::{End, Reached};
use crate::rules;
use crate::steps::Fate;
use crate::store::Write;
use crate::world::World;

impl World {
    pub(super) fn write_stones(&mut self, call: &mut Call, accepted: Vec<ClaimedRow>, fate: Fate) -> Phase {
        let now = self.reading(call.who, Duration::ZERO);
        let mut acknowledged = Vec::new();
        for stone in tombstones(&accepted, &call.terms, now.wall) {
            if fate == Fate::Late {
                self.late.push(Arc::new(Write::Stone(stone)));
            } else if fate != Fate::Throttled {
                self.write_stone(&stone);
            }
            acknowledged.push(match fate {
                Fate::Fine | Fate::Twice => Ok(()),
                Fate::Lost | Fate::Late => Err(FailureKind::TimedOut),
                Fate::Throttled => Err(FailureKind::Throttled),
            });
        }
        let mut notes = call.take_notes();
        let proven = std::mem::take(&mut call.proven);
        let committing = commits(accepted, &acknowledged, proven, &call.terms, &mut notes);
        call.notes = Some(notes);
        call.commit_next(committing)
    }

    pub(super) fn make_commits(
        &mut self,
        call: &mut Call,
        committing: Committing,
        second: bool,
        fate: Fate,
        reached: &Reached,
    ) -> Phase {
        let mut answers = Vec::new();
        for commit in &committing.commits {
            answers.push(match fate {
                Fate::Fine => Ok(self.commit(commit)),
                Fate::Lost | Fate::Twice => {
                    self.commit(commit);
                    Err(FailureKind::TimedOut)
                }
                Fate::Late => {
                    self.late.push(Arc::new(Write::Commit(commit.clone())));
                    Err(FailureKind::TimedOut)
                }
                Fate::Throttled => Err(FailureKind::Throttled),
            });
        }
        let mut notes = call.take_notes();
        let committed = notes.counts.committed;
        let absent = answers.contains(&Ok(ChangeAnswer::Absent));
        let again = committing.answered(&answers, &mut notes);
        if second && absent && notes.counts.committed > committed {
            reached.note(End::CommitFound);
        }
        match again {
            Some(again) if !second => {
                call.notes = Some(notes);
                Phase::Commit { committing: again, second: true }
            }
            Some(again) => {
                again.give_up(&mut notes);
                call.notes = Some(notes);
                Phase::Send
            }
            None => {
                call.notes = Some(notes);
                Phase::Send
            }
        }
    }

    /// The end of a page: what was not sent goes back, what died is buried.
    pub(super) fn put_back(&mut self, call: &mut Call, fate: Fate, reached: &Reached) -> Phase {
        for back in std::mem::take(&mut call.back) {
            if back.free && call.maybe_sent.contains(&back.key) {
                self.breach(rules::FREED_A_SENT_ROW, format!("{} by instance {}", back.key, call.who));
            }
            match fate {
                Fate::Late => self.late.push(Arc::new(Write::HandBack(back))),
                Fate::Throttled => {}
                Fate::Fine | Fate::Lost | Fate::Twice => {
                    if self.hand_back(&back) == ChangeAnswer::Done {
                        reached.note(if back.free { End::HandedBack } else { End::Kept });
                    }
                }
            }
        }
        call.bury_next(self, fate, reached)
    }

    pub(super) fn end_burial(&mut self, call: &mut Call, burial: Burial, fate: Fate, reached: &Reached) -> Phase {
        match fate {
            Fate::Late => self.late.push(Arc::new(Write::EndBuried(burial))),
            Fate::Throttled => {}
            Fate::Fine | Fate::Lost | Fate::Twice => {
                if self.end_buried(&burial) == ChangeAnswer::Done {
                    reached.note(End::Died);
                }
            }
        }
        call.bury_next(self, Fate::Fine, reached)
    }
}
