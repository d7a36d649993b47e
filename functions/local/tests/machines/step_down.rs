//! `step_down`: asks, watches, and reports a successor or says that there is none.

use serde_json::{Value, json};

use crate::world::{Call, Ran, Reply, error, output, run};

const ME: (&str, &str) = ("east", "stack-1");

fn identity((name, stack): (&str, &str)) -> Value {
    json!({ "name": name, "stack": stack })
}

fn marked(state: &str) -> Reply {
    output(json!({
        "state": state, "token": 7, "holder": identity(ME), "handover_bound_seconds": 32, "successor_bound_seconds": 20,
    }))
}

fn status(owner: Option<(&str, &str)>, token: u64) -> Reply {
    let lease = json!({ "owner": owner.map(identity), "token": token, "stepping_down": null, "takeover_done": 7, "takeover_try": 0 });
    output(json!({ "lease": lease, "role": "standby", "me": identity(ME), "abstaining": true }))
}

/// `look` tells the owner and token that a status call sees at a second.
fn step_down(
    state: &'static str,
    mut look: impl FnMut(u64) -> (Option<(&'static str, &'static str)>, u64) + Send,
) -> Ran {
    run("step_down", json!({}), move |call: &Call| match call.name.as_str() {
        "lease step_down" => marked(state),
        "lease status" => {
            let (owner, token) = look(call.at_ms / 1_000);
            status(owner, token)
        }
        other => panic!("{other} is none of its business"),
    })
}

/// Released and waited, and the note.
fn seen(ran: &Ran) -> (bool, u64, &str) {
    let output = ran.output();
    (
        output["released"].as_bool().unwrap(),
        output["waited_seconds"].as_u64().unwrap(),
        output["note"].as_str().unwrap(),
    )
}

#[test]
fn a_release_and_a_successor_are_watched_second_by_second() {
    let ran = step_down("marked", |second| match second {
        0..12 => (Some(ME), 7),
        12..15 => (None, 7),
        _ => (Some(("west", "stack-2")), 8),
    });
    assert_eq!(ran.calls[0].payload, json!({ "command": "step_down", "reason": "step_down" }));
    assert_eq!(ran.named("lease status").len(), 16);
    assert_eq!(seen(&ran), (true, 15, "west holds the lease under token 8."));
    assert_eq!(ran.output()["successor"], identity(("west", "stack-2")));
}

#[test]
fn the_reason_is_passed_on() {
    let ran = run("step_down", json!({ "reason": "shutdown" }), |call| {
        if call.name == "lease step_down" { marked("released") } else { status(Some(("west", "stack-2")), 8) }
    });
    assert_eq!(ran.calls[0].payload["reason"], "shutdown");
    assert_eq!(ran.sequence(), ["0 lease step_down", "0 lease status"]);
}

#[test]
fn the_same_name_under_another_stack_is_a_successor() {
    let ran = step_down("released", |second| if second < 3 { (None, 7) } else { (Some(("east", "stack-2")), 8) });
    assert_eq!(ran.output()["successor"], identity(("east", "stack-2")));
}

#[test]
fn no_successor_within_the_bound_is_said_plainly() {
    let ran = step_down("marked", |second| (if second < 9 { Some(ME) } else { None }, 7));
    let (released, waited, note) = seen(&ran);
    assert!(released && ran.output()["successor"].is_null());
    assert_eq!(waited, 9 + 20, "the bound counts from the release");
    assert!(note.contains("no other instance took the lease within 20 s"), "{note}");
}

#[test]
fn a_lease_that_is_not_released_is_said_plainly() {
    let ran = step_down("already_marked", |_| (Some(ME), 7));
    let (released, waited, note) = seen(&ran);
    assert!(!released && ran.output()["successor"].is_null());
    assert_eq!(waited, 33, "the bound and one look more");
    assert!(note.contains("does lease_cycle run"), "{note}");
}

#[test]
fn taking_the_lease_again_is_no_successor() {
    let ran = step_down("marked", |second| if second < 4 { (None, 7) } else { (Some(ME), 8) });
    let (released, waited, note) = seen(&ran);
    assert!(released && waited == 4 && ran.output()["successor"].is_null());
    assert!(note.contains("took the lease again under token 8"), "{note}");
}

#[test]
fn an_instance_that_does_not_hold_the_lease_watches_nothing() {
    let ran = run("step_down", json!({}), |_| {
        output(json!({
            "state": "not_holder", "token": null, "holder": identity(("west", "stack-2")),
            "handover_bound_seconds": 32, "successor_bound_seconds": 20,
        }))
    });
    assert_eq!(ran.calls.len(), 1);
    assert_eq!(ran.output()["released"], false);
    assert_eq!(ran.output()["successor"], identity(("west", "stack-2")));
}

#[test]
fn an_answer_that_was_lost_is_not_denied_by_the_next_one() {
    for (holder, told) in
        [(Some(("west", "stack-2")), "west (stack stack-2) holds it now."), (None, "Nobody holds it now.")]
    {
        let mut answers = vec![
            output(json!({
                "state": "not_holder", "token": null, "holder": holder.map(identity),
                "handover_bound_seconds": 32, "successor_bound_seconds": 20,
            })),
            error("States.Timeout"),
        ];
        let ran = run("step_down", json!({}), |_| answers.pop().unwrap());
        assert_eq!(ran.sequence(), ["0 lease step_down", "1 lease step_down"]);
        let (_, _, note) = seen(&ran);
        assert!(note.contains("an earlier one that got no answer may have handed it over"), "{note}");
        assert!(note.ends_with(told), "{note}");
        assert_eq!(ran.output()["successor"], json!(holder.map(identity)));
    }
}

#[test]
fn long_bounds_are_watched_by_two_hundred_looks_at_most() {
    let ran = run("step_down", json!({}), |call| {
        if call.name == "lease step_down" {
            output(
                json!({ "state": "released", "token": 7, "holder": null, "handover_bound_seconds": 30, "successor_bound_seconds": 7_200 }),
            )
        } else {
            status(None, 7)
        }
    });
    assert!(ran.named("lease status").len() <= 201, "{}", ran.named("lease status").len());
    assert!(ran.took_ms >= 7_200_000 && ran.took_ms < 7_300_000, "{} ms", ran.took_ms);
}

#[test]
fn passing_errors_are_retried_and_others_are_the_failure() {
    let mut failures = vec!["StoreThrottled", "StoreUnavailable", "Lambda.ServiceException"];
    let ran = run("step_down", json!({}), |call| match call.name.as_str() {
        "lease step_down" => failures.pop().map_or_else(|| marked("released"), error),
        _ => status(Some(("west", "stack-2")), 8),
    });
    assert_eq!((ran.named("lease step_down").len(), ran.took_ms), (4, 7_000));
    assert_eq!(seen(&ran).1, 7, "asking counts as waiting");

    for failing in ["lease step_down", "lease status"] {
        let ran =
            run(
                "step_down",
                json!({}),
                |call| if call.name == failing { error("AccessDenied") } else { marked("marked") },
            );
        assert_eq!(ran.error(), "AccessDenied");
    }
}
