//! What the requests to the tables and to the queue mean, read from the wire: no client tells us what it did, we saw it.
//!
//! Reads both forms in which the stores write, expressions and PartiQL statements, and gives for each write what it sets, on
//! which conditions, and whether the service applied it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fencepost_protocol::body::{BodyFormat, MESSAGE_ID, attribute, decode_body};
use fencepost_protocol::ids::{MessageId, PayloadDigest};
use fencepost_storage::item::{Item, Value};
use serde_json::Value as Json;

use crate::proxy::Exchange;

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Update,
    Delete,
}

/// One write of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) kind: Kind,
    /// What it sets; for a put the whole item.
    pub(super) set: Item,
    /// Its key, and every value that its condition compares with.
    pub(super) tests: Item,
    /// Did the service apply it?
    pub(super) applied: bool,
}

impl Write {
    /// The text under `name` that the write sets, or else names in key or condition.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.set.get(name).or_else(|| self.tests.get(name)) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The number under `name` in `item`.
    pub(super) fn number(item: &Item, name: &str) -> Option<u64> {
        match item.get(name) {
            Some(Value::Number(digits)) => digits.parse().ok(),
            _ => None,
        }
    }
}

/// Every write of an exchange with the tables; none for a read.
pub(super) fn writes(exchange: &Exchange<'_>) -> Vec<Write> {
    let request: Json = serde_json::from_slice(exchange.request).unwrap_or(Json::Null);
    let done = exchange.status == 200;
    match exchange.operation {
        "PutItem" => {
            vec![Write { kind: Kind::Put, set: item(&request["Item"]), tests: Item::new(), applied: done }]
        }
        "UpdateItem" => {
            let set = pairs(&request, "UpdateExpression", |words| {
                let sets = words.split(" REMOVE ").next().unwrap_or_default();
                sets.trim_start_matches("SET ").split(", ").map(str::to_owned).collect()
            });
            vec![Write { kind: Kind::Update, set, tests: key_and_tests(&request), applied: done }]
        }
        "DeleteItem" => {
            vec![Write { kind: Kind::Delete, set: Item::new(), tests: key_and_tests(&request), applied: done }]
        }
        "BatchExecuteStatement" => {
            let reply: Json = serde_json::from_slice(exchange.reply).unwrap_or(Json::Null);
            let statements = request["Statements"].as_array().map(Vec::as_slice).unwrap_or_default();
            let each = statements.iter().enumerate();
            each.filter_map(|(index, one)| statement(one, done, &reply["Responses"][index])).collect()
        }
        _ => Vec::new(),
    }
}

fn key_and_tests(request: &Json) -> Item {
    let mut tests = pairs(request, "ConditionExpression", |words| words.split(" AND ").map(str::to_owned).collect());
    tests.extend(item(&request["Key"]));
    tests
}

/// The `name operator value` parts of an expression, by their true names and values.
fn pairs(request: &Json, expression: &str, parts: impl Fn(&str) -> Vec<String>) -> Item {
    let words = request[expression].as_str().unwrap_or_default();
    let pair = |part: String| {
        let mut words = part.split(' ');
        let (name, value) = (words.next()?.to_owned(), words.nth(1)?.to_owned());
        let name = request["ExpressionAttributeNames"][&name].as_str()?.to_owned();
        Some((name, self::value(&request["ExpressionAttributeValues"][&value])))
    };
    parts(words).into_iter().filter_map(pair).collect()
}

fn statement(one: &Json, answered: bool, response: &Json) -> Option<Write> {
    let words = one["Statement"].as_str()?;
    let mut values = one["Parameters"].as_array()?.iter().map(value);
    let applied = answered && response.get("Error").is_none_or(Json::is_null);
    if words.starts_with("INSERT") {
        let names = words.split('\'').skip(1).step_by(2).map(str::to_owned);
        return Some(Write { kind: Kind::Put, set: names.zip(values).collect(), tests: Item::new(), applied });
    }
    let (head, tail) = words.split_once(" WHERE ")?;
    let mut take = |text: &str| -> Item {
        let words: Vec<&str> = text.split(' ').collect();
        let names = words.windows(3).filter(|three| three[2] == "?").map(|three| three[0].trim_matches('"').to_owned());
        names.zip(&mut values).collect()
    };
    let (set, tests) = (take(head), take(tail));
    if words.starts_with("UPDATE") {
        return Some(Write { kind: Kind::Update, set, tests, applied });
    }
    // A DELETE of an item that is not there succeeds; it returns the item that it deleted.
    let deleted = response["Item"].as_object().is_some_and(|item| !item.is_empty());
    Some(Write { kind: Kind::Delete, set, tests, applied: applied && deleted })
}

fn item(json: &Json) -> Item {
    let attributes = json.as_object().into_iter().flatten();
    attributes.map(|(name, json)| (name.clone(), value(json))).collect()
}

fn value(json: &Json) -> Value {
    let Some((kind, content)) = json.as_object().and_then(|object| object.iter().next()) else {
        return Value::Other("nothing");
    };
    let text = || content.as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "S" => Value::Text(text()),
        "N" => Value::Number(text()),
        "B" => Value::Bytes(BASE64.decode(text()).unwrap_or_default()),
        "BOOL" => Value::Bool(content.as_bool().unwrap_or_default()),
        "M" => Value::Map(item(content)),
        "L" => Value::List(content.as_array().into_iter().flatten().map(value).collect()),
        _ => Value::Other("another kind"),
    }
}

/// A message that a send brought to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) id: MessageId,
    pub(super) digest: PayloadDigest,
}

/// The messages of a send that the queue accepted, whatever its sender learned.
pub(super) fn accepted(exchange: &Exchange<'_>) -> Vec<Sent> {
    if exchange.operation != "SendMessageBatch" || exchange.status != 200 {
        return Vec::new();
    }
    let request: Json = serde_json::from_slice(exchange.request).unwrap_or(Json::Null);
    let reply: Json = serde_json::from_slice(exchange.reply).unwrap_or(Json::Null);
    let successful = reply["Successful"].as_array().map(Vec::as_slice).unwrap_or_default();
    let entries = request["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let good = entries.iter().filter(|entry| successful.iter().any(|one| one["Id"] == entry["Id"]));
    good.filter_map(|entry| {
        let attributes = entry["MessageAttributes"].as_object()?.iter();
        let attributes: Vec<(String, String)> = attributes
            .map(|(name, value)| (name.clone(), value["StringValue"].as_str().unwrap_or_default().to_owned()))
            .collect();
        sent(entry["MessageBody"].as_str()?, &attributes)
    })
    .collect()
}

/// What a message of the queue carries: its id, and the digest of the payload that was published.
pub(super) fn sent(body: &str, attributes: &[(String, String)]) -> Option<Sent> {
    let id = attribute(attributes, MESSAGE_ID).ok()??;
    let payload = decode_body(BodyFormat::Raw, body, attributes).ok()?;
    Some(Sent { id: MessageId::new(id).ok()?, digest: PayloadDigest::of(&payload) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exchange<'a>(operation: &'a str, status: u16, request: &'a [u8], reply: &'a [u8]) -> Exchange<'a> {
        Exchange { proxy: "a/drainer/1/tables", operation, request, status, reply, fault: None }
    }

    #[test]
    fn both_forms_of_an_update_read_the_same() {
        let single = json!({
            "Key": { "shard": { "S": "g#0001" }, "position": { "S": "p" } },
            "UpdateExpression": "SET #0 = :0, #1 = :1 REMOVE #2",
            "ConditionExpression": "#0 = :2 AND #1 <= :3",
            "ExpressionAttributeNames": { "#0": "status", "#1": "fencing_token", "#2": "claim" },
            "ExpressionAttributeValues": {
                ":0": { "S": "claimed" }, ":1": { "N": "7" }, ":2": { "S": "pending" }, ":3": { "N": "6" }
            },
        })
        .to_string();
        let batch = json!({ "Statements": [{
            "Statement": "UPDATE \"outbox\" SET \"status\" = ? SET \"fencing_token\" = ? REMOVE \"claim\" \
                          WHERE \"shard\" = ? AND \"position\" = ? AND \"status\" = ? AND \"fencing_token\" <= ?",
            "Parameters": [{ "S": "claimed" }, { "N": "7" }, { "S": "g#0001" }, { "S": "p" }, { "S": "pending" }, { "N": "6" }],
        }] })
        .to_string();
        let one = writes(&exchange("UpdateItem", 200, single.as_bytes(), b"{}"));
        let many = writes(&exchange("BatchExecuteStatement", 200, batch.as_bytes(), br#"{"Responses":[{}]}"#));
        assert_eq!(one, many);
        assert_eq!((one[0].text("status"), Write::number(&one[0].tests, "fencing_token")), (Some("claimed"), Some(6)));
        assert!(one[0].applied && !writes(&exchange("UpdateItem", 400, single.as_bytes(), b"{}"))[0].applied);
    }

    #[test]
    fn a_delete_counts_where_it_gave_back_an_item() {
        let request = json!({ "Statements": [{
            "Statement": "DELETE FROM \"outbox\" WHERE \"shard\" = ? AND \"position\" = ? RETURNING ALL OLD *",
            "Parameters": [{ "S": "g#0001" }, { "S": "p" }],
        }] })
        .to_string();
        let replies = [
            (json!({ "Responses": [{ "Item": { "shard": { "S": "g#0001" } } }] }), true),
            (json!({ "Responses": [{}] }), false),
            (
                json!({ "Responses": [{ "Error": { "Code": "ConditionalCheckFailed" }, "Item": { "a": { "S": "b" } } }] }),
                false,
            ),
        ];
        for (reply, applied) in replies {
            let reply = reply.to_string();
            let seen = writes(&exchange("BatchExecuteStatement", 200, request.as_bytes(), reply.as_bytes()));
            assert_eq!((seen[0].kind, seen[0].applied), (Kind::Delete, applied), "{reply}");
        }
    }

    #[test]
    fn only_successful_entries_were_accepted() {
        let entry = |id: &str, message: &str| {
            json!({ "Id": id, "MessageBody": "x", "MessageAttributes": {
                "message-id": { "DataType": "String", "StringValue": message },
                "payload-encoding": { "DataType": "String", "StringValue": "text" },
            } })
        };
        let request = json!({ "Entries": [entry("0", "m-1"), entry("1", "m-2")] }).to_string();
        let reply = json!({ "Successful": [{ "Id": "1" }], "Failed": [{ "Id": "0" }] }).to_string();
        let seen = accepted(&exchange("SendMessageBatch", 200, request.as_bytes(), reply.as_bytes()));
        let expected = Sent { id: MessageId::new("m-2").unwrap(), digest: PayloadDigest::of(b"x") };
        assert_eq!(seen, [expected]);
    }
}
