//! Step 3: which rows of a page are mine once all claims are answered.

use std::collections::BTreeSet;

use crate::drain::{CallTerms, Choice, Claim, ClaimAnswer, HandBack, Notes, Stop};
use crate::failure::FailureKind;
use crate::ids::{ClaimId, FencingToken, Stamp};
use crate::outbox::{OutboxRow, Slot, Status};

/// A row under my claim, as claimed. Every later step passes it around whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimedRow {
    /// The row as it stands in the store now.
    pub row: OutboxRow,
    /// My claim.
    pub claim: ClaimId,
    /// My token.
    pub token: FencingToken,
    /// A claimer whose claim went stale, now or before, may have sent it: a send now may be the second one.
    pub resend: bool,
}

impl ClaimedRow {
    /// Back to pending, and the attempt does not count: it was certainly not sent.
    pub fn hand_back(&self) -> HandBack {
        self.change(true)
    }

    /// The claim stays and ages, and the attempt does not count: whether it was sent is unknown.
    pub fn keep_claim(&self) -> HandBack {
        self.change(false)
    }

    fn change(&self, free: bool) -> HandBack {
        HandBack {
            key: self.row.key.clone(),
            claim: self.claim.clone(),
            token: self.token,
            attempts: self.row.attempts.saturating_sub(1),
            // This drainer lives to say so: what went stale before was no record that kills its drainer. One is kept, since it
            // tells that the row was perhaps sent.
            stale: self.row.stale.min(1),
            free,
            not_before: None,
            last_error: None,
        }
    }
}

/// A page after its claims.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claimed {
    /// My rows, oldest first.
    pub mine: Vec<ClaimedRow>,
    /// Rows to hand back: claims of unknown outcome, and rows of a key whose earlier claim failed (ordered destinations).
    pub hand_back: Vec<HandBack>,
    /// The highest token above mine that a refusal showed: read the lease again and ask [`crate::drain::tokens_above`]; with
    /// its answer noted, [`crate::drain::confirm`] hands everything back.
    pub above: Option<Stamp>,
}

/// Does a row that refused my claim bear it all the same? Then the claim was applied and its reply was lost.
pub fn claim_is_mine(row: &OutboxRow, claim: &ClaimId) -> bool {
    row.claim() == Some(claim)
}

/// Sorts the answers to a page's claims, which stand in the order of [`Choice::claims`]. A claim of unknown outcome is handed
/// back: it was certainly not sent, and its drainer lives. Where the claim was not applied the hand-back finds nothing to
/// do; where it is applied only later, it ages until somebody settles it.
pub fn after_claims(
    choice: Choice,
    answers: &[Result<ClaimAnswer, FailureKind>],
    terms: &CallTerms,
    notes: &mut Notes,
) -> Claimed {
    let ordered = terms.policy.ordered;
    let mut claimed = Claimed { mine: Vec::new(), hand_back: Vec::new(), above: None };
    let mut failed_keys: BTreeSet<String> = BTreeSet::new();
    let mut answered = false;
    for (index, (claim, chosen)) in choice.claims.into_iter().zip(choice.rows).enumerate() {
        // An adapter that answers too few has left the rest open.
        let answer = answers.get(index).unwrap_or(&Err(FailureKind::Unavailable));
        answered |= answer.is_ok();
        let key = chosen.row.ordering_key().to_owned();
        match outcome(answer, &claim, chosen.row, &mut claimed.above, notes) {
            Outcome::Mine(row) => {
                notes.counts.claimed += 1;
                notes.counts.stale_claims += u64::from(matches!(claim.seen, Status::Claimed(_)));
                let row = ClaimedRow { row, claim: claim.claim, token: claim.token, resend: chosen.resend };
                if ordered && failed_keys.contains(&key) {
                    claimed.hand_back.push(row.hand_back());
                } else {
                    claimed.mine.push(row);
                }
            }
            Outcome::Unknown(row) => {
                let row = ClaimedRow { row, claim: claim.claim, token: claim.token, resend: chosen.resend };
                claimed.hand_back.push(row.hand_back());
                notes.blocked.block(&key);
                failed_keys.insert(key);
            }
            Outcome::Lost => {
                notes.blocked.block(&key);
                failed_keys.insert(key);
            }
        }
    }
    if let (false, Some(Err(kind))) = (answered, answers.first()) {
        notes.stop_for(Stop::Store(*kind));
    }
    claimed
}

/// What a claim's answer means.
enum Outcome {
    /// The row is mine, and stands so.
    Mine(OutboxRow),
    /// The row is mine if the claim was applied, and would stand so.
    Unknown(OutboxRow),
    /// The row is not mine.
    Lost,
}

fn outcome(
    answer: &Result<ClaimAnswer, FailureKind>,
    claim: &Claim,
    seen: OutboxRow,
    above: &mut Option<Stamp>,
    notes: &mut Notes,
) -> Outcome {
    match answer {
        Ok(ClaimAnswer::Claimed) => Outcome::Mine(as_claimed(claim, seen)),
        Ok(ClaimAnswer::Refused(Slot::Present(row))) if claim_is_mine(row, &claim.claim) => Outcome::Mine(row.clone()),
        Ok(ClaimAnswer::Refused(slot)) => {
            notes.counts.conflicts += 1;
            let stamp = slot.present().map(|row| row.stamp).filter(|stamp| stamp.is_above(claim.token));
            *above = (*above).max(stamp);
            Outcome::Lost
        }
        Err(kind) if kind.certainly_not_applied() => Outcome::Lost,
        Err(_) => {
            notes.counts.unknown += 1;
            Outcome::Unknown(as_claimed(claim, seen))
        }
    }
}

fn as_claimed(claim: &Claim, seen: OutboxRow) -> OutboxRow {
    OutboxRow {
        status: Status::Claimed(claim.claim.clone()),
        stamp: claim.token.into(),
        attempts: claim.attempts,
        stale: claim.stale,
        first_attempt_at: Some(claim.first_attempt_at),
        ..seen
    }
}
