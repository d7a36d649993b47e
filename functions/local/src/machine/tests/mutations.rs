//! A definition is refused or understood, whatever is done to its text; nothing panics. What is understood runs to an end.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::world::{machine, parse, run_with};
use crate::machine::Definition;

/// A machine with every kind of state and field.
fn whole() -> Value {
    machine(json!({
        "A": { "Type": "Pass", "Assign": { "n": "{% $states.input.n %}" }, "Output": { "x": ["{% $now() %}"] }, "Next": "B" },
        "B": { "Type": "Task", "Resource": "arn:echo", "TimeoutSeconds": 9, "Arguments": { "n": "{% $n ~> $string() %}" },
               "Retry": [{ "ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 2, "BackoffRate": 1.5, "MaxDelaySeconds": 9, "JitterStrategy": "FULL" }],
               "Catch": [{ "ErrorEquals": ["States.ALL"], "Next": "H", "Output": "{% $states.errorOutput %}" }], "Next": "C" },
        "C": { "Type": "Wait", "Seconds": "{% 1 + 1 %}", "Next": "D" },
        "D": { "Type": "Choice", "Choices": [{ "Condition": "{% $exists($n) and $states.input.n[$ > 1] = '2' %}", "Next": "E" }], "Default": "H" },
        "E": { "Type": "Map", "Items": [1, 2], "ItemSelector": "{% $states.context.Map.Item %}", "MaxConcurrency": 1,
               "ItemProcessor": { "StartAt": "I", "States": { "I": { "Type": "Wait", "Timestamp": "2026-01-31T12:34:57Z", "End": true } } }, "Next": "F" },
        "F": { "Type": "Parallel", "Branches": [{ "StartAt": "P", "States": { "P": { "Type": "Pass", "End": true } } }], "Next": "G" },
        "G": { "Type": "Succeed", "Output": "{% $states.input %}" },
        "H": { "Type": "Fail", "Error": "E", "Cause": "{% $string($states.input) %}" },
    }))
}

#[test]
fn the_machine_under_test_is_understood() {
    assert!(parse(&whole()).is_ok());
}

/// Scraps that mean something to a definition or to an expression.
const SCRAPS: [&str; 32] = [
    "{%",
    "%}",
    "${",
    "${N}",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "null",
    "-1",
    "1e400",
    "0.5",
    "$",
    "$$",
    "*",
    "**",
    "%",
    "(",
    ")",
    "~>",
    ":=",
    "function($x){",
    "@$v",
    "#$i",
    "^(",
    "|$|{}|",
    "/a(/",
    "[[[[[[[[[[[[[[[[",
    "é",
    "\u{0}",
];

#[derive(Debug, Clone)]
enum Edit {
    Remove(usize),
    Insert(&'static str),
    Repeat(usize),
}

fn edit() -> impl Strategy<Value = (usize, Edit)> {
    let edit = prop_oneof![
        (1..20_usize).prop_map(Edit::Remove),
        select(SCRAPS.as_slice()).prop_map(Edit::Insert),
        (1..60_usize).prop_map(Edit::Repeat),
    ];
    (any::<Index>(), edit).prop_map(|(at, edit)| (at.index(1 << 16), edit))
}

fn edited(mut text: Vec<char>, edits: &[(usize, Edit)]) -> String {
    for (at, edit) in edits {
        let at = at % (text.len() + 1);
        match edit {
            Edit::Remove(count) => drop(text.drain(at..(at + count).min(text.len()))),
            Edit::Insert(scrap) => drop(text.splice(at..at, scrap.chars())),
            Edit::Repeat(count) => {
                let piece: Vec<char> = text[at..(at + count).min(text.len())].to_vec();
                text.splice(at..at, piece);
            }
        }
    }
    text.into_iter().collect()
}

/// The value that `at` points to when the values of `value` are counted through, in any order.
fn nth<'v>(value: &'v mut Value, at: &mut usize) -> Option<&'v mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, at)),
        _ => None,
    }
}

fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        select(["A", "B", "G", "H", "I", "Pass", "Task", "Map", "Fail", "States.ALL"].as_slice()).prop_map(Value::from),
        "[-$a-f0-9.()~>:={}*%^#@|/ ]{0,24}".prop_map(|text| Value::from(format!("{{%{text}%}}"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_text_never_panics(edits in proptest::collection::vec(edit(), 1..6)) {
        let text = edited(whole().to_string().chars().collect(), &edits);
        if let Err(fault) = Definition::parse(&text, &BTreeMap::new()) {
            prop_assert!(!fault.to_string().is_empty());
        }
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        prop_assert!(Definition::parse(&text, &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_machine_with_other_values_is_refused_or_runs(at in 0..200_usize, value in replacement()) {
        let mut machine = whole();
        if let Some(place) = nth(&mut machine, &mut at.clone()) {
            *place = value;
        }
        if parse(&machine).is_ok() {
            run_with(&machine, json!({ "n": 2 }), Vec::new(), |execution| execution.with_states_entered_max(100));
        }
    }
}
