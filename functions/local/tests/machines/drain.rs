//! `drain`: pages until 55 s, one stale wait, one settled call; never beyond 270 s.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Call, Ran, Reply, START_MS, done, error, output, run};

fn group(number: usize) -> Value {
    json!({ "shards": [format!("telemetry#{number:04}")] })
}

fn plan(groups: usize) -> Value {
    json!({
        "leading": true, "token": 7, "groups": (0..groups).map(group).collect::<Vec<_>>(), "stale_wait_seconds": 35,
        "drainer_limit_seconds": 30, "until_ms": START_MS + 55_000,
    })
}

fn page(changes: Value) -> Value {
    let mut page = json!({
        "done": true, "leading": true, "cursor": null, "unsettled": [], "alone": [],
        "counts": { "claimed": 2, "sent": 2, "committed": 1, "fenced": 1 },
    });
    for (field, value) in changes.as_object().unwrap() {
        page[field] = value.clone();
    }
    page
}

fn unsettled(milliseconds: usize) -> Value {
    json!({ "shard": "telemetry#0000", "position": format!("{milliseconds:013}#id"), "claim": format!("claim-{milliseconds}"), "token": 6 })
}

fn settled(milliseconds: usize) -> Value {
    json!({ "shard": "telemetry#0000", "position": format!("{milliseconds:013}#id"), "claim": format!("claim-{milliseconds}") })
}

/// `answer` is asked for each `drain` call, with its number from 1.
fn drain(plan: Value, mut answer: impl FnMut(&Call, usize) -> Reply + Send) -> Ran {
    let mut number = 0;
    run("drain", json!({}), move |call| match call.name.as_str() {
        "drainer plan" => output(plan.clone()),
        "drainer drain" => {
            number += 1;
            answer(call, number)
        }
        _ => done(),
    })
}

#[test]
fn a_standby_touches_nothing() {
    let ran = drain(json!({ "leading": false, "token": null, "groups": [] }), |_, _| panic!("no call is due"));
    assert_eq!(ran.output(), &json!({ "leading": false }));
    assert_eq!(ran.sequence(), ["0 drainer plan"]);
}

#[test]
fn pages_go_on_by_cursor_until_done_and_counts_add_up_over_groups() {
    let ran = drain(plan(2), |call, _| {
        let first = call.payload["cursor"].is_null();
        let counts = json!({ "claimed": 3, "sent": 2, "duplicate_risk": 1 });
        output(if first {
            page(json!({ "done": false, "cursor": { "at": call.payload["shards"] } }))
        } else {
            page(json!({ "counts": counts }))
        })
    });
    assert_eq!(ran.calls.len(), 5);
    let first = ran.calls.iter().find(|call| call.name == "drainer drain").unwrap();
    assert_eq!(
        first.payload,
        json!({
            "command": "drain", "shards": ["telemetry#0000"], "mode": { "kind": "scheduled" }, "cursor": null, "settled": [], "alone": null,
        })
    );
    assert_eq!(first.timeout, Duration::from_secs(75), "above each limit that the settings allow the function");
    for call in ran.calls.iter().filter(|call| !call.payload["cursor"].is_null()) {
        assert_eq!(call.payload["cursor"]["at"], call.payload["shards"], "each group keeps its own cursor");
    }
    assert_eq!(
        ran.output(),
        &json!({
            "leading": true, "groups": 2, "groups_done": 2, "unsettled": 0,
            "counts": { "claimed": 10, "sent": 8, "committed": 2, "fenced": 2, "duplicate_risk": 2 },
        })
    );
    assert_eq!(ran.took_ms, 0, "nothing unsettled, nothing to wait for");
}

#[test]
fn no_groups_and_one_group_are_no_special_cases() {
    let counts = |ran: &Ran| (ran.output()["groups"].clone(), ran.output()["counts"].clone());
    assert_eq!(counts(&drain(plan(0), |_, _| panic!("no group"))), (json!(0), json!({})));
    let ran = drain(plan(1), |_, _| output(page(json!({ "counts": { "sent": 4 } }))));
    assert_eq!(counts(&ran), (json!(1), json!({ "sent": 4 })));
}

#[test]
fn pages_stop_at_55_seconds() {
    let ran = drain(plan(1), |_, _| output(page(json!({ "done": false, "cursor": 1 }))).after_seconds(20));
    assert_eq!(ran.sequence(), ["0 drainer plan", "0 drainer drain", "20 drainer drain", "40 drainer drain"]);
    assert_eq!(ran.output()["groups_done"], 0);
}

#[test]
fn one_wait_then_one_call_with_the_hundred_oldest_settled() {
    let ran = drain(plan(2), |call, _| {
        let with_claims = call.payload["shards"] == json!(["telemetry#0000"]) && call.payload["settled"] == json!([]);
        let rows: Vec<_> = (0..60).rev().map(unsettled).chain((60..120).map(unsettled)).collect();
        output(page(json!({ "unsettled": if with_claims { rows } else { Vec::new() } }))).after_seconds(5)
    });
    assert_eq!(ran.sequence(), ["0 drainer plan", "0 drainer drain", "0 drainer drain", "40 drainer drain"]);
    let call = ran.calls.last().unwrap();
    assert_eq!(call.payload["settled"], Value::from_iter((0..100).map(settled)), "oldest first, a hundred");
    assert_eq!((&call.payload["shards"], &call.payload["cursor"]), (&json!(["telemetry#0000"]), &Value::Null));
    assert_eq!(ran.took_ms, 45_000);
}

#[test]
fn claims_reported_again_by_a_later_call_count_once_and_wait_once() {
    let ran = drain(plan(1), |call, number| {
        let more = call.payload["settled"] == json!([]) && number < 3;
        let found: Vec<_> = (1..=number).map(unsettled).collect();
        output(page(json!({ "done": !more, "cursor": number, "unsettled": found }))).after_seconds(1)
    });
    assert_eq!(ran.entered.iter().filter(|state| state.starts_with("WaitForStale")).count(), 1, "{:?}", ran.entered);
    assert_eq!(ran.calls.last().unwrap().payload["settled"], json!([settled(1), settled(2), settled(3)]));
    assert_eq!(ran.took_ms, 3_000 + 35_000 + 1_000);
}

#[test]
fn a_dangerous_record_is_claimed_alone_with_its_claim_settled() {
    let alone = |row: usize| json!({ "shard": "telemetry#0000", "position": format!("{row:013}#id") });
    let ran = drain(plan(1), |call, number| {
        output(match number {
            1 => page(json!({ "unsettled": [unsettled(1), unsettled(2)], "alone": [alone(9)] })),
            2 => page(json!({ "alone": [alone(2), alone(9)] })),
            _ => page(json!({ "alone": [call.payload["alone"].clone()] })),
        })
    });
    assert_eq!(
        ran.sequence(),
        ["0 drainer plan", "0 drainer drain", "35 drainer drain", "35 drainer drain", "35 drainer drain"]
    );
    let told = |index: usize| (&ran.calls[index].payload["alone"], &ran.calls[index].payload["settled"]);
    assert_eq!(told(2), (&Value::Null, &json!([settled(1), settled(2)])));
    assert_eq!(told(3), (&alone(9), &json!([])), "its claim was never seen by this execution");
    assert_eq!(told(4), (&alone(2), &json!([settled(2)])));
    assert_eq!(ran.calls[4].payload["shards"], json!(["telemetry#0000"]));
}

#[test]
fn a_lone_record_that_ends_its_call_keeps_no_other_and_fails_the_execution_in_the_end() {
    let alone = |row: usize| json!({ "shard": "telemetry#0000", "position": format!("{row:013}#id") });
    for leads_after in [true, false] {
        let ran = drain(plan(1), |call, _| match call.payload["alone"]["position"].as_str() {
            None => output(page(json!({ "alone": [alone(1), alone(2)] }))),
            Some(position) if position.starts_with("0000000000001#") => error("Runtime.ExitError"),
            Some(_) => output(page(json!({ "leading": leads_after }))),
        });
        let told: Vec<_> = ran.named("drainer drain").iter().map(|call| call.payload["alone"].clone()).collect();
        assert_eq!(told, [Value::Null, alone(1), alone(2)], "the other has its own call");
        assert_eq!(ran.error(), "Runtime.ExitError", "leading after it: {leads_after}");
    }
}

#[test]
fn at_most_ten_records_of_a_group_are_taken_alone() {
    let rows: Vec<_> =
        (0..30).map(|row| json!({ "shard": "telemetry#0000", "position": format!("{row:013}#id") })).collect();
    let ran = drain(plan(1), move |_, _| output(page(json!({ "alone": rows }))));
    assert_eq!(ran.named("drainer drain").len(), 1 + 10);
}

#[test]
fn nothing_runs_beyond_270_seconds_whatever_the_settings() {
    for (limit, stale) in [(30, 35), (10, 20), (70, 75), (30, 150), (60, 200)] {
        for (groups, seconds) in [(1, limit), (1, limit / 2), (90, limit)] {
            let mut plan = plan(groups);
            plan["stale_wait_seconds"] = json!(stale);
            plan["drainer_limit_seconds"] = json!(limit);
            let ran = drain(plan, |call, _| {
                let shard = &call.payload["shards"][0];
                let row = json!({ "shard": shard, "position": "0000000000001#id", "claim": "claim", "token": 6 });
                output(page(json!({ "done": false, "cursor": 1, "unsettled": [row], "alone": [row] })))
                    .after_seconds(seconds)
            });
            assert!(ran.took_ms <= 270_000, "limit {limit}, stale {stale}, {groups} groups: {} ms", ran.took_ms);
            for item in 0..groups {
                let waits = ran.entered.iter().filter(|state| **state == format!("WaitForStale[{item}]")).count();
                assert!(waits <= 1, "group {item} waited {waits} times");
            }
            if 55 + 2 * limit + stale <= 270 && groups <= 40 {
                let mut settled = ran.named("drainer drain");
                settled.retain(|call| call.payload["settled"] != json!([]) && call.payload["alone"].is_null());
                assert_eq!(settled.len(), groups, "limit {limit}, stale {stale}: time is left for the settled call");
            }
        }
    }
}

#[test]
fn a_lost_lease_ends_the_group_at_once() {
    let ran = drain(plan(1), |_, number| {
        output(page(json!({ "leading": number < 2, "done": number >= 2, "cursor": 1, "unsettled": [unsettled(1)] })))
    });
    assert_eq!(ran.sequence(), ["0 drainer plan", "0 drainer drain", "0 drainer drain"]);
    assert_eq!(ran.output()["leading"], false);
}

#[test]
fn a_passing_error_is_retried_once_and_a_failed_group_stops_no_other() {
    let ran = drain(plan(1), |_, number| if number == 1 { error("StoreThrottled") } else { output(page(json!({}))) });
    assert_eq!(ran.sequence(), ["0 drainer plan", "0 drainer drain", "1 drainer drain"]);
    assert_eq!(ran.output()["groups_done"], 1);

    let ran = drain(plan(3), |call, _| {
        if call.payload["shards"] == group(1)["shards"] {
            error("AccessDenied")
        } else {
            output(page(json!({}))).after_seconds(9)
        }
    });
    assert_eq!((ran.error(), ran.took_ms), ("AccessDenied", 9_000), "the others ran to their end");
}

#[test]
fn a_plan_that_fails_is_the_failure() {
    let ran = run("drain", json!({}), |_| error("SettingsInvalid"));
    assert_eq!((ran.error(), ran.calls.len()), ("SettingsInvalid", 1));
}

#[test]
fn a_pass_that_left_rows_behind_is_repeated_until_55_seconds() {
    let ran = drain(plan(1), |_, number| {
        output(page(json!({
            "unsettled": if number < 3 { json!([unsettled(number)]) } else { json!([]) },
            "again_after_seconds": 10,
        })))
    });
    let at: Vec<_> = ran.named("drainer drain").iter().map(|call| call.at_ms / 1_000).collect();
    assert_eq!(at, [0, 10, 20, 30, 40, 50]);
    assert_eq!(ran.output()["unsettled"], 0, "only the last pass counts");
}
