use proptest::prelude::*;

use super::*;
use crate::drain::outcome::mix;
use crate::failure::FailureKind;
use crate::limits;
use crate::outbox::DeathReason;

fn reply(accepted: &[&str], refused: &[(&str, &str)]) -> QueueReply {
    let refusal = |(id, code): &(&str, &str)| QueueRefusal {
        entry_id: (*id).to_owned(),
        code: (*code).to_owned(),
        message: "because".to_owned(),
    };
    QueueReply {
        accepted: accepted.iter().map(|id| (*id).to_owned()).collect(),
        refused: refused.iter().map(refusal).collect(),
    }
}

fn everything(batch: &Batch) -> QueueReply {
    QueueReply { accepted: batch.entries.iter().map(|entry| entry.entry_id.clone()).collect(), refused: Vec::new() }
}

fn many(count: u64) -> Vec<OutboxRow> {
    (0..count).map(|n| row(&format!("d{n}"), 1_000 - n, &format!("m{n:03}"))).collect()
}

/// One batch of `rows`, its sending and notes.
fn one_batch(rows: Vec<ClaimedRow>, ordered: bool) -> (Sending, Batch, CallTerms, Notes) {
    let (terms, _) = start(ordered);
    let mut notes = notes(ordered);
    let (mut sending, burials) = Sending::new(rows, &terms, at(0), &mut notes);
    assert!(burials.is_empty());
    let mut wave = sending.wave();
    assert_eq!(wave.len(), 1);
    (sending, wave.remove(0), terms, notes)
}

#[test]
fn each_entry_is_judged_by_itself() {
    let rows = mine(&many(6));
    let (mut sending, batch, terms, mut notes) = one_batch(rows, false);
    let answer = reply(
        &["0", "0", "1", "77"],
        &[("1", "InternalError"), ("2", "InvalidMessageContents"), ("3", "AccessDenied"), ("4", "X")],
    );
    let settlement = sending.answered(batch, &Ok(answer), &terms, at(0), 42, &mut notes);
    assert_eq!(ids(&settlement.accepted), ["m000"]);
    assert_eq!(settlement.burials.len(), 1);
    let burial = &settlement.burials[0];
    assert_eq!((burial.dead.row.id().as_str(), burial.dead.reason), ("m002", DeathReason::Refused));
    assert_eq!((&burial.seen, burial.seen_stamp), (&Status::Claimed(claim_id("mine")), stamp(7)));
    let kept: Vec<_> =
        settlement.changes.iter().map(|back| (back.key.position.id().as_str(), back.free, back.attempts)).collect();
    assert_eq!(kept, [("m001", false, 0), ("m003", true, 1), ("m004", true, 1), ("m005", false, 0)]);
    assert!(settlement.changes[1].not_before.is_some_and(|due| due > at(0)));
    assert_eq!(settlement.changes[1].last_error.as_deref(), Some("AccessDenied: because"));
    assert_eq!((notes.counts.sent, notes.counts.refused, notes.counts.unknown), (1, 3, 2));
    assert!(sending.wave().is_empty() && sending.rest(&mut notes).is_empty());
}

#[test]
fn an_outage_costs_no_attempt_and_ends_the_call() {
    for (kind, free) in [
        (FailureKind::Throttled, true),
        (FailureKind::Denied, true),
        (FailureKind::Unavailable, false),
        (FailureKind::TimedOut, false),
    ] {
        let (terms, _) = start(false);
        let mut notes = notes(false);
        let (mut sending, _) = Sending::new(mine(&many(12)), &terms, at(0), &mut notes);
        let mut wave = sending.wave();
        assert_eq!(wave.len(), 2);
        let settlement = sending.answered(wave.remove(0), &Err(kind), &terms, at(0), 0, &mut notes);
        assert_eq!(settlement.changes.len(), 10);
        assert!(
            settlement.changes.iter().all(|back| back.free == free && back.attempts == 0 && back.not_before.is_none())
        );
        assert_eq!(notes.stop(), Some(&Stop::Queue(kind)));
        assert_eq!((notes.counts.send_failures, notes.counts.unknown), (1, if free { 0 } else { 10 }));
        sending.hold(wave.remove(0));
        assert!(sending.wave().is_empty(), "nothing more is sent");
        assert_eq!(sending.rest(&mut notes).len(), 2);
    }
}

#[test]
fn one_bad_entry_does_not_hold_its_neighbours_back() {
    let (mut sending, batch, terms, mut notes) = one_batch(mine(&many(3)), false);
    let settlement = sending.answered(batch, &Err(FailureKind::Invalid), &terms, at(0), 0, &mut notes);
    assert_eq!(settlement, Settlement::default());
    let singles = sending.wave();
    assert_eq!(singles.iter().map(|batch| batch.entries.len()).collect::<Vec<_>>(), [1, 1, 1]);
    let mut accepted = 0;
    for (index, batch) in singles.into_iter().enumerate() {
        let answer = if index == 1 { Err(FailureKind::Invalid) } else { Ok(everything(&batch)) };
        let settlement = sending.answered(batch, &answer, &terms, at(0), 0, &mut notes);
        accepted += settlement.accepted.len();
        if index == 1 {
            assert_eq!((settlement.changes[0].free, settlement.changes[0].attempts), (true, 0));
            assert!(settlement.changes[0].not_before.is_some());
        }
    }
    assert_eq!((accepted, notes.stop()), (2, None));
    assert_eq!((notes.counts.refused, notes.counts.send_failures), (1, 2), "the request, and the entry by itself");
}

#[test]
fn a_queue_that_took_one_entry_is_not_missing() {
    let (mut sending, batch, terms, mut notes) = one_batch(mine(&many(5)), false);
    sending.answered(batch, &Err(FailureKind::Invalid), &terms, at(0), 0, &mut notes);
    for (index, batch) in sending.wave().into_iter().enumerate() {
        let answer = if index == 0 { Ok(everything(&batch)) } else { Err(FailureKind::Invalid) };
        sending.answered(batch, &answer, &terms, at(0), 0, &mut notes);
    }
    assert_eq!((notes.counts.sent, notes.counts.refused, notes.stop()), (1, 4, None));
}

#[test]
fn a_request_is_filled_to_its_last_byte() {
    let (mut terms, _) = start(false);
    let mut page = notes(false);
    let (mut sending, _) = Sending::new(mine(&many(7)), &terms, at(0), &mut page);
    let entry_bytes = sending.wave()[0].entries[0].size_bytes();
    for (bytes_max, expected) in [(3 * entry_bytes, [3, 3, 1]), (4 * entry_bytes - 1, [3, 3, 1])] {
        terms.policy.request_bytes_max = bytes_max;
        let (mut sending, _) = Sending::new(mine(&many(7)), &terms, at(0), &mut page);
        assert_eq!(sending.wave().iter().map(|batch| batch.entries.len()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_back_off_is_spread_over_its_upper_half() {
    let policy = policy(false);
    for (attempts, roll, wait_ms) in
        [(1, 0, 500), (1, 500, 1_000), (1, 501, 500), (2, 1_000, 2_000), (2, 1_001, 1_000), (3, 7, 2_007)]
    {
        assert_eq!(policy.backoff(attempts, roll), Duration::from_millis(wait_ms), "attempt {attempts}, roll {roll}");
    }
}

/// The first outputs of SplitMix64 for the seed 1234567, as its implementations are commonly checked.
#[test]
fn each_row_has_a_random_number_of_its_own() {
    let expected = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ];
    assert_eq!([0, 1, 2, 3, 4].map(|index| mix(1_234_567, index)), expected);
}

#[test]
fn a_queue_that_calls_everything_invalid_ends_the_call() {
    let (mut sending, batch, terms, mut notes) = one_batch(mine(&many(5)), false);
    sending.answered(batch, &Err(FailureKind::Invalid), &terms, at(0), 0, &mut notes);
    let mut tried = 0;
    for batch in sending.wave() {
        if notes.stop().is_some() {
            sending.hold(batch);
        } else {
            tried += 1;
            let settlement = sending.answered(batch, &Err(FailureKind::Invalid), &terms, at(0), 0, &mut notes);
            assert_eq!(settlement.changes[0].attempts, 0);
        }
    }
    assert_eq!((tried, notes.stop()), (3, Some(&Stop::Queue(FailureKind::Invalid))));
    assert_eq!(sending.rest(&mut notes).len(), 2);
}

#[test]
fn a_second_send_that_may_have_happened_is_counted() {
    let resent =
        || mine(&many(3)).into_iter().map(|claimed| ClaimedRow { resend: true, ..claimed }).collect::<Vec<_>>();
    let (mut sending, batch, terms, mut notes) = one_batch(resent(), false);
    sending.answered(batch, &Ok(reply(&["0"], &[("1", "X")])), &terms, at(0), 0, &mut notes);
    assert_eq!(notes.counts.duplicate_risk, 2, "accepted, and unknown; not the refused one");
    let (mut sending, batch, terms, mut notes) = one_batch(resent(), false);
    sending.answered(batch, &Err(FailureKind::TimedOut), &terms, at(0), 0, &mut notes);
    assert_eq!(notes.counts.duplicate_risk, 3);
    let (mut sending, batch, terms, mut notes) = one_batch(resent(), false);
    sending.answered(batch, &Err(FailureKind::Throttled), &terms, at(0), 0, &mut notes);
    assert_eq!(notes.counts.duplicate_risk, 0);
}

#[test]
fn in_order_one_of_a_key_travels_and_the_next_follows_its_acceptance() {
    let rows = [row("a", 60, "a1"), row("a", 50, "a2"), row("b", 40, "b1"), row("b", 30, "b2"), row("a", 20, "a3")];
    let (mut sending, batch, terms, mut notes) = one_batch(mine(&rows), true);
    let travelling =
        |batch: &Batch| batch.entries.iter().map(|entry| entry.deduplication_id.clone().unwrap()).collect::<Vec<_>>();
    assert_eq!(travelling(&batch), ["a1", "b1"]);
    sending.answered(batch, &Ok(reply(&["0"], &[("1", "Busy")])), &terms, at(0), 0, &mut notes);
    let batch = sending.wave().remove(0);
    assert_eq!(travelling(&batch), ["a2"], "b is closed");
    sending.answered(batch, &Ok(reply(&[], &[])), &terms, at(0), 0, &mut notes);
    assert!(sending.wave().is_empty(), "a2's outcome is unknown, so a3 waits");
    assert_eq!(handed(&sending.rest(&mut notes)), ["a3", "b2"]);
    assert!(notes.blocked.contains("a") && notes.blocked.contains("b"));
}

#[test]
fn a_record_over_the_limit_dies_at_once_and_frees_nobody_early() {
    let (mut terms, _) = start(true);
    terms.policy.request_bytes_max = 1_000;
    let big = OutboxRow { payload: vec![b'x'; 2_000], ..row("a", 50, "a2") };
    let rows = [row("a", 60, "a1"), big, row("a", 40, "a3"), row("b", 30, "b1")];
    let mut notes = notes(true);
    let (mut sending, burials) = Sending::new(mine(&rows), &terms, at(5), &mut notes);
    assert_eq!((burials.len(), burials[0].dead.reason, burials[0].dead.died_at), (1, DeathReason::Oversize, at(5)));
    let words = burials[0].dead.row.last_error.clone().unwrap();
    assert!(words.contains("at most 1000 fit") && !words.contains("xxx"), "{words}");
    let sent: Vec<_> =
        sending.wave().iter().flat_map(|batch| batch.entries.clone()).filter_map(|e| e.deduplication_id).collect();
    assert_eq!(sent, ["a1", "b1"]);
    assert_eq!(handed(&sending.rest(&mut notes)), ["a3"]);
}

#[test]
fn errors_kept_in_a_row_are_short_and_printable() {
    assert_eq!(last_error("a\nb\u{0}"), "a b ");
    let long = last_error(&"ü".repeat(200));
    assert!(long.len() <= limits::LAST_ERROR_BYTES_MAX && long.len() > limits::LAST_ERROR_BYTES_MAX - 2);
}

proptest! {
    #[test]
    fn the_back_off_grows_to_its_cap(attempts in 0u32..1_000, roll in any::<u64>()) {
        let policy = policy(false);
        let wait = policy.backoff(attempts, roll);
        prop_assert!(wait <= policy.backoff_max);
        prop_assert!(wait >= policy.backoff_base / 2);
        if attempts > 12 { prop_assert!(wait >= policy.backoff_max / 2); }
    }

    /// Any rows, any answers: within the limits, in order, and every row comes out exactly once.
    #[test]
    fn every_row_comes_out_once(
        sizes in proptest::collection::vec((0u8..4, 0usize..1_500), 1..40),
        outcomes in proptest::collection::vec(0u8..8, 40),
        ordered in any::<bool>(),
    ) {
        let (mut terms, _) = start(ordered);
        terms.policy.request_bytes_max = 1_400;
        let rows: Vec<_> = sizes.iter().enumerate().map(|(n, (client, size))| OutboxRow {
            payload: vec![b'x'; *size],
            ..row(&format!("d{client}"), 1_000 - n as u64, &format!("m{n:03}"))
        }).collect();
        let mut notes = notes(ordered);
        let (mut sending, burials) = Sending::new(mine(&rows), &terms, at(0), &mut notes);
        let mut out: Vec<String> = burials.iter().map(|burial| burial.dead.row.id().to_string()).collect();
        let mut sent: Vec<String> = Vec::new();
        let mut outcome = outcomes.iter().cycle();
        for _ in 0..200 {
            let wave = sending.wave();
            if wave.is_empty() { break; }
            for batch in wave {
                prop_assert!(batch.entries.len() <= limits::QUEUE_BATCH_ENTRIES_MAX && !batch.entries.is_empty());
                prop_assert!(batch.entries.iter().map(|entry| entry.size_bytes()).sum::<usize>() <= 1_400);
                if ordered {
                    let mut groups: Vec<_> = batch.entries.iter().map(|entry| entry.group_id.clone()).collect();
                    groups.sort();
                    groups.dedup();
                    prop_assert_eq!(groups.len(), batch.entries.len(), "one entry of a key");
                }
                let answer = match outcome.next().unwrap() {
                    0 => Err(FailureKind::Invalid),
                    1 => Err(FailureKind::TimedOut),
                    2 => Ok(reply(&["0"], &[("1", "Busy")])),
                    _ => Ok(everything(&batch)),
                };
                let settlement = sending.answered(batch, &answer, &terms, at(0), 7, &mut notes);
                sent.extend(settlement.accepted.iter().map(|claimed| claimed.row.id().to_string()));
                out.extend(settlement.changes.iter().map(|back| back.key.position.id().to_string()));
                out.extend(settlement.burials.iter().map(|burial| burial.dead.row.id().to_string()));
            }
        }
        out.extend(sending.rest(&mut notes).iter().map(|back| back.key.position.id().to_string()));
        if ordered {
            for client in 0..4u8 {
                let of_client: Vec<_> = rows.iter().filter(|row| row.ordering_key() == format!("d{client}")).map(|row| row.id().to_string()).collect();
                let accepted: Vec<_> = sent.iter().filter(|id| of_client.contains(id)).cloned().collect();
                prop_assert_eq!(&accepted[..], &of_client[..accepted.len()], "a key's first ones, in order");
            }
        }
        out.extend(sent);
        out.sort();
        let mut all: Vec<_> = rows.iter().map(|row| row.id().to_string()).collect();
        all.sort();
        prop_assert_eq!(out, all);
    }
}

#[test]
fn an_outage_of_the_queue_sends_no_row_into_a_call_of_its_own() {
    // Each pass takes the claim that the wait settled, sends, and learns nothing: the drainer lives, so nothing poisons it.
    let mut current = row("a", 60, "a1");
    for pass in 0..8 {
        let request = match current.claim() {
            Some(claim) => DrainRequest {
                settled: vec![SettledClaim { key: current.key.clone(), claim: claim.clone() }],
                ..request(Mode::Scheduled)
            },
            None => request(Mode::Scheduled),
        };
        let (terms, mut state) = begin(request, false);
        let permit = permit_of(&terms, 7);
        let claim = claim_id(&format!("p{pass}"));
        let (choice, mut notes) = choose(&mut state, &terms, &permit, slots(&[current]), None, &claim, reading(0));
        assert_eq!(choice.claims.len(), 1, "pass {pass}");
        let claimed = after_claims(choice, &[Ok(ClaimAnswer::Claimed)], &terms, &mut notes).mine.remove(0);
        let kept = claimed.keep_claim();
        assert_eq!((kept.attempts, kept.free), (0, false));
        current = OutboxRow { attempts: kept.attempts, stale: kept.stale, ..claimed.row };
    }
    assert_eq!(current.stale, 1, "that it was perhaps sent stays known");
}
