//! An item changed in one field, in every way that a field can be wrong.

use crate::item::{Item, Value};

/// Every item that differs from `item` in one attribute, at the top or inside a map, with that attribute's full name.
pub(super) fn of(item: &Item) -> Vec<(String, Item)> {
    within(item, "")
}

fn within(item: &Item, path: &str) -> Vec<(String, Item)> {
    let mut all = Vec::new();
    for (name, value) in item {
        let full = format!("{path}{name}");
        let mut dropped = item.clone();
        dropped.remove(name);
        all.push((full.clone(), dropped));
        let mut replace = |field: String, by: Value| {
            let mut changed = item.clone();
            changed.insert(name.clone(), by);
            all.push((field, changed));
        };
        for other in replacements().into_iter().filter(|other| other != value) {
            replace(full.clone(), other);
        }
        match value {
            Value::Map(inner) => {
                for (field, changed) in within(inner, &format!("{full}.")) {
                    replace(field, Value::Map(changed));
                }
            }
            Value::List(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    let Value::Map(inner) = element else { continue };
                    for (field, changed) in within(inner, &format!("{full}[{index}].")) {
                        let mut elements = elements.clone();
                        elements[index] = Value::Map(changed);
                        replace(field, Value::List(elements));
                    }
                }
            }
            _ => {}
        }
    }
    all
}

fn replacements() -> Vec<Value> {
    let numbers = ["0", "1", "-1", "1.5", "18446744073709551615", "99999999999999999999999", ""];
    let texts = ["", "#", "x", "pending", "claimed", "LEASE"];
    numbers
        .iter()
        .map(|digits| Value::Number((*digits).to_owned()))
        .chain(texts.iter().map(|text| Value::text(*text)))
        .chain([
            Value::Bytes(vec![0, 255]),
            Value::Bool(true),
            Value::List(Vec::new()),
            Value::List(vec![Value::Bool(false); 3]),
            Value::List(vec![Value::Bool(false)]),
            Value::Map(Item::new()),
            Value::Other("a null"),
        ])
        .collect()
}
