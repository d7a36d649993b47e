//! Each kind of state does what its fields say.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{MACHINE_ID, Ran, START_MS, machine, run, run_with, single};
use crate::machine::{Outcome, STATES_ENTERED_MAX, format_timestamp};

#[test]
fn a_pass_hands_its_input_on_or_its_output() {
    assert_eq!(run(&single(json!({ "Type": "Pass" })), json!({ "a": [1, null] })).output(), &json!({ "a": [1, null] }));
    let shaped = single(json!({ "Type": "Pass", "Output": { "twice": "{% $states.input.n * 2 %}", "plain": "{n}" } }));
    assert_eq!(run(&shaped, json!({ "n": 21 })).output(), &json!({ "twice": 42, "plain": "{n}" }));
}

#[test]
fn a_task_gets_its_arguments_and_gives_its_result() {
    let task = json!({ "Type": "Task", "Resource": "arn:echo", "TimeoutSeconds": 7, "Arguments": { "x": "{% $states.input.n + 1 %}" } });
    let ran = run(&single(task.clone()), json!({ "n": 1 }));
    assert_eq!(ran.output(), &json!({ "x": 2 }));
    let [call] = ran.calls.as_slice() else { panic!("one call: {:?}", ran.calls) };
    assert_eq!(
        (call.resource.as_str(), &call.arguments, call.timeout),
        ("arn:echo", &json!({ "x": 2 }), Duration::from_secs(7))
    );

    let mut shaped = task;
    shaped["Output"] = json!({ "from": "{% [$states.input.n, $states.result.x] %}" });
    assert_eq!(run(&single(shaped), json!({ "n": 1 })).output(), &json!({ "from": [1, 2] }));
}

#[test]
fn a_task_without_arguments_gets_the_input() {
    let ran = run(&single(json!({ "Type": "Task", "Resource": "arn:echo", "TimeoutSeconds": 1 })), json!({ "n": 1 }));
    assert_eq!(ran.calls[0].arguments, json!({ "n": 1 }));
}

#[test]
fn a_task_ends_at_its_time_out_and_not_before() {
    let task = |seconds: u64, limit: Value| {
        single(
            json!({ "Type": "Task", "Resource": "arn:sleep", "TimeoutSeconds": limit, "Arguments": { "seconds": seconds } }),
        )
    };
    let late = run(&task(11, json!(10)), json!({}));
    assert_eq!((late.error(), late.took_ms), ("States.Timeout", 10_000));
    let expression = run(&task(11, json!("{% 3 + 2 %}")), json!({}));
    assert_eq!((expression.error(), expression.took_ms), ("States.Timeout", 5_000));
    let just_in_time = run(&task(10, json!(10)), json!({}));
    assert_eq!(just_in_time.output(), &json!({ "seconds": 10 }));
    assert_eq!(run(&task(1, json!("{% 0 %}")), json!({})).error(), "States.QueryEvaluationError");
}

#[test]
fn a_wait_takes_seconds_or_lasts_until_a_moment() {
    let wait = |field: &str, value: Value| single(json!({ "Type": "Wait", field: value }));
    let took = |machine: &Value, input: Value| {
        let ran = run(machine, input);
        ran.output();
        ran.took_ms
    };
    assert_eq!(took(&wait("Seconds", json!(5)), json!({})), 5_000);
    assert_eq!(took(&wait("Seconds", json!(0)), json!({})), 0);
    assert_eq!(took(&wait("Seconds", json!("{% $states.input.tick %}")), json!({ "tick": 3 })), 3_000);
    let until = |ms| json!({ "until": format_timestamp(ms) });
    let timestamp = wait("Timestamp", json!("{% $states.input.until %}"));
    assert_eq!(took(&timestamp, until(START_MS + 250)), 250);
    assert_eq!(took(&timestamp, until(START_MS - 1)), 0, "a moment that has passed");
    assert_eq!(took(&wait("Timestamp", json!("2026-01-31T12:34:57Z")), json!({})), 211);
    let mut later = timestamp.clone();
    later["States"]["A"]["Next"] = json!("B");
    later["States"]["A"].as_object_mut().unwrap().remove("End");
    later["States"]["B"] = json!({ "Type": "Wait", "Timestamp": "{% $states.input.until %}", "End": true });
    assert_eq!(took(&later, until(START_MS + 250)), 250, "the moment is the same for a state that comes to it later");
    for (machine, input) in [
        (wait("Seconds", json!("{% 1.5 %}")), json!({})),
        (wait("Seconds", json!("{% -1 %}")), json!({})),
        (timestamp, json!({ "until": "soon" })),
    ] {
        assert_eq!(run(&machine, input).error(), "States.QueryEvaluationError");
    }
}

fn choice() -> Value {
    machine(json!({
        "A": {
            "Type": "Choice",
            "Choices": [
                { "Condition": "{% $states.input.n > 10 %}", "Next": "Large", "Assign": { "seen": "{% 'rule ' & $states.input.n %}" } },
                { "Condition": "{% $states.input.n > 5 %}", "Next": "Middle", "Output": "{% $states.input.n - 5 %}" },
            ],
            "Default": "Small",
            "Assign": { "seen": "default" },
            "Output": "none",
        },
        "Large": { "Type": "Succeed", "Output": ["{% $seen %}", "{% $states.input.n %}"] },
        "Middle": { "Type": "Succeed" },
        "Small": { "Type": "Succeed", "Output": ["{% $seen %}", "{% $states.input %}"] },
    }))
}

#[test]
fn the_first_rule_that_holds_decides_with_its_own_results() {
    assert_eq!(run(&choice(), json!({ "n": 11 })).output(), &json!(["rule 11", 11]));
    assert_eq!(run(&choice(), json!({ "n": 6 })).output(), &json!(1));
    assert_eq!(run(&choice(), json!({ "n": 5 })).output(), &json!(["default", "none"]));
}

#[test]
fn a_choice_without_a_way_out_fails() {
    let mut open = choice();
    open["States"]["A"].as_object_mut().unwrap().remove("Default");
    open["States"].as_object_mut().unwrap().remove("Small");
    let ran = run(&open, json!({ "n": 1 }));
    assert_eq!(ran.error(), "States.NoChoiceMatched");
    let vague = run(&choice(), json!({ "n": "many" }));
    assert_eq!(vague.error(), "States.QueryEvaluationError", "a condition that fails is no `false`");
    let mut number = choice();
    number["States"]["A"]["Choices"][0]["Condition"] = json!("{% 1 %}");
    assert_eq!(run(&number, json!({ "n": 11 })).error(), "States.QueryEvaluationError");
}

fn map(extra: Value) -> Value {
    let mut state = json!({
        "Type": "Map",
        "Items": "{% $states.input.items %}",
        "ItemProcessor": {
            "ProcessorConfig": { "Mode": "INLINE" },
            "StartAt": "Each",
            "States": { "Each": { "Type": "Task", "Resource": "arn:sleep", "TimeoutSeconds": 60, "End": true } },
        },
    });
    state.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    single(state)
}

fn sleeps(seconds: &[u64]) -> Value {
    json!({ "items": seconds.iter().map(|seconds| json!({ "seconds": seconds })).collect::<Vec<_>>() })
}

#[test]
fn a_map_runs_all_items_at_once_and_keeps_their_order() {
    let ran = run(&map(json!({})), sleeps(&[3, 1, 2]));
    assert_eq!(ran.output(), &json!([{ "seconds": 3 }, { "seconds": 1 }, { "seconds": 2 }]));
    assert_eq!((ran.took_ms, ran.most_running), (3_000, 3));
    assert!(ran.steps.contains(&"exited Each[1], end".to_owned()), "{:?}", ran.steps);
    assert_eq!(run(&map(json!({})), sleeps(&[])).output(), &json!([]));
}

#[test]
fn a_map_keeps_to_its_concurrency_and_to_that_of_aws() {
    let two = run(&map(json!({ "MaxConcurrency": 2 })), sleeps(&[3, 1, 2, 1]));
    assert_eq!((two.took_ms, two.most_running), (4_000, 2));
    let one = run(&map(json!({ "MaxConcurrency": "{% $count($states.input.items) - 2 %}" })), sleeps(&[3, 1, 2]));
    assert_eq!((one.took_ms, one.most_running), (6_000, 1));
    assert_eq!(run(&map(json!({})), sleeps(&[1; 50])).most_running, 40);
}

#[test]
fn a_map_selects_what_each_item_begins_with() {
    let selector = json!({ "seconds": "{% $states.context.Map.Item.Index %}", "of": "{% $states.context.Map.Item.Value.seconds %}", "n": "{% $count($states.input.items) %}" });
    let ran = run(&map(json!({ "ItemSelector": selector })), sleeps(&[9, 8]));
    assert_eq!(ran.output(), &json!([{ "seconds": 0, "of": 9, "n": 2 }, { "seconds": 1, "of": 8, "n": 2 }]));
}

#[test]
fn a_map_without_items_takes_a_list_as_input() {
    let mut machine = map(json!({}));
    machine["States"]["A"].as_object_mut().unwrap().remove("Items");
    assert_eq!(run(&machine, json!([{ "seconds": 1 }])).output(), &json!([{ "seconds": 1 }]));
    assert_eq!(run(&machine, json!({ "seconds": 1 })).error(), "States.QueryEvaluationError");
}

#[test]
fn the_first_failing_item_ends_the_map_with_its_error() {
    let mut machine = map(json!({}));
    machine["States"]["A"]["ItemProcessor"]["States"]["Each"]["TimeoutSeconds"] = json!(2);
    let ran = run(&machine, sleeps(&[50, 3, 1]));
    assert_eq!((ran.error(), ran.took_ms), ("States.Timeout", 2_000));
}

#[test]
fn items_and_branches_see_variables_and_keep_their_own() {
    let inner = |name: &str, state: &str| {
        json!({
            "StartAt": state,
            "States": { state: { "Type": "Pass", "Assign": { name: "{% $outer & '!' %}" }, "Next": format!("{state}2") },
                        format!("{state}2"): { "Type": "Succeed", "Output": format!("{{% ${name} %}}") } },
        })
    };
    let machine = machine(json!({
        "A": { "Type": "Pass", "Assign": { "outer": "o" }, "Next": "M" },
        "M": { "Type": "Map", "Items": [1, 2], "ItemProcessor": inner("mine", "I"), "Assign": { "mapped": "{% $states.result %}" }, "Next": "P" },
        "P": { "Type": "Parallel", "Branches": [inner("left", "L"), inner("right", "R")], "Next": "Z" },
        "Z": { "Type": "Succeed", "Output": { "both": "{% $states.input %}", "mapped": "{% $mapped %}", "outer": "{% $outer %}" } },
    }));
    let expected = json!({ "both": ["o!", "o!"], "mapped": ["o!", "o!"], "outer": "o" });
    assert_eq!(run(&machine, json!({})).output(), &expected);
}

#[test]
fn branches_run_at_once_with_the_same_input() {
    let branch = |state: &str, seconds: &str| {
        json!({ "StartAt": state, "States": { state: {
            "Type": "Task", "Resource": "arn:sleep", "TimeoutSeconds": 60, "Arguments": { "seconds": seconds }, "End": true } } })
    };
    let state = json!({
        "Type": "Parallel",
        "Arguments": { "a": "{% $states.input.n %}", "b": 1 },
        "Branches": [branch("L", "{% $states.input.a %}"), branch("R", "{% $states.input.b %}")],
    });
    let ran = run(&single(state), json!({ "n": 4 }));
    assert_eq!(ran.output(), &json!([{ "seconds": 4 }, { "seconds": 1 }]));
    assert_eq!(ran.took_ms, 4_000);
}

#[test]
fn a_fail_names_its_error_and_cause() {
    let plain = run(&single(json!({ "Type": "Fail", "Error": "Broken", "Cause": "it is" })), json!({}));
    assert_eq!(plain.failure(), ("Broken", "it is"));
    let made = run(&single(json!({ "Type": "Fail", "Error": "{% 'E' & $states.input.n %}" })), json!({ "n": 4 }));
    assert_eq!(made.failure(), ("E4", ""));
    let number = run(&single(json!({ "Type": "Fail", "Error": "{% 4 %}" })), json!({}));
    assert_eq!(number.error(), "States.QueryEvaluationError");
}

#[test]
fn the_context_says_where_the_execution_stands() {
    let machine = machine(json!({
        "A": { "Type": "Wait", "Seconds": 2, "Next": "B" },
        "B": { "Type": "Succeed", "Output": "{% $states.context %}" },
    }));
    let expected = json!({
        "Execution": {
            "Id": "arn:aws:states:eu-central-1:000000000000:execution:tested:once",
            "Input": { "n": 1 },
            "Name": "once",
            "StartTime": "2026-01-31T12:34:56.789Z",
            "RedriveCount": 0,
        },
        "State": { "Name": "B", "EnteredTime": "2026-01-31T12:34:58.789Z", "RetryCount": 0 },
        "StateMachine": { "Id": MACHINE_ID, "Name": "tested" },
    });
    assert_eq!(run(&machine, json!({ "n": 1 })).output(), &expected);
}

#[test]
fn variables_are_assigned_all_at_once() {
    let machine = machine(json!({
        "A": { "Type": "Pass", "Assign": { "a": 1, "b": 2 }, "Next": "B" },
        "B": { "Type": "Pass", "Assign": { "a": "{% $b %}", "b": "{% $a %}" }, "Output": "{% $a %}", "Next": "C" },
        "C": { "Type": "Succeed", "Output": ["{% $a %}", "{% $b %}", "{% $states.input %}"] },
    }));
    assert_eq!(run(&machine, json!({})).output(), &json!([2, 1, 1]));
}

fn endless() -> Value {
    machine(json!({ "A": { "Type": "Pass", "Next": "B" }, "B": { "Type": "Pass", "Next": "A" } }))
}

#[test]
fn an_endless_loop_ends_at_the_limit() {
    let ran = run_with(&endless(), json!({}), Vec::new(), |execution| execution.with_states_entered_max(10));
    assert_eq!(ran.error(), "States.Runtime");
    let entered = |ran: &Ran| ran.steps.iter().filter(|step| step.starts_with("exited")).count();
    assert_eq!(entered(&ran), 10);
    assert_eq!(u64::try_from(entered(&run(&endless(), json!({})))).unwrap(), STATES_ENTERED_MAX);
}

#[test]
fn a_machine_has_a_time_out_of_its_own() {
    let mut machine = single(json!({ "Type": "Wait", "Seconds": 100 }));
    machine["TimeoutSeconds"] = json!(9);
    let ran = run(&machine, json!({}));
    assert_eq!((ran.error(), ran.took_ms), ("States.Timeout", 9_000));
}

#[test]
fn an_observer_hears_of_each_step() {
    let ran = run(&choice(), json!({ "n": 6 }));
    assert_eq!(ran.steps, ["entered A", "exited A -> Middle", "entered Middle", "exited Middle, end"]);
    assert!(matches!(ran.outcome, Outcome::Succeeded(_)));
}
