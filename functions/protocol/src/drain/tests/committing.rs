use super::*;
use crate::failure::FailureKind;
use crate::ids::PayloadDigest;

fn outcome(answer: &Result<ChangeAnswer, FailureKind>, earlier: Option<FailureKind>) -> CommitOutcome {
    commit_outcome(answer, earlier, &claim_id("mine"), token(7))
}

#[test]
fn absent_is_mine_only_after_a_try_of_unknown_outcome() {
    use CommitOutcome::{Committed, Fenced, TryAgain, Unknown};
    use FailureKind::{Denied, Invalid, Throttled, TimedOut, Unavailable};
    let taken = Ok(ChangeAnswer::Fenced(Slot::Present(claimed_by(row("a", 60, "a1"), "other", 8))));
    let own = Ok(ChangeAnswer::Fenced(Slot::Present(claimed_by(row("a", 60, "a1"), "mine", 7))));
    let own_claim_alone = Ok(ChangeAnswer::Fenced(Slot::Present(claimed_by(row("a", 60, "a1"), "mine", 8))));
    let own_token_alone = Ok(ChangeAnswer::Fenced(Slot::Present(claimed_by(row("a", 60, "a1"), "other", 7))));
    for (answer, earlier, expected) in [
        (Ok(ChangeAnswer::Done), None, Committed),
        (Ok(ChangeAnswer::Absent), None, Fenced),
        (Ok(ChangeAnswer::Absent), Some(TimedOut), Committed),
        (Ok(ChangeAnswer::Absent), Some(Unavailable), Committed),
        (Ok(ChangeAnswer::Absent), Some(Throttled), Fenced),
        (taken.clone(), None, Fenced),
        (taken, Some(TimedOut), Fenced),
        (own, None, Unknown),
        (own_claim_alone, None, Fenced),
        (own_token_alone, None, Fenced),
        (Err(TimedOut), None, TryAgain(TimedOut)),
        (Err(Throttled), None, TryAgain(Throttled)),
        (Err(TimedOut), Some(TimedOut), Unknown),
        (Err(Denied), None, Unknown),
        (Err(Invalid), None, Unknown),
    ] {
        assert_eq!(outcome(&answer, earlier), expected, "{answer:?} after {earlier:?}");
    }
}

#[test]
fn a_row_is_committed_only_after_its_tombstone_was_acknowledged() {
    let (terms, _) = start(true);
    let mut notes = notes(true);
    let rows = mine(&[row("a", 60, "a1"), row("b", 50, "b1"), row("c", 40, "c1")]);
    let stones = tombstones(&rows, &terms, at(1));
    assert_eq!(stones.len(), 3);
    assert_eq!(stones[0].digest, PayloadDigest::of(b"a1"));
    assert_eq!(stones[0].expires_at_secs, START_MS / 1000 + 1 + 5 * 86_400, "in seconds, rounded up");
    let proven = mine(&[row("d", 30, "d1")]);
    let acknowledged = [Ok(()), Err(FailureKind::TimedOut)];
    let committing = commits(rows, &acknowledged, proven, &terms, &mut notes);
    let committed: Vec<_> = committing.commits.iter().map(|commit| commit.key.position.id().as_str()).collect();
    assert_eq!(committed, ["a1", "d1"]);
    assert_eq!(handed(&committing.keep), ["b1", "c1"], "refused, and not answered at all");
    assert_eq!(notes.counts.unknown, 2);
    assert!(committing.keep.iter().all(|back| !back.free && back.attempts == 0));
    assert!(notes.blocked.contains("b") && !notes.blocked.contains("a"));
}

#[test]
fn without_a_dedupe_window_nothing_waits_for_tombstones() {
    let (mut terms, _) = start(false);
    terms.policy.timing.dedupe_window = Duration::ZERO;
    let rows = mine(&[row("a", 60, "a1")]);
    assert!(tombstones(&rows, &terms, at(0)).is_empty());
    assert_eq!(commits(rows, &[], Vec::new(), &terms, &mut notes(false)).commits.len(), 1);
}

#[test]
fn fenced_commits_are_counted_and_unknown_ones_tried_once_more() {
    let (terms, _) = start(false);
    let mut notes = notes(false);
    let rows = mine(&[row("a", 60, "a1"), row("b", 50, "b1"), row("c", 40, "c1")]);
    let committing = commits(rows, &[Ok(()), Ok(()), Ok(())], mine(&[row("d", 30, "d1")]), &terms, &mut notes);
    let absent = Ok(ChangeAnswer::Absent);
    let again = committing
        .answered(&[Ok(ChangeAnswer::Done), absent.clone(), Err(FailureKind::TimedOut), absent.clone()], &mut notes);
    assert_eq!((notes.counts.committed, notes.counts.fenced), (1, 2));
    assert_eq!(notes.counts.duplicate_risk, 1, "of the two fenced ones this call sent one");
    let again = again.unwrap();
    assert_eq!(again.commits.len(), 1);
    assert!(again.clone().answered(&[absent], &mut notes).is_none());
    assert_eq!((notes.counts.committed, notes.counts.unknown), (2, 0));
    again.clone().give_up(&mut notes);
    assert_eq!(notes.counts.unknown, 1);
    assert!(again.answered(&[Err(FailureKind::TimedOut)], &mut notes).is_none(), "two tries at most");
    assert_eq!(notes.counts.unknown, 2);
}
