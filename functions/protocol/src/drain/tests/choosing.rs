use proptest::prelude::*;

use super::*;
use crate::failure::FailureKind;
use crate::outbox::{DeathReason, Tombstone};

fn run(request: DrainRequest, ordered: bool, rows: Vec<(Position, Slot<OutboxRow>)>) -> (Choice, Notes, ShardState) {
    let (terms, mut state) = begin(request, ordered);
    let permit = permit_of(&terms, 7);
    let (choice, notes) = choose(&mut state, &terms, &permit, rows, None, &claim_id("fresh"), reading(0));
    (choice, notes, state)
}

fn settled(row: &OutboxRow, claim: &str) -> SettledClaim {
    SettledClaim { key: row.key.clone(), claim: claim_id(claim) }
}

#[test]
fn pending_rows_that_are_due_are_claimed_and_others_reported() {
    let rows = [
        row("a", 60, "due"),
        OutboxRow { not_before: Some(at(1)), ..row("b", 50, "later") },
        OutboxRow { not_before: Some(at(0)), ..row("c", 40, "now") },
        OutboxRow { not_before: Some(at(10_000_000)), ..row("d", 35, "clock-ahead") },
        claimed_by(row("e", 30, "held"), "other", 7),
        claimed_by(row("f", 20, "held-too"), "other", 7),
    ];
    let (choice, notes, state) = run(request(Mode::Scheduled), false, slots(&rows));
    assert_eq!(chosen(&choice), ["due", "now", "clock-ahead"]);
    let claim = &choice.claims[0];
    assert_eq!((claim.attempts, claim.stale, claim.first_attempt_at), (1, 0, at(0)));
    assert_eq!((&claim.seen, claim.seen_attempts, claim.token), (&Status::Pending, 0, token(7)));
    assert_eq!(claim.seen_redriven, 0, "the life that was read");
    assert!(!choice.rows.iter().any(|chosen| chosen.resend), "nobody can have sent them");
    assert_eq!(notes.counts.skipped, 3);
    let unsettled = Unsettled { key: rows[4].key.clone(), claim: claim_id("other"), token: stamp(7) };
    assert_eq!(state.unsettled, [unsettled], "one entry for a claim id, its oldest row");
    assert!(state.done);
}

#[test]
fn a_settled_claim_is_taken_over_and_its_staleness_counted() {
    let rows = [claimed_by(row("a", 60, "one"), "gone", 6), claimed_by(row("b", 50, "two"), "gone", 6)];
    let request = DrainRequest { settled: vec![settled(&rows[0], "gone")], ..request(Mode::Scheduled) };
    let (choice, _, state) = run(request, false, slots(&rows));
    assert_eq!(chosen(&choice), ["one", "two"], "the id is settled, wherever it stands");
    assert_eq!((choice.claims[0].stale, choice.claims[0].attempts), (1, 2));
    assert!(choice.rows.iter().all(|chosen| chosen.resend) && state.unsettled.is_empty());
}

#[test]
fn a_page_with_a_token_above_mine_is_not_touched() {
    let rows = [row("a", 60, "one"), OutboxRow { stamp: stamp(9), ..row("b", 50, "two") }];
    let (choice, _, state) = run(request(Mode::Scheduled), false, slots(&rows));
    assert_eq!((choice.above, choice.claims.len()), (Some(stamp(9)), 0));
    assert!(!state.done && state.after.is_none(), "nothing was passed over");
}

#[test]
fn a_takeover_takes_orphans_below_its_cut_only() {
    let rows = [
        row("a", 60, "orphan"),
        OutboxRow { stamp: stamp(7), ..row("b", 50, "mine") },
        claimed_by(row("c", 40, "mine-claimed"), "busy", 7),
        claimed_by(row("d", 30, "stale"), "gone", 6),
        row("e", 9, "new"),
    ];
    let mode = Mode::Takeover { token: token(7), cut: Cut::at(Timestamp::from_ms(START_MS - 10)) };
    let (terms, mut state) = begin(request(mode), false);
    let next = Some(rows[4].key.position.clone());
    let (choice, _) =
        choose(&mut state, &terms, &permit_of(&terms, 7), slots(&rows), next, &claim_id("fresh"), reading(0));
    assert_eq!(chosen(&choice), ["orphan"]);
    assert_eq!(state.unsettled.len(), 1, "my own claims belong to the scheduled drain");
    assert_eq!(state.unsettled[0].claim, claim_id("gone"));
    assert!(state.done, "the pass ends at the cut although the shard goes on");
}

#[test]
fn a_record_that_went_stale_too_often_is_claimed_in_a_call_of_its_own() {
    let poison = OutboxRow { stale: 2, ..claimed_by(row("a", 60, "poison"), "gone", 7) };
    let neighbour = row("b", 50, "neighbour");
    let rows = [poison.clone(), neighbour];
    let first = DrainRequest { settled: vec![settled(&poison, "gone")], ..request(Mode::Scheduled) };
    let (choice, _, state) = run(first, false, slots(&rows));
    assert_eq!(chosen(&choice), ["neighbour"]);
    let alone = Alone { key: poison.key, claim: Some(claim_id("gone")) };
    assert_eq!(state.alone, std::slice::from_ref(&alone));
    for ordered in [false, true] {
        let second = DrainRequest { alone: Some(alone.clone()), ..request(Mode::Scheduled) };
        let (choice, _, state) = run(second, ordered, slots(&rows));
        assert_eq!(chosen(&choice), ["poison"]);
        assert_eq!(choice.claims[0].stale, 3);
        assert!(state.done);
    }
    let without_claim = DrainRequest { alone: Some(Alone { claim: None, ..alone }), ..request(Mode::Scheduled) };
    assert!(chosen(&run(without_claim, false, slots(&rows)).0).is_empty(), "an unsettled claim stays its owner's");
}

#[test]
fn an_unordered_lone_row_is_read_from_its_own_millisecond() {
    let poison = row("a", 60, "poison");
    let request =
        DrainRequest { alone: Some(Alone { key: poison.key.clone(), claim: None }), ..request(Mode::Scheduled) };
    let after = begin(request.clone(), false).1.after.unwrap();
    assert!(after < poison.key.position && after.received_at() < poison.key.position.received_at());
    assert!(begin(request, true).1.after.is_none(), "an order is judged from the head");
}

#[test]
fn a_lone_call_ends_behind_its_row_and_in_every_other_shard() {
    let rows = [row("a", 60, "before"), row("b", 50, "lone"), row("c", 40, "behind")];
    let lone = Alone { key: rows[1].key.clone(), claim: None };
    let both = DrainRequest::scheduled(vec![shard(0), shard(1)]);
    let end_of = |lone: &Alone, rows: &[OutboxRow]| {
        let (terms, mut state) = begin(DrainRequest { alone: Some(lone.clone()), ..both.clone() }, true);
        let next = Some(row("z", 1, "z").key.position);
        let (choice, notes) =
            choose(&mut state, &terms, &permit_of(&terms, 7), slots(rows), next, &claim_id("fresh"), reading(0));
        (chosen(&choice).len(), notes.counts.skipped, state.done)
    };
    assert_eq!(
        end_of(&lone, &rows),
        (1, 1, true),
        "what stands before it is passed over, what stands behind is not read"
    );
    assert_eq!(end_of(&lone, &rows[..1]), (0, 1, false), "it stands further on");
    let elsewhere = Alone { key: RowKey { shard: shard(1), ..lone.key }, claim: None };
    assert!(begin(DrainRequest { alone: Some(elsewhere.clone()), ..both.clone() }, true).1.done, "not even begun");
    assert_eq!(end_of(&elsewhere, &rows), (0, 0, true), "another shard has nothing for this call");
}

#[test]
fn damaged_rows_are_counted_one_by_one() {
    let positions = [row("a", 60, "x"), row("b", 50, "y")].map(|row| row.key.position);
    let rows = positions.map(|position| (position, Slot::Damaged(damage("a row")))).into();
    let (choice, notes, state) = run(request(Mode::Scheduled), false, rows);
    assert_eq!((choice.damaged.len(), notes.counts.held), (2, 2));
    assert!(choice.claims.is_empty() && state.done, "no later row may overtake them");
}

#[test]
fn every_row_that_is_passed_over_is_counted() {
    let rows = [
        OutboxRow { not_before: Some(at(1)), ..row("a", 60, "later") },
        row("a", 50, "behind"),
        row("a", 40, "behind-too"),
    ];
    let (choice, notes, _) = run(request(Mode::Scheduled), true, slots(&rows));
    assert_eq!((choice.claims.len(), notes.counts.skipped), (0, 3));
}

#[test]
fn at_most_a_hundred_claims_are_told_as_unsettled() {
    let rows: Vec<OutboxRow> = (0..130_u64)
        .map(|number| {
            claimed_by(row(&format!("d{number}"), 200 - number, &format!("m{number}")), &format!("c{number}"), 7)
        })
        .collect();
    let (_, notes, state) = run(request(Mode::Scheduled), false, slots(&rows));
    assert_eq!((notes.counts.skipped, state.unsettled.len()), (130, crate::limits::SETTLED_IDS_MAX));
    assert_eq!(state.unsettled[0].claim, claim_id("c0"), "the oldest first");
}

#[test]
fn exhaustion_needs_attempts_and_age() {
    let day_ms = 86_400_000;
    let first = Some(Timestamp::from_ms(START_MS - day_ms));
    let recent = Some(Timestamp::from_ms(START_MS - day_ms + 1));
    for (name, attempts, first_attempt_at, dies) in [
        ("both", 20, first, true),
        ("attempts alone", 20, recent, false),
        ("age alone", 19, first, false),
        ("never tried", 20, None, false),
    ] {
        let row = OutboxRow { attempts, first_attempt_at, ..row("a", 60, "old") };
        let (mut choice, mut notes, _) = run(request(Mode::Scheduled), false, slots(std::slice::from_ref(&row)));
        let (terms, _) = start(false);
        assert_eq!(choice.exhausted_ids(&terms).len(), usize::from(dies), "{name}");
        let burials = choice.settle_exhausted(Ok(&[]), &permit_of(&terms, 7), &mut notes, reading(0));
        assert_eq!(burials.len(), usize::from(dies), "{name}");
        assert_eq!(choice.claims.len(), usize::from(!dies), "{name}");
        if let Some(burial) = burials.first() {
            assert_eq!(
                (burial.dead.reason, &burial.seen, burial.seen_stamp),
                (DeathReason::Exhausted, &row.status, row.stamp)
            );
        }
    }
}

#[test]
fn an_exhausted_record_that_was_delivered_is_committed_instead() {
    let (terms, _) = start(false);
    let old = Some(Timestamp::from_ms(START_MS - 86_400_000));
    let row = OutboxRow { attempts: 20, first_attempt_at: old, ..row("a", 60, "old") };
    let digest = crate::ids::PayloadDigest::of(&row.payload);
    let stone = Tombstone { id: row.id().clone(), digest, redriven: 0, expires_at_secs: 9 };
    // A late delivery of the event whose record was redriven and delivered since.
    let later_life = Tombstone { redriven: 1, ..stone.clone() };
    let other_bytes = Tombstone { digest: crate::ids::PayloadDigest::of(b"other"), ..stone.clone() };
    for (stones, claims, burials, held) in [
        (Ok(vec![Slot::Present(stone)]), 1, 0, 0),
        (Ok(vec![Slot::Present(later_life)]), 1, 0, 0),
        (Ok(vec![Slot::Present(other_bytes)]), 0, 1, 0),
        (Ok(vec![Slot::Damaged(damage("sent#old"))]), 0, 0, 1),
        (Err(FailureKind::TimedOut), 0, 0, 0),
    ] {
        let (mut choice, mut notes, _) = run(request(Mode::Scheduled), false, slots(std::slice::from_ref(&row)));
        let stones = stones.as_deref().map_err(|kind| *kind);
        let buried = choice.settle_exhausted(stones, &permit_of(&terms, 7), &mut notes, reading(0));
        assert_eq!((choice.claims.len(), buried.len(), notes.counts.held), (claims, burials, held));
    }
}

#[test]
fn a_pages_exhausted_rows_of_a_key_die_together_and_nothing_is_sent_behind_them() {
    let old = Some(Timestamp::from_ms(START_MS - 86_400_000));
    let exhausted =
        |client: &str, before, id: &str| OutboxRow { attempts: 20, first_attempt_at: old, ..row(client, before, id) };
    let later = OutboxRow { not_before: Some(at(1)), ..row("b", 50, "b1") };
    let rows = [
        exhausted("a", 60, "a1"),
        later,
        exhausted("a", 40, "a2"),
        row("a", 30, "a3"),
        exhausted("b", 25, "b2"),
        claimed_by(exhausted("a", 22, "a4"), "other", 7),
        exhausted("a", 20, "a5"),
    ];
    let (terms, _) = start(true);
    let (mut choice, mut notes, state) = run(request(Mode::Scheduled), true, slots(&rows));
    assert_eq!((chosen(&choice).len(), notes.counts.skipped), (0, 4));
    assert!(state.unsettled.is_empty(), "a claim behind rows that die is nobody's to wait for yet");
    let buried = choice.settle_exhausted(Ok(&[]), &permit_of(&terms, 7), &mut notes, reading(0));
    let buried: Vec<_> = buried.iter().map(|burial| burial.dead.row.id().as_str()).collect();
    assert_eq!(buried, ["a1", "a2", "a5"], "not b2, whose key waits for another reason");
    // One of them was delivered: it is committed without a send, beside the burial of the earlier one.
    let (mut choice, mut notes, _) = run(request(Mode::Scheduled), true, slots(&rows[..4]));
    let delivered = &rows[2];
    let digest = crate::ids::PayloadDigest::of(&delivered.payload);
    let stone = Slot::Present(Tombstone { id: delivered.id().clone(), digest, redriven: 0, expires_at_secs: 9 });
    let buried = choice.settle_exhausted(Ok(&[stone]), &permit_of(&terms, 7), &mut notes, reading(0));
    assert_eq!((buried.len(), buried[0].dead.row.id().as_str(), chosen(&choice)), (1, "a1", vec!["a2"]));
    // On the next page of the pass the key is blocked, and why is not known any more.
    let (terms, mut state) = start(true);
    let permit = permit_of(&terms, 7);
    let next = Some(rows[0].key.position.clone());
    let (_, notes) = choose(&mut state, &terms, &permit, slots(&rows[..1]), next, &claim_id("p1"), reading(0));
    state.absorb(notes);
    let (mut choice, mut notes) =
        choose(&mut state, &terms, &permit, slots(&rows[2..3]), None, &claim_id("p2"), reading(0));
    assert!(choice.settle_exhausted(Ok(&[]), &permit, &mut notes, reading(0)).is_empty());
}

#[test]
fn nothing_overtakes_an_earlier_row_of_its_key() {
    let later = |name, row: OutboxRow| (name, row);
    for (name, first) in [
        later("not due", OutboxRow { not_before: Some(at(1)), ..row("a", 60, "a1") }),
        later("claimed by another", claimed_by(row("a", 60, "a1"), "other", 7)),
        later("to be claimed alone", OutboxRow { stale: 3, ..row("a", 60, "a1") }),
        later(
            "exhausted",
            OutboxRow {
                attempts: 20,
                first_attempt_at: Some(at(0).minus(Duration::from_secs(86_400))),
                ..row("a", 60, "a1")
            },
        ),
    ] {
        let rows = [first, row("a", 50, "a2"), row("b", 40, "b1"), claimed_by(row("a", 30, "a3"), "third", 7)];
        let (choice, _, state) = run(request(Mode::Scheduled), true, slots(&rows));
        assert_eq!(chosen(&choice), ["b1"], "{name}");
        assert!(
            state.unsettled.iter().all(|entry| entry.claim != claim_id("third")),
            "{name}: no claim of a blocked key"
        );
        let (choice, _, _) = run(request(Mode::Scheduled), false, slots(&rows));
        assert!(chosen(&choice).contains(&"a2"), "{name}: without an order nothing waits");
    }
}

#[test]
fn a_damaged_row_is_held_and_holds_back_what_it_may_precede() {
    let position = row("a", 60, "x").key.position;
    let mut rows = vec![(position, Slot::Damaged(damage("telemetry#0000")))];
    rows.extend(slots(&[row("b", 50, "b1")]));
    let (choice, notes, state) = run(request(Mode::Scheduled), false, rows.clone());
    assert_eq!((chosen(&choice), notes.counts.held), (vec!["b1"], 1));
    assert!(state.done);
    let (choice, _, _) = run(request(Mode::Scheduled), true, rows);
    assert!(choice.claims.is_empty(), "its key is unknown");
}

#[test]
fn an_ordered_shard_waits_for_the_page_in_work() {
    let (terms, mut state) = start(true);
    let permit = permit_of(&terms, 7);
    let rows = slots(&[row("a", 60, "a1")]);
    let next = Some(rows[0].0.clone());
    let (_, notes) = choose(&mut state, &terms, &permit, rows, next, &claim_id("p1"), reading(0));
    let mut second = state.clone();
    let rows = slots(&[row("b", 50, "b1")]);
    let (choice, _) = choose(&mut second, &terms, &permit, rows.clone(), None, &claim_id("p2"), reading(0));
    assert!(choice.claims.is_empty(), "the first page has not been absorbed");
    state.absorb(notes);
    let (choice, _) = choose(&mut state, &terms, &permit, rows, None, &claim_id("p2"), reading(0));
    assert_eq!(chosen(&choice), ["b1"]);
}

#[test]
fn a_page_of_rows_that_nobody_may_take_moves_the_cursor_on() {
    let (terms, mut state) = start(false);
    let rows = slots(&[claimed_by(row("a", 60, "a1"), "other", 7)]);
    let next = rows[0].0.clone();
    let permit = permit_of(&terms, 7);
    let (choice, notes) = choose(&mut state, &terms, &permit, rows, Some(next.clone()), &claim_id("p1"), reading(0));
    state.absorb(notes);
    assert!(choice.claims.is_empty() && state.goes_on());
    assert_eq!(state.after, Some(next));
}

#[test]
fn nothing_is_chosen_after_the_deadline() {
    let (terms, mut state) = start(false);
    let rows = slots(&[row("a", 60, "a1")]);
    let permit = permit_of(&terms, 7);
    let (choice, notes) = choose(&mut state, &terms, &permit, rows, None, &claim_id("p1"), reading(299_500));
    assert!(choice.claims.is_empty());
    assert_eq!(notes.stop(), Some(&Stop::TooLate));
}

fn any_row() -> impl Strategy<Value = OutboxRow> {
    let status = prop_oneof![Just(None), Just(Some("gone")), Just(Some("other"))];
    (0u8..5, 1u64..1_000, 0u64..=8, status, 0u32..25, 0u32..5, proptest::option::of(0u64..400)).prop_map(
        |(client, before, number, claim, attempts, stale, not_before)| OutboxRow {
            stamp: stamp(number),
            status: claim.map_or(Status::Pending, |claim| Status::Claimed(claim_id(claim))),
            attempts,
            stale,
            not_before: not_before.map(|ms| Timestamp::from_ms(START_MS - 200 + ms)),
            ..row(&format!("d{client}"), before, &format!("m{before}"))
        },
    )
}

proptest! {
    #[test]
    fn whatever_is_chosen_may_be_chosen(mut rows in proptest::collection::vec(any_row(), 0..30), ordered in any::<bool>(), takeover in any::<bool>()) {
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows.dedup_by(|a, b| a.key == b.key);
        let cut = Cut::at(Timestamp::from_ms(START_MS - 300));
        let mode = if takeover { Mode::Takeover { token: token(7), cut } } else { Mode::Scheduled };
        let settled = vec![SettledClaim { key: row("a", 1, "x").key, claim: claim_id("gone") }];
        let (choice, _, state) = run(DrainRequest { settled, ..request(mode) }, ordered, slots(&rows));
        if rows.iter().any(|row| row.stamp.is_above(token(7))) {
            prop_assert!(choice.above.is_some() && choice.claims.is_empty());
            return Ok(());
        }
        let taken: Vec<_> = choice.claims.iter().map(|claim| claim.key.clone()).collect();
        for row in &rows {
            if !taken.contains(&row.key) { continue; }
            prop_assert!(row.claim().is_none_or(|claim| *claim == claim_id("gone")));
            prop_assert!(row.claim().is_some() || row.not_before.is_none_or(|due| due <= at(0)));
            prop_assert!(row.stale + u32::from(row.claim().is_some()) < STALE_CLAIMS_MAX);
            prop_assert!(!takeover || (row.stamp.is_below(token(7)) && cut.is_above(&row.key.position)));
            if ordered {
                let earlier = rows.iter().filter(|other| other.key < row.key && other.ordering_key() == row.ordering_key());
                for other in earlier { prop_assert!(taken.contains(&other.key), "{} overtakes {}", row.key, other.key); }
            }
        }
        for entry in &state.unsettled {
            prop_assert!(entry.claim == claim_id("other"));
        }
    }

    #[test]
    fn blocked_keys_travel_and_never_get_fewer(keys in proptest::collection::vec("[a-z]{1,6}", 0..700)) {
        let mut blocked = BlockedKeys::none(true);
        for key in &keys { blocked.block(key); }
        let json = serde_json::to_string(&blocked).unwrap();
        let back: BlockedKeys = serde_json::from_str(&json).unwrap();
        prop_assert!(keys.iter().all(|key| back.contains(key)));
        prop_assert!(json.len() <= BlockedKeys::MAX * 8 + 2);
        prop_assert_eq!(back, blocked);
    }
}
