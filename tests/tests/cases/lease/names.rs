//! Two stacks under one instance name, alive or gone.

use fencepost_protocol::failure::FailureKind;
use fencepost_storage::memory::Effect;
use fencepost_storage::operation;
use serde_json::json;

use super::lab::{Lab, events, fail, standing};

const OLD: super::lab::Extra<'static> = &[("FENCEPOST_STACK", "old-stack")];
const NEW: super::lab::Extra<'static> = &[("FENCEPOST_STACK", "new-stack")];

/// Reported: somebody deployed a copy under the same name, both took themselves for the leader and sent everything twice.
/// Right: identity is name and stack; one holds, the other abstains and is told, once; also while the holder's renewals fail
/// but its loop still ticks.
///
/// Kills: `a_namesake_is_like_any_other`
#[tokio::test]
async fn case_10_of_two_stacks_with_one_name_one_holds_and_the_other_is_told() {
    let lab = Lab::new(&[]);
    let (mut first, mut second) = (lab.process_with("east", OLD), lab.process_with("east", NEW));
    first.tick().await;
    first.store("once").await.unwrap();
    let mut told = Vec::new();
    for second_of in 1..=120 {
        if second_of == 60 {
            // From here on the holder cannot renew; it loses the lease by its own deadline, but it is alive.
            fail(&first, operation::WRITE_LEASE, 1..=500, &Effect::FailBefore(FailureKind::Unavailable));
        }
        let replies = lab.pass(1, &mut [&mut first, &mut second]).await;
        assert_eq!(standing(&replies[1]), ("abstaining", None), "{second_of}s");
        told.extend(events(&replies[1]).into_iter().map(str::to_owned));
        let drained = second.drain(json!({})).await.unwrap();
        assert_eq!((&drained["leading"], &drained["counts"]["claimed"]), (&json!(false), &json!(0)));
        if second_of < 60 {
            assert_eq!(standing(&replies[0]), ("leader", Some(1)), "{second_of}s");
        }
    }
    assert_eq!(told, ["Duplicate Instance"], "told once");
    let asked = second.lease(json!({ "command": "step_down" })).await.unwrap();
    assert_eq!((&asked["state"], &asked["holder"]["stack"]), (&json!("not_holder"), &json!("old-stack")));
    assert_eq!(lab.row().await.owner.unwrap().stack.as_str(), "old-stack");
}

/// Found in our own design: a stack that was deleted and made anew under its old name waited for ever, because its namesake
/// held the lease. Right: the old stack's record no longer changes, so its lease is seized like any other; and a stack that
/// released at its deletion is followed at once.
///
/// Kills: `a_namesake_is_never_seized`
#[tokio::test]
async fn case_60_a_recreated_stack_of_the_same_name_leads_again() {
    // Deleted the hard way: nobody released.
    let lab = Lab::new(&[]);
    let mut old = lab.process_with("east", OLD);
    lab.pass(3, &mut [&mut old]).await;
    drop(old);
    let mut new = lab.process_with("east", NEW);
    let first = new.tick().await;
    assert_eq!((standing(&first), events(&first)), (("abstaining", None), vec!["Duplicate Instance"]));
    for second in 1..15 {
        assert_eq!(standing(&lab.pass(1, &mut [&mut new]).await[0]), ("abstaining", None), "{second}s");
    }
    let seized = lab.pass(1, &mut [&mut new]).await.remove(0);
    assert_eq!((standing(&seized), events(&seized)), (("leader", Some(2)), vec!["Lease Seized"]), "after TTL + margin");
    assert_eq!(lab.row().await.owner.unwrap().stack.as_str(), "new-stack");

    // Deleted as it should be: `release` at deletion, and the new stack leads at its first tick.
    let lab = Lab::new(&[]);
    let mut old = lab.process_with("east", OLD);
    lab.pass(3, &mut [&mut old]).await;
    assert_eq!(old.lease(json!({ "command": "release" })).await.unwrap()["state"], "released");
    assert_eq!(standing(&lab.process_with("east", NEW).tick().await), ("leader", Some(2)));
    assert_eq!(standing(&old.tick().await).1, None, "a loop of the old stack that still runs takes nothing back");
}
