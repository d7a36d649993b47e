use super::*;
use crate::failure::FailureKind;

/// Counts in which every field has a number of its own, made from its place in the list of fields.
fn counts(number_of: impl Fn(u64) -> u64) -> Counts {
    let mut fields = serde_json::to_value(Counts::default()).unwrap();
    for (place, (_, count)) in (1_u64..).zip(fields.as_object_mut().unwrap()) {
        *count = number_of(place).into();
    }
    serde_json::from_value(fields).unwrap()
}

#[test]
fn counts_are_added_field_by_field() {
    let mut sum = counts(|place| 1_000 * place);
    sum.add(&counts(|place| place));
    assert_eq!(sum, counts(|place| 1_001 * place));
}

#[test]
fn answers_to_hand_backs_and_burials_are_counted() {
    let taken = || Ok(ChangeAnswer::Fenced(Slot::Present(claimed_by(row("a", 60, "a1"), "other", 8))));
    let (done, absent, failed) = (Ok(ChangeAnswer::Done), Ok(ChangeAnswer::Absent), Err(FailureKind::TimedOut));
    let answers = [done.clone(), done, absent.clone(), taken(), absent, failed.clone(), failed];
    let mut handed = Counts::default();
    handed.handed_back(&answers);
    assert_eq!(handed, Counts { handed_back: 2, conflicts: 3, unknown: 2, ..Counts::default() });
    let mut buried = Counts::default();
    answers.iter().for_each(|answer| buried.buried(answer));
    assert_eq!(buried, Counts { dead: 2, conflicts: 3, unknown: 2, ..Counts::default() });
}

#[test]
fn a_reason_that_ends_the_call_outweighs_one_that_ends_the_page() {
    let stop = |reasons: &[Stop]| {
        let mut page = notes(false);
        reasons.iter().for_each(|reason| page.stop_for(reason.clone()));
        page.stop().cloned()
    };
    let queue = Stop::Queue(FailureKind::Denied);
    assert_eq!(stop(&[Stop::BudgetSpent, Stop::TooLate]), Some(Stop::TooLate));
    assert_eq!(stop(&[Stop::TooLate, Stop::BudgetSpent]), Some(Stop::TooLate));
    assert_eq!(stop(&[queue.clone(), Stop::TooLate]), Some(queue), "the first of two that end the call stays");
}

#[test]
fn a_full_set_of_blocked_keys_blocks_every_key_and_not_before() {
    let mut blocked = BlockedKeys::none(true);
    let mut key = 0;
    // Two keys may have one hash, so the text's length counts what the set holds.
    while String::from(blocked.clone()).len() < 8 * BlockedKeys::MAX {
        blocked.block(&format!("device-{key}"));
        key += 1;
    }
    assert!(!blocked.is_all() && !blocked.contains("another"));
    let full = String::from(blocked.clone());
    assert_eq!(BlockedKeys::try_from(full.clone()).unwrap(), blocked, "a full set travels");
    for bad in [format!("{full}00000000"), "+1234567".to_owned(), "1234567".to_owned()] {
        assert_eq!(BlockedKeys::try_from(bad).unwrap_err().field, "cursor.blocked");
    }
    while !blocked.is_all() {
        assert!(key <= 2 * u32::try_from(BlockedKeys::MAX).unwrap(), "the set never fills");
        blocked.block(&format!("device-{key}"));
        key += 1;
    }
    assert!(blocked.contains("another"));
    blocked.block("device-0");
    assert!(blocked.is_all());
}
