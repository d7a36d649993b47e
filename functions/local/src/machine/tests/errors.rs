//! What failures do: retries, catchers, wildcards, limits.

use serde_json::{Value, json};

use super::world::{machine, run, run_scripted, single};
use crate::machine::DATA_BYTES_MAX;

fn scripted(retry: Value, catch: Value) -> Value {
    machine(json!({
        "A": { "Type": "Task", "Resource": "arn:script", "TimeoutSeconds": 30, "Retry": retry, "Catch": catch, "End": true },
        "Caught": { "Type": "Succeed" },
    }))
}

fn to_caught(errors: &[&str]) -> Value {
    json!([{ "ErrorEquals": errors, "Next": "Caught" }])
}

#[test]
fn retries_wait_longer_each_time_and_end_at_their_number() {
    let retry = json!([{ "ErrorEquals": ["Busy"], "IntervalSeconds": 2, "MaxAttempts": 3, "BackoffRate": 3.0, "MaxDelaySeconds": 10 }]);
    let machine = scripted(retry, to_caught(&["States.ALL"]));
    let ran = run_scripted(&machine, vec![Err("Busy"), Err("Busy"), Err("Busy"), Ok(json!("done"))]);
    assert_eq!(ran.output(), &json!("done"));
    let at: Vec<_> = ran.calls.iter().map(|call| call.after_ms).collect();
    assert_eq!(at, [0, 2_000, 8_000, 18_000], "2 s, 6 s, then 18 s cut to 10 s");

    let ran = run_scripted(&machine, vec![Err("Busy"); 4]);
    assert_eq!(ran.calls.len(), 4);
    assert_eq!(ran.output(), &json!({ "Error": "Busy", "Cause": "as told" }));
    assert_eq!(ran.steps[1], "retried A Busy #1 2s");
    assert_eq!(ran.steps[4], "caught A Busy -> Caught");
}

#[test]
fn the_defaults_of_a_retry_are_those_of_aws() {
    let ran = run_scripted(
        &scripted(json!([{ "ErrorEquals": ["Busy"] }]), json!([{ "ErrorEquals": ["Other"], "Next": "Caught" }])),
        vec![Err("Busy"); 4],
    );
    assert_eq!(ran.error(), "Busy");
    let at: Vec<_> = ran.calls.iter().map(|call| call.after_ms).collect();
    assert_eq!(at, [0, 1_000, 3_000, 7_000]);
    assert_eq!(ran.steps.last().unwrap(), "failed A Busy");
}

#[test]
fn each_retry_counts_for_itself_and_the_first_that_fits_decides() {
    let retry = json!([
        { "ErrorEquals": ["Never"], "MaxAttempts": 0 },
        { "ErrorEquals": ["Busy"], "MaxAttempts": 1, "BackoffRate": 1 },
        { "ErrorEquals": ["States.ALL"], "MaxAttempts": 2, "BackoffRate": 1 },
    ]);
    let machine = scripted(retry, to_caught(&["States.ALL"]));
    let ran = run_scripted(&machine, vec![Err("Busy"), Err("Odd"), Err("Busy")]);
    assert_eq!((ran.output()["Error"].as_str(), ran.calls.len()), (Some("Busy"), 3), "its one retry was used");
    let ran = run_scripted(&machine, vec![Err("Never")]);
    assert_eq!(ran.calls.len(), 1, "an entry with no attempts keeps later ones from retrying");
}

#[test]
fn full_jitter_shortens_the_wait_the_same_way_each_time() {
    let retry = |jitter: &str| json!([{ "ErrorEquals": ["Busy"], "IntervalSeconds": 100, "BackoffRate": 1.0, "JitterStrategy": jitter }]);
    let took = |jitter: &str| {
        let ran =
            run_scripted(&scripted(retry(jitter), to_caught(&["Other"])), vec![Err("Busy"), Err("Busy"), Ok(json!(1))]);
        ran.output();
        ran.calls.iter().map(|call| call.after_ms).collect::<Vec<_>>()
    };
    assert_eq!(took("NONE"), [0, 100_000, 200_000]);
    let spread = took("FULL");
    assert!(spread[1] < 100_000 && spread[2] - spread[1] < 100_000, "{spread:?}");
    assert_ne!(spread[1], spread[2] - spread[1], "not the same part each time");
    assert_eq!(took("FULL"), spread);
}

#[test]
fn the_retry_count_is_in_the_context() {
    let state = json!({
        "Type": "Task", "Resource": "arn:fail", "TimeoutSeconds": 1,
        "Arguments": { "error": "{% $states.context.State.RetryCount < 2 ? 'Busy' : 'Gone' %}" },
        "Retry": [{ "ErrorEquals": ["Busy"] }],
    });
    let ran = run(&single(state), json!({}));
    assert_eq!((ran.error(), ran.calls.len()), ("Gone", 3));
}

#[test]
fn wildcards_answer_to_what_they_should() {
    let caught = |errors: &[&str], error: &'static str| {
        let ran = run_scripted(&scripted(json!([]), to_caught(errors)), vec![Err(error)]);
        ran.steps.iter().any(|step| step.starts_with("caught"))
    };
    assert!(caught(&["States.ALL"], "Anything"));
    assert!(caught(&["States.ALL"], "States.Timeout"));
    assert!(caught(&["States.TaskFailed"], "Anything"));
    assert!(!caught(&["States.TaskFailed"], "States.Timeout"));
    assert!(caught(&["States.TaskFailed", "States.Timeout"], "States.Timeout"));
    assert!(caught(&["One", "Two"], "Two"));
    assert!(!caught(&["One"], "Two"));
    assert!(!caught(&["one"], "One"), "names are case-sensitive");
    for terminal in ["States.DataLimitExceeded", "States.Runtime"] {
        assert!(!caught(&["States.ALL"], terminal));
        assert!(!caught(&["States.TaskFailed"], terminal));
    }
    assert!(caught(&["States.DataLimitExceeded"], "States.DataLimitExceeded"));
    assert!(!caught(&["States.Runtime"], "States.Runtime"));
}

#[test]
fn a_time_out_can_be_retried_and_caught() {
    let machine = machine(json!({
        "A": {
            "Type": "Task", "Resource": "arn:sleep", "TimeoutSeconds": 5, "Arguments": { "seconds": 60 },
            "Retry": [{ "ErrorEquals": ["States.Timeout"], "MaxAttempts": 1 }],
            "Catch": [{ "ErrorEquals": ["States.Timeout"], "Next": "Caught" }],
            "End": true,
        },
        "Caught": { "Type": "Succeed" },
    }));
    let ran = run(&machine, json!({}));
    assert_eq!(ran.output()["Error"], "States.Timeout");
    assert_eq!((ran.calls.len(), ran.took_ms), (2, 11_000));
}

#[test]
fn a_catcher_shapes_the_error_and_assigns() {
    let machine = machine(json!({
        "A": {
            "Type": "Task", "Resource": "arn:script", "TimeoutSeconds": 5,
            "Catch": [
                { "ErrorEquals": ["Other"], "Next": "Caught" },
                { "ErrorEquals": ["States.ALL"], "Next": "Caught",
                  "Assign": { "failed": "{% $states.errorOutput.Error %}" },
                  "Output": { "why": "{% $states.errorOutput.Cause %}", "input": "{% $states.input %}" } },
            ],
            "End": true,
        },
        "Caught": { "Type": "Succeed", "Output": ["{% $failed %}", "{% $states.input %}"] },
    }));
    let ran = run_scripted(&machine, vec![Err("Busy")]);
    assert_eq!(ran.output(), &json!(["Busy", { "why": "as told", "input": {} }]));
}

#[test]
fn a_catcher_that_fails_itself_fails_the_execution() {
    let mut machine = scripted(json!([]), to_caught(&["States.ALL"]));
    machine["States"]["A"]["Catch"][0]["Output"] = json!("{% $states.errorOutput.Missing %}");
    assert_eq!(run_scripted(&machine, vec![Err("Busy")]).error(), "States.QueryEvaluationError");
}

#[test]
fn a_failed_expression_of_a_task_can_be_caught_too() {
    for field in ["Arguments", "Output"] {
        let mut machine = scripted(json!([]), to_caught(&["States.QueryEvaluationError"]));
        machine["States"]["A"][field] = json!("{% $states.input.missing %}");
        let ran = run_scripted(&machine, vec![Ok(json!(1))]);
        assert_eq!(ran.output()["Error"], "States.QueryEvaluationError");
        let cause = ran.output()["Cause"].as_str().unwrap();
        assert!(cause.contains("state A") && cause.contains(field), "{cause}");
    }
}

#[test]
fn maps_and_branches_can_be_retried_and_caught() {
    let inner = json!({ "StartAt": "I", "States": { "I": { "Type": "Task", "Resource": "arn:script", "TimeoutSeconds": 1, "End": true } } });
    for mut state in [
        json!({ "Type": "Map", "Items": [1], "ItemProcessor": inner }),
        json!({ "Type": "Parallel", "Branches": [inner] }),
    ] {
        state["Retry"] = json!([{ "ErrorEquals": ["Busy"], "MaxAttempts": 1 }]);
        state["Catch"] = to_caught(&["Gone"]);
        state["End"] = json!(true);
        let machine = machine(json!({ "A": state, "Caught": { "Type": "Succeed" } }));
        assert_eq!(run_scripted(&machine, vec![Err("Busy"), Ok(json!(5))]).output(), &json!([5]));
        assert_eq!(run_scripted(&machine, vec![Err("Busy"), Err("Gone")]).output()["Error"], "Gone");
    }
}

#[test]
fn too_much_data_ends_the_execution() {
    let text = |bytes: usize| json!("x".repeat(bytes - 2));
    let pass = |value: Value| single(json!({ "Type": "Pass", "Output": { "a": "{% 1 %}", "b": value } }));
    let around = json!({ "a": 1, "b": "" }).to_string().len() - 2;
    assert!(run(&pass(text(DATA_BYTES_MAX - around)), json!({})).output().is_object());
    assert_eq!(run(&pass(text(DATA_BYTES_MAX - around + 1)), json!({})).error(), "States.DataLimitExceeded");
    let machine = scripted(json!([]), to_caught(&["States.ALL"]));
    assert_eq!(
        run_scripted(&machine, vec![Ok(text(DATA_BYTES_MAX + 1))]).error(),
        "States.DataLimitExceeded",
        "a task's result"
    );
    let assign = single(json!({ "Type": "Pass", "Assign": { "v": text(DATA_BYTES_MAX) } }));
    assert_eq!(run(&assign, json!({})).error(), "States.DataLimitExceeded", "variables");
}
