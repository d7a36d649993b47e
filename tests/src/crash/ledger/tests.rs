//! The judge sees what it is there to see: each broken promise, told by the traffic that would show it.

use serde_json::{Value, json};

use super::*;

const ROW: (&str, &str) = ("g#0001", "1700000000000#m-1");

/// A judge that has seen this traffic, from processes that were never frozen unless named.
struct Judge {
    ledger: Ledger,
    _rows: tokio::sync::mpsc::UnboundedReceiver<RowKey>,
}

impl Judge {
    fn new() -> Self {
        let (rows, kept) = tokio::sync::mpsc::unbounded_channel();
        let nowhere = File::options().write(true).open("/dev/null").unwrap();
        Self { ledger: Ledger::new(nowhere, rows), _rows: kept }
    }

    fn sees(&self, by: &str, operation: &str, request: &Value, reply: &Value, fault: Option<&Fault>) -> &Self {
        let (request, reply) = (request.to_string(), reply.to_string());
        self.ledger.see(&Exchange {
            proxy: by,
            operation,
            request: request.as_bytes(),
            status: 200,
            reply: reply.as_bytes(),
            fault,
        });
        self
    }

    fn lease(&self, owner: &str, token: u64) -> &Self {
        let request = json!({
            "Key": { "lease": { "S": "g" }, "record": { "S": "LEASE" } },
            "UpdateExpression": "SET #0 = :0, #1 = :1, #2 = :2",
            "ExpressionAttributeNames": { "#0": "owner", "#1": "owner_stack", "#2": "fencing_token" },
            "ExpressionAttributeValues": {
                ":0": { "S": owner }, ":1": { "S": "stack" }, ":2": { "N": token.to_string() }
            },
        });
        self.sees("a/lease/1/tables", "UpdateItem", &request, &json!({}), None)
    }

    fn fence(&self, token: u64) -> &Self {
        let request = json!({
            "Key": { "shard": { "S": "fence#g" }, "position": { "S": "fence" } },
            "UpdateExpression": "SET #0 = :0",
            "ExpressionAttributeNames": { "#0": "fencing_token" },
            "ExpressionAttributeValues": { ":0": { "N": token.to_string() } },
        });
        self.sees("a/lease/1/tables", "UpdateItem", &request, &json!({}), None)
    }

    fn put(&self, more: &Value) -> &Self {
        let mut item = json!({
            "shard": { "S": ROW.0 }, "position": { "S": ROW.1 }, "payload": { "B": "eA==" }, "topic": { "S": "t" },
            "fencing_token": { "N": "0" }, "status": { "S": "pending" }, "attempts": { "N": "0" }, "stale": { "N": "0" },
            "redriven": { "N": "0" }, "origin": { "S": "a" }, "schema": { "N": "1" },
        });
        for (name, value) in more.as_object().unwrap() {
            item[name] = value.clone();
        }
        self.sees("a/ingest/1/tables", "PutItem", &json!({ "Item": item }), &json!({}), None)
    }

    fn claim(&self, token: u64) -> &Self {
        let token = token.to_string();
        let statement = json!({
            "Statement": "UPDATE \"o\" SET \"status\" = ? SET \"claim\" = ? SET \"fencing_token\" = ? \
                          WHERE \"shard\" = ? AND \"position\" = ? AND \"status\" = ?",
            "Parameters": [
                { "S": "claimed" }, { "S": "c-1" }, { "N": token }, { "S": ROW.0 }, { "S": ROW.1 }, { "S": "pending" }
            ],
        });
        self.batch(&statement, &json!({}))
    }

    fn commit(&self, token: u64) -> &Self {
        let token = token.to_string();
        let statement = json!({
            "Statement": "DELETE FROM \"o\" WHERE \"shard\" = ? AND \"position\" = ? AND \"claim\" = ? \
                          AND \"fencing_token\" = ? RETURNING ALL OLD *",
            "Parameters": [{ "S": ROW.0 }, { "S": ROW.1 }, { "S": "c-1" }, { "N": token }],
        });
        self.batch(&statement, &json!({ "Item": { "shard": { "S": ROW.0 } } }))
    }

    fn batch(&self, statement: &Value, response: &Value) -> &Self {
        let (request, reply) = (json!({ "Statements": [statement] }), json!({ "Responses": [response] }));
        self.sees("a/drainer/1/tables", "BatchExecuteStatement", &request, &reply, None)
    }

    fn send(&self, fault: Option<&Fault>) -> &Self {
        let request = json!({ "Entries": [{ "Id": "0", "MessageBody": "x", "MessageAttributes": {
            "message-id": { "StringValue": "m-1" }, "payload-encoding": { "StringValue": "text" },
        } }] });
        let reply = json!({ "Successful": [{ "Id": "0" }] });
        self.sees("a/drainer/1/queue", "SendMessageBatch", &request, &reply, fault)
    }

    /// The violations when this is all, with no row left.
    fn verdict(&self) -> Vec<String> {
        self.ledger.close(Timestamp::from_ms(0), &[], &[])
    }
}

fn broken(violations: &[String], promise: &str) {
    assert!(violations.iter().any(|one| one.starts_with(promise)), "{promise}: {violations:?}");
}

#[test]
fn a_clean_life_breaks_nothing() {
    let judge = Judge::new();
    judge.fence(7).lease("a", 7).put(&json!({})).claim(7).send(None).commit(7);
    assert_eq!(judge.verdict(), Vec::<String>::new());
    let counts = judge.ledger.counts();
    assert_eq!((counts.claims, counts.commits, counts.acquisitions, counts.second_sends), (1, 1, 1, 0));
    assert_eq!((judge.ledger.rows().ingested, judge.ledger.rows().committed), (1, 1));
}

#[test]
fn a_row_that_vanished_and_one_that_was_never_accepted() {
    let vanished = Judge::new();
    broken(&vanished.put(&json!({})).verdict(), "I5");
    let unsent = Judge::new();
    broken(&unsent.put(&json!({})).claim(7).commit(7).verdict(), "I4");
}

#[test]
fn a_second_commit_and_one_under_a_lower_token() {
    let twice = Judge::new();
    broken(&twice.put(&json!({})).claim(7).send(None).commit(7).commit(7).verdict(), "I3");
    let lower = Judge::new();
    broken(&lower.put(&json!({})).claim(8).send(None).commit(7).verdict(), "I6");
}

#[test]
fn a_commit_on_no_condition() {
    let judge = Judge::new();
    let statement = json!({
        "Statement": "DELETE FROM \"o\" WHERE \"shard\" = ? AND \"position\" = ? RETURNING ALL OLD *",
        "Parameters": [{ "S": ROW.0 }, { "S": ROW.1 }],
    });
    judge.put(&json!({})).claim(7).send(None).batch(&statement, &json!({ "Item": { "shard": { "S": ROW.0 } } }));
    broken(&judge.verdict(), "P2");
}

#[test]
fn a_send_after_the_commit_unless_it_was_late() {
    let late = Fault::ApplyLate(std::time::Duration::from_secs(9));
    let frozen = Judge::new();
    frozen.ledger.froze("a/drainer/1");
    for (judge, fault, is_late) in
        [(Judge::new(), None, false), (Judge::new(), Some(&late), true), (frozen, None, true)]
    {
        judge.put(&json!({})).claim(7).send(None).commit(7).send(fault);
        if is_late {
            assert_eq!(judge.verdict(), Vec::<String>::new());
        } else {
            broken(&judge.verdict(), "P2");
        }
        let counts = judge.ledger.counts();
        assert_eq!((counts.second_sends, counts.late_sends), (1, u64::from(is_late)));
    }
}

#[test]
fn a_token_given_twice_and_one_above_the_fence() {
    let twice = Judge::new();
    let violations = twice.fence(7).lease("a", 7).lease("b", 7).verdict();
    broken(&violations, "I1");
    broken(&violations, "I2");
    broken(&Judge::new().fence(6).lease("a", 7).verdict(), "P4");
}

#[test]
fn an_expiry_on_a_row() {
    let judge = Judge::new();
    judge.put(&json!({ "expires_at": { "N": "1" } })).claim(7).send(None).commit(7);
    broken(&judge.verdict(), "I8");
}
