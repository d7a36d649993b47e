//! Step 6: tombstones, and only after they were acknowledged the conditional delete.
//!
//! Guarantees: a commit is conditioned on my claim and my token; it is tried at most twice, and it is known which try it is;
//! a fenced commit is counted and never retried. What was sent and not committed keeps its claim and ages.

use crate::drain::{CallTerms, ChangeAnswer, ClaimedRow, Commit, HandBack, Notes};
use crate::failure::FailureKind;
use crate::ids::{ClaimId, FencingToken, PayloadDigest, Stamp};
use crate::outbox::{Slot, Tombstone};
use crate::time::Timestamp;

/// The tombstones of what the queue accepted, in the order of `accepted`; none where none are kept.
pub fn tombstones(accepted: &[ClaimedRow], terms: &CallTerms, now: Timestamp) -> Vec<Tombstone> {
    if !terms.policy.keeps_tombstones() {
        return Vec::new();
    }
    let expires_at_secs = now.plus(terms.policy.timing.dedupe_window).as_secs_ceil();
    accepted
        .iter()
        .map(|claimed| Tombstone {
            id: claimed.row.id().clone(),
            digest: PayloadDigest::of(&claimed.row.payload),
            redriven: claimed.row.redriven,
            expires_at_secs,
        })
        .collect()
}

/// The commits of a page or of one request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Committing {
    /// The deletes to make.
    pub commits: Vec<Commit>,
    /// Sent, but the tombstone was not acknowledged: the claim stays and ages, the attempt is restored.
    pub keep: Vec<HandBack>,
    rows: Vec<ToCommit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ToCommit {
    claimed: ClaimedRow,
    /// This call sent it; else a tombstone proved an earlier send.
    sent_now: bool,
    earlier_try: Option<FailureKind>,
}

impl ToCommit {
    fn commit(&self) -> Commit {
        Commit { key: self.claimed.row.key.clone(), claim: self.claimed.claim.clone(), token: self.claimed.token }
    }
}

/// What to commit: of the `accepted` rows those whose tombstone was acknowledged (`acknowledged` in the order of
/// [`tombstones`]; all of them where none are kept), and the `proven` ones, whose tombstone stands already.
pub fn commits(
    accepted: Vec<ClaimedRow>,
    acknowledged: &[Result<(), FailureKind>],
    proven: Vec<ClaimedRow>,
    terms: &CallTerms,
    notes: &mut Notes,
) -> Committing {
    let mut committing = Committing { commits: Vec::new(), keep: Vec::new(), rows: Vec::new() };
    for (index, claimed) in accepted.into_iter().enumerate() {
        if !terms.policy.keeps_tombstones() || matches!(acknowledged.get(index), Some(Ok(()))) {
            committing.add(ToCommit { claimed, sent_now: true, earlier_try: None });
        } else {
            notes.counts.unknown += 1;
            notes.blocked.block(claimed.row.ordering_key());
            committing.keep.push(claimed.keep_claim());
        }
    }
    for claimed in proven {
        committing.add(ToCommit { claimed, sent_now: false, earlier_try: None });
    }
    committing
}

/// What a commit's answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitOutcome {
    /// The row is gone, by this commit.
    Committed,
    /// Somebody else ended the row or holds it.
    Fenced,
    /// Try once more; remember this failure.
    TryAgain(FailureKind),
    /// Nobody knows, or it was refused for a reason that a second try does not change. The claim ages.
    Unknown,
}

/// Reads a commit's answer. `earlier_try`: how the first try failed, where this is the second.
///
/// Absent at a first try, or after one that certainly changed nothing, is somebody else's doing; absent after a try of
/// unknown outcome was mine.
pub fn commit_outcome(
    answer: &Result<ChangeAnswer, FailureKind>,
    earlier_try: Option<FailureKind>,
    claim: &ClaimId,
    token: FencingToken,
) -> CommitOutcome {
    match (answer, earlier_try) {
        (Ok(ChangeAnswer::Done), _) => CommitOutcome::Committed,
        (Ok(ChangeAnswer::Absent), Some(kind)) if !kind.certainly_not_applied() => CommitOutcome::Committed,
        (Ok(ChangeAnswer::Absent), _) => CommitOutcome::Fenced,
        // A refusal that shows my own claim and token contradicts itself; whatever it was, the row is still there and mine.
        (Ok(ChangeAnswer::Fenced(Slot::Present(row))), _)
            if row.claim() == Some(claim) && row.stamp == Stamp::from(token) =>
        {
            CommitOutcome::Unknown
        }
        (Ok(ChangeAnswer::Fenced(_)), _) => CommitOutcome::Fenced,
        (Err(kind), None) if kind.is_transient() => CommitOutcome::TryAgain(*kind),
        (Err(_), _) => CommitOutcome::Unknown,
    }
}

impl Committing {
    fn add(&mut self, row: ToCommit) {
        self.commits.push(row.commit());
        self.rows.push(row);
    }

    /// Settles the answers, which stand in the order of [`Committing::commits`]. Returns what to try once more in this call,
    /// where time allows; dropping it leaves those claims to age (count them by [`Committing::give_up`]).
    pub fn answered(self, answers: &[Result<ChangeAnswer, FailureKind>], notes: &mut Notes) -> Option<Committing> {
        let mut again = Committing { commits: Vec::new(), keep: Vec::new(), rows: Vec::new() };
        for (index, row) in self.rows.into_iter().enumerate() {
            let answer = answers.get(index).unwrap_or(&Err(FailureKind::Unavailable));
            match commit_outcome(answer, row.earlier_try, &row.claimed.claim, row.claimed.token) {
                CommitOutcome::Committed => notes.counts.committed += 1,
                CommitOutcome::Fenced => {
                    notes.counts.fenced += 1;
                    // Whoever took the row could not know that it was sent.
                    notes.counts.duplicate_risk += u64::from(row.sent_now);
                    notes.blocked.block(row.claimed.row.ordering_key());
                }
                CommitOutcome::TryAgain(kind) => again.add(ToCommit { earlier_try: Some(kind), ..row }),
                CommitOutcome::Unknown => unknown(&row, notes),
            }
        }
        if again.rows.is_empty() { None } else { Some(again) }
    }

    /// There is no time for another try: the claims age.
    pub fn give_up(self, notes: &mut Notes) {
        for row in &self.rows {
            unknown(row, notes);
        }
    }
}

fn unknown(row: &ToCommit, notes: &mut Notes) {
    notes.counts.unknown += 1;
    notes.blocked.block(row.claimed.row.ordering_key());
}
