//! `takeover`: orphans only, one forward pass and one settled pass, and its end always written down.

use serde_json::{Value, json};

use crate::world::{Call, Ran, Reply, START_MS, done, error, output, run};

fn plan(groups: usize) -> Value {
    let groups: Vec<_> = (0..groups).map(|number| json!({ "shards": [format!("telemetry#{number:04}")] })).collect();
    json!({
        "leading": true, "token": 7, "groups": groups, "stale_wait_seconds": 35, "drainer_limit_seconds": 30,
        "until_ms": START_MS + 55_000, "cut": "unused",
    })
}

fn page(changes: Value) -> Value {
    let mut page = json!({
        "done": true, "leading": true, "cursor": null, "unsettled": [], "alone": [], "events": [],
        "counts": { "sent": 1, "committed": 1, "duplicate_risk": 0 },
    });
    for (field, value) in changes.as_object().unwrap() {
        page[field] = value.clone();
    }
    page
}

fn row(number: usize) -> Value {
    json!({ "shard": format!("telemetry#{:04}", number % 2), "position": format!("{number:013}#id"), "claim": format!("claim-{number}") })
}

/// A takeover under token 7; `answer` may answer any call instead of the usual way.
fn takeover(plan: Value, mut answer: impl FnMut(&Call) -> Option<Reply> + Send) -> Ran {
    run("takeover", json!({ "lease": "telemetry", "token": 7, "try": 2 }), move |call| {
        answer(call).unwrap_or_else(|| match call.name.as_str() {
            "drainer plan" => output(plan.clone()),
            "drainer drain" => output(page(json!({}))),
            "lease source" => output(json!({ "enabled": true, "changed": false })),
            "lease takeover_finished" => output(json!({ "state": "written" })),
            _ => done(),
        })
    })
}

fn finished(succeeded: bool) -> Value {
    json!({ "command": "takeover_finished", "token": 7, "try": 2, "succeeded": succeeded })
}

/// The failure's name, once it is seen that it was written down as the last thing done.
fn written_failure(ran: &Ran) -> &str {
    assert_eq!(ran.calls.last().unwrap().payload, finished(false));
    assert!(ran.named("events").is_empty(), "a takeover that failed is not reported as completed");
    ran.error()
}

#[test]
fn connects_drains_writes_and_reports() {
    let ran =
        takeover(plan(2), |call| (call.name == "drainer drain").then(|| output(page(json!({}))).after_seconds(3)));
    assert_eq!(
        ran.sequence(),
        [
            "0 drainer plan",
            "0 lease source",
            "0 drainer drain",
            "0 drainer drain",
            "3 lease takeover_finished",
            "3 events",
        ]
    );
    assert_eq!(ran.calls[1].payload, json!({ "command": "source", "enabled": true }));
    assert_eq!(
        ran.calls[2].payload,
        json!({
            "command": "drain", "shards": ["telemetry#0000"], "cursor": null, "settled": [], "alone": null,
            "mode": { "kind": "takeover", "token": 7, "cut": format!("{START_MS:013}#~") },
        })
    );
    assert_eq!(ran.calls[4].payload, finished(true));
    let detail = json!({
        "lease": "telemetry", "token": 7, "try": 2, "duration_ms": 3_000, "unsettled": 0,
        "counts": { "sent": 2, "committed": 2, "duplicate_risk": 0 },
    });
    assert_eq!(
        ran.calls[5].payload,
        json!({ "Entries": [{
        "Source": "fencepost", "DetailType": "Takeover Completed", "EventBusName": "bus", "Detail": detail,
    }] })
    );
    assert_eq!(ran.output(), &detail);
}

#[test]
fn the_cut_sorts_above_every_row_of_its_millisecond() {
    let ran = takeover(plan(1), |_| None);
    let cut = ran.named("drainer drain")[0].payload["mode"]["cut"].as_str().unwrap();
    assert!(
        cut > format!("{START_MS:013}#zzzz-zz_zz.zz").as_str() && cut < format!("{:013}#", START_MS + 1).as_str(),
        "{cut}"
    );
}

#[test]
fn stale_claims_get_one_wait_then_a_hundred_a_call_each_to_its_end() {
    let mut forward = 0;
    let ran = takeover(plan(1), |call| {
        (call.name == "drainer drain").then(|| {
            let cursor = &call.payload["cursor"];
            if call.payload["settled"] == json!([]) {
                forward += 1;
                // Each call names the hundred oldest that it knows of, some of them again.
                let rows: Vec<_> = ((forward - 1) * 65..((forward - 1) * 65 + 100)).rev().map(row).collect();
                return output(page(json!({ "done": forward == 3, "cursor": forward, "unsettled": rows })))
                    .after_seconds(10);
            }
            output(page(if cursor.is_null() { json!({ "done": false, "cursor": "half" }) } else { json!({}) }))
                .after_seconds(2)
        })
    });
    let settled: Vec<_> = ran.calls.iter().filter(|call| call.at_ms > 30_000 && call.name == "drainer drain").collect();
    let at: Vec<_> = settled.iter().map(|call| call.at_ms / 1_000).collect();
    assert_eq!(at, [65, 67, 69, 71, 73, 75], "35 s after the last page");
    for (index, call) in settled.iter().enumerate() {
        let from = index / 2 * 100;
        assert_eq!(call.payload["settled"], Value::from_iter((from..(from + 100).min(230)).map(row)));
        assert_eq!(call.payload["cursor"], if index % 2 == 0 { Value::Null } else { json!("half") });
        assert_eq!(call.payload["shards"].as_array().unwrap().len(), 2, "the shards of those claims");
    }
    assert_eq!(ran.entered.iter().filter(|state| state.starts_with("WaitForStale")).count(), 1);
    assert_eq!((&ran.output()["unsettled"], &ran.output()["counts"]["sent"]), (&json!(230), &json!(9)));
}

#[test]
fn dangerous_records_come_last_and_alone() {
    let ran = takeover(plan(1), |call| {
        let first = call.name == "drainer drain" && call.at_ms == 0 && call.payload["alone"].is_null();
        let alone = json!({ "shard": "telemetry#0000", "position": row(2)["position"] });
        first.then(|| output(page(json!({ "unsettled": [row(1), row(2)], "alone": [alone] }))))
    });
    let calls = ran.named("drainer drain");
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[1].payload["settled"], json!([row(1), row(2)]));
    assert_eq!(
        (&calls[2].payload["alone"]["position"], &calls[2].payload["settled"]),
        (&row(2)["position"], &json!([row(2)]))
    );
}

#[test]
fn passing_errors_are_retried() {
    let mut failures = vec!["StoreUnavailable", "StoreTimedOut"];
    let ran = takeover(plan(1), |call| {
        (call.name == "drainer drain").then(|| failures.pop().map_or_else(|| output(page(json!({}))), error))
    });
    let at: Vec<_> = ran.named("drainer drain").iter().map(|call| call.at_ms / 1_000).collect();
    assert_eq!(at, [0, 2, 6]);
    assert_eq!(ran.output()["token"], 7);
}

#[test]
fn any_failure_is_written_down_under_its_name() {
    for failing in ["drainer plan", "lease source", "drainer drain"] {
        let ran = takeover(plan(2), |call| (call.name == failing).then(|| error("AccessDenied")));
        assert_eq!(written_failure(&ran), "AccessDenied", "{failing}");
    }
    let ran = takeover(plan(1), |call| (call.payload["succeeded"] == json!(true)).then(|| error("LeaseRecordInvalid")));
    assert_eq!(written_failure(&ran), "LeaseRecordInvalid");
}

#[test]
fn a_failed_group_lets_the_others_finish_first() {
    let ran = takeover(plan(3), |call| {
        let first = call.payload["shards"] == json!(["telemetry#0000"]);
        (call.name == "drainer drain")
            .then(|| if first { error("AccessDenied") } else { output(page(json!({}))).after_seconds(25) })
    });
    assert_eq!((written_failure(&ran), ran.took_ms), ("AccessDenied", 25_000));
}

#[test]
fn a_failure_that_cannot_be_written_is_still_the_failure() {
    let ran = takeover(plan(1), |call| (call.name != "drainer plan").then(|| error("AccessDenied")));
    assert_eq!(ran.error(), "AccessDenied");
    assert_eq!(ran.sequence(), ["0 drainer plan", "0 lease source", "0 lease takeover_finished"]);
}

#[test]
fn a_newer_token_supersedes_it_before_during_and_after_the_drain() {
    for (field, value) in [("leading", json!(false)), ("token", json!(8))] {
        let mut plan = plan(1);
        plan[field] = value;
        let ran = takeover(plan, |_| None);
        assert_eq!(written_failure(&ran), "Superseded");
        assert_eq!(ran.sequence(), ["0 drainer plan", "0 lease takeover_finished"], "nothing is connected");
    }
    for at_settled in [false, true] {
        let ran = takeover(plan(1), |call| {
            (call.name == "drainer drain").then(|| {
                let leading = at_settled && call.payload["settled"] == json!([]);
                output(page(json!({ "leading": leading, "unsettled": [row(1)] })))
            })
        });
        assert_eq!(written_failure(&ran), "Superseded");
        assert_eq!(ran.named("drainer drain").len(), 1 + usize::from(at_settled));
    }
    let ran = outdated(8);
    assert_eq!(written_failure(&ran), "Superseded");
}

/// The end cannot be written any more, and the lease row shows `takeover_done`.
fn outdated(takeover_done: u64) -> Ran {
    takeover(plan(1), |call| match call.name.as_str() {
        "lease takeover_finished" => Some(output(json!({ "state": "outdated" }))),
        "lease status" => Some(output(json!({ "lease": { "token": takeover_done, "takeover_done": takeover_done } }))),
        _ => None,
    })
}

#[test]
fn an_end_written_before_whose_reply_was_lost_is_a_success() {
    let ran = outdated(7);
    assert_eq!(ran.output()["counts"]["sent"], 1);
    assert_eq!(ran.calls.last().unwrap().name, "events");
    assert!(ran.calls.iter().all(|call| call.payload["succeeded"] != json!(false)));
}

#[test]
fn it_gives_up_in_time_for_the_next_try() {
    let endless = |seconds: u64| {
        takeover(plan(3), move |call| {
            (call.name == "drainer drain")
                .then(|| output(page(json!({ "done": false, "cursor": 1 }))).after_seconds(seconds))
        })
    };
    let ran = endless(70);
    assert_eq!(written_failure(&ran), "TakeoverTooLong");
    assert!(ran.took_ms > 600_000 && ran.took_ms < 800_000, "{} ms", ran.took_ms);

    let ran = endless(0);
    assert_eq!(written_failure(&ran), "TakeoverTooLong");
    assert_eq!(ran.named("drainer drain").len(), 2_400, "a history has room for no more");

    let mut long_wait = plan(1);
    long_wait["stale_wait_seconds"] = json!(700);
    let ran = takeover(long_wait, |call| {
        (call.name == "drainer drain").then(|| output(page(json!({ "unsettled": [row(1)] }))))
    });
    assert_eq!((written_failure(&ran), ran.took_ms), ("TakeoverTooLong", 0));
}

#[test]
fn done_is_done_also_when_the_report_fails() {
    let ran = takeover(plan(1), |call| (call.name == "events").then(|| error("EventBridge.AccessDenied")));
    assert_eq!(ran.output()["token"], 7);
    assert_eq!(ran.named("lease takeover_finished").len(), 1, "and is not written as failed afterwards");
}
