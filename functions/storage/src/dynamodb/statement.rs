//! A [`Write`] as a PartiQL statement for `BatchExecuteStatement`.
//!
//! Every name is quoted (several of ours are reserved words), every value is a parameter. `IS MISSING` and `EXISTS` are not
//! used: implementations disagree on them. A `DELETE` of an item that is not there succeeds in PartiQL whatever its
//! condition, so it asks for the old item: none returned means that none stood there.

use std::fmt::Write as _;

use aws_sdk_dynamodb::types::{BatchStatementRequest, ReturnValuesOnConditionCheckFailure};

use super::convert::to_attribute;
use super::write::{Condition, Test, Write};
use crate::item::{Key, Value};
use crate::records::Table;

/// The statement and its parameters, in order. `None`: PartiQL has no form of this condition.
pub(super) fn render(table: &str, keys: Table, write: Write) -> Option<(String, Vec<Value>)> {
    let mut text = String::with_capacity(160);
    let mut values = Vec::new();
    match write {
        Write::Put { item, when: Condition::Absent } => {
            let _ = write!(text, "INSERT INTO \"{table}\" VALUE {{");
            for (name, value) in item {
                let separator = if values.is_empty() { "" } else { ", " };
                // A name of ours holds no quote.
                let _ = write!(text, "{separator}'{name}': ?");
                values.push(value);
            }
            text.push('}');
        }
        Write::Update { key, set, remove, when: Condition::Holds(tests) } => {
            let _ = write!(text, "UPDATE \"{table}\"");
            for (name, value) in set {
                let _ = write!(text, " SET \"{name}\" = ?");
                values.push(value);
            }
            for name in remove {
                let _ = write!(text, " REMOVE \"{name}\"");
            }
            push_where(&mut text, &mut values, keys, key, tests);
        }
        Write::Delete { key, when: Condition::Holds(tests) } => {
            let _ = write!(text, "DELETE FROM \"{table}\"");
            push_where(&mut text, &mut values, keys, key, tests);
            text.push_str(" RETURNING ALL OLD *");
        }
        Write::Put { .. } | Write::Update { .. } | Write::Delete { .. } => return None,
    }
    Some((text, values))
}

/// The same as the SDK takes it, asking for the old item where the condition fails.
pub(super) fn request(table: &str, keys: Table, write: Write) -> Option<BatchStatementRequest> {
    let (text, values) = render(table, keys, write)?;
    BatchStatementRequest::builder()
        .statement(text)
        .set_parameters(Some(values.into_iter().map(to_attribute).collect()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .ok()
}

fn push_where(text: &mut String, values: &mut Vec<Value>, keys: Table, key: Key, tests: Vec<Test>) {
    let _ = write!(text, " WHERE \"{}\" = ? AND \"{}\" = ?", keys.partition_attribute(), keys.sort_attribute());
    values.push(Value::Text(key.partition));
    values.push(Value::Text(key.sort));
    for test in tests {
        let _ = write!(text, " AND \"{}\" {} ?", test.attribute, test.comparison.operator());
        values.push(test.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;

    fn key() -> Key {
        Key { partition: "p".to_owned(), sort: "s".to_owned() }
    }

    #[test]
    fn an_update_names_its_key_and_every_test() {
        let write = Write::Update {
            key: key(),
            set: vec![("status", Value::text("claimed"))],
            remove: vec!["claim"],
            when: Condition::Holds(vec![
                Test::equal("status", Value::text("pending")),
                Test::at_most("fencing_token", Value::number(7)),
            ]),
        };
        let (words, values) = render("outbox", Table::Outbox, write).expect("has a form");
        assert_eq!(
            words,
            "UPDATE \"outbox\" SET \"status\" = ? REMOVE \"claim\" WHERE \"shard\" = ? AND \"position\" = ? \
             AND \"status\" = ? AND \"fencing_token\" <= ?"
        );
        assert_eq!(
            values,
            vec![Value::text("claimed"), Value::text("p"), Value::text("s"), Value::text("pending"), Value::number(7)]
        );
    }

    #[test]
    fn a_delete_asks_for_what_it_deleted() {
        let write = Write::Delete { key: key(), when: Condition::Holds(vec![Test::equal("claim", Value::text("c"))]) };
        let (words, _) = render("outbox", Table::Outbox, write).expect("has a form");
        assert_eq!(
            words,
            "DELETE FROM \"outbox\" WHERE \"shard\" = ? AND \"position\" = ? AND \"claim\" = ? RETURNING ALL OLD *"
        );
    }

    #[test]
    fn an_insert_carries_every_attribute() {
        let item = Item::from([("a".to_owned(), Value::text("1")), ("b".to_owned(), Value::number(2))]);
        let (words, values) =
            render("outbox", Table::Outbox, Write::Put { item, when: Condition::Absent }).expect("has a form");
        assert_eq!(words, "INSERT INTO \"outbox\" VALUE {'a': ?, 'b': ?}");
        assert_eq!(values, vec![Value::text("1"), Value::number(2)]);
    }

    #[test]
    fn what_partiql_cannot_say_has_no_form() {
        let replace =
            Write::Put { item: Item::new(), when: Condition::Holds(vec![Test::equal("redriven", Value::number(1))]) };
        assert_eq!(render("outbox", Table::Outbox, replace), None);
    }
}
