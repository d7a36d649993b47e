//! [`Item`] to and from the SDK's attribute values. Both directions move what they carry: a payload is never copied.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{Item, Value};

/// An item as the SDK returns and takes it.
pub(super) type Attributes = HashMap<String, AttributeValue>;

/// For the SDK.
pub(super) fn to_attribute(value: Value) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text),
        Value::Number(digits) => AttributeValue::N(digits),
        Value::Bytes(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::Bool(truth) => AttributeValue::Bool(truth),
        Value::List(values) => AttributeValue::L(values.into_iter().map(to_attribute).collect()),
        Value::Map(item) => AttributeValue::M(to_attributes(item)),
        // No codec writes one; it exists so that a foreign value can be refused by its name.
        Value::Other(_) => AttributeValue::Null(true),
    }
}

/// For the SDK.
pub(super) fn to_attributes(item: Item) -> Attributes {
    item.into_iter().map(|(name, value)| (name, to_attribute(value))).collect()
}

/// From the SDK.
pub(super) fn from_attributes(attributes: Attributes) -> Item {
    attributes.into_iter().map(|(name, value)| (name, from_attribute(value))).collect()
}

fn from_attribute(value: AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::Text(text),
        AttributeValue::N(digits) => Value::Number(digits),
        AttributeValue::B(blob) => Value::Bytes(blob.into_inner()),
        AttributeValue::Bool(truth) => Value::Bool(truth),
        AttributeValue::L(values) => Value::List(values.into_iter().map(from_attribute).collect()),
        AttributeValue::M(attributes) => Value::Map(from_attributes(attributes)),
        AttributeValue::Ss(_) => Value::Other("a set of texts"),
        AttributeValue::Ns(_) => Value::Other("a set of numbers"),
        AttributeValue::Bs(_) => Value::Other("a set of bytes"),
        AttributeValue::Null(_) => Value::Other("a null"),
        _ => Value::Other("a type of value that this program does not know"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_comes_back_as_it_went() {
        let item = Item::from([
            ("text".to_owned(), Value::Text(String::new())),
            ("number".to_owned(), Value::Number("9007199254740990".to_owned())),
            ("bytes".to_owned(), Value::Bytes(vec![0, 255])),
            ("bool".to_owned(), Value::Bool(false)),
            (
                "list".to_owned(),
                Value::List(vec![Value::Map(Item::from([("inner".to_owned(), Value::Text("x".to_owned()))]))]),
            ),
        ]);
        assert_eq!(from_attributes(to_attributes(item.clone())), item);
    }

    #[test]
    fn a_foreign_kind_is_named() {
        assert_eq!(from_attribute(AttributeValue::Null(true)), Value::Other("a null"));
        assert_eq!(from_attribute(AttributeValue::Ns(vec!["1".to_owned()])), Value::Other("a set of numbers"));
    }
}
