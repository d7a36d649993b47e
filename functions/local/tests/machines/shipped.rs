//! What holds for every shipped machine.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::world::{shipped, shipped_text, substitutions};

const MACHINES: [(&str, &[&str]); 5] = [
    ("drain", &["DrainerFunctionArn"]),
    ("lease_cycle", &["EventBusName", "LeaseFunctionArn", "TakeoverStateMachineArn"]),
    ("redrive", &["DrainerFunctionArn"]),
    ("step_down", &["LeaseFunctionArn"]),
    ("takeover", &["DrainerFunctionArn", "EventBusName", "LeaseFunctionArn"]),
];

/// Every state of a machine, those inside maps included, with its name.
fn states(machine: &Value) -> Vec<(&str, &Value)> {
    let mut found = Vec::new();
    for (name, state) in machine["States"].as_object().unwrap() {
        found.push((name.as_str(), state));
        if let Some(processor) = state.get("ItemProcessor") {
            found.extend(states(processor));
        }
    }
    found
}

fn placeholders(text: &str) -> BTreeSet<&str> {
    text.split("${").skip(1).map(|rest| rest.split_once('}').unwrap().0).collect()
}

#[test]
fn each_is_json_before_substitution_and_understood_whole_after_it() {
    for (name, _) in MACHINES {
        serde_json::from_str::<Value>(&shipped_text(name)).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        shipped(name);
    }
    let folder = format!("{}/../../statemachines", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), MACHINES.len(), "a machine that no test runs");
}

#[test]
fn placeholders_are_those_that_its_comment_names() {
    for (name, expected) in MACHINES {
        let text = shipped_text(name);
        let machine: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(placeholders(&text), expected.iter().copied().collect(), "{name}");
        let comment = machine["Comment"].as_str().unwrap();
        for placeholder in expected {
            assert!(comment.contains(placeholder), "{name}: {placeholder} is not in the machine's Comment");
            assert!(substitutions().contains_key(*placeholder));
        }
    }
}

#[test]
fn tasks_have_whole_time_outs_and_an_error_leads_to_a_clean_end() {
    for (name, _) in MACHINES {
        let machine: Value = serde_json::from_str(&shipped_text(name)).unwrap();
        let mut failing_ends = 0;
        for (state_name, state) in states(&machine) {
            let place = format!("{name}, {state_name}");
            match state["Type"].as_str().unwrap() {
                "Task" => assert!(state["TimeoutSeconds"].is_u64(), "{place}: an expression is not portable"),
                "Fail" => failing_ends += 1,
                "Succeed" => panic!("{place}: Output of Succeed is not portable; end in Pass"),
                _ => {}
            }
        }
        assert_eq!(failing_ends, 1, "{name}");
        for (state_name, state) in machine["States"].as_object().unwrap() {
            if ["Task", "Map"].contains(&state["Type"].as_str().unwrap()) {
                let catch = state["Catch"].as_array().unwrap_or_else(|| panic!("{name}, {state_name}: no Catch"));
                assert_eq!(
                    catch.last().unwrap()["ErrorEquals"],
                    serde_json::json!(["States.ALL"]),
                    "{name}, {state_name}"
                );
            }
        }
    }
}

#[test]
fn retries_name_their_errors() {
    for (name, _) in MACHINES {
        let machine: Value = serde_json::from_str(&shipped_text(name)).unwrap();
        for (state_name, state) in states(&machine) {
            for retrier in state["Retry"].as_array().into_iter().flatten() {
                for error in retrier["ErrorEquals"].as_array().unwrap() {
                    let error = error.as_str().unwrap();
                    assert!(!["States.ALL", "States.TaskFailed"].contains(&error), "{name}, {state_name}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_variable_of_an_item_never_has_the_name_of_one_outside() {
    fn assigned(machine: &Value) -> BTreeSet<&str> {
        let states = machine["States"].as_object().unwrap().values();
        let holders = states.flat_map(|state| {
            let lists = ["Choices", "Catch"].into_iter().flat_map(|list| state[list].as_array().into_iter().flatten());
            std::iter::once(state).chain(lists)
        });
        holders
            .filter_map(|holder| holder["Assign"].as_object())
            .flat_map(|names| names.keys().map(String::as_str))
            .collect()
    }
    for (name, _) in MACHINES {
        let machine: Value = serde_json::from_str(&shipped_text(name)).unwrap();
        for (_, state) in states(&machine) {
            if let Some(processor) = state.get("ItemProcessor") {
                let both: Vec<_> = assigned(processor).intersection(&assigned(&machine)).copied().collect();
                assert!(both.is_empty(), "{name}: AWS refuses {both:?}");
            }
        }
    }
}
