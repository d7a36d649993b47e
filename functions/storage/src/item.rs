//! An item as a database holds it, without any database's types: what the record codecs write and read.

use std::collections::BTreeMap;

/// One attribute value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number in decimal digits, as DynamoDB carries it.
    Number(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A truth value.
    Bool(bool),
    /// A list.
    List(Vec<Value>),
    /// A map.
    Map(Item),
    /// A kind that no record of ours uses (a set, a null); kept only so that it can be refused by its name.
    Other(&'static str),
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Value::Text(text.into())
    }

    /// A whole number.
    pub fn number(number: u64) -> Self {
        Value::Number(number.to_string())
    }

    /// A map of `parts`.
    pub fn map<'a>(parts: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        Value::Map(parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The kind in words, for errors.
    pub const fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Number(_) => "a number",
            Value::Bytes(_) => "binary",
            Value::Bool(_) => "a truth value",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Other(kind) => kind,
        }
    }
}

/// An item: attribute name to value.
pub type Item = BTreeMap<String, Value>;

/// The names of a table's two key attributes and their values for one item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The partition key's value.
    pub partition: String,
    /// The sort key's value.
    pub sort: String,
}

/// The bytes that an item counts for, by DynamoDB's published rule: names and text as UTF-8, numbers about one byte for
/// two digits and one more, a byte for a truth value, three bytes for a list or map and one for each element.
pub fn size_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Number(digits) => digits.len().div_ceil(2) + 1,
        Value::Bytes(bytes) => bytes.len(),
        Value::Bool(_) | Value::Other(_) => 1,
        Value::List(values) => 3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>(),
        Value::Map(item) => 3 + item.iter().map(|(name, value)| 1 + name.len() + value_bytes(value)).sum::<usize>(),
    }
}
