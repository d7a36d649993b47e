//! A holder renews, keeps its token, and stops believing in itself in time.

use super::*;

#[test]
fn the_first_tick_of_a_group_acquires_token_one_and_raises_the_fence() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    let ran = east.tick(&mut store, NOON);
    assert_eq!(ran.conclusion.role, Role::Leader);
    assert_eq!(ran.token(), Some(1));
    assert_eq!(store.fence.present().unwrap().highest.get(), 1);
    assert_eq!(ran.conclusion.takeover.as_ref().unwrap().execution_name, "telemetry-1-0");
    assert_eq!(ran.conclusion.deadline, Some(Timestamp::from_ms(NOON + 14_000 - 500)));
}

#[test]
fn ten_ttls_of_quiet_keep_the_token_and_renew_once_an_interval() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    for second in 0..140 {
        assert_eq!(east.tick(&mut store, NOON + second * 1000).token(), Some(1));
    }
    let renewals = store.row().renewal;
    assert!((25..=36).contains(&renewals), "{renewals} renewals in 140s at one each 4 to 5s");
}

#[test]
fn a_second_tick_at_the_same_moment_renews_nothing_and_makes_no_token() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    let mut twin = east.clone();
    east.tick(&mut store, NOON + 4500);
    assert_eq!(store.row().renewal, 1);
    twin.attempts += 1000;
    let ran = twin.tick(&mut store, NOON + 4500);
    assert_eq!((store.row().renewal, ran.token()), (1, Some(1)));
}

#[test]
fn a_token_is_above_the_row_and_above_the_fence() {
    for (row, fence, expected) in [(None, None, 1), (Some(4), Some(9), 10), (Some(9), Some(4), 10), (None, Some(7), 8)]
    {
        let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
        if let Some(token) = row {
            east.tick(&mut store, NOON);
            store.row_mut().token = FencingToken::new(token).unwrap();
        }
        store.fence = fence.map_or(Slot::Absent, |highest| {
            Slot::Present(Fence {
                highest: FencingToken::new(highest).unwrap(),
                attempt: AttemptId::new("old").unwrap(),
            })
        });
        let ran = east.tick(&mut store, NOON + 60_000);
        assert_eq!(ran.token(), Some(expected), "row {row:?}, fence {fence:?}");
    }
}

#[test]
fn past_its_deadline_a_holder_takes_the_lease_anew_without_waiting() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    let before = east.clone().tick(&mut store.clone(), NOON + 13_499);
    assert_eq!(before.token(), Some(1), "a restart before the deadline goes on with the same token");
    let ran = east.tick(&mut store, NOON + 13_500);
    assert_eq!(ran.token(), Some(2));
    assert_eq!(ran.told(), [TransitionKind::Lost, TransitionKind::Reclaimed]);
    assert_eq!(ran.conclusion.transitions[0].reason, Some(LostReason::Deadline));
}

#[test]
fn a_clock_that_was_set_back_does_not_lengthen_a_lease() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    east.offset_ms = -600_000;
    assert_eq!(east.tick(&mut store, NOON + 1000).token(), Some(2));
}

#[test]
fn the_deadline_is_reached_by_whichever_clock_is_further_on() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    let mut input = east.input(&store, Command::Tick { me_loop: east.me_loop.clone(), delivered: true }, NOON + 1000);
    let decision = decide(&east.rules, &input);
    // Frozen between the decision and the conclusion: the monotonic clock stood still, the wall clock went on.
    input.after.wall = Timestamp::from_ms(NOON + 20_000);
    let conclusion =
        conclude(&east.rules, &input, &east.carried, &decision, &LeaseOutcome::NothingToWrite, None, input.now());
    assert_eq!((conclusion.role, conclusion.standing), (Role::Standby, Standing::Standby));
}

#[test]
fn a_renewal_whose_reply_was_lost_keeps_the_lease_and_is_seen_by_the_next_tick() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", verifying(3)));
    east.tick(&mut store, NOON);
    let ran = east.tick_with(&mut store, NOON + 62_000, Fault::After(FailureKind::TimedOut));
    assert!(ran.conclusion.renewal_failed);
    assert_eq!(ran.token(), Some(1));
    let next = east.tick(&mut store, NOON + 67_000);
    assert_eq!((next.token(), store.row().renewal), (Some(1), 1), "the renewal stands and is not repeated");
}

#[test]
fn failures_are_counted_by_age_and_the_policy_decides() {
    // Interval 62.2s, tick 5s, jitter 7.8s: the third failure is due 3 × 62.2 − 5 − 3.9 = 177.7s after the confirmation.
    for (age_ms, read, expected) in [
        (170_000, Ok(()), Some(1)),
        (170_000, Err(FailureKind::Unavailable), Some(1)),
        (200_000, Ok(()), Some(1)),
        (200_000, Err(FailureKind::Unavailable), None),
    ] {
        let (mut store, mut east) = (Store::new(), Instance::new("east", verifying(3)));
        east.tick(&mut store, NOON);
        let input = east.input(&store, Command::Tick { me_loop: east.me_loop.clone(), delivered: true }, NOON + age_ms);
        let decision = decide(&east.rules, &input);
        let outcome = LeaseOutcome::Failed(FailureKind::Unavailable);
        let asks = must_verify(&east.rules, &decision, &input, &outcome, input.now());
        assert_eq!(asks, age_ms == 200_000, "at {age_ms}ms");
        let verified = asks.then(|| read.map(|()| store.lease.clone()));
        let found = conclude(&east.rules, &input, &east.carried, &decision, &outcome, verified.as_ref(), input.now());
        let token = match found.standing {
            Standing::Holder { token, .. } => Some(token.get()),
            Standing::Standby => None,
        };
        assert_eq!(token, expected, "at {age_ms}ms with read {read:?}");
        if expected.is_none() {
            assert_eq!(found.transitions[0].reason, Some(LostReason::StoreUnreadable));
        }
    }
}

#[test]
fn the_policy_demote_with_one_failure_demotes_at_the_first() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    let ran = east.tick_with(&mut store, NOON + 4500, Fault::Before(FailureKind::Throttled));
    assert_eq!((ran.conclusion.role, ran.token()), (Role::Standby, None));
    let again = east.tick(&mut store, NOON + 5500);
    assert_eq!(again.token(), Some(1), "a later success before the deadline takes up the still-held lease");
}

#[test]
fn ticks_that_cannot_read_demote_at_the_deadline_and_never_promote() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", verifying(3)));
    east.tick(&mut store, NOON);
    let early = unreadable(&east.rules, &east.carried, Timestamp::from_ms(NOON + 60_000));
    assert_eq!((early.role, early.transitions.len(), early.carried.holding), (Role::Unknown, 0, east.carried.holding));
    let third = unreadable(&east.rules, &east.carried, Timestamp::from_ms(NOON + 200_000));
    assert_eq!(third.transitions[0].reason, Some(LostReason::StoreUnreadable));
    let late = unreadable(&east.rules, &east.carried, Timestamp::from_ms(NOON + 299_500));
    assert_eq!(late.transitions[0].reason, Some(LostReason::Deadline));
    assert_eq!(late.carried.holding, None);
    let after = unreadable(&east.rules, &late.carried, Timestamp::from_ms(NOON + 300_000));
    assert!(after.transitions.is_empty(), "told once");
    assert!(unreadable(&east.rules, &Carried::default(), Timestamp::from_ms(NOON)).carried.holding.is_none());
}

/// The settings of a live holder change from 15s to 300s, and it cannot read the store since: the row still says 15s, and so
/// does a standby's settings.
#[test]
fn a_ttl_that_has_grown_in_the_settings_alone_does_not_lengthen_a_hold() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", verifying(3)));
    east.rules.timing.lease_ttl = Duration::from_secs(15);
    east.rules.source = SourceMode::Gated;
    east.tick(&mut store, NOON);
    east.rules.timing.lease_ttl = Duration::from_secs(300);
    let held = unreadable(&east.rules, &east.carried, Timestamp::from_ms(NOON + 14_499));
    assert_eq!((held.transitions.len(), held.source), (0, None));
    let lost = unreadable(&east.rules, &held.carried, Timestamp::from_ms(NOON + 14_500));
    assert_eq!(lost.transitions[0].reason, Some(LostReason::Deadline));
    assert_eq!(lost.source, Some(false), "its source must be off before another connects one");
}

/// The settings become 15s and 300s again; the tick between them wrote 15s and never learnt it.
#[test]
fn a_ttl_that_was_written_and_not_answered_for_bounds_the_hold() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", verifying(3)));
    east.tick(&mut store, NOON);
    let mut shorter = east.clone();
    shorter.rules.timing.lease_ttl = Duration::from_secs(15);
    shorter.tick_with(&mut store, NOON + 5_000, Fault::After(FailureKind::TimedOut));
    assert_eq!(store.row().lease_ttl, Duration::from_secs(15));
    let lost = unreadable(&east.rules, &shorter.carried, Timestamp::from_ms(NOON + 19_500));
    assert_eq!(lost.transitions[0].reason, Some(LostReason::Deadline));
}

#[test]
fn what_an_unreadable_tick_told_is_taken_back_when_the_lease_is_still_held() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", verifying(3)));
    east.tick(&mut store, NOON);
    east.tick(&mut store, NOON + 5_000);
    east.carried = unreadable(&east.rules, &east.carried, Timestamp::from_ms(NOON + 200_000)).carried;
    let back = east.tick(&mut store, NOON + 205_000);
    assert_eq!((back.token(), back.told()), (Some(1), vec![TransitionKind::Reclaimed]), "no second transfer");
}

#[test]
fn a_damaged_row_is_refused_and_left_alone() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    east.tick(&mut store, NOON + 1000);
    store.lease = Slot::Damaged(damage("fencing_token"));
    let ran = east.tick(&mut store, NOON + 2000);
    assert_eq!(ran.conclusion.role, Role::Refused);
    assert_eq!(ran.conclusion.refused.as_ref().unwrap().malformed.field, "fencing_token");
    assert!(ran.decision.write.is_none() && ran.decision.fence.is_none());
    assert_eq!(ran.conclusion.transitions[0].reason, Some(LostReason::InvalidRecord));
}

#[test]
fn a_damaged_fence_stops_an_acquisition() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    store.fence = Slot::Damaged(damage("highest"));
    let ran = east.tick(&mut store, NOON);
    assert_eq!((ran.conclusion.role, ran.token()), (Role::Refused, None));
    assert!(ran.decision.write.is_none());
    let exhausted = FencingToken::new(crate::limits::FENCING_TOKEN_MAX).unwrap();
    store.fence = Slot::Present(Fence { highest: exhausted, attempt: AttemptId::new("x").unwrap() });
    assert_eq!(east.tick(&mut store, NOON).conclusion.role, Role::Refused, "no token is left");
}

#[test]
fn a_changed_ttl_is_renewed_at_once() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    east.rules.timing = verifying(3);
    east.tick(&mut store, NOON + 500);
    assert_eq!(store.row().lease_ttl, Duration::from_secs(300));
}

#[test]
fn an_unfinished_takeover_is_tried_again_with_a_pause_that_grows() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    let token = FencingToken::FIRST;
    assert_eq!(east.tick(&mut store, NOON).conclusion.takeover.unwrap().try_number, 0);
    let failed = Command::TakeoverFinished { token, try_number: 0, succeeded: false };
    east.run(&mut store, failed.clone(), NOON + 1000, Fault::None, false);
    assert_eq!(store.row().takeover_try, 1);
    let repeated = east.run(&mut store, failed, NOON + 1100, Fault::None, false);
    assert!(repeated.decision.write.is_none(), "a late word of an older try changes nothing");
    assert_eq!(east.tick(&mut store, NOON + 2000).conclusion.takeover, None, "the pause of try 1 is a minute");
    let mut at = NOON + 2000;
    while at < NOON + 62_000 {
        at += 1000;
        east.tick(&mut store, at);
    }
    assert_eq!(east.tick(&mut store, at).conclusion.takeover.unwrap().execution_name, "telemetry-1-1");
    // Stopped by hand: nobody reports, and the tick raises the try after the workflow's time-out.
    while at < NOON + 62_000 + 15 * 60_000 {
        at += 1000;
        east.tick(&mut store, at);
    }
    assert_eq!(store.row().takeover_try, 2);
    let done = Command::TakeoverFinished { token, try_number: 2, succeeded: true };
    east.run(&mut store, done, at, Fault::None, false);
    assert_eq!(
        east.tick(&mut store, at + 500_000).conclusion.standing,
        Standing::Holder { token: FencingToken::new(2).unwrap(), stepping_down: None }
    );
}

#[test]
fn the_shorter_of_two_ttls_is_the_deadline() {
    for (row_ttl_secs, deadline_ms) in [(5, 4_500), (60, 13_500)] {
        let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
        east.tick(&mut store, NOON);
        store.row_mut().lease_ttl = Duration::from_secs(row_ttl_secs);
        assert_eq!(east.clone().tick(&mut store.clone(), NOON + deadline_ms - 1).token(), Some(1));
        assert_eq!(east.tick(&mut store, NOON + deadline_ms).token(), Some(2), "a row's TTL of {row_ttl_secs}s");
    }
}

#[test]
fn an_older_takeover_reports_to_nobody() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    east.tick(&mut store, NOON + 60_000);
    assert_eq!(store.row().token.get(), 2);
    let old = Command::TakeoverFinished { token: FencingToken::FIRST, try_number: 0, succeeded: true };
    assert!(east.run(&mut store, old, NOON + 60_500, Fault::None, false).decision.write.is_none());
}

#[test]
fn a_gated_source_is_switched_off_again_each_minute_while_the_store_cannot_be_read() {
    let mut east = Instance::new("east", fast());
    east.rules.source = SourceMode::Gated;
    east.tick(&mut Store::new(), NOON);
    let mut asked = Vec::new();
    for second in 1..=180 {
        let found = unreadable(&east.rules, &east.carried, Timestamp::from_ms(NOON + second * 1000));
        asked.extend(found.source);
        east.carried = found.carried;
    }
    assert!(asked.len() >= 3 && asked.iter().all(|enabled| !enabled), "{asked:?}");
}
