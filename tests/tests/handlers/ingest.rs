//! Ingest: one durable row for each message.

use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::failure::ErrorType;
use fencepost_storage::item::Value as Attribute;
use fencepost_storage::memory::{Effect, Fault, RowFault};
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, rule_event};
use serde_json::{Value, json};

fn sqs(records: &[(&str, &str)]) -> Value {
    let records: Vec<_> = records
        .iter()
        .map(|(id, body)| {
            json!({ "eventSource": "aws:sqs", "messageId": id, "body": body,
                    "attributes": { "SentTimestamp": "1700000000000" } })
        })
        .collect();
    json!({ "Records": records })
}

#[tokio::test]
async fn one_event_delivered_twice_is_one_row_and_equal_payloads_are_two() {
    let harness = Harness::new();
    let east = harness.instance("east");
    let first = east.ingest(rule_event("a", "telemetry/d1", b"21.5")).await.unwrap();
    assert_eq!(first["outcome"], "stored");
    let again = east.ingest(rule_event("a", "telemetry/d1", b"21.5")).await.unwrap();
    assert_eq!((&again["outcome"], &again["position"]), (&json!("duplicate"), &first["position"]));
    let other = east.ingest(rule_event("b", "telemetry/d1", b"21.5")).await.unwrap();
    assert_eq!(other["outcome"], "stored");
    assert_eq!(east.outstanding().await.len(), 2);
}

#[tokio::test]
async fn another_payload_under_a_taken_id_is_another_message_also_when_repeated() {
    let harness = Harness::new();
    let east = harness.instance("east");
    east.ingest(rule_event("a", "telemetry/d1", b"one")).await.unwrap();
    let second = east.ingest(rule_event("a", "telemetry/d1", b"two")).await.unwrap();
    assert_eq!(second["outcome"], "stored");
    assert_ne!(second["message_id"], "a");
    let repeated = east.ingest(rule_event("a", "telemetry/d1", b"two")).await.unwrap();
    assert_eq!((&repeated["outcome"], &repeated["message_id"]), (&json!("duplicate"), &second["message_id"]));
    assert_eq!(east.outstanding().await.len(), 2);
}

#[tokio::test]
async fn a_put_whose_reply_was_lost_is_a_duplicate_when_the_platform_retries() {
    let harness = Harness::new();
    let east = harness.instance("east");
    harness.faults.set(operation::PUT, 1, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    let lost = east.ingest(rule_event("a", "telemetry/d1", b"x")).await.unwrap_err();
    assert_eq!(lost.error_type, ErrorType::StoreTimedOut);
    let retried = east.ingest(rule_event("a", "telemetry/d1", b"x")).await.unwrap();
    assert_eq!(retried["outcome"], "duplicate");
    assert_eq!(east.outstanding().await.len(), 1);
}

#[tokio::test]
async fn each_kind_of_failure_has_its_stable_name() {
    for (kind, expected) in [
        (FailureKind::Throttled, ErrorType::StoreThrottled),
        (FailureKind::Unavailable, ErrorType::StoreUnavailable),
        (FailureKind::TimedOut, ErrorType::StoreTimedOut),
        (FailureKind::Denied, ErrorType::AccessDenied),
        (FailureKind::Invalid, ErrorType::RequestInvalid),
    ] {
        let harness = Harness::new();
        let east = harness.instance("east");
        harness.faults.set(operation::PUT, 1, Fault::of(Effect::FailBefore(kind)));
        let error = east.ingest(rule_event("a", "telemetry/d1", b"x")).await.unwrap_err();
        assert_eq!(error.error_type, expected);
        assert!(!error.message.contains("eA=="), "no payload in an error");
    }
}

#[tokio::test]
async fn a_row_is_stamped_with_the_token_and_a_lease_that_cannot_be_believed_stamps_none() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    east.ingest(rule_event("led", "telemetry/d1", b"x")).await.unwrap();
    assert_eq!(east.outstanding().await[0].stamp.get(), 1);

    let unreadable = Harness::new();
    unreadable.faults.set(operation::READ_LEASE, 1, Fault::of(Effect::FailBefore(FailureKind::Denied)));
    let east = unreadable.instance("east");
    east.ingest(rule_event("a", "telemetry/d1", b"x")).await.unwrap();
    assert_eq!(east.outstanding().await[0].stamp.get(), 0);

    let mut row = harness.tables.dump(Table::Lease).into_iter().find(|row| row.contains_key("owner")).unwrap();
    row.insert("fencing_token".into(), Attribute::Number(u64::MAX.to_string()));
    harness.tables.plant(Table::Lease, row).unwrap();
    let cold = harness.instance("east");
    cold.ingest(rule_event("damaged", "telemetry/d1", b"y")).await.unwrap();
    let rows = cold.outstanding().await;
    let damaged = rows.iter().find(|row| row.id().as_str() == "damaged").unwrap();
    assert_eq!(damaged.stamp.get(), 0, "a maximum token in a damaged row stamps nobody");
}

#[tokio::test]
async fn malformed_events_name_the_field_and_store_nothing() {
    let harness = Harness::new();
    let east = harness.instance("east");
    let mut without_topic = rule_event("a", "telemetry/d1", b"x");
    without_topic.as_object_mut().unwrap().remove("topic");
    let mut not_base64 = rule_event("a", "telemetry/d1", b"x");
    not_base64["payload"] = json!("no base64!");
    let mut no_time = rule_event("a", "telemetry/d1", b"x");
    no_time["received_at"] = json!("yesterday");
    let mut newer = rule_event("a", "telemetry/d1", b"x");
    newer["schema"] = json!(2);
    for (event, field) in [
        (json!(null), "event"),
        (json!([]), "event"),
        (json!("text"), "event"),
        (json!({}), "event"),
        (json!({ "Records": 7 }), "Records"),
        (json!({ "Records": [{ "eventSource": "aws:s3" }] }), "eventSource"),
        (without_topic, "topic"),
        (not_base64, "payload"),
        (no_time, "received_at"),
        (newer, "schema"),
    ] {
        let error = east.ingest(event.clone()).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::EventMalformed, "{event}");
        assert!(error.message.contains(field), "{event}: {}", error.message);
    }
    assert!(east.outstanding().await.is_empty());
}

#[tokio::test]
async fn a_batch_answers_for_each_record_by_itself() {
    let harness = Harness::new();
    let east = harness.instance("east");
    let good = rule_event("a", "telemetry/d1", b"x").to_string();
    let other = rule_event("b", "telemetry/d1", b"y").to_string();
    harness.faults.set(
        operation::PUT_MANY,
        1,
        Fault::of(Effect::Rows([(1, RowFault::Before(FailureKind::Throttled))].into())),
    );
    let batch = sqs(&[("one", &good), ("two", "not json"), ("three", &other), ("four", &good)]);
    let reply = east.ingest(batch.clone()).await.unwrap();
    assert_eq!(reply, json!({ "batchItemFailures": [{ "itemIdentifier": "two" }, { "itemIdentifier": "three" }] }));
    assert_eq!(east.outstanding().await.len(), 1, "the same event twice in one batch is one row");
    let reply = east.ingest(batch).await.unwrap();
    assert_eq!(reply, json!({ "batchItemFailures": [{ "itemIdentifier": "two" }] }));
    assert_eq!(east.outstanding().await.len(), 2);
}

#[tokio::test]
async fn every_sample_event_is_stored_with_its_exact_bytes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../functions/ingest/events");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let event: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let is_batch = event.get("Records").is_some();
        let harness = Harness::new();
        let east = harness.instance("east");
        let reply = east.ingest(event).await.unwrap_or_else(|error| panic!("{}: {}", path.display(), error.message));
        if is_batch {
            assert!(reply["batchItemFailures"].is_array(), "{}", path.display());
        } else {
            assert_eq!(reply["outcome"], "stored", "{}", path.display());
        }
        assert!(!east.outstanding().await.is_empty(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 8, "only {seen} samples");
}
