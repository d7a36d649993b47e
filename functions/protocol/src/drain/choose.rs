//! Step 2: which rows of a page may be claimed.
//!
//! Guarantees: nothing is chosen from a page that shows a token above mine; nothing that does not decode is touched; where
//! the destination keeps order, nothing is chosen for a send behind an earlier visible row of its key that is not chosen for
//! one too.

use crate::drain::{Alone, Burial, CallTerms, Claim, DrainPolicy, Mode, Notes, Permit, ShardState, Stop, Unsettled};
use crate::failure::FailureKind;
use crate::ids::{ClaimId, MessageId, Position, RowKey, Stamp};
use crate::limits;
use crate::outbox::{Damage, DeadRow, DeathReason, OutboxRow, Slot, Status, Tombstone};
use crate::time::{Reading, Timestamp};

/// Stale claims after which a record is claimed in a call of its own.
pub const STALE_CLAIMS_MAX: u32 = 3;

/// What to do with a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The claims to make, oldest first.
    pub claims: Vec<Claim>,
    /// The highest token above mine on the page: read the lease again and ask [`crate::drain::tokens_above`]. Nothing is
    /// claimed then.
    pub above: Option<Stamp>,
    /// Rows that do not decode, or are of a newer schema: held and counted, never touched.
    pub damaged: Vec<Damage>,
    pub(crate) rows: Vec<Chosen>,
    exhausted: Vec<(Chosen, Claim)>,
}

/// A row as read, chosen for a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Chosen {
    pub(crate) row: OutboxRow,
    /// An earlier claimer may have sent it: its claim is taken over now, or went stale before.
    pub(crate) resend: bool,
}

/// Chooses from a page: `rows` with the position that each key states, `next` where the following page begins (exclusive),
/// `claim` the fresh id of this page's claims. Moves the shard's cursor past the page; `now` is read after the page.
pub fn choose(
    state: &mut ShardState,
    terms: &CallTerms,
    permit: &Permit,
    rows: Vec<(Position, Slot<OutboxRow>)>,
    next: Option<Position>,
    claim: &ClaimId,
    now: Reading,
) -> (Choice, Notes) {
    let mut notes = Notes::new(state.blocked.take());
    let mut choice = Choice {
        claims: Vec::new(),
        above: highest_above(&rows, permit),
        damaged: Vec::new(),
        rows: Vec::new(),
        exhausted: Vec::new(),
    };
    if choice.above.is_some() {
        return (choice, notes);
    }
    if permit.is_over(now) {
        notes.stop_for(Stop::TooLate);
        return (choice, notes);
    }
    let chooser = Chooser { terms, permit, policy: &terms.policy, claim, now: permit.clock(now) };
    let mut ended = next.is_none();
    for (position, slot) in rows {
        if chooser.is_past_the_end(state, &position) {
            ended = true;
            break;
        }
        chooser.look_at(slot, state, &mut choice, &mut notes);
    }
    if !choice.claims.is_empty() {
        state.own_claims.push(claim.clone());
    }
    state.after = next;
    state.done = ended || notes.blocked.is_all();
    (choice, notes)
}

fn highest_above(rows: &[(Position, Slot<OutboxRow>)], permit: &Permit) -> Option<Stamp> {
    let stamps = rows.iter().filter_map(|(_, slot)| slot.present()).map(|row| row.stamp);
    stamps.filter(|stamp| stamp.is_above(permit.token())).max()
}

/// What is to be done with one row.
enum Verdict {
    Take { settled: bool },
    Alone,
    Unsettled(ClaimId),
    NotDue(Timestamp),
    Leave,
}

struct Chooser<'a> {
    terms: &'a CallTerms,
    permit: &'a Permit,
    policy: &'a DrainPolicy,
    claim: &'a ClaimId,
    now: Timestamp,
}

impl Chooser<'_> {
    /// Does a row at `position` lie behind everything that this call may take?
    fn is_past_the_end(&self, state: &ShardState, position: &Position) -> bool {
        let behind_cut = match &self.terms.mode {
            Mode::Scheduled => false,
            Mode::Takeover { cut, .. } => !cut.is_above(position),
        };
        let behind_alone = self
            .terms
            .alone
            .as_ref()
            .is_some_and(|alone| alone.key.shard != state.shard || *position > alone.key.position);
        behind_cut || behind_alone
    }

    fn look_at(&self, slot: Slot<OutboxRow>, state: &mut ShardState, choice: &mut Choice, notes: &mut Notes) {
        let row = match slot {
            Slot::Present(row) => row,
            Slot::Absent => return,
            Slot::Damaged(damage) => {
                choice.damaged.push(damage);
                // Its key is unknown, so no later row may overtake it.
                notes.counts.held += 1;
                notes.blocked.block_all();
                return;
            }
        };
        let verdict = self.verdict(&row);
        if notes.blocked.contains(row.ordering_key())
            && !(matches!(verdict, Verdict::Take { .. }) && self.dies_with_an_earlier_one(&row, choice))
        {
            notes.counts.skipped += 1;
            return;
        }
        match verdict {
            Verdict::Take { settled } => self.take(row, settled, choice, notes),
            other => {
                notes.counts.skipped += 1;
                notes.blocked.block(row.ordering_key());
                match other {
                    Verdict::NotDue(at) => {
                        state.due_at = [state.due_at, Some(at)].into_iter().flatten().min();
                    }
                    Verdict::Alone => {
                        let claim = row.claim().cloned();
                        state.alone.push(Alone { key: row.key, claim });
                    }
                    Verdict::Unsettled(claim) => {
                        // Rows come oldest first, so the first of a claim is its oldest.
                        if state.unsettled.iter().all(|known| known.claim != claim)
                            && state.unsettled.len() < limits::SETTLED_IDS_MAX
                        {
                            state.unsettled.push(Unsettled { key: row.key, claim, token: row.stamp });
                        }
                    }
                    Verdict::Leave | Verdict::Take { .. } => {}
                }
            }
        }
    }

    fn verdict(&self, row: &OutboxRow) -> Verdict {
        if !self.is_of_this_mode(row) {
            return Verdict::Leave;
        }
        let is_the_lone_one = self.terms.alone.as_ref().is_some_and(|alone| alone.key == row.key);
        let settled = match &row.status {
            Status::Pending => match self.due_later(row) {
                None => false,
                Some(at) => return Verdict::NotDue(at),
            },
            Status::Claimed(claim) if self.is_settled(&row.key, claim) => true,
            Status::Claimed(claim) => return Verdict::Unsettled(claim.clone()),
        };
        if self.terms.alone.is_some() && !is_the_lone_one {
            return Verdict::Leave;
        }
        let needs_to_be_alone = stale_with(row, settled) >= STALE_CLAIMS_MAX && !self.is_exhausted(row);
        if needs_to_be_alone && !is_the_lone_one { Verdict::Alone } else { Verdict::Take { settled } }
    }

    fn is_of_this_mode(&self, row: &OutboxRow) -> bool {
        match &self.terms.mode {
            Mode::Scheduled => true,
            Mode::Takeover { token, .. } => row.stamp.is_below(*token),
        }
    }

    /// When the row is due, where that is later than now. A back-off never reaches further than its cap, so a later
    /// `not_before` was written by a clock far ahead of this one and must not hold the row.
    fn due_later(&self, row: &OutboxRow) -> Option<Timestamp> {
        let furthest = self.now.plus(self.policy.backoff_max).plus(self.policy.timing.clock_margin);
        row.not_before.filter(|at| *at > self.now && *at <= furthest)
    }

    fn is_settled(&self, key: &RowKey, claim: &ClaimId) -> bool {
        let with_the_lone_row = |alone: &Alone| alone.key == *key && alone.claim.as_ref() == Some(claim);
        self.terms.settled.contains(claim) || self.terms.alone.as_ref().is_some_and(with_the_lone_row)
    }

    fn is_exhausted(&self, row: &OutboxRow) -> bool {
        let old_enough = row.first_attempt_at.is_some_and(|first| self.now.since(first) >= self.policy.max_age);
        row.attempts >= self.policy.max_attempts && old_enough
    }

    /// Where order is kept, an exhausted row blocks its key for the pass. Others of the page that are exhausted too need not
    /// wait for one pass each: nothing of them is sent.
    fn dies_with_an_earlier_one(&self, row: &OutboxRow, choice: &Choice) -> bool {
        let of_this_key = |(earlier, _): &(Chosen, Claim)| earlier.row.ordering_key() == row.ordering_key();
        self.is_exhausted(row) && choice.exhausted.iter().any(of_this_key)
    }

    fn take(&self, row: OutboxRow, settled: bool, choice: &mut Choice, notes: &mut Notes) {
        let claim = Claim {
            key: row.key.clone(),
            seen: row.status.clone(),
            seen_attempts: row.attempts,
            seen_redriven: row.redriven,
            token: self.permit.token(),
            claim: self.claim.clone(),
            attempts: row.attempts.saturating_add(1),
            stale: stale_with(&row, settled),
            first_attempt_at: row.first_attempt_at.unwrap_or(self.now),
        };
        let resend = claim.stale > 0;
        if self.is_exhausted(&row) {
            // It blocks its key until a later pass finds it gone.
            notes.blocked.block(row.ordering_key());
            choice.exhausted.push((Chosen { row, resend }, claim));
        } else {
            choice.claims.push(claim);
            choice.rows.push(Chosen { row, resend });
        }
    }
}

fn stale_with(row: &OutboxRow, settled: bool) -> u32 {
    row.stale.saturating_add(u32::from(settled))
}

impl Choice {
    /// The ids whose tombstones must be read before exhausted rows are buried: one whose message the queue accepted is
    /// committed instead. Empty (no read) where nothing is exhausted or no tombstones are kept.
    pub fn exhausted_ids(&self, terms: &CallTerms) -> Vec<MessageId> {
        if !terms.policy.keeps_tombstones() {
            return Vec::new();
        }
        self.exhausted.iter().map(|(chosen, _)| chosen.row.id().clone()).collect()
    }

    /// Settles the exhausted rows of the page: proven ones join the claims (to be committed without a send), the rest are
    /// buried. Where the tombstones could not be read, or one does not decode, the rows stay as they are.
    pub fn settle_exhausted(
        &mut self,
        tombstones: Result<&[Slot<Tombstone>], FailureKind>,
        permit: &Permit,
        notes: &mut Notes,
        now: Reading,
    ) -> Vec<Burial> {
        let exhausted = std::mem::take(&mut self.exhausted);
        let Ok(tombstones) = tombstones else { return Vec::new() };
        if permit.is_over(now) || tombstones.iter().any(|slot| matches!(slot, Slot::Damaged(_))) {
            notes.counts.held += u64::try_from(exhausted.len()).unwrap_or(u64::MAX);
            return Vec::new();
        }
        let mut burials = Vec::new();
        for (chosen, claim) in exhausted {
            if tombstones.iter().filter_map(Slot::present).any(|tombstone| tombstone.proves(&chosen.row)) {
                self.claims.push(claim);
                self.rows.push(chosen);
            } else {
                burials.push(bury_exhausted(chosen.row, permit.clock(now)));
            }
        }
        burials
    }
}

fn bury_exhausted(row: OutboxRow, died_at: Timestamp) -> Burial {
    let (seen, seen_stamp) = (row.status.clone(), row.stamp);
    Burial { dead: DeadRow { row, reason: DeathReason::Exhausted, died_at }, seen, seen_stamp }
}
