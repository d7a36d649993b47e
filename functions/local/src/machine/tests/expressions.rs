//! What expressions see and give.

use serde_json::{Value, json};

use super::world::{START_MS, machine, run, single};

fn evaluate(expression: &str, input: Value) -> Value {
    run(&single(json!({ "Type": "Pass", "Output": format!("{{% {expression} %}}") })), input).output().clone()
}

fn failure(expression: &str, input: Value) -> String {
    let ran = run(&single(json!({ "Type": "Pass", "Output": format!("{{% {expression} %}}") })), input);
    assert_eq!(ran.error(), "States.QueryEvaluationError");
    ran.failure().1.to_owned()
}

#[test]
fn whole_numbers_stay_whole() {
    for number in ["7", "0", "-3", "9007199254740991", "-9007199254740991", "1e3", "6 / 2"] {
        let text = evaluate(number, json!({})).to_string();
        assert!(!text.contains(['.', 'e']), "{number} became {text}");
    }
    assert_eq!(evaluate("$states.input.n", json!({ "n": 9_007_199_254_740_991_u64 })).to_string(), "9007199254740991");
    assert_eq!(evaluate("$states.input.n + 1", json!({ "n": 1_769_862_896_789_u64 })).to_string(), "1769862896790");
    assert_eq!(evaluate("7 / 2", json!({})).to_string(), "3.5");
    assert_eq!(evaluate("-0", json!({})).to_string(), "0");
}

#[test]
fn values_come_through_unchanged() {
    let input =
        json!({ "s": "{{ \"é\u{0} }}", "list": [1, [2], {}], "one": [1], "none": [], "nothing": null, "flag": false });
    assert_eq!(evaluate("$states.input", input.clone()), input);
    assert_eq!(evaluate("$states.input.one", input.clone()), json!([1]), "a list of one stays a list");
    assert_eq!(evaluate("$states.input.none", input.clone()), json!([]));
    assert_eq!(evaluate("$states.input.nothing", input), Value::Null);
}

#[test]
fn expressions_stand_anywhere_in_a_value() {
    let output =
        json!({ "list": [1, "{% $states.input.n %}", { "deep": "{% $states.input.n + 1 %}" }], "text": "no {% here" });
    let refused = single(json!({ "Type": "Pass", "Output": output }));
    assert_eq!(
        run(&refused, json!({ "n": 2 })).output(),
        &json!({ "list": [1, 2, { "deep": 3 }], "text": "no {% here" })
    );
}

#[test]
fn what_json_cannot_say_is_an_error() {
    assert!(failure("$states.input.missing", json!({})).contains("undefined"));
    assert!(failure("$sum", json!({})).contains("function"));
    assert!(failure("function($x) { $x }", json!({})).contains("function"));
    assert!(failure("{ 'f': $sum }", json!({})).contains("function"));
    failure("'a' + 1", json!({}));
    failure("$error('on purpose')", json!({}));
    let nested = single(json!({ "Type": "Pass", "Output": { "x": ["{% $states.input.missing %}"] } }));
    let ran = run(&nested, json!({}));
    assert!(ran.failure().1.contains("state A, Output: x: "), "{}", ran.failure().1);
}

#[test]
fn undefined_inside_an_expression_is_left_out() {
    assert_eq!(evaluate("{ 'a': $states.input.missing, 'b': 1 }", json!({})), json!({ "b": 1 }));
    assert_eq!(evaluate("[$states.input.missing, 1]", json!({})), json!([1]));
    assert_eq!(evaluate("$exists($states.input.missing)", json!({})), json!(false));
}

#[test]
fn a_variable_that_is_not_assigned_yet_is_undefined() {
    let machine = machine(json!({
        "A": { "Type": "Pass", "Output": "{% $exists($later) %}", "Next": "B" },
        "B": { "Type": "Pass", "Assign": { "later": 1 }, "Next": "C" },
        "C": { "Type": "Succeed", "Output": ["{% $states.input %}", "{% $exists($later) %}"] },
    }));
    assert_eq!(run(&machine, json!({})).output(), &json!([false, true]));
}

#[test]
fn an_expression_may_bind_names_of_its_own() {
    assert_eq!(evaluate("($double := function($x) { $x * 2 }; $map([1, 2], $double))", json!({})), json!([2, 4]));
    assert_eq!(
        evaluate("$states.input.a[b = 2].c", json!({ "a": [{ "b": 1, "c": 1 }, { "b": 2, "c": 5 }] })),
        json!(5)
    );
    assert_eq!(evaluate("$states.input.a.($ + 1)", json!({ "a": [1, 2] })), json!([2, 3]));
    assert_eq!(evaluate("$states.input.a#$i.($i * 10)", json!({ "a": [7, 7] })), json!([0, 10]));
    assert_eq!(evaluate("$states.input ~> |$|{ 'n': n + 1 }|", json!({ "n": 1 })), json!({ "n": 2 }));
    assert_eq!(evaluate("$states.input.a^(>n).n", json!({ "a": [{ "n": 1 }, { "n": 3 }] })), json!([3, 1]));
}

#[test]
fn time_is_that_of_the_execution() {
    let machine = machine(json!({
        "A": { "Type": "Wait", "Seconds": 1, "Output": ["{% $millis() %}", "{% $now() %}", "{% $toMillis($states.context.Execution.StartTime) %}"], "End": true },
    }));
    let expected = json!([START_MS + 1_000, "2026-01-31T12:34:57.789Z", START_MS]);
    assert_eq!(run(&machine, json!({})).output(), &expected);
    failure("$now('[Y]')", json!({}));
}

#[test]
fn the_functions_of_aws_are_there() {
    assert_eq!(evaluate("$partition([1, 2, 3, 4, 5], 2)", json!({})), json!([[1, 2], [3, 4], [5]]));
    assert_eq!(evaluate("$partition($states.input, 8)", json!([1])), json!([[1]]));
    assert_eq!(evaluate("$range(0, 10, 5)", json!({})), json!([0, 5, 10]));
    assert_eq!(evaluate("$range(3, 1, -1)", json!({})), json!([3, 2, 1]));
    assert_eq!(evaluate("$range(1, 0, 1)", json!({})), json!([]));
    assert_eq!(evaluate("$count($range(1, 1000, 1))", json!({})), json!(1000));
    assert_eq!(evaluate("$parse('{\"a\":[1]}')", json!({})), json!({ "a": [1] }));
    for wrong in [
        "$partition([1], 0)",
        "$partition(1, 1)",
        "$range(1, 5, 0)",
        "$range(1, 1001, 1)",
        "$range(1, 2)",
        "$parse('{')",
        "$parse(1)",
    ] {
        failure(wrong, json!({}));
    }
}
