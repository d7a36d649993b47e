//! A [`Write`] as a call of its own: `PutItem`, `UpdateItem` or `DeleteItem` with expressions.
//!
//! Attribute names travel as placeholders (`#0`), values as `:0`, so no word of ours can be a reserved one.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;

use super::convert::to_attribute;
use super::write::{Condition, Test};
use crate::item::Value;
use crate::records::Table;

/// Placeholder to attribute name.
pub(super) type Names = HashMap<String, String>;
/// Placeholder to value.
pub(super) type Values = HashMap<String, AttributeValue>;

/// Expressions of one call and what their placeholders stand for.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    names: Names,
    values: Values,
}

impl Expressions {
    /// The condition.
    pub(super) fn condition(&mut self, keys: Table, when: Condition) -> String {
        match when {
            Condition::Absent => format!("attribute_not_exists({})", self.name(keys.partition_attribute())),
            Condition::Holds(tests) => {
                let mut words: Vec<String> = tests.into_iter().map(|test| self.test(test)).collect();
                if words.is_empty() {
                    words.push(format!("attribute_exists({})", self.name(keys.partition_attribute())));
                }
                words.join(" AND ")
            }
        }
    }

    /// The update: what to set and what to remove.
    pub(super) fn update(&mut self, set: Vec<(&'static str, Value)>, remove: Vec<&'static str>) -> String {
        let mut words = String::new();
        for (index, (name, value)) in set.into_iter().enumerate() {
            let separator = if index == 0 { "SET " } else { ", " };
            let (name, value) = (self.name(name), self.value(value));
            let _ = write!(words, "{separator}{name} = {value}");
        }
        for (index, name) in remove.into_iter().enumerate() {
            let separator = if index == 0 { " REMOVE " } else { ", " };
            let name = self.name(name);
            let _ = write!(words, "{separator}{name}");
        }
        words
    }

    /// The names and the values that the expressions speak of; `None` where they speak of none, for the service refuses an
    /// empty map.
    pub(super) fn into_maps(self) -> (Option<Names>, Option<Values>) {
        (Some(self.names).filter(|names| !names.is_empty()), Some(self.values).filter(|values| !values.is_empty()))
    }

    fn test(&mut self, test: Test) -> String {
        let (name, value) = (self.name(test.attribute), self.value(test.value));
        format!("{name} {} {value}", test.comparison.operator())
    }

    /// The placeholder of a name; one name has one placeholder however often it is used.
    pub(super) fn name(&mut self, name: &str) -> String {
        let known = self.names.iter().find(|(_, stands_for)| *stands_for == name);
        if let Some((placeholder, _)) = known {
            return placeholder.clone();
        }
        let placeholder = format!("#{}", self.names.len());
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    /// The placeholder of a value.
    pub(super) fn value(&mut self, value: Value) -> String {
        let placeholder = format!(":{}", self.values.len());
        self.values.insert(placeholder.clone(), to_attribute(value));
        placeholder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_placeholder() {
        let mut expressions = Expressions::default();
        let update = expressions.update(vec![("status", Value::text("pending"))], vec!["claim", "not_before"]);
        let condition =
            expressions.condition(Table::Outbox, Condition::Holds(vec![Test::equal("status", Value::text("claimed"))]));
        assert_eq!(update, "SET #0 = :0 REMOVE #1, #2");
        assert_eq!(condition, "#0 = :1");
        let (names, values) = expressions.into_maps();
        assert_eq!(names.expect("names").len(), 3);
        assert_eq!(values.expect("values").len(), 2);
    }

    #[test]
    fn absent_is_said_of_the_key() {
        let mut expressions = Expressions::default();
        assert_eq!(expressions.condition(Table::Lease, Condition::Absent), "attribute_not_exists(#0)");
        let (names, values) = expressions.into_maps();
        assert_eq!(names.expect("names")["#0"], "lease");
        assert_eq!(values, None, "the service refuses an empty map");
    }
}
