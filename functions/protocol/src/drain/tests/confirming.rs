use super::*;
use crate::failure::FailureKind;
use crate::ids::PayloadDigest;
use crate::lease::{StepDownReason, SteppingDown};
use crate::outbox::Tombstone;

fn stone(row: &OutboxRow) -> Tombstone {
    Tombstone {
        id: row.id().clone(),
        digest: PayloadDigest::of(&row.payload),
        redriven: row.redriven,
        expires_at_secs: 9,
    }
}

fn reread<'a>(lease: &'a Slot<LeaseRecord>, tombstones: &'a [Slot<Tombstone>], now_ms: u64) -> Reread<'a> {
    Reread { lease: Ok(lease), tombstones: Ok(tombstones), claims_started: reading(0), now: reading(now_ms) }
}

fn answers(rows: &[OutboxRow], ordered: bool, answers: &[Result<ClaimAnswer, FailureKind>]) -> (Claimed, Notes) {
    let (terms, mut state) = start(ordered);
    let permit = permit_of(&terms, 7);
    let (choice, mut notes) = choose(&mut state, &terms, &permit, slots(rows), None, &claim_id("mine"), reading(0));
    let claimed = after_claims(choice, answers, &terms, &mut notes);
    (claimed, notes)
}

#[test]
fn a_claim_is_mine_by_its_answer_or_by_its_id() {
    let rows = [
        row("a", 60, "a"),
        row("b", 50, "b"),
        row("c", 40, "c"),
        row("d", 30, "d"),
        row("e", 20, "e"),
        row("f", 10, "f"),
    ];
    let (claimed, notes) = answers(
        &rows,
        false,
        &[
            Ok(ClaimAnswer::Claimed),
            Ok(ClaimAnswer::Refused(Slot::Present(claimed_by(rows[1].clone(), "mine", 7)))),
            Ok(ClaimAnswer::Refused(Slot::Present(claimed_by(rows[2].clone(), "other", 9)))),
            Ok(ClaimAnswer::Refused(Slot::Absent)),
            Err(FailureKind::TimedOut),
            Err(FailureKind::Throttled),
        ],
    );
    assert_eq!(ids(&claimed.mine), ["a", "b"]);
    assert_eq!(claimed.above, Some(stamp(9)));
    assert_eq!((notes.counts.claimed, notes.counts.conflicts, notes.counts.unknown), (2, 2, 1));
    let a = &claimed.mine[0].row;
    assert_eq!((a.stamp, a.attempts, a.first_attempt_at), (stamp(7), 1, Some(at(0))));
    assert_eq!(a.claim(), Some(&claim_id("mine")));
    assert_eq!(notes.stop(), None);
}

#[test]
fn after_a_failed_claim_later_ones_of_its_key_are_handed_back() {
    let rows = [row("a", 60, "a1"), row("a", 50, "a2"), row("b", 40, "b1"), row("a", 30, "a3")];
    let all =
        [Ok(ClaimAnswer::Claimed), Err(FailureKind::TimedOut), Ok(ClaimAnswer::Claimed), Ok(ClaimAnswer::Claimed)];
    let (claimed, notes) = answers(&rows, true, &all);
    assert_eq!((ids(&claimed.mine), handed(&claimed.hand_back)), (vec!["a1", "b1"], vec!["a2", "a3"]));
    assert!(notes.blocked.contains("a") && !notes.blocked.contains("b"));
    assert_eq!(claimed.hand_back[0].attempts, 0, "it loses no attempt");
    let (claimed, _) = answers(&rows, false, &all);
    assert_eq!(ids(&claimed.mine), ["a1", "b1", "a3"]);
}

#[test]
fn a_store_that_answers_no_claim_ends_the_call() {
    let rows = [row("a", 60, "a1"), row("b", 50, "b1")];
    let (_, notes) = answers(&rows, false, &[Err(FailureKind::Denied), Err(FailureKind::Denied)]);
    assert_eq!(notes.stop(), Some(&Stop::Store(FailureKind::Denied)));
    let (_, notes) = answers(&rows, false, &[Err(FailureKind::Denied), Ok(ClaimAnswer::Claimed)]);
    assert_eq!(notes.stop(), None, "one answer is enough to go on");
    let (claimed, notes) = answers(&rows, false, &[Ok(ClaimAnswer::Claimed)]);
    assert_eq!((claimed.mine.len(), notes.counts.unknown), (1, 1), "an answer too few is an unknown outcome");
}

#[test]
fn only_an_unchanged_lease_lets_rows_be_sent() {
    let (terms, _) = start(false);
    let earlier = permit_of(&terms, 7);
    let stepping_down = SteppingDown { since: at(1), reason: StepDownReason::StepDown };
    let not = Stop::NotPermitted;
    let table = [
        ("mine", lease(7), 100, None),
        ("another token of mine", lease(8), 100, Some(not(NotPermitted::OtherToken(token(8))))),
        (
            "another's",
            LeaseRecord { owner: Some(identity("west")), ..lease(8) },
            100,
            Some(not(NotPermitted::HeldBy(identity("west")))),
        ),
        (
            "stepping down",
            LeaseRecord { stepping_down: Some(stepping_down), ..lease(7) },
            100,
            Some(not(NotPermitted::SteppingDown)),
        ),
        ("claim budget spent", LeaseRecord { confirmed_at: at(9_000), ..lease(7) }, 10_001, Some(Stop::BudgetSpent)),
        (
            "send would be late",
            LeaseRecord { lease_ttl: Duration::from_secs(10), ..lease(7) },
            4_501,
            Some(Stop::TooLate),
        ),
        ("send just fits", LeaseRecord { lease_ttl: Duration::from_secs(10), ..lease(7) }, 4_500, None),
    ];
    for (name, record, now_ms, stop) in table {
        let mut notes = notes(false);
        let slot = Slot::Present(record);
        let confirmed = confirm(mine(&[row("a", 60, "a1")]), &earlier, &reread(&slot, &[], now_ms), &terms, &mut notes);
        assert_eq!(notes.stop(), stop.as_ref(), "{name}");
        assert_eq!(confirmed.permit.is_some(), stop.is_none(), "{name}");
        assert_eq!(
            (confirmed.send.len(), confirmed.hand_back.len()),
            if stop.is_none() { (1, 0) } else { (0, 1) },
            "{name}"
        );
        if let Some(back) = confirmed.hand_back.first() {
            assert_eq!(
                (back.free, back.attempts, &back.claim, back.token),
                (true, 0, &claim_id("mine"), token(7)),
                "{name}"
            );
        }
    }
}

#[test]
fn what_a_tombstone_proves_is_committed_unsent_even_by_a_former_holder() {
    let (terms, _) = start(false);
    let earlier = permit_of(&terms, 7);
    let rows = [row("a", 60, "a1"), row("b", 50, "b1"), OutboxRow { redriven: 1, ..row("c", 40, "c1") }];
    let stones = [Slot::Present(stone(&rows[0])), Slot::Present(Tombstone { redriven: 0, ..stone(&rows[2]) })];
    let other_bytes = Tombstone { digest: PayloadDigest::of(b"other"), ..stone(&rows[1]) };
    let stones = [&stones[..], &[Slot::Present(other_bytes)]].concat();
    let held = Slot::Present(lease(7));
    let mut notes = notes(false);
    let confirmed = confirm(mine(&rows), &earlier, &reread(&held, &stones, 0), &terms, &mut notes);
    assert_eq!((ids(&confirmed.commit_only), ids(&confirmed.send)), (vec!["a1"], vec!["b1", "c1"]));
    let lost = Slot::Present(lease(8));
    let confirmed = confirm(mine(&rows), &earlier, &reread(&lost, &stones, 0), &terms, &mut notes);
    assert_eq!((ids(&confirmed.commit_only), handed(&confirmed.hand_back)), (vec!["a1"], vec!["b1", "c1"]));
}

#[test]
fn unreadable_or_damaged_proof_means_neither_send_nor_commit() {
    let (terms, _) = start(true);
    let earlier = permit_of(&terms, 7);
    let rows = [row("a", 60, "a1"), row("a", 50, "a2"), row("b", 40, "b1")];
    let held = Slot::Present(lease(7));
    let mut notes_a = notes(true);
    let failed = Reread { tombstones: Err(FailureKind::Throttled), ..reread(&held, &[], 0) };
    let confirmed = confirm(mine(&rows), &earlier, &failed, &terms, &mut notes_a);
    assert_eq!((confirmed.send.len(), confirmed.hand_back.len()), (0, 3));
    assert_eq!(notes_a.stop(), Some(&Stop::Store(FailureKind::Throttled)));
    let mut notes_b = notes(true);
    let stones = [Slot::Damaged(damage("sent#a1"))];
    let confirmed = confirm(mine(&rows), &earlier, &reread(&held, &stones, 0), &terms, &mut notes_b);
    assert_eq!((ids(&confirmed.send), handed(&confirmed.hand_back)), (vec!["b1"], vec!["a1", "a2"]), "order holds");
    assert_eq!(confirmed.hand_back[0].not_before, Some(at(300_000)));
    assert!(confirmed.hand_back[0].last_error.as_ref().unwrap().contains("sent#a1"));
    assert_eq!(confirmed.hand_back[1].not_before, None);
    assert_eq!((notes_b.counts.held, notes_b.stop()), (1, None));
}

#[test]
fn without_a_dedupe_window_no_tombstone_is_read() {
    let (mut terms, _) = start(false);
    assert_eq!(tombstone_ids(&mine(&[row("a", 60, "a1")]), &terms).len(), 1);
    terms.policy.timing.dedupe_window = Duration::ZERO;
    assert!(tombstone_ids(&mine(&[row("a", 60, "a1")]), &terms).is_empty());
}
