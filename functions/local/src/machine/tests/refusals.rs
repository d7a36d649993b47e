//! What is not understood is refused, by the name of the state and the field.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::world::{machine, parse, run, single};
use crate::machine::{Definition, DefinitionError};

/// The text of the refusal.
fn refused(machine: &Value) -> String {
    match parse(machine) {
        Err(fault) => fault.to_string(),
        Ok(_) => panic!("accepted {machine}"),
    }
}

#[track_caller]
fn assert_refused(machine: &Value, parts: &[&str]) {
    let text = refused(machine);
    assert!(parts.iter().all(|part| text.contains(part)), "{text:?} should name {parts:?}");
}

fn task() -> Value {
    json!({ "Type": "Task", "Resource": "arn:echo", "TimeoutSeconds": 1 })
}

fn with(mut state: Value, field: &str, value: Value) -> Value {
    state[field] = value;
    single(state)
}

fn without(mut machine: Value, field: &str) -> Value {
    machine.as_object_mut().unwrap().remove(field);
    machine
}

#[test]
fn placeholders_are_filled_in_or_named() {
    let text = machine(
        json!({ "A": { "Type": "Wait", "Seconds": "{% ${TickSeconds} %}", "Comment": "${A.b_1} ${not one} $${", "End": true } }),
    );
    let mut substitutions = BTreeMap::from([("TickSeconds".to_owned(), "3".to_owned())]);
    let missing = Definition::parse(&text.to_string(), &substitutions).unwrap_err();
    assert_eq!(missing, DefinitionError::Placeholder("A.b_1".to_owned()));
    assert!(missing.to_string().contains("${A.b_1}"));
    substitutions.insert("A.b_1".to_owned(), "x".to_owned());
    assert!(Definition::parse(&text.to_string(), &substitutions).is_ok());
    substitutions.insert("A.b_1".to_owned(), "\"".to_owned());
    assert!(matches!(Definition::parse(&text.to_string(), &substitutions), Err(DefinitionError::Json(_))));
}

#[test]
fn a_filled_in_number_is_a_number() {
    let text =
        r#"{"QueryLanguage":"JSONata","StartAt":"A","States":{"A":{"Type":"Pass","Output":"{% ${N} %}","End":true}}}"#;
    let definition = Definition::parse(text, &BTreeMap::from([("N".to_owned(), "15".to_owned())])).unwrap();
    let filled = serde_json::from_str(&text.replace("${N}", "15")).unwrap();
    assert_eq!(run(&filled, json!({})).output(), &json!(15));
    assert!(definition.resources().is_empty());
}

#[test]
fn the_resources_of_a_machine_are_listed() {
    let inner = |resource: &str, state: &str| json!({ "StartAt": state, "States": { state: { "Type": "Task", "Resource": resource, "TimeoutSeconds": 1, "End": true } } });
    let machine = machine(json!({
        "A": { "Type": "Map", "Items": [], "ItemProcessor": inner("arn:in-map", "M"), "Next": "B" },
        "B": { "Type": "Parallel", "Branches": [inner("arn:in-branch", "P")], "Next": "C" },
        "C": { "Type": "Task", "Resource": "arn:plain", "TimeoutSeconds": 1, "End": true },
    }));
    assert_eq!(Vec::from_iter(parse(&machine).unwrap().resources()), ["arn:in-branch", "arn:in-map", "arn:plain"]);
}

#[test]
fn the_frame_of_a_machine_is_checked() {
    let good = single(json!({ "Type": "Pass" }));
    assert!(parse(&good).is_ok());
    for field in ["QueryLanguage", "StartAt", "States"] {
        assert_refused(&without(good.clone(), field), &["state machine", field]);
    }
    for (field, value) in [
        ("QueryLanguage", json!("JSONPath")),
        ("StartAt", json!("Nowhere")),
        ("States", json!([])),
        ("Version", json!("2.0")),
        ("TimeoutSeconds", json!(0)),
        ("Extra", json!(1)),
    ] {
        let mut machine = good.clone();
        machine[field] = value;
        assert_refused(&machine, &["state machine", field]);
    }
    assert!(matches!(Definition::parse("{", &BTreeMap::new()), Err(DefinitionError::Json(_))));
    let twice = good.to_string().replace(r#""Type":"Pass""#, r#""Type":"Pass","Type":"Pass""#);
    let fault = Definition::parse(&twice, &BTreeMap::new()).unwrap_err().to_string();
    assert!(fault.contains("`Type` stands twice"), "{fault}");
    assert_refused(&json!([]), &["must be an object"]);
}

#[test]
fn every_target_exists_and_every_state_is_reached() {
    let mut lost = machine(json!({ "A": { "Type": "Pass", "Next": "B" } }));
    assert_refused(&lost, &["state A", "leads to B"]);
    lost["States"]["B"] = json!({ "Type": "Succeed" });
    lost["States"]["C"] = json!({ "Type": "Pass", "Next": "C" });
    assert_refused(&lost, &["state C", "cannot be reached"]);
    let choice = |rule: &str, default: &str| {
        machine(json!({
            "A": { "Type": "Choice", "Choices": [{ "Condition": "{% true %}", "Next": rule }], "Default": default },
            "B": { "Type": "Succeed" },
        }))
    };
    assert!(parse(&choice("B", "B")).is_ok());
    assert_refused(&choice("Q", "B"), &["state A", "leads to Q"]);
    assert_refused(&choice("B", "Q"), &["state A", "leads to Q"]);
    let caught = with(task(), "Catch", json!([{ "ErrorEquals": ["States.ALL"], "Next": "Q" }]));
    assert_refused(&caught, &["state A", "leads to Q"]);
    let inner = json!({ "StartAt": "I", "States": { "I": { "Type": "Pass", "Next": "A" } } });
    let map = json!({ "Type": "Map", "Items": [], "ItemProcessor": inner });
    assert_refused(&single(map), &["state I", "leads to A"]);
}

#[test]
fn states_are_named_once_and_reasonably() {
    let inner = json!({ "StartAt": "A", "States": { "A": { "Type": "Succeed" } } });
    assert_refused(&single(json!({ "Type": "Parallel", "Branches": [inner] })), &["state A", "once"]);
    let long = "n".repeat(81);
    let machine = json!({ "QueryLanguage": "JSONata", "StartAt": "n", "States": { long: { "Type": "Succeed" } } });
    assert_refused(&machine, &["80 characters"]);
}

#[test]
fn unknown_types_and_fields_are_refused_by_the_state() {
    assert_refused(&single(json!({ "Type": "Activity" })), &["state A", "Type", "Activity"]);
    assert_refused(&single(json!({})), &["state A", "Type", "missing"]);
    for field in ["InputPath", "Parameters", "ResultPath", "ResultSelector", "HeartbeatSeconds", "Credentials", "Nxet"]
    {
        assert_refused(&with(task(), field, json!("x")), &["state A", field]);
    }
    assert_refused(&with(json!({ "Type": "Pass" }), "Result", json!(1)), &["state A", "Result"]);
    assert_refused(&with(json!({ "Type": "Pass" }), "Retry", json!([])), &["state A", "Retry"]);
    assert_refused(&with(json!({ "Type": "Succeed" }), "Assign", json!({})), &["state A", "Assign"]);
    assert_refused(&with(json!({ "Type": "Fail" }), "Output", json!({})), &["state A", "Output"]);
    assert_refused(&with(task(), "QueryLanguage", json!("JSONPath")), &["state A", "QueryLanguage"]);
}

#[test]
fn a_state_leads_to_one_place() {
    assert_refused(&machine(json!({ "A": { "Type": "Pass" } })), &["state A", "Next"]);
    assert_refused(&with(json!({ "Type": "Pass" }), "Next", json!("A")), &["state A", "Next"]);
    assert_refused(&machine(json!({ "A": { "Type": "Pass", "End": false } })), &["state A", "Next"]);
}

#[test]
fn the_fields_of_a_task_are_checked() {
    assert_refused(&single(without(task(), "TimeoutSeconds")), &["state A", "TimeoutSeconds"]);
    assert_refused(&single(without(task(), "Resource")), &["state A", "Resource"]);
    for (field, value) in [
        ("TimeoutSeconds", json!(0)),
        ("TimeoutSeconds", json!("5")),
        ("TimeoutSeconds", json!(1.5)),
        ("Resource", json!("lambda")),
        ("Resource", json!("arn:aws:states:::lambda:invoke.waitForTaskToken")),
        ("Resource", json!(1)),
        ("Assign", json!("{% {} %}")),
        ("Assign", json!({ "states": 1 })),
        ("Assign", json!({ "a-b": 1 })),
    ] {
        assert_refused(&with(task(), field, value), &["state A", field]);
    }
}

#[test]
fn retries_and_catchers_are_checked() {
    let entry = |field: &str, value: Value| {
        let mut entry = json!({ "ErrorEquals": ["Busy"] });
        entry[field] = value;
        with(task(), "Retry", json!([entry]))
    };
    assert!(parse(&entry("MaxAttempts", json!(0))).is_ok());
    for (field, value) in [
        ("ErrorEquals", json!([])),
        ("ErrorEquals", json!("Busy")),
        ("ErrorEquals", json!([1])),
        ("ErrorEquals", json!(["States.Tiemout"])),
        ("ErrorEquals", json!(["States.ALL", "Busy"])),
        ("IntervalSeconds", json!(0)),
        ("MaxAttempts", json!(-1)),
        ("BackoffRate", json!(0.5)),
        ("MaxDelaySeconds", json!(1)),
        ("JitterStrategy", json!("HALF")),
        ("Delay", json!(1)),
    ] {
        assert_refused(&entry(field, value), &["state A, Retry[0]", field]);
    }
    let early = json!([{ "ErrorEquals": ["States.ALL"] }, { "ErrorEquals": ["Busy"] }]);
    assert_refused(&with(task(), "Retry", early), &["state A, Retry[0]", "last"]);
    assert_refused(&with(task(), "Catch", json!([{ "ErrorEquals": ["Busy"] }])), &["state A, Catch[0]", "Next"]);
    assert_refused(&with(task(), "Catch", json!({})), &["state A", "Catch"]);
}

#[test]
fn the_other_kinds_are_checked() {
    for state in
        [json!({ "Type": "Wait" }), json!({ "Type": "Wait", "Seconds": 1, "Timestamp": "2026-01-31T12:34:56Z" })]
    {
        assert_refused(&single(state), &["state A", "either Seconds or Timestamp"]);
    }
    assert_refused(&single(json!({ "Type": "Wait", "Seconds": 1.5 })), &["state A", "Seconds"]);
    assert_refused(&single(json!({ "Type": "Wait", "Timestamp": "soon" })), &["state A", "Timestamp"]);
    let choice = |rules: Value| machine(json!({ "A": { "Type": "Choice", "Choices": rules, "Default": "A" } }));
    assert_refused(&choice(json!([])), &["state A", "Choices"]);
    assert_refused(&choice(json!([{ "Next": "A" }])), &["state A, Choices[0]", "Condition"]);
    assert_refused(&choice(json!([{ "Condition": "yes", "Next": "A" }])), &["state A, Choices[0]", "Condition"]);
    assert_refused(&choice(json!([{ "Condition": true }])), &["state A, Choices[0]", "Next"]);
    assert_refused(
        &choice(json!([{ "Condition": true, "Next": "A", "Variable": "$.x" }])),
        &["Choices[0]", "Variable"],
    );
    assert_refused(&single(json!({ "Type": "Parallel", "Branches": [] })), &["state A", "Branches"]);
    let map = |field: &str, value: Value| {
        let body = json!({ "StartAt": "I", "States": { "I": { "Type": "Succeed" } } });
        with(json!({ "Type": "Map", "Items": [], "ItemProcessor": body }), field, value)
    };
    for field in
        ["ToleratedFailurePercentage", "ToleratedFailureCount", "ItemReader", "ResultWriter", "ItemBatcher", "Iterator"]
    {
        assert_refused(&map(field, json!(1)), &["state A", field]);
    }
    assert_refused(&map("Items", json!({ "a": 1 })), &["state A", "Items"]);
    assert_refused(&map("MaxConcurrency", json!("two")), &["state A", "MaxConcurrency"]);
    let mut distributed = map("MaxConcurrency", json!(1));
    distributed["States"]["A"]["ItemProcessor"]["ProcessorConfig"] = json!({ "Mode": "DISTRIBUTED" });
    assert_refused(&distributed, &["state A", "ItemProcessor", "Mode"]);
}

#[test]
fn expressions_are_checked_when_they_are_read() {
    for (expression, problem) in [
        ("$states.input.", "expression"),
        ("$tokn", "$tokn"),
        ("$uppercsae('a')", "$uppercsae"),
        ("$states.inptu.a", "$states.inptu"),
        ("$states.result", "$states.result"),
        ("$states.errorOutput.Error", "$states.errorOutput"),
        ("name", "`name` stands alone"),
        ("$uppercase(name)", "`name` stands alone"),
        ("$ + 1", "`$`"),
        ("$$.a", "`$$`"),
        ("*", "`*`"),
        ("string(1)", "$string"),
        ("($states := 1)", "reserved"),
        ("$eval('1')", "$parse"),
        ("$random()", "$random"),
        ("$uuid()", "$uuid"),
        ("$hash('a', 'MD5')", "$hash"),
        ("$shuffle([1])", "$shuffle"),
        ("$map([1], $random)", "$random"),
        ("$toMillis('12:00', '[H]:[m]')", "$toMillis"),
    ] {
        let machine = single(json!({ "Type": "Pass", "Output": { "x": [format!("{{% {expression} %}}")] } }));
        assert_refused(&machine, &["state A, Output", problem]);
    }
    for text in [" {% 1 %}", "{% 1 %} ", " {% 1 %} ", "{% 1", "1 %}", "{% 1 }"] {
        assert_refused(&single(json!({ "Type": "Pass", "Output": text })), &["state A, Output", "begins with {%"]);
    }
}

#[test]
fn results_and_errors_are_seen_where_they_exist() {
    assert!(parse(&with(task(), "Output", json!("{% $states.result %}"))).is_ok());
    assert_refused(&with(task(), "Output", json!("{% $states.errorOutput %}")), &["state A, Output"]);
    assert_refused(&with(task(), "Arguments", json!("{% $states.result %}")), &["state A, Arguments"]);
    let catch = |output: &str| {
        let mut machine =
            with(task(), "Catch", json!([{ "ErrorEquals": ["States.ALL"], "Next": "B", "Output": output }]));
        machine["States"]["B"] = json!({ "Type": "Succeed" });
        machine
    };
    assert!(parse(&catch("{% $states.errorOutput %}")).is_ok());
    assert_refused(&catch("{% $states.result %}"), &["state A, Catch[0], Output"]);
}

#[test]
fn variables_belong_to_their_graph() {
    let inner = |assign: Value, output: &str| {
        json!({
            "A": {
                "Type": "Map", "Items": [], "Assign": { "outer": 1 }, "Next": "B",
                "ItemProcessor": { "StartAt": "I", "States": { "I": { "Type": "Pass", "Assign": assign, "End": true } } },
            },
            "B": { "Type": "Succeed", "Output": output },
        })
    };
    assert!(parse(&machine(inner(json!({ "inner": "{% $outer %}" }), "{% $outer %}"))).is_ok());
    assert_refused(&machine(inner(json!({ "outer": 2 }), "x")), &["ItemProcessor", "outer"]);
    assert_refused(&machine(inner(json!({ "inner": 2 }), "{% $inner %}")), &["state B", "$inner"]);
    let by_rule = machine(json!({
        "A": { "Type": "Choice", "Choices": [{ "Condition": true, "Next": "B", "Assign": { "ruled": 1 } }] },
        "B": { "Type": "Succeed", "Output": "{% $ruled %}" },
    }));
    assert_eq!(run(&by_rule, json!({})).output(), &json!(1));
}
