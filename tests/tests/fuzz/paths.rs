//! Places in a JSON value: how they are named, found and changed.
//!
//! A place may lie inside a text that is itself JSON (an SQS body) or base64 of JSON (a Kinesis record's data).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// One step towards a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into a field.
    Field(String),
    /// Into an element.
    Element(usize),
    /// Into a text that holds JSON in this form.
    Inside(Form),
}

/// How a text holds JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is.
    Text,
    /// In base64.
    Base64,
}

/// The name of a place, with dots: `Records.0.body.topic`.
pub(crate) fn name(steps: &[Step]) -> String {
    let words: Vec<String> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Field(name) => Some(name.clone()),
            Step::Element(index) => Some(index.to_string()),
            Step::Inside(_) => None,
        })
        .collect();
    words.join(".")
}

/// The name of a field as a refusal states it (`Records[0].body`), in the same form.
pub(crate) fn dotted(field: &str) -> String {
    field.replace('[', ".").replace(']', "")
}

/// Does `pattern` fit `name`? `*` stands for a part of a name or the rest of one, `**` for any number of parts.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    fn parts(text: &str) -> Vec<&str> {
        if text.is_empty() { Vec::new() } else { text.split('.').collect() }
    }
    fn part_fits(part: &str, found: &str) -> bool {
        part == found || part.strip_suffix('*').is_some_and(|head| found.starts_with(head))
    }
    fn fit(pattern: &[&str], name: &[&str]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => (0..=name.len()).any(|skipped| fit(rest, &name[skipped..])),
            (Some((&part, rest)), Some((&found, left))) => part_fits(part, found) && fit(rest, left),
            _ => false,
        }
    }
    fit(&parts(pattern), &parts(name))
}

/// Every place of `value` but the whole, outer ones first. `inside` says which texts hold JSON.
pub(crate) fn places(value: &Value, inside: &dyn Fn(&str) -> Option<Form>) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    collect(value, &mut Vec::new(), inside, &mut found);
    found
}

fn collect(value: &Value, at: &mut Vec<Step>, inside: &dyn Fn(&str) -> Option<Form>, found: &mut Vec<Vec<Step>>) {
    let mut enter = |step: Step, inner: &Value, is_place: bool| {
        at.push(step);
        if is_place {
            found.push(at.clone());
        }
        collect(inner, at, inside, found);
        at.pop();
    };
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                enter(Step::Field(name.clone()), inner, true);
            }
        }
        Value::Array(elements) => {
            for (index, inner) in elements.iter().enumerate() {
                enter(Step::Element(index), inner, true);
            }
        }
        Value::String(text) => {
            let form = inside(&name(at));
            if let Some((form, inner)) = form.and_then(|form| Some((form, open(text, form)?))) {
                at.push(Step::Inside(form));
                collect(&inner, at, inside, found);
                at.pop();
            }
        }
        _ => {}
    }
}

fn open(text: &str, form: Form) -> Option<Value> {
    let inner: Value = match form {
        Form::Text => serde_json::from_str(text).ok()?,
        Form::Base64 => serde_json::from_slice(&BASE64.decode(text).ok()?).ok()?,
    };
    inner.is_object().then_some(inner)
}

fn close(inner: &Value, form: Form) -> Value {
    let text = inner.to_string();
    Value::String(match form {
        Form::Text => text,
        Form::Base64 => BASE64.encode(text),
    })
}

/// The value at `steps`.
pub(crate) fn get(value: &Value, steps: &[Step]) -> Option<Value> {
    match steps.split_first() {
        None => Some(value.clone()),
        Some((Step::Field(name), rest)) => get(value.get(name)?, rest),
        Some((Step::Element(index), rest)) => get(value.get(index)?, rest),
        Some((Step::Inside(form), rest)) => get(&open(value.as_str()?, *form)?, rest),
    }
}

/// `value` with the place at `steps` changed by `change`; `None` where there is no such place.
pub(crate) fn changed(value: &Value, steps: &[Step], change: &mut dyn FnMut(&mut Value)) -> Option<Value> {
    let mut value = value.clone();
    match steps.split_first() {
        None => change(&mut value),
        Some((Step::Field(name), rest)) => {
            let inner = value.get_mut(name)?;
            *inner = changed(inner, rest, change)?;
        }
        Some((Step::Element(index), rest)) => {
            let inner = value.get_mut(*index)?;
            *inner = changed(inner, rest, change)?;
        }
        Some((Step::Inside(form), rest)) => {
            value = close(&changed(&open(value.as_str()?, *form)?, rest, change)?, *form);
        }
    }
    Some(value)
}

/// `value` without the field or element at `steps`.
pub(crate) fn without(value: &Value, steps: &[Step]) -> Option<Value> {
    let (last, outer) = steps.split_last()?;
    changed(value, outer, &mut |outer| match (last, outer) {
        (Step::Field(name), Value::Object(fields)) => drop(fields.remove(name)),
        (Step::Element(index), Value::Array(elements)) if *index < elements.len() => drop(elements.remove(*index)),
        _ => {}
    })
}

#[test]
fn a_pattern_fits_by_parts() {
    for (pattern, name, fit) in [
        ("a.*.c", "a.7.c", true),
        ("a.*.c", "a.7.8.c", false),
        ("**.c", "c", true),
        ("**.c", "a.b.c", true),
        ("a.**", "a", true),
        ("a.**", "ab", false),
        ("a_*", "a_b", true),
        ("a_*", "a_b.c", false),
        ("**", "", true),
        ("", "", true),
        ("", "a", false),
    ] {
        assert_eq!(fits(pattern, name), fit, "{pattern} and {name}");
    }
}

#[test]
fn a_place_inside_a_text_is_found_and_changed() {
    let value = serde_json::json!({ "body": "{\"topic\":\"a\"}", "plain": "{\"topic\":\"a\"}" });
    let inside = |name: &str| (name == "body").then_some(Form::Text);
    let places = places(&value, &inside);
    let names: Vec<String> = places.iter().map(|steps| name(steps)).collect();
    assert_eq!(names, ["body", "body.topic", "plain"]);
    let changed = changed(&value, &places[1], &mut |topic| *topic = Value::Null).unwrap();
    assert_eq!(changed["body"], "{\"topic\":null}");
    assert_eq!(without(&value, &places[1]).unwrap()["body"], "{}");
}
