//! `redrive`: one group after the other, a page a call, with a pause between calls.

use serde_json::{Value, json};

use crate::world::{Call, Ran, Reply, error, output, run};

fn page(done: bool, cursor: Value) -> Reply {
    output(json!({ "done": done, "cursor": cursor, "redriven": 3, "skipped": 1, "phantoms": 0 }))
}

fn redrive(input: Value, groups: usize, mut answer: impl FnMut(&Call) -> Reply + Send) -> Ran {
    let groups: Vec<_> = (0..groups).map(|number| json!({ "shards": [format!("telemetry#{number:04}")] })).collect();
    run("redrive", input, move |call| {
        if call.name == "drainer shards" { output(json!({ "groups": groups })) } else { answer(call) }
    })
}

#[test]
fn pages_by_cursor_group_after_group_with_a_pause_before_each_further_call() {
    let ran = redrive(json!({}), 2, |call| {
        let cursor = call.payload["cursor"].as_u64().unwrap_or(0);
        page(cursor == 2, json!(cursor + 1)).after_seconds(4)
    });
    assert_eq!(
        ran.sequence(),
        [
            "0 drainer shards",
            "0 drainer redrive",
            "5 drainer redrive",
            "10 drainer redrive",
            "15 drainer redrive",
            "20 drainer redrive",
            "25 drainer redrive",
        ]
    );
    let told: Vec<_> = ran.calls[1..]
        .iter()
        .map(|call| (call.payload["shards"][0].as_str().unwrap(), &call.payload["cursor"]))
        .collect();
    let (first, second) = ("telemetry#0000", "telemetry#0001");
    assert_eq!(
        told,
        [
            (first, &Value::Null),
            (first, &json!(1)),
            (first, &json!(2)),
            (second, &Value::Null),
            (second, &json!(1)),
            (second, &json!(2)),
        ]
    );
    assert_eq!(
        ran.calls[1].payload,
        json!({
            "command": "redrive", "shards": [first], "cursor": null, "limit": 100, "dry_run": false,
            "filter": { "reason": null, "before_ms": null, "topic_prefix": null },
        })
    );
    assert_eq!(
        ran.output(),
        &json!({ "complete": true, "dry_run": false, "calls": 6, "redriven": 18, "skipped": 6, "phantoms": 0 })
    );
}

#[test]
fn filter_limit_pause_and_dry_run_are_those_of_the_operator() {
    let input = json!({ "filter": { "reason": "exhausted", "topic_prefix": "telemetry/a" }, "limit_per_call": 7, "pause_seconds": 0, "dry_run": true });
    let ran = redrive(input, 3, |_| page(true, Value::Null));
    assert_eq!((ran.took_ms, ran.named("drainer redrive").len()), (0, 3), "no pause was wanted");
    for call in ran.named("drainer redrive") {
        assert_eq!((&call.payload["limit"], &call.payload["dry_run"]), (&json!(7), &json!(true)));
        assert_eq!(
            call.payload["filter"],
            json!({ "reason": "exhausted", "before_ms": null, "topic_prefix": "telemetry/a" })
        );
    }
    assert_eq!(ran.output()["dry_run"], true);
}

#[test]
fn an_input_that_does_not_fit_redrives_nothing_and_names_its_field() {
    for (input, field) in [
        (json!({ "dryrun": true }), "Unknown field"),
        (json!({ "filter": "exhausted" }), "filter"),
        (json!({ "filter": ["exhausted"] }), "filter"),
        (json!({ "limit_per_call": 0 }), "limit_per_call"),
        (json!({ "limit_per_call": 1.5 }), "limit_per_call"),
        (json!({ "limit_per_call": "100" }), "limit_per_call"),
        (json!({ "limit_per_call": null }), "limit_per_call"),
        (json!({ "pause_seconds": -1 }), "pause_seconds"),
        (json!({ "pause_seconds": 3_601 }), "pause_seconds"),
        (json!({ "dry_run": "true" }), "dry_run"),
        (json!({ "dry_run": null }), "dry_run"),
    ] {
        let ran = redrive(input.clone(), 1, |_| panic!("{input} must not redrive"));
        assert_eq!(ran.error(), "InputInvalid", "{input}");
        let fencepost_local::machine::Outcome::Failed { cause, .. } = &ran.outcome else { unreachable!() };
        assert!(cause.starts_with(field), "{input}: {cause}");
        assert!(ran.calls.is_empty());
    }
    assert_eq!(
        redrive(json!({ "filter": null, "pause_seconds": 3_600, "limit_per_call": 1_000 }), 1, |_| page(
            true,
            Value::Null
        ))
        .output()["calls"],
        1
    );
}

#[test]
fn an_endless_redrive_ends_incomplete_while_its_history_has_room() {
    let ran = redrive(json!({ "pause_seconds": 0 }), 4, |_| page(false, json!(1)));
    assert_eq!(ran.output()["complete"], false);
    assert_eq!(ran.output()["calls"], 1_800);
}

#[test]
fn passing_errors_are_retried_and_another_one_is_the_failure() {
    let mut failures = vec!["StoreUnavailable"];
    let ran = redrive(json!({}), 1, |_| failures.pop().map_or_else(|| page(true, Value::Null), error));
    assert_eq!(ran.sequence(), ["0 drainer shards", "0 drainer redrive", "1 drainer redrive"]);
    assert_eq!(ran.output()["redriven"], 3, "counted once");

    let ran = redrive(json!({}), 3, |_| error("RequestInvalid"));
    assert_eq!((ran.error(), ran.calls.len()), ("RequestInvalid", 2));
}
