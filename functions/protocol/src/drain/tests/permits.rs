use super::*;
use crate::failure::FailureKind;
use crate::lease::{Released, StepDownReason, SteppingDown};

fn ask(record: LeaseRecord, now: Reading) -> Result<Permit, NotPermitted> {
    permit(Ok(&Slot::Present(record)), &start(false).0, now)
}

#[test]
fn who_may_drain() {
    let held = lease(7);
    let other_stack = Identity { stack: StackId::new("stack-2").unwrap(), ..identity("east") };
    let stepping_down = SteppingDown { since: at(0), reason: StepDownReason::StepDown };
    let released = Released { by: identity("east"), at: at(0), reason: StepDownReason::StepDown };
    let table = [
        ("my lease", held.clone(), Ok(token(7))),
        (
            "another's",
            LeaseRecord { owner: Some(identity("west")), ..held.clone() },
            Err(NotPermitted::HeldBy(identity("west"))),
        ),
        (
            "my name, another stack",
            LeaseRecord { owner: Some(other_stack.clone()), ..held.clone() },
            Err(NotPermitted::HeldBy(other_stack)),
        ),
        ("released", LeaseRecord { owner: None, released: Some(released), ..held.clone() }, Err(NotPermitted::Unheld)),
        ("stepping down", LeaseRecord { stepping_down: Some(stepping_down), ..held }, Err(NotPermitted::SteppingDown)),
    ];
    for (name, record, expected) in table {
        assert_eq!(ask(record, reading(0)).map(|permit| permit.token()), expected, "{name}");
    }
    let terms = start(false).0;
    assert_eq!(permit(Ok(&Slot::Absent), &terms, reading(0)), Err(NotPermitted::Unheld));
    assert_eq!(
        permit(Ok(&Slot::Damaged(damage("LEASE"))), &terms, reading(0)),
        Err(NotPermitted::Damaged(damage("LEASE")))
    );
    let unreadable = Err(NotPermitted::Unreadable(FailureKind::TimedOut));
    assert_eq!(permit(Err(FailureKind::TimedOut), &terms, reading(0)), unreadable);
}

#[test]
fn the_deadline_is_the_smaller_ttl_less_the_margin() {
    assert_eq!(ask(lease(7), reading(0)).unwrap().deadline(), at(299_500));
    let shorter = LeaseRecord { lease_ttl: Duration::from_secs(14), ..lease(7) };
    assert_eq!(ask(shorter, reading(0)).unwrap().deadline(), at(13_500));
    let longer = LeaseRecord { lease_ttl: Duration::from_secs(900), ..lease(7) };
    assert_eq!(ask(longer, reading(0)).unwrap().deadline(), at(299_500));
    assert!(ask(lease(7), reading(299_499)).is_ok());
    assert_eq!(ask(lease(7), reading(299_500)), Err(NotPermitted::PastDeadline));
}

#[test]
fn a_clock_that_was_set_back_lengthens_nothing() {
    let ahead = |ms| LeaseRecord { confirmed_at: at(ms), ..lease(7) };
    assert!(ask(ahead(500), reading(0)).is_ok(), "within the margin hosts may disagree");
    assert_eq!(ask(ahead(501), reading(0)), Err(NotPermitted::ClockBehind));
    // In mid-work: the wall clock jumps back an hour, the monotonic one knows better; a frozen function has it the other way.
    let permit = ask(lease(7), Reading { wall: at(4_000_000), ..reading(0) });
    assert_eq!(permit, Err(NotPermitted::PastDeadline));
    let permit = ask(lease(7), reading(0)).unwrap();
    let set_back = Reading { wall: Timestamp::from_ms(START_MS - 3_600_000), monotonic: Duration::from_secs(300) };
    assert!(permit.is_over(set_back));
    assert!(permit.is_over(Reading { wall: at(300_000), monotonic: Duration::ZERO }));
}

#[test]
fn a_later_look_does_not_forget_the_time_that_has_passed() {
    let (terms, _) = start(false);
    let first = permit_of(&terms, 7);
    let again = |now| permit_again(Ok(&Slot::Present(lease(7))), &first, &terms, now);
    let set_back = |monotonic_ms| Reading { wall: at(1_000), monotonic: Duration::from_millis(monotonic_ms) };
    let second = again(set_back(200_000)).unwrap();
    assert!(second.is_over(set_back(299_500)), "299.5s after the first look, whatever the wall clock shows");
    assert!(!second.is_over(set_back(299_499)));
    assert_eq!(again(set_back(299_500)), Err(NotPermitted::PastDeadline));
    assert_eq!(
        permit_again(Ok(&Slot::Present(lease(8))), &first, &terms, reading(0)),
        Err(NotPermitted::OtherToken(token(8)))
    );
}

#[test]
fn a_takeover_is_permitted_under_its_own_token_only() {
    let (terms, _) = begin(request(Mode::Takeover { token: token(7), cut: Cut::at(at(0)) }), false);
    assert!(permit(Ok(&Slot::Present(lease(7))), &terms, reading(0)).is_ok());
    assert_eq!(permit(Ok(&Slot::Present(lease(8))), &terms, reading(0)), Err(NotPermitted::OtherToken(token(8))));
}

#[test]
fn tokens_above_mine_mean_a_former_holder_or_a_lease_gone_back() {
    for (lease, expected) in [
        (Ok(Slot::Present(lease(9))), Stop::FormerHolder),
        (Ok(Slot::Present(lease(12))), Stop::FormerHolder),
        (Ok(Slot::Present(lease(8))), Stop::TokenRegression { row: stamp(9) }),
        (Ok(Slot::Absent), Stop::TokenRegression { row: stamp(9) }),
        (Ok(Slot::Damaged(damage("LEASE"))), Stop::NotPermitted(NotPermitted::Damaged(damage("LEASE")))),
        (Err(FailureKind::Denied), Stop::NotPermitted(NotPermitted::Unreadable(FailureKind::Denied))),
    ] {
        let stop = tokens_above(lease.as_ref().map_err(|kind| *kind), stamp(9));
        assert_eq!(stop, expected);
        assert!(stop.ends_call());
        assert_eq!(stop.ends_leading(), lease.is_ok(), "what cannot be read says nothing about who leads");
    }
    let mut notes = notes(false);
    notes.stop_for(Stop::TokenRegression { row: stamp(9) });
    assert_eq!(notes.counts.token_regression, 1, "counted, for the alarm");
}

#[test]
fn claims_begin_where_their_budget_fits_before_the_deadline() {
    let (terms, _) = start(false);
    let permit = permit_of(&terms, 7);
    assert_eq!(may_claim(&permit, &terms, reading(289_500)), Ok(()), "10s before the deadline");
    assert_eq!(may_claim(&permit, &terms, reading(289_501)), Err(Stop::TooLate));
}

#[test]
fn each_stop_has_a_name_of_its_own() {
    let names = [
        Stop::NotPermitted(NotPermitted::Unheld),
        Stop::FormerHolder,
        Stop::TokenRegression { row: stamp(9) },
        Stop::TooLate,
        Stop::BudgetSpent,
        Stop::Queue(FailureKind::Denied),
        Stop::Store(FailureKind::Denied),
    ]
    .map(|stop| stop.as_str());
    let expected = ["not_permitted", "former_holder", "token_regression", "too_late", "budget_spent", "queue", "store"];
    assert_eq!(names, expected, "they stand in logs and in the drainer's answer");
}

#[test]
fn sends_stay_inside_the_budget_and_before_the_deadline() {
    let (terms, _) = start(false);
    let permit = permit_of(&terms, 7);
    let ask = |started_ms, now_ms| may_send(&permit, reading(started_ms), &terms, reading(now_ms));
    assert_eq!(ask(0, 10_000), Ok(()), "the whole budget of 10s");
    assert_eq!(ask(0, 10_001), Err(Stop::BudgetSpent));
    assert_eq!(ask(290_000, 294_500), Ok(()), "ends just at the deadline");
    assert_eq!(ask(290_000, 294_501), Err(Stop::TooLate));
    let set_back = Reading { wall: at(0), monotonic: Duration::from_millis(10_001) };
    assert_eq!(
        may_send(&permit, reading(0), &terms, set_back),
        Err(Stop::BudgetSpent),
        "by the clock that is further on"
    );
    assert!(!Stop::BudgetSpent.ends_call(), "the next page has its own");
}
