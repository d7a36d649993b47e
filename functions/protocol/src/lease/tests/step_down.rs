//! Planned handover: asked for, finished by the tick, abstained from.

use super::*;

const ASKED: Command = Command::StepDown(StepDownReason::StepDown);

fn led_by_east() -> (Store, Instance, Instance) {
    let (mut store, mut east) = (Store::new(), Instance::new("east", fast()));
    east.tick(&mut store, NOON);
    east.tick(&mut store, NOON + 1000);
    (store, east, Instance::new("west", fast()))
}

#[test]
fn an_idle_holder_releases_in_the_very_write_that_was_asked_for() {
    let (mut store, mut east, mut west) = led_by_east();
    let asked = east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    assert!(matches!(asked.decision.write, Some((Purpose::Release(StepDownReason::StepDown), _))));
    let next = east.tick(&mut store, NOON + 2500);
    assert_eq!(next.conclusion.role, Role::Abstaining);
    assert_eq!(next.told(), [TransitionKind::StepDownRequested, TransitionKind::Released]);
    let successor = west.tick(&mut store, NOON + 3000);
    assert_eq!((successor.token(), successor.told()), (Some(2), vec![TransitionKind::Acquired]));
}

#[test]
fn every_write_bears_its_own_attempt_and_a_release_no_mark() {
    let (mut store, mut east, mut west) = led_by_east();
    let note = |token: u64| Command::TakeoverFinished {
        token: FencingToken::new(token).unwrap(),
        try_number: 0,
        succeeded: true,
    };
    let mut written = |me: &mut Instance, command: Command, at_ms, in_flight| {
        let (purpose, write) = me.run(&mut store, command, at_ms, Fault::None, in_flight).decision.write.unwrap();
        assert_eq!(write.record.attempt.as_str(), format!("{}-{}", me.rules.me.name, me.attempts), "{purpose:?}");
        (purpose, write.record)
    };
    assert_eq!(written(&mut east, note(1), NOON + 2000, false).0, Purpose::NoteTakeover);
    assert_eq!(written(&mut east, ASKED, NOON + 2100, true).0, Purpose::Mark);
    assert_eq!(written(&mut east, Command::Resume, NOON + 2200, true).0, Purpose::Resume);
    assert_eq!(written(&mut east, ASKED, NOON + 2300, true).0, Purpose::Mark);
    let (purpose, released) = written(&mut east, ASKED, NOON + 2400, false);
    assert_eq!(
        (purpose, released.stepping_down, released.owner),
        (Purpose::Release(StepDownReason::StepDown), None, None)
    );
    assert_eq!(written(&mut east, Command::Resume, NOON + 2500, false).0, Purpose::Resume, "the end of an abstention");
    let tick = Command::Tick { me_loop: west.me_loop.clone(), delivered: true };
    assert_eq!(written(&mut west, tick.clone(), NOON + 2600, false).0, Purpose::Acquire(AcquiredAs::Acquired));
    assert_eq!(written(&mut west, tick, NOON + 7600, false).0, Purpose::Renew);
}

#[test]
fn there_is_nothing_to_resume_without_a_mark_or_past_the_deadline() {
    let (mut store, mut east, _) = led_by_east();
    assert_eq!(east.run(&mut store, Command::Resume, NOON + 2000, Fault::None, false).decision.write, None);
    east.run(&mut store, ASKED, NOON + 2100, Fault::None, true);
    let late = east.run(&mut store, Command::Resume, NOON + 60_000, Fault::None, true);
    assert_eq!(late.decision.write, None, "the tick finishes what was asked for");
}

#[test]
fn a_release_is_told_as_one_also_when_the_successor_was_quicker() {
    for (asked_first, in_flight) in [(false, false), (true, true)] {
        let (mut store, mut east, mut west) = led_by_east();
        let tick = Command::Tick { me_loop: east.me_loop.clone(), delivered: true };
        east.run(&mut store, ASKED, NOON + 2000, Fault::None, in_flight);
        if asked_first {
            let told = east.run(&mut store, tick, NOON + 2500, Fault::None, true).told();
            assert_eq!(told, [TransitionKind::StepDownRequested]);
            // The release of a tick that got no reply.
            let lost = east.tick_with(&mut store, NOON + 3000, Fault::After(FailureKind::TimedOut));
            assert!(lost.told().is_empty() && store.row().owner.is_none());
        }
        assert_eq!(west.tick(&mut store, NOON + 3500).told(), [TransitionKind::Acquired]);
        let late = east.tick(&mut store, NOON + 4000);
        let requested = (!asked_first).then_some(TransitionKind::StepDownRequested);
        let expected: Vec<_> = requested.into_iter().chain([TransitionKind::Released]).collect();
        assert_eq!((late.conclusion.role, late.told()), (Role::Standby, expected));
        let released = late.conclusion.transitions.last().unwrap();
        assert_eq!((released.token.get(), released.reason), (1, Some(LostReason::StepDown)));
        assert!(east.tick(&mut store, NOON + 5000).told().is_empty(), "once");
        west.run(&mut store, Command::StepDown(StepDownReason::Shutdown), NOON + 5500, Fault::None, false);
        assert_eq!(west.tick(&mut store, NOON + 6000).conclusion.transitions.last().unwrap().token.get(), 2);
    }
}

#[test]
fn a_release_that_was_resumed_before_the_next_tick_is_told_as_one_too() {
    let (mut store, mut east, _) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    east.run(&mut store, Command::Resume, NOON + 2200, Fault::None, false);
    let again = east.tick(&mut store, NOON + 3000);
    assert_eq!(again.told(), [TransitionKind::StepDownRequested, TransitionKind::Released, TransitionKind::Acquired]);
}

#[test]
fn a_row_tells_of_the_release_right_before_it_and_of_no_other() {
    let (mut store, mut east, mut west) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    west.tick(&mut store, NOON + 3000);
    let followed =
        LastRelease { by: east.rules.me.clone(), token: FencingToken::FIRST, reason: StepDownReason::StepDown };
    assert_eq!(store.row().last_release, Some(followed.clone()));
    west.tick(&mut store, NOON + 8000);
    assert_eq!((store.row().renewal, &store.row().last_release), (1, &Some(followed)), "renewals keep it");
    // Another's release, and one under another token, are not mine.
    assert_eq!(store.row().release_of(&east.rules.me, store.row().token), None);
    assert_eq!(store.row().release_of(&west.rules.me, FencingToken::FIRST), None);
    let mut seized = store.clone();
    for second in 9..=30 {
        east.tick(&mut seized, NOON + second * 1000);
    }
    assert_eq!((seized.row().acquired_as, &seized.row().last_release), (AcquiredAs::Seized, &None));
    let mut free = store.clone();
    west.clone().run(&mut free, ASKED, NOON + 9_000, Fault::None, false);
    let told = |who: &Instance, token: u64| free.row().release_of(&who.rules.me, FencingToken::new(token).unwrap());
    assert_eq!(
        (told(&east, 1), told(&west, 2)),
        (Some(StepDownReason::StepDown), Some(StepDownReason::StepDown)),
        "a free row keeps it beside its own"
    );
    west.tick(&mut store, NOON + 60_000);
    assert_eq!((store.row().acquired_as, &store.row().last_release), (AcquiredAs::Reclaimed, &None));
}

#[test]
fn a_release_is_told_as_one_also_when_the_successor_has_released_too() {
    // Its late tick takes the lease itself, or fails to.
    for fault in [Fault::None, Fault::Before(FailureKind::Throttled)] {
        let (mut store, mut east, mut west) = led_by_east();
        east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
        assert_eq!(west.tick(&mut store, NOON + 2500).token(), Some(2));
        west.run(&mut store, ASKED, NOON + 3000, Fault::None, false);
        let late = east.tick_with(&mut store, NOON + 3500, fault);
        let taken = (fault == Fault::None).then_some(TransitionKind::Acquired);
        let expected = [TransitionKind::StepDownRequested, TransitionKind::Released].into_iter().chain(taken);
        assert_eq!(late.told(), expected.collect::<Vec<_>>());
        assert_eq!(late.conclusion.transitions[1].token.get(), 1);
    }
    // Two acquisitions by others hide it.
    let (mut store, mut east, mut west) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    west.tick(&mut store, NOON + 2500);
    west.run(&mut store, ASKED, NOON + 3000, Fault::None, false);
    assert_eq!(Instance::new("north", fast()).tick(&mut store, NOON + 3200).token(), Some(3));
    assert_eq!(east.tick(&mut store, NOON + 3500).told(), [TransitionKind::Lost]);
}

#[test]
fn who_released_and_leads_again_inside_its_ttl_is_a_holder_like_any_other() {
    let (mut store, mut east, mut west) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    assert_eq!(west.tick(&mut store, NOON + 3000).token(), Some(2));
    west.run(&mut store, ASKED, NOON + 4000, Fault::None, false);
    // East still had 12s to abstain, but this release is not its own.
    assert_eq!(east.tick(&mut store, NOON + 5000).token(), Some(3));
    assert_eq!(
        west.tick(&mut store, NOON + 5500).conclusion.role,
        Role::Standby,
        "nor does west abstain from another's"
    );
    for second in 6..=40 {
        let ran = east.tick(&mut store, NOON + second * 1000);
        assert_eq!((ran.conclusion.role, ran.token()), (Role::Leader, Some(3)), "{second}s");
    }
}

#[test]
fn with_claims_in_flight_the_mark_stands_until_they_end_or_the_grace_does() {
    let (mut store, mut east, _) = led_by_east();
    let asked = east.run(&mut store, ASKED, NOON + 2000, Fault::None, true);
    assert_eq!((asked.conclusion.role, asked.token()), (Role::SteppingDown, Some(1)));
    let tick = Command::Tick { me_loop: east.me_loop.clone(), delivered: true };
    let waiting = east.run(&mut store, tick.clone(), NOON + 3000, Fault::None, true);
    assert_eq!(waiting.conclusion.role, Role::SteppingDown);
    assert_eq!(waiting.conclusion.takeover, None, "a holder on its way out starts no takeover");
    let (mut idle_store, mut idle) = (store.clone(), east.clone());
    assert!(idle.run(&mut idle_store, tick.clone(), NOON + 4000, Fault::None, false).token().is_none());
    let grace_over = east.run(&mut store, tick, NOON + 7000, Fault::None, true);
    assert!(grace_over.token().is_none() && store.row().owner.is_none());
}

#[test]
fn the_releaser_abstains_for_one_ttl_also_in_a_cold_process_and_resume_ends_it() {
    let (mut store, mut east, _) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    let mut cold = Instance::new("east", fast());
    cold.attempts = 500;
    assert_eq!(cold.tick(&mut store, NOON + 2000 + 13_999).conclusion.role, Role::Abstaining);
    let (mut resumed_store, mut resumed) = (store.clone(), cold.clone());
    resumed.run(&mut resumed_store, Command::Resume, NOON + 3000, Fault::None, false);
    assert_eq!(resumed.tick(&mut resumed_store, NOON + 3500).token(), Some(2));
    assert_eq!(cold.tick(&mut store, NOON + 2000 + 14_000).token(), Some(2), "nobody else came");
}

#[test]
fn a_mark_whose_deadline_passed_is_released_not_reacquired() {
    let (mut store, mut east, _) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, true);
    let late = east.tick(&mut store, NOON + 60_000);
    assert!(late.token().is_none() && store.row().owner.is_none());
    assert_eq!(store.row().token.get(), 1, "a release keeps the row and its token");
}

#[test]
fn a_renewal_and_a_mark_at_the_same_moment_lose_neither() {
    let (mut store, mut east, _) = led_by_east();
    let snapshot = store.clone();
    east.run(&mut store, ASKED, NOON + 4500, Fault::None, true);
    // A tick that read before the mark was written.
    let mut twin = Instance { attempts: 700, ..east.clone() };
    let input = twin.input(&snapshot, Command::Tick { me_loop: twin.me_loop.clone(), delivered: true }, NOON + 4500);
    let decision = decide(&twin.rules, &input);
    let (purpose, write) = decision.write.clone().unwrap();
    assert_eq!(purpose, Purpose::Renew);
    let outcome = store.write_lease(&write, Fault::None);
    assert!(matches!(outcome, LeaseOutcome::Refused(_)));
    let found = conclude(&twin.rules, &input, &twin.carried, &decision, &outcome, None, input.now());
    assert_eq!(found.role, Role::SteppingDown, "the refused tick takes the row that won");
    assert!(store.row().stepping_down.is_some() && store.row().renewal == 1);
}

#[test]
fn a_release_that_arrives_late_fails() {
    let (mut store, mut east, _) = led_by_east();
    let input = east.input(&store, ASKED, NOON + 2000);
    let input = Input { in_flight: Some(false), ..input };
    let (_, late) = decide(&east.rules, &input).write.unwrap();
    east.tick(&mut store, NOON + 4500);
    assert!(matches!(store.write_lease(&late, Fault::None), LeaseOutcome::Refused(_)));
    assert!(store.row().owner.is_some());
}

#[test]
fn a_gated_source_is_disconnected_first() {
    let (mut store, mut east, _) = led_by_east();
    east.rules.source = SourceMode::Gated;
    let mut input = east.input(&store, ASKED, NOON + 2000);
    assert_eq!(needs(&east.rules, &input), Needs { fence: false, heads: true, source: true });
    input.in_flight = Some(false);
    for (enabled, releases) in [(None, false), (Some(true), false), (Some(false), true)] {
        input.source_enabled = enabled;
        let (purpose, _) = decide(&east.rules, &input).write.unwrap();
        assert_eq!(matches!(purpose, Purpose::Release(_)), releases, "source {enabled:?}");
    }
    let marked = east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    assert_eq!(marked.conclusion.role, Role::SteppingDown);
    assert_eq!(east.tick(&mut store, NOON + 2500).conclusion.source, Some(false));
}

#[test]
fn an_unfinished_step_down_can_be_taken_back() {
    let (mut store, mut east, _) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, true);
    east.run(&mut store, Command::Resume, NOON + 3000, Fault::None, true);
    assert_eq!(east.tick(&mut store, NOON + 3500).conclusion.role, Role::Leader);
}

#[test]
fn a_standby_has_nothing_to_step_down_from() {
    let (mut store, _, mut west) = led_by_east();
    assert!(west.run(&mut store, ASKED, NOON + 2000, Fault::None, false).decision.write.is_none());
}

#[test]
fn asked_for_past_the_deadline_it_releases_at_once() {
    let (mut store, mut east, _) = led_by_east();
    let asked = east.run(&mut store, ASKED, NOON + 60_000, Fault::None, true);
    assert!(matches!(asked.decision.write, Some((Purpose::Release(_), _))));
}

#[test]
fn a_release_that_lies_in_the_future_of_a_clock_set_back_is_not_waited_for() {
    let (mut store, mut east, _) = led_by_east();
    east.run(&mut store, ASKED, NOON + 2000, Fault::None, false);
    east.offset_ms = -3_600_000;
    assert_eq!(east.tick(&mut store, NOON + 3000).token(), Some(2));
}

#[test]
fn each_step_down_is_told_also_after_one_was_taken_back() {
    let (mut store, mut east, _) = led_by_east();
    for round in 0..2 {
        let at = NOON + 2000 + round * 4000;
        east.run(&mut store, ASKED, at, Fault::None, true);
        let tick = Command::Tick { me_loop: east.me_loop.clone(), delivered: true };
        let told = east.run(&mut store, tick.clone(), at + 1000, Fault::None, true).told();
        assert_eq!(told, [TransitionKind::StepDownRequested], "round {round}");
        east.run(&mut store, Command::Resume, at + 1500, Fault::None, true);
        east.run(&mut store, tick, at + 2000, Fault::None, true);
    }
}
