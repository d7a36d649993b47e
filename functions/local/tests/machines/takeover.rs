//! `takeover`: orphans only, one forward pass and one settled pass, and its end always written down.

use std::collections::BTreeMap;

use fencepost_local::machine::Outcome;
use serde_json::{Value, json};

use crate::world::{Call, Ran, Reply, START_MS, done, error, output, run};

fn plan(groups: usize) -> Value {
    let groups: Vec<_> = (0..groups).map(|number| json!({ "shards": [format!("telemetry#{number:04}")] })).collect();
    json!({
        "leading": true, "token": 7, "groups": groups, "stale_wait_seconds": 35, "drainer_limit_seconds": 30,
        "until_ms": START_MS + 55_000,
    })
}

fn page(changes: Value) -> Value {
    let mut page = json!({
        "done": true, "leading": true, "cursor": null, "unsettled": [], "alone": [],
        "stopped_by": null, "again_after_seconds": null,
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

/// The answer of a call that the queue stopped: done for this pass, and no cursor.
fn stopped(again_after_seconds: Option<u64>) -> Value {
    page(json!({ "stopped_by": "queue", "again_after_seconds": again_after_seconds }))
}

/// When the drain was called, in seconds, with what changes from call to call.
fn asked(ran: &Ran) -> Vec<(u64, Value)> {
    let told = |call: &&Call| json!([call.payload["cursor"], call.payload["settled"], call.payload["alone"]]);
    ran.named("drainer drain").iter().map(|call| (call.at_ms / 1_000, told(call))).collect()
}

#[test]
fn a_call_that_the_queue_stopped_is_made_again_as_it_was() {
    let alone = |number: usize| json!({ "shard": "telemetry#0000", "position": row(number)["position"] });
    let mut number = 0;
    let ran = takeover(plan(1), |call| {
        (call.name == "drainer drain").then(|| {
            number += 1;
            output(match number {
                1 => page(json!({ "done": false, "cursor": "half", "unsettled": [row(2)] })),
                2 => stopped(Some(4)),
                3 => page(json!({ "unsettled": [row(2)], "alone": [alone(4), alone(6)] })),
                4 => page(json!({ "done": false, "cursor": "settled half" })),
                5 | 8 => stopped(None),
                _ => page(json!({})),
            })
        })
    });
    let settled = json!([row(2)]);
    assert_eq!(
        asked(&ran),
        [
            (0, json!([null, [], null])),
            (0, json!(["half", [], null])),
            (4, json!(["half", [], null])),
            (39, json!([null, settled, null])),
            (39, json!(["settled half", settled, null])),
            (49, json!(["settled half", settled, null])),
            (49, json!([null, [], alone(4)])),
            (49, json!([null, [], alone(6)])),
            (59, json!([null, [], alone(6)])),
        ],
        "after what the answer says, else 10 s"
    );
    assert_eq!(ran.named("lease takeover_finished")[0].payload, finished(true));
    assert_eq!(ran.output()["counts"]["sent"], 9, "what a stopped call did counts");
}

#[test]
fn a_group_that_stays_stopped_has_failed_whichever_call_it_was() {
    let alone = json!({ "shard": "telemetry#0000", "position": row(2)["position"] });
    for stopping in ["pages", "settled", "alone"] {
        let ran = takeover(plan(2), |call| {
            let part = match &call.payload {
                payload if !payload["alone"].is_null() => "alone",
                payload if payload["settled"] != json!([]) => "settled",
                _ => "pages",
            };
            (call.name == "drainer drain" && call.payload["shards"] == json!(["telemetry#0000"])).then(|| {
                output(match part {
                    part if part == stopping => stopped(Some(5)),
                    "pages" => page(json!({ "unsettled": [row(2)], "alone": [alone] })),
                    _ => page(json!({})),
                })
            })
        });
        assert_eq!(written_failure(&ran), "DrainStopped", "{stopping}");
        assert!(matches!(&ran.outcome, Outcome::Failed { cause, .. } if cause == "queue"), "{:?}", ran.outcome);
        let waits = ran.entered.iter().filter(|state| state.starts_with("Until")).count();
        assert_eq!(waits, 6, "{stopping}: six tries again");
        let before = if stopping == "pages" { 0 } else { 35 };
        assert_eq!(ran.took_ms, (before + 6 * 5) * 1_000, "{stopping}");
    }
}

#[test]
fn the_tries_again_are_six_in_all_for_a_group() {
    let groups = 3;
    let mut calls = BTreeMap::new();
    let ran = takeover(plan(groups), |call| {
        (call.name == "drainer drain").then(|| {
            let number = calls.entry(call.payload["shards"].to_string()).or_insert(0_usize);
            *number += 1;
            // Each second call goes through, so that no call is stopped twice running.
            output(if *number % 2 == 1 { stopped(None) } else { page(json!({ "done": false, "cursor": *number })) })
        })
    });
    assert_eq!(written_failure(&ran), "DrainStopped");
    assert_eq!(ran.named("drainer drain").len(), groups * 13, "the seventh stop is one too many");
    assert_eq!(ran.took_ms, 60_000);
}

#[test]
fn a_stop_is_not_waited_out_beyond_the_time_of_the_takeover() {
    let ran = takeover(plan(1), |call| (call.name == "drainer drain").then(|| output(stopped(Some(150)))));
    assert_eq!((written_failure(&ran), ran.took_ms), ("DrainStopped", 600_000));
}

#[test]
fn a_lost_lease_outweighs_the_stop() {
    let refused = json!({ "leading": false, "stopped_by": "not_permitted" });
    let ran = takeover(plan(1), |call| (call.name == "drainer drain").then(|| output(page(refused.clone()))));
    assert_eq!((written_failure(&ran), ran.took_ms), ("Superseded", 0));
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
