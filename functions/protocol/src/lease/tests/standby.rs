//! A standby seizes when it must, and never because of a clock.

use super::*;

/// Ticks `standby` once a second from `from_ms` until it holds the lease; the moment at which it does.
fn seized_at(standby: &mut Instance, store: &mut Store, from_ms: u64) -> u64 {
    for second in 0..200 {
        let at = from_ms + second * 1000;
        if standby.tick(store, at).token().is_some() {
            return at;
        }
    }
    panic!("never seized");
}

fn led_by_east() -> (Store, Instance) {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    (store, east)
}

#[test]
fn takeover_time_does_not_depend_on_anybodys_clock() {
    for (east_offset, west_offset) in [(0, 0), (600_000, 0), (-600_000, 0), (0, 600_000), (0, -600_000)] {
        let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
        east.offset_ms = east_offset;
        east.tick(&mut store, NOON);
        let mut west = Instance::new("west", fast());
        west.offset_ms = west_offset;
        let at = seized_at(&mut west, &mut store, NOON);
        assert_eq!(at, NOON + 15_000, "14.5s of standing still, at the next whole tick");
        assert_eq!(store.row().token.get(), 2);
    }
}

#[test]
fn a_living_holder_is_never_seized() {
    let (mut store, mut east) = led_by_east();
    let mut west = Instance::new("west", fast());
    for second in 0..300 {
        east.tick(&mut store, NOON + second * 1000);
        let ran = west.tick(&mut store, NOON + second * 1000 + 500);
        assert_eq!(ran.token(), None);
        assert!(ran.conclusion.group_has_holder, "a standby's metric stays quiet while somebody leads");
    }
}

#[test]
fn every_tick_in_a_cold_process_seizes_just_as_fast() {
    let (mut store, _) = led_by_east();
    for second in 0..=15 {
        let mut west = Instance::new("west", fast());
        west.attempts = u32::try_from(second).unwrap() * 10;
        let held = west.tick(&mut store, NOON + second * 1000).token();
        assert_eq!(held.is_some(), second == 15, "at {second}s");
    }
}

#[test]
fn a_clock_that_jumps_forward_gains_half_a_tick_and_one_that_jumps_back_begins_anew() {
    let (mut store, _) = led_by_east();
    let mut west = Instance::new("west", fast());
    west.tick(&mut store, NOON);
    west.offset_ms = 3_600_000;
    assert_eq!(
        seized_at(&mut west, &mut store, NOON + 1000),
        NOON + 14_000,
        "1.5s for the first look, 1s for each other"
    );

    let (mut store, _) = led_by_east();
    let mut west = Instance::new("west", fast());
    for second in 0..10 {
        west.tick(&mut store, NOON + second * 1000);
    }
    west.offset_ms = -3_600_000;
    assert_eq!(seized_at(&mut west, &mut store, NOON + 10_000), NOON + 25_000);
}

#[test]
fn hosts_that_disagree_by_the_margin_keep_the_count_and_by_more_begin_anew() {
    let (store, _) = led_by_east();
    let mut west = Instance::new("west", fast());
    let input = west.input(&store, Command::Tick { me_loop: west.me_loop.clone(), delivered: true }, NOON);
    let owner = store.row().owner.clone().unwrap();
    let look = |previous: Option<&Evidence>, at_ms: u64| {
        let reading = Instance::new("west", fast()).reading(at_ms);
        observe(&west.rules, &input.records, store.row(), &owner, previous, reading, reading).evidence
    };
    let counted = look(Some(&look(None, NOON)), NOON + 1_000);
    let within = look(Some(&counted), NOON + 500);
    assert_eq!((within.unchanged_for, within.counted_to), (Duration::from_secs(1), Timestamp::from_ms(NOON + 1_000)));
    assert_eq!(look(Some(&counted), NOON + 499).unchanged_for, Duration::ZERO);
}

#[test]
fn a_slow_read_counts_nothing_that_it_did_not_see() {
    let (store, _) = led_by_east();
    let mut west = Instance::new("west", fast());
    let mut input = west.input(&store, Command::Tick { me_loop: west.me_loop.clone(), delivered: true }, NOON);
    input.after = west.reading(NOON + 9_000);
    let first = decide(&west.rules, &input).maturity.unwrap();
    assert_eq!(first.evidence.counted_to, Timestamp::from_ms(NOON + 9_000), "from after the first read");
    let owner = store.row().owner.clone().unwrap();
    let second = observe(
        &west.rules,
        &input.records,
        store.row(),
        &owner,
        Some(&first.evidence),
        west.reading(NOON + 10_000),
        west.reading(NOON + 19_000),
    );
    assert_eq!(second.evidence.unchanged_for, Duration::from_secs(1), "up to before the second");
    assert_eq!(second.evidence.counted_to, Timestamp::from_ms(NOON + 10_000));
}

#[test]
fn the_longer_of_two_ttls_is_waited_for() {
    let (mut store, _) = led_by_east();
    store.row_mut().lease_ttl = Duration::from_secs(60);
    let mut west = Instance::new("west", fast());
    assert_eq!(seized_at(&mut west, &mut store, NOON), NOON + 61_000);
}

#[test]
fn two_standbys_that_seize_at_once_make_one_holder() {
    let (store, _) = led_by_east();
    let (mut west, mut north) = (Instance::new("west", fast()), Instance::new("north", fast()));
    let mut shared = store;
    for second in 0..15 {
        west.tick(&mut shared, NOON + second * 1000);
        north.tick(&mut shared, NOON + second * 1000);
    }
    // Both have read the mature row; west writes first.
    let snapshot = shared.clone();
    let won = west.tick(&mut shared, NOON + 15_000);
    let mut input =
        north.input(&snapshot, Command::Tick { me_loop: north.me_loop.clone(), delivered: true }, NOON + 15_000);
    input.fence = Some(snapshot.fence.clone());
    let decision = decide(&north.rules, &input);
    assert!(!shared.raise_fence(decision.fence.as_ref().unwrap()), "the fence admits one");
    let outcome = shared.write_lease(&decision.write.as_ref().unwrap().1, Fault::None);
    assert!(matches!(outcome, LeaseOutcome::Refused(_)), "and so would the row");
    assert_eq!((won.token(), shared.row().token.get()), (Some(2), 2));
}

#[test]
fn a_living_namesake_is_abstained_from_and_told_once_a_dead_one_is_seized() {
    let (mut store, mut first) = led_by_east();
    let mut second = Instance::new("east", fast());
    second.rules.me = identity("east", "stack-new");
    let mut told = Vec::new();
    for tick in 0..60 {
        // Its renewals fail, but its loop still ticks: its instance record moves.
        first.tick_with(&mut store, NOON + tick * 1000, Fault::Before(FailureKind::Unavailable));
        let ran = second.tick(&mut store, NOON + tick * 1000 + 500);
        told.extend(ran.told());
        if ran.conclusion.role != Role::Abstaining {
            assert!(first.carried.holding.is_none());
        }
    }
    assert_eq!(told, [TransitionKind::DuplicateInstance]);
    assert_eq!(
        seized_at(&mut second, &mut store, NOON + 60_000),
        NOON + 59_500 + 14_500,
        "counted from the last look at it alive"
    );
}

#[test]
fn two_loops_inside_the_margin_count_no_moment_twice() {
    let (mut store, _) = led_by_east();
    let mut first = Instance::new("west", fast());
    let mut second = Instance { offset_ms: -400, attempts: 1000, ..first.clone() };
    second.me_loop.name = "loop-west-2".into();
    first.tick(&mut store, NOON);
    for second_of in 1..=10 {
        first.tick(&mut store, NOON + second_of * 1000);
        second.tick(&mut store, NOON + second_of * 1000);
    }
    let counted = first.tick(&mut store, NOON + 11_000).decision.maturity.unwrap().evidence.unchanged_for;
    assert_eq!(counted, Duration::from_secs(11));
}

#[test]
fn evidence_ends_with_the_holder_that_it_was_against() {
    let (mut store, _) = led_by_east();
    let mut west = Instance::new("west", fast());
    seized_at(&mut west, &mut store, NOON);
    let (_, own) = store.instances.iter().find(|(identity, _)| *identity == west.rules.me).unwrap();
    assert_eq!(own.present().unwrap().evidence, None);
}

#[test]
fn a_released_lease_has_no_holder() {
    let (mut store, mut east) = led_by_east();
    east.run(&mut store, Command::StepDown(StepDownReason::StepDown), NOON + 1000, Fault::None, false);
    let abstaining = east.tick(&mut store, NOON + 2000);
    assert!(!abstaining.conclusion.group_has_holder);
}

#[test]
fn a_successor_counts_its_own_takeovers_from_zero() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    for try_number in [0, 1] {
        let failed = Command::TakeoverFinished { token: FencingToken::FIRST, try_number, succeeded: false };
        east.run(&mut store, failed, NOON + 1_000, Fault::None, false);
    }
    assert_eq!(store.row().takeover_try, 2);
    let mut west = Instance::new("west", fast());
    let at = seized_at(&mut west, &mut store, NOON + 1_000);
    assert_eq!(store.row().takeover_try, 0, "tries are a matter of one token");
    let due = west.tick(&mut store, at + 1_000).conclusion.takeover.unwrap();
    assert_eq!(due.execution_name, "telemetry-2-0", "it waits for no pause of its predecessor's");
}
