//! One place of an input made wrong, in every way.

use serde_json::{Map, Value, json};

use crate::decoder::Decoder;
use crate::paths::{Form, Step, changed, fits, get, name, places, without};

/// A text that would be recognised in a refusal.
pub(crate) const SECRET: &str = "secret-value";
/// A field that no version has.
pub(crate) const UNKNOWN: &str = "added_by_a_later_version";
/// Longer than any id, name or key.
const LONG_CHARS: usize = 5_000;
/// The one field of a typed attribute, as DynamoDB writes it.
pub(crate) const ATTRIBUTE_KINDS: [&str; 7] = ["S", "N", "B", "BOOL", "NULL", "L", "M"];

/// What was done to the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is gone.
    Removed,
    /// It is null, or where everything is text, empty.
    Emptied,
    /// It is another value of the same kind.
    Changed,
    /// It is a value of another kind.
    Retyped,
    /// An unknown field stands beside it; the place is the object.
    Joined,
}

/// An input that differs from a seed in one place.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    /// The place's name.
    pub(crate) place: String,
    /// What was done.
    pub(crate) kind: Kind,
    /// The whole input.
    pub(crate) input: Value,
    /// What stands there now, in few words.
    pub(crate) now: String,
}

/// Which texts of `decoder` hold JSON.
pub(crate) fn insides(decoder: &Decoder) -> impl Fn(&str) -> Option<Form> {
    let inside = decoder.inside;
    move |name| inside.iter().find(|(pattern, _)| fits(pattern, name)).map(|(_, form)| *form)
}

/// Every single damage of `input`.
pub(crate) fn all(decoder: &Decoder, input: &Value) -> Vec<Damage> {
    let mut all = Vec::new();
    join(input, &[], &mut all);
    for steps in places(input, &insides(decoder)) {
        let place = name(&steps);
        let value = get(input, &steps).unwrap();
        let mut add = |kind, input: Option<Value>, now: String| {
            all.extend(input.map(|input| Damage { place: place.clone(), kind, input, now }));
        };
        // An element fewer is another list, not a missing field.
        let is_element = matches!(steps.last(), Some(Step::Element(_)));
        let (removed, outer) = if is_element { (Kind::Changed, true) } else { (Kind::Removed, false) };
        add(removed, without(input, &steps), if outer { "one fewer" } else { "gone" }.to_owned());
        for (kind, other) in replacements(decoder, &steps, &value) {
            let now = shown(&other);
            add(kind, changed(input, &steps, &mut |place| *place = other.clone()), now);
        }
        let form = insides(decoder)(&place).map(Step::Inside);
        let inner: Vec<Step> = steps.iter().cloned().chain(form).collect();
        if get(input, &inner).is_some_and(|inner| inner.is_object()) {
            join(input, &inner, &mut all);
        }
    }
    all
}

fn join(input: &Value, steps: &[Step], all: &mut Vec<Damage>) {
    let input = changed(input, steps, &mut |object| object[UNKNOWN] = json!(true));
    let now = format!("with {UNKNOWN}");
    all.extend(input.map(|input| Damage { place: name(steps), kind: Kind::Joined, input, now }));
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    text.char_indices().nth(40).map_or(text.clone(), |(end, _)| format!("{}…", &text[..end]))
}

fn replacements(decoder: &Decoder, steps: &[Step], value: &Value) -> Vec<(Kind, Value)> {
    let mut others = texts(steps, value);
    if decoder.texts_only {
        others.retain(|other| other != value);
        let kind = |other: &Value| if *other == json!("") { Kind::Emptied } else { Kind::Changed };
        return others.into_iter().map(|other| (kind(&other), other)).collect();
    }
    others.extend([json!(null), json!(true), json!(false), json!([]), json!([false]), json!({}), json!({ "x": 1 })]);
    others.extend([json!(0), json!(1), json!(-1), json!(1.5), json!(u64::MAX), json!(1e300)]);
    others.retain(|other| other != value);
    let kind = |other: &Value| {
        if other.is_null() {
            Kind::Emptied
        } else if std::mem::discriminant(other) == std::mem::discriminant(value) && attribute_kind(value).is_none() {
            Kind::Changed
        } else {
            Kind::Retyped
        }
    };
    let mut all: Vec<(Kind, Value)> = others.into_iter().map(|other| (kind(&other), other)).collect();
    if let Some(own) = attribute_kind(value) {
        let of_other_kinds = [
            json!({ "S": SECRET }),
            json!({ "N": "1" }),
            json!({ "B": "AAAA" }),
            json!({ "BOOL": true }),
            json!({ "NULL": true }),
            json!({ "L": [] }),
            json!({ "M": {} }),
        ];
        all.extend(
            of_other_kinds
                .into_iter()
                .filter(|other| attribute_kind(other) != Some(own))
                .map(|other| (Kind::Retyped, other)),
        );
    }
    all
}

/// The kind of a typed attribute.
fn attribute_kind(value: &Value) -> Option<&'static str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    ATTRIBUTE_KINDS.into_iter().find(|kind| fields.contains_key(*kind))
}

/// Texts that a text, or a number written as one, may wrongly be.
fn texts(steps: &[Step], value: &Value) -> Vec<Value> {
    if steps.last() == Some(&Step::Field("N".to_owned())) {
        return ["", "0", "1", "-1", "1.5", "1e3", "18446744073709551615", "99999999999999999999999", "x"]
            .map(Value::from)
            .into();
    }
    let mut texts =
        vec![json!(""), json!("x"), json!("#"), json!("\u{0}"), json!(SECRET), json!("x".repeat(LONG_CHARS))];
    if let Some(text) = value.as_str() {
        texts.push(json!(format!("{text}*")));
        texts.push(json!(text.chars().skip(1).collect::<String>()));
    }
    texts
}

/// An object of `fields`.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(Map::from_iter(fields.map(|(name, value)| (name.to_owned(), value))))
}
