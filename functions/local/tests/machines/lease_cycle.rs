//! `lease_cycle`: ticks, reports, waits; nothing but time and newer loops ends it.

use serde_json::{Value, json};

use crate::world::{Call, EXECUTION, Ran, Reply, START_MS, done, error, output, run};

fn tick(changes: Value) -> Reply {
    let mut answer = json!({
        "role": "standby", "token": null, "carried": null, "events": [], "takeover": null, "source": null,
        "wait_seconds": 5, "end": false, "group_has_holder": true, "refused": null,
    });
    for (field, value) in changes.as_object().unwrap() {
        answer[field] = value.clone();
    }
    output(answer)
}

/// Ends at the `last` tick, counted from 1; `answer` is asked first, with the number of the tick.
fn cycle(last: usize, mut answer: impl FnMut(&Call, usize) -> Option<Reply> + Send) -> Ran {
    let mut ticks = 0;
    run("lease_cycle", json!({}), move |call| {
        ticks += usize::from(call.name == "lease tick");
        let told = answer(call, ticks);
        told.unwrap_or_else(|| match call.name.as_str() {
            "lease tick" => tick(json!({ "end": ticks >= last })),
            "lease source" => output(json!({ "enabled": true, "changed": false })),
            _ => done(),
        })
    })
}

fn event(number: usize) -> Value {
    json!({ "detail_type": "Lease Acquired", "detail": { "lease": "telemetry", "token": number } })
}

/// What each tick was told of the events before it.
fn delivered(ran: &Ran) -> Vec<bool> {
    ran.named("lease tick").iter().map(|call| call.payload["delivered"].as_bool().unwrap()).collect()
}

fn is_tick(call: &Call) -> bool {
    call.name == "lease tick"
}

#[test]
fn ticks_for_four_minutes_and_a_half_and_hands_on_what_the_last_tick_carried() {
    let ran = cycle(usize::MAX, |call, number| is_tick(call).then(|| tick(json!({ "carried": { "tick": number } }))));
    assert_eq!(ran.output(), &json!({ "ended": "time", "ticks": 55, "ticks_failed": 0 }));
    assert_eq!((ran.took_ms, ran.calls.len()), (270_000, 55));
    assert_eq!(
        ran.calls[0].payload,
        json!({
            "command": "tick", "loop": { "started_at_ms": START_MS, "name": EXECUTION }, "carried": null,
            "delivered": true,
        })
    );
    for (index, call) in ran.calls.iter().enumerate().skip(1) {
        assert_eq!(call.payload["carried"], json!({ "tick": index }));
        assert_eq!(call.at_ms, u64::try_from(index).unwrap() * 5_000);
    }
}

#[test]
fn begins_no_wait_that_would_end_after_four_minutes_and_a_half() {
    for wait_seconds in [7, 60, 200, 271] {
        let ran = cycle(usize::MAX, |call, _| is_tick(call).then(|| tick(json!({ "wait_seconds": wait_seconds }))));
        assert_eq!(ran.took_ms, 270 / wait_seconds * wait_seconds * 1_000, "wait of {wait_seconds} s");
    }
    let ran = cycle(usize::MAX, |call, _| is_tick(call).then(|| tick(json!({ "wait_seconds": 60 })).after_seconds(19)));
    assert_eq!(ran.sequence(), ["0 lease tick", "79 lease tick", "158 lease tick", "237 lease tick"]);
    assert_eq!(ran.took_ms, 256_000);
}

#[test]
fn ends_when_newer_loops_run() {
    let ran = cycle(3, |_, _| None);
    assert_eq!(ran.sequence(), ["0 lease tick", "5 lease tick", "10 lease tick"]);
    assert_eq!(ran.output(), &json!({ "ended": "newer_loops", "ticks": 3, "ticks_failed": 0 }));
}

#[test]
fn reports_events_then_source_then_takeover_each_once() {
    let takeover = json!({ "name": "telemetry-7-0", "input": { "lease": "telemetry", "token": 7, "try": 0 } });
    let ran = cycle(2, |call, number| {
        (is_tick(call) && number == 1).then(|| {
            tick(json!({ "events": [event(7), event(8)], "source": { "enabled": true }, "takeover": takeover }))
        })
    });
    assert_eq!(ran.sequence(), ["0 lease tick", "0 events", "0 lease source", "0 start", "5 lease tick"]);
    let entry = |number: usize| {
        let event = event(number);
        json!({ "Source": "fencepost", "DetailType": event["detail_type"], "Detail": event["detail"], "EventBusName": "bus" })
    };
    assert_eq!(ran.calls[1].payload, json!({ "Entries": [entry(7), entry(8)] }));
    assert_eq!(ran.calls[2].payload, json!({ "command": "source", "enabled": true }));
    assert_eq!(
        ran.calls[3].payload,
        json!({
            "StateMachineArn": "takeover-machine", "Name": "telemetry-7-0", "Input": takeover["input"],
        })
    );
    assert_eq!(ran.output()["ended"], "newer_loops");
}

#[test]
fn a_failed_tick_waits_one_tick_and_goes_on_with_what_was_carried() {
    let ran = cycle(4, |call, number| match (is_tick(call), number) {
        (true, 1) => Some(tick(json!({ "carried": { "token": 7 }, "wait_seconds": 2 }))),
        (true, 2) => Some(error("LeaseRecordInvalid")),
        (true, 3) => Some(output(json!({ "role": "leader" }))),
        _ => None,
    });
    assert_eq!(ran.sequence(), ["0 lease tick", "2 lease tick", "4 lease tick", "6 lease tick"]);
    assert!(ran.calls[1..].iter().all(|call| call.payload["carried"] == json!({ "token": 7 })), "{:?}", ran.calls);
    assert_eq!(ran.output(), &json!({ "ended": "newer_loops", "ticks": 2, "ticks_failed": 2 }));
}

#[test]
fn a_passing_error_of_a_tick_is_retried_once_after_a_second() {
    for name in ["StoreUnavailable", "StoreThrottled", "StoreTimedOut", "Lambda.TooManyRequestsException"] {
        let ran = cycle(2, |call, number| (is_tick(call) && number == 1).then(|| error(name)));
        assert_eq!(ran.sequence(), ["0 lease tick", "1 lease tick"], "{name}");
        assert_eq!(ran.output()["ticks_failed"], 0);
    }
    let ran = cycle(3, |call, number| (is_tick(call) && number <= 2).then(|| error("StoreUnavailable")));
    assert_eq!(ran.sequence(), ["0 lease tick", "1 lease tick", "6 lease tick"], "the second failure counts");
    assert_eq!(ran.output()["ticks_failed"], 1);
}

#[test]
fn a_tick_that_hangs_is_given_up_after_its_time_out() {
    let ran = cycle(2, |call, number| (is_tick(call) && number == 1).then(|| tick(json!({})).after_seconds(900)));
    assert_eq!(ran.sequence(), ["0 lease tick", "25 lease tick"]);
    assert_eq!(ran.output()["ticks_failed"], 1);
}

#[test]
fn a_loop_without_one_good_tick_fails_under_the_name_of_the_error() {
    let ran = cycle(usize::MAX, |call, _| is_tick(call).then(|| error("SettingsInvalid")));
    assert_eq!((ran.error(), ran.took_ms, ran.calls.len()), ("SettingsInvalid", 270_000, 55));
}

/// Each of three ticks asks for the takeover; the starts are answered by `answers` in turn.
fn starts(answers: [Option<&'static str>; 3]) -> Ran {
    let mut answers = answers.into_iter();
    cycle(3, move |call, number| match call.name.as_str() {
        "lease tick" => {
            let takeover = json!({ "name": "telemetry-7-0", "input": { "lease": "telemetry", "token": 7, "try": 0 } });
            Some(tick(json!({ "takeover": takeover, "end": number == 3 })))
        }
        _ => Some(answers.next().unwrap().map_or_else(done, error)),
    })
}

#[test]
fn a_takeover_that_exists_already_is_a_success_in_each_spelling() {
    for spelling in [
        "ExecutionAlreadyExists",
        "StepFunctions.ExecutionAlreadyExistsException",
        "Sfn.ExecutionAlreadyExistsException",
    ] {
        let ran = starts([None, Some(spelling), Some(spelling)]);
        assert_eq!(ran.named("start").len(), 3);
        assert_eq!(ran.output(), &json!({ "ended": "newer_loops", "ticks": 3, "ticks_failed": 0 }), "{spelling}");
    }
}

#[test]
fn a_takeover_that_cannot_be_started_stops_no_tick_and_shows_at_the_end() {
    let denied = "StepFunctions.AccessDeniedException";
    let ran = starts([Some(denied); 3]);
    assert_eq!((ran.named("lease tick").len(), ran.error()), (3, denied));
    assert_eq!(starts([Some(denied), Some(denied), None]).output()["ticks"], 3, "made good by the last start");
}

#[test]
fn events_that_could_not_be_reported_go_with_the_next_tick_which_is_told_so() {
    let ran = cycle(2, |call, number| match (call.name.as_str(), number) {
        ("lease tick", 1) => Some(tick(json!({ "events": [event(1)] }))),
        ("lease tick", 2) => Some(tick(json!({ "events": [event(2)] }))),
        ("lease tick", 3) => Some(tick(json!({ "end": true }))),
        ("events", 1) => Some(error("EventBridge.FailedEntry")),
        _ => None,
    });
    let ticks_and_events = ["0 lease tick", "0 events", "5 lease tick", "5 events", "10 lease tick"];
    assert_eq!(ran.sequence(), ticks_and_events);
    assert_eq!(delivered(&ran), [true, false, true], "told before, kept back, told at last");
    let tokens: Vec<_> =
        ran.calls[3].payload["Entries"].as_array().unwrap().iter().map(|e| &e["Detail"]["token"]).collect();
    assert_eq!(tokens, [1, 2], "oldest first");
    assert_eq!(ran.output()["ticks"], 3);
}

#[test]
fn a_dead_bus_costs_a_tick_two_seconds_and_no_second_try() {
    let failing = |reply: &dyn Fn() -> Reply| {
        let mut replies: Vec<_> = (0..4).map(|_| reply()).collect();
        cycle(4, move |call, number| match call.name.as_str() {
            "lease tick" if number == 1 => Some(tick(json!({ "events": [event(1)] }))),
            "events" => Some(replies.pop().expect("one try a tick")),
            _ => None,
        })
    };
    for name in ["EventBridge.FailedEntry", "EventBridge.ThrottlingException", "EventBridge.InternalException"] {
        let ran = failing(&|| error(name));
        assert_eq!(ran.named("events").len(), 4, "{name}");
        assert_eq!((ran.error(), ran.took_ms), (name, 15_000));
    }
    let silent = failing(&|| done().after_seconds(900));
    let at: Vec<_> = silent.named("lease tick").iter().map(|call| call.at_ms / 1_000).collect();
    assert_eq!(at, [0, 7, 14, 21], "five seconds' wait and two for the bus");
    assert_eq!((silent.error(), silent.took_ms), ("States.Timeout", 23_000));
    assert_eq!(delivered(&silent), [true, false, false, false]);
}

#[test]
fn events_that_are_never_accepted_end_no_loop_early_but_fail_it() {
    let ran = cycle(4, |call, number| match call.name.as_str() {
        "lease tick" if number == 1 => Some(tick(json!({ "events": [event(1)] }))),
        "events" => Some(error("EventBridge.AccessDenied")),
        _ => None,
    });
    assert_eq!((ran.named("lease tick").len(), ran.error()), (4, "EventBridge.AccessDenied"));
}

#[test]
fn more_than_ten_events_go_ten_at_a_time() {
    let ran = cycle(3, |call, number| {
        (is_tick(call) && number == 1).then(|| tick(json!({ "events": (0..23).map(event).collect::<Vec<_>>() })))
    });
    let sizes: Vec<_> =
        ran.named("events").iter().map(|call| call.payload["Entries"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [10, 10, 3]);
    assert_eq!(delivered(&ran), [true, false, false], "what is left over is not delivered");
}

#[test]
fn a_source_that_cannot_be_set_stops_no_tick_and_shows_unless_made_good() {
    let source = |made_good: bool| {
        cycle(3, move |call, number| match call.name.as_str() {
            "lease tick" if number != 2 => Some(tick(json!({ "source": { "enabled": false }, "end": number == 3 }))),
            "lease source" if number == 1 || !made_good => Some(error("AccessDenied")),
            _ => None,
        })
    };
    let ran = source(false);
    assert_eq!((ran.named("lease tick").len(), ran.error()), (3, "AccessDenied"));
    assert_eq!(ran.named("lease source")[0].payload, json!({ "command": "source", "enabled": false }));
    assert_eq!(source(true).output()["ticks"], 3);
}
