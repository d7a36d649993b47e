//! Nothing that happened goes untold, and a living loop's telling is not repeated.

use super::*;

fn two_loops() -> (Store, Instance, Instance) {
    let first = Instance::new("east", fast());
    let mut second = first.clone();
    second.me_loop = LoopId { started_at_ms: Timestamp::from_ms(NOON + 60_000), name: "loop-east-2".into() };
    second.attempts = 1000;
    (Store::new(), first, second)
}

#[test]
fn one_acquisition_is_told_once_by_two_loops() {
    let (mut store, mut first, mut second) = two_loops();
    let mut told = Vec::new();
    for step in 0..10 {
        told.extend(first.tick(&mut store, NOON + step * 1000).told());
        told.extend(second.tick(&mut store, NOON + step * 1000 + 500).told());
    }
    assert_eq!(told, [TransitionKind::Acquired]);
}

#[test]
fn an_acquisition_whose_reply_was_lost_is_told_by_the_next_tick_and_gets_its_takeover() {
    let (mut store, mut first, _) = two_loops();
    let lost = first.tick_with(&mut store, NOON, Fault::After(FailureKind::TimedOut));
    assert!(lost.told().is_empty() && lost.conclusion.takeover.is_none());
    let next = first.tick(&mut store, NOON + 1000);
    assert_eq!((next.told(), next.token()), (vec![TransitionKind::Acquired], Some(1)));
    assert!(next.conclusion.takeover.is_some());
}

#[test]
fn transitions_have_the_names_that_rules_on_the_bus_match() {
    use TransitionKind::{Acquired, DuplicateInstance, Lost, Reclaimed, Released, Seized, StepDownRequested};
    let names = [Acquired, Seized, Reclaimed, Released, Lost, StepDownRequested, DuplicateInstance]
        .map(TransitionKind::event_name);
    let expected = [
        "Lease Acquired",
        "Lease Seized",
        "Lease Reclaimed",
        "Lease Released",
        "Lease Lost",
        "Step Down Requested",
        "Duplicate Instance",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_telling_whose_tick_got_no_reply_is_repeated_by_the_same_loop() {
    let (mut store, mut first, _) = two_loops();
    let unheard = first.clone().carried;
    first.tick(&mut store, NOON);
    first.carried = unheard;
    assert_eq!(first.tick(&mut store, NOON + 1000).told(), [TransitionKind::Acquired]);
}

#[test]
fn a_telling_whose_loop_died_is_taken_up_by_the_other() {
    let (mut store, mut first, mut second) = two_loops();
    first.tick(&mut store, NOON);
    let told: Vec<_> = (1..8).map(|step| second.tick(&mut store, NOON + step * 1000).told()).collect();
    assert_eq!(told.iter().flatten().count(), 1, "{told:?}");
    let first_told = told.iter().position(|told| !told.is_empty());
    assert_eq!(
        first_told,
        Some(3),
        "not before the first loop had its chance, four versions of the record, and no later"
    );
}

#[test]
fn a_tick_that_loses_the_instance_record_tells_nothing_and_loses_nothing() {
    let (mut store, mut first, mut second) = two_loops();
    second.tick(&mut store, NOON);
    let stale = store.instances.clone();
    second.tick(&mut store, NOON + 500);
    let mut input = first.input(&store, Command::Tick { me_loop: first.me_loop.clone(), delivered: true }, NOON + 600);
    input.records.instances = stale;
    let decision = decide(&first.rules, &input);
    let mut found =
        conclude(&first.rules, &input, &first.carried, &decision, &LeaseOutcome::NothingToWrite, None, input.now());
    assert!(!store.write_instance(found.instance_write.as_ref().unwrap()));
    found.instance_write_lost();
    assert!(found.transitions.is_empty() && !found.end);
}

#[test]
fn a_loop_ends_when_two_newer_ones_tick() {
    let (mut store, mut first, mut second) = two_loops();
    let mut third = second.clone();
    third.me_loop = LoopId { started_at_ms: Timestamp::from_ms(NOON + 120_000), name: "loop-east-3".into() };
    third.attempts = 2000;
    assert!(!first.tick(&mut store, NOON).conclusion.end);
    assert!(!second.tick(&mut store, NOON + 100).conclusion.end);
    assert!(!first.tick(&mut store, NOON + 1000).conclusion.end, "one newer loop is no reason");
    third.tick(&mut store, NOON + 1100);
    assert!(first.tick(&mut store, NOON + 2000).conclusion.end);
    assert!(!second.tick(&mut store, NOON + 2100).conclusion.end);
}

#[test]
fn a_damaged_instance_record_is_left_alone_and_named() {
    let (mut store, mut first, _) = two_loops();
    first.tick(&mut store, NOON);
    store.instances = vec![(first.rules.me.clone(), Slot::Damaged(damage("loops")))];
    let ran = first.tick(&mut store, NOON + 1000);
    assert_eq!((ran.conclusion.role, ran.conclusion.instance_write.is_none()), (Role::Leader, true));
    assert_eq!(ran.conclusion.refused.unwrap().malformed.field, "loops");
}

#[test]
fn what_has_not_reached_the_bus_is_not_confirmed_and_not_repeated_by_its_loop() {
    let (mut store, mut first, mut second) = two_loops();
    assert_eq!(first.tick(&mut store, NOON).told(), [TransitionKind::Acquired]);
    let undelivered = Command::Tick { me_loop: first.me_loop.clone(), delivered: false };
    for second_of in 1..4 {
        let ran = first.run(&mut store, undelivered.clone(), NOON + second_of * 1000, Fault::None, false);
        assert!(ran.told().is_empty(), "it waits in that loop's queue");
        assert!(first.carried.told.is_some() && ran.conclusion.carried.told == first.carried.told, "and is remembered");
    }
    let reported = |store: &Store| store.instances[0].1.present().unwrap().reported;
    assert_eq!(reported(&store), Standing::Standby);
    let mut delivered_store = store.clone();
    assert_eq!(first.clone().tick(&mut delivered_store, NOON + 4000).conclusion.carried.told, None);
    assert!(matches!(reported(&delivered_store), Standing::Holder { .. }), "confirmed once it was delivered");
    // The loop dies with its queue: another tells it again.
    let told: Vec<_> = (4..12).flat_map(|at| second.tick(&mut store, NOON + at * 1000).told()).collect();
    assert_eq!(told, [TransitionKind::Acquired]);
}

#[test]
fn a_lease_taken_up_again_under_its_token_is_no_transfer() {
    let (mut store, mut first, _) = two_loops();
    first.tick(&mut store, NOON);
    first.tick(&mut store, NOON + 1000);
    let failed = first.tick_with(&mut store, NOON + 4500, Fault::Before(FailureKind::Throttled));
    assert_eq!(failed.told(), [TransitionKind::Lost]);
    assert_eq!(first.tick(&mut store, NOON + 5500).told(), [TransitionKind::Reclaimed]);
    let lost = first.tick(&mut store, NOON + 60_000);
    assert_eq!(lost.told(), [TransitionKind::Lost, TransitionKind::Reclaimed], "and a new token is told as ever");
}

#[test]
fn an_instance_that_cannot_keep_evidence_puts_nobody_at_ease() {
    let (mut store, mut first, _) = two_loops();
    first.tick(&mut store, NOON);
    let mut west = Instance::new("west", fast());
    assert!(west.tick(&mut store, NOON + 500).conclusion.group_has_holder);
    let (_, own) = store.instances.iter_mut().find(|(identity, _)| *identity == west.rules.me).unwrap();
    *own = Slot::Damaged(damage("evidence"));
    assert!(!west.tick(&mut store, NOON + 1500).conclusion.group_has_holder);
    assert!(first.tick(&mut store, NOON + 1500).conclusion.group_has_holder, "a holder knows without evidence");
}
