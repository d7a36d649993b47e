//! What a tick concludes beyond its lease row: the gated source, the evidence that is kept, the role where a write did not
//! happen, and what a failed instance write or a failed read takes away.

use super::*;

/// A tick's input and its decision over `store`, with the fence as it stands.
fn decided(me: &mut Instance, store: &Store, at_ms: u64) -> (Input, Decision) {
    let mut input = me.input(store, Command::Tick { me_loop: me.me_loop.clone(), delivered: true }, at_ms);
    input.fence = Some(store.fence.clone());
    let decision = decide(&me.rules, &input);
    (input, decision)
}

fn concluded(me: &mut Instance, store: &Store, at_ms: u64, outcome: &LeaseOutcome) -> (Decision, Conclusion) {
    let (input, decision) = decided(me, store, at_ms);
    let conclusion = conclude(&me.rules, &input, &me.carried, &decision, outcome, None, input.now());
    (decision, conclusion)
}

#[test]
fn a_lost_instance_write_voids_telling_and_end() {
    let (store, mut east) = (Store::new(), Instance::new("east", fast()));
    let (_, mut conclusion) = concluded(&mut east, &store, NOON, &LeaseOutcome::NothingToWrite);
    conclusion.transitions = vec![Transition { kind: TransitionKind::Lost, token: FencingToken::FIRST, reason: None }];
    conclusion.carried.told = Some(Standing::Standby);
    conclusion.carried.unrecorded = true;
    conclusion.end = true;
    conclusion.instance_write_lost();
    assert!(conclusion.transitions.is_empty() && !conclusion.end);
    assert_eq!((conclusion.carried.told, conclusion.carried.unrecorded), (None, false));
}

#[test]
fn no_more_is_read_than_a_decision_may_use() {
    let (mut store, mut east, mut west) = (Store::new(), Instance::new("east", fast()), Instance::new("west", fast()));
    let tick = |me: &Instance| Command::Tick { me_loop: me.me_loop.clone(), delivered: true };
    let step_down = || Command::StepDown(StepDownReason::StepDown);
    let ask = |me: &mut Instance, store: &Store, command: Command, at_ms: u64| {
        let input = me.input(store, command, at_ms);
        needs(&me.rules, &input)
    };
    let (nothing, fence) = (Needs::default(), Needs { fence: true, ..Needs::default() });
    let heads = Needs { heads: true, ..Needs::default() };
    let command = tick(&east);
    assert_eq!(ask(&mut east, &store, command.clone(), NOON), fence, "an acquisition");
    east.tick(&mut store, NOON);
    assert_eq!(ask(&mut east, &store, command.clone(), NOON + 1000), nothing, "a holder");
    assert_eq!(ask(&mut east, &store, step_down(), NOON + 1000), heads);
    let watching = tick(&west);
    assert_eq!(ask(&mut west, &store, watching, NOON + 1000), nothing);
    assert_eq!(ask(&mut west, &store, step_down(), NOON + 1000), nothing, "it has nothing to step down from");
    assert_eq!(ask(&mut east, &store, step_down(), NOON + 13_500), nothing, "past the deadline nothing is waited for");
    east.run(&mut store, step_down(), NOON + 1000, Fault::None, true);
    assert_eq!(ask(&mut east, &store, command.clone(), NOON + 2000), heads, "a marked holder");
    east.rules.source = SourceMode::Gated;
    assert_eq!(ask(&mut east, &store, command, NOON + 2000), Needs { source: true, ..heads });
}

#[test]
fn a_damaged_row_is_named_by_the_decision_and_nothing_is_written() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    store.lease = Slot::Damaged(damage("renewal"));
    let (_, decision) = decided(&mut east, &store, NOON);
    assert_eq!(decision, Decision { refused: Some(damage("renewal")), ..Decision::default() });
}

#[test]
fn damage_that_a_refused_write_met_is_named() {
    let (store, mut east) = (Store::new(), Instance::new("east", fast()));
    let met = LeaseOutcome::Refused(Slot::Damaged(damage("fencing_token")));
    let (_, conclusion) = concluded(&mut east, &store, NOON, &met);
    assert_eq!(conclusion.role, Role::Refused);
    assert_eq!(conclusion.refused, Some(damage("fencing_token")));
}

#[test]
fn an_acquisition_that_did_not_happen_leaves_a_standby() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    let (_, first) = concluded(&mut east, &store, NOON, &LeaseOutcome::FenceRefused);
    assert_eq!((first.role, first.refused), (Role::Standby, None), "no row, and the fence was raised by another");
    let mut west = Instance::new("west", fast());
    west.tick(&mut store, NOON);
    west.run(&mut store, Command::StepDown(StepDownReason::StepDown), NOON + 1000, Fault::None, false);
    let (decision, conclusion) = concluded(&mut east, &store, NOON + 2000, &LeaseOutcome::FenceRefused);
    assert!(decision.fence.is_some(), "a lease that another released is there to be taken");
    assert_eq!(conclusion.role, Role::Standby);
    let (_, own) = concluded(&mut west, &store, NOON + 2000, &LeaseOutcome::NothingToWrite);
    assert_eq!(own.role, Role::Abstaining, "only its releaser abstains");
}

#[test]
fn evidence_outlives_a_seizure_that_failed_and_ends_with_one_that_did_not() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    let mut west = Instance::new("west", fast());
    west.tick(&mut store, NOON);
    for second in 0..15 {
        east.tick(&mut store, NOON + second * 1000);
    }
    let at = NOON + 15_000;
    let kept = |conclusion: &Conclusion| conclusion.instance_write.as_ref().unwrap().record.evidence.is_some();
    for failed in [LeaseOutcome::Failed(FailureKind::TimedOut), LeaseOutcome::FenceRefused] {
        let (decision, conclusion) = concluded(&mut east, &store, at, &failed);
        assert!(decision.maturity.unwrap().mature && kept(&conclusion), "{failed:?}");
    }
    let (_, conclusion) = concluded(&mut east, &store, at, &LeaseOutcome::Written);
    assert!(!kept(&conclusion));
}

#[test]
fn each_version_of_the_instance_record_bears_the_attempt_of_its_own_write() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    for second in 0..3 {
        east.tick(&mut store, NOON + second * 1000);
        let record = store.instances[0].1.present().unwrap();
        assert_eq!(record.attempt.as_str(), format!("east-{}", second + 1));
    }
}

#[test]
fn a_gated_source_is_switched_at_a_change_and_looked_at_once_a_minute() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.rules.source = SourceMode::Gated;
    // Noon is 20 s into a minute of the epoch.
    assert_eq!(east.tick(&mut store, NOON).conclusion.source, Some(true), "gained");
    for second in 1..40 {
        assert_eq!(east.tick(&mut store, NOON + second * 1000).conclusion.source, None, "second {second}");
    }
    assert_eq!(east.tick(&mut store, NOON + 40_000).conclusion.source, Some(true), "a new minute");
    assert_eq!(east.tick(&mut store, NOON + 41_000).conclusion.source, None);
    let mut west = Instance::new("west", fast());
    west.rules.source = SourceMode::Gated;
    assert_eq!(west.tick(&mut store, NOON + 41_500).conclusion.source, None, "a standby that was one");
    assert_eq!(west.tick(&mut store, NOON + 100_500).conclusion.source, Some(false));
    let mut open = Instance::new("open", fast());
    assert_eq!(open.tick(&mut Store::new(), NOON + 40_000).conclusion.source, None, "an open source is left alone");
}

#[test]
fn a_demotion_that_nobody_recorded_stays_to_be_recorded() {
    let east = Instance::new("east", fast());
    let token = FencingToken::FIRST;
    let holder = Standing::Holder { token, stepping_down: None };
    let now = Timestamp::from_ms(NOON);
    let told = Carried { holding: None, told: Some(Standing::Standby), unrecorded: true };
    assert_eq!(unreadable(&east.rules, &told, now).carried, told);
    let holding = Some(Holding { token, confirmed_at: now, row_ttl_ms: 14_000 });
    let confirmed = Carried { holding, told: Some(holder), unrecorded: false };
    let next = unreadable(&east.rules, &confirmed, now).carried;
    assert_eq!(next, Carried { holding, told: None, unrecorded: false });
}

#[test]
fn renewals_are_spread_over_the_whole_jitter_and_no_further() {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    let timing = east.rules.timing;
    let half_ms = u64::try_from(timing.jitter.as_millis()).unwrap() / 2;
    let middle_ms = NOON + u64::try_from(timing.renew_interval.as_millis()).unwrap();
    let mut row = store.row().clone();
    let due_ms = (0..400).map(|number| {
        row.attempt = AttemptId::new(format!("try-{number}")).unwrap();
        renew_due_at(&east.rules, &row).as_ms()
    });
    let due_ms: Vec<u64> = due_ms.collect();
    let (first, last) = (due_ms.iter().min().unwrap(), due_ms.iter().max().unwrap());
    assert!((middle_ms - half_ms - 1..middle_ms - half_ms / 2).contains(first), "{first}");
    assert!((middle_ms + half_ms / 2..=middle_ms + half_ms + 1).contains(last), "{last}");
}

#[test]
fn the_age_that_counts_as_failures_includes_the_tick_and_half_the_jitter() {
    let rules = Instance::new("east", verifying(3)).rules;
    let timing = rules.timing;
    let confirmed = Timestamp::from_ms(NOON);
    // Three intervals have passed exactly when age + tick + jitter / 2 reaches them.
    let reached = timing.renew_interval * 3 - timing.tick_interval - timing.jitter / 2;
    let count = |age: Duration| deadline::failures(&rules, confirmed, confirmed.plus(age));
    assert_eq!(count(reached + Duration::from_millis(2)), 3);
    assert_eq!(count(reached - Duration::from_millis(2)), 2);
}
