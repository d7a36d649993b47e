use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ids::{FencingToken, Identity, StackId};
use crate::outbox::Damage;
use crate::outbox::Status;

const NOW_MS: u64 = 1_767_225_700_000;

fn terms() -> IngestTerms {
    IngestTerms { lease: LeaseName::new("telemetry").unwrap(), origin: InstanceName::new("east").unwrap(), shards: 16 }
}

fn now() -> Timestamp {
    Timestamp::from_ms(NOW_MS)
}

fn rule_event() -> Value {
    json!({
        "schema": 1, "payload": "AP8=", "topic": "telemetry/a", "client_id": "dev-1", "received_at": 1_767_225_600_123u64,
        "trace_id": "trace-1", "message_id": "uuid-1"
    })
}

fn one(event: &Value) -> Message {
    match parse(event).unwrap() {
        Event::One(message) => message,
        Event::Batch(_) => panic!("a batch"),
    }
}

fn batch(text: &str) -> Vec<BatchRecord> {
    match parse(&serde_json::from_str(text).unwrap()).unwrap() {
        Event::Batch(records) => records,
        Event::One(_) => panic!("no batch"),
    }
}

fn sqs(body: &Value) -> Value {
    json!({"Records": [{
        "eventSource": "aws:sqs", "messageId": "sqs-1", "body": body.to_string(),
        "attributes": {"SentTimestamp": "1767225603123"}
    }]})
}

fn row() -> OutboxRow {
    decide(one(&rule_event()), &terms(), Stamp::NONE, now()).unwrap()
}

#[test]
fn a_rule_event_becomes_a_row() {
    let row = row();
    assert_eq!(row.payload, [0, 255]);
    assert_eq!(row.key.to_string(), "telemetry#0002/1767225600123#trace-1");
    assert_eq!(row.key.shard, Shard::of_key(&terms().lease, "dev-1", 16));
    assert_eq!(
        (row.topic.as_str(), row.client_id.as_deref(), row.device_message_id),
        ("telemetry/a", Some("dev-1"), None)
    );
    assert_eq!((row.status, row.attempts, row.redriven, row.origin), (Status::Pending, 0, 0, terms().origin));
}

#[test]
fn identity_is_the_brokers() {
    let with = |changes: Value| {
        let mut event = rule_event();
        for (name, value) in changes.as_object().unwrap() {
            event[name] = value.clone();
        }
        one(&event)
    };
    assert_eq!(with(json!({"trace_id": null})).id.as_str(), "uuid-1");
    assert_eq!(with(json!({"trace_id": ""})).id.as_str(), "uuid-1");
    let message = with(json!({"device_message_id": "own-7"}));
    assert_eq!((message.id.as_str(), message.device_message_id.as_deref()), ("trace-1", Some("own-7")));
    assert_eq!(with(json!({"client_id": "n/a"})).client_id, None, "IoT SQL's word for no client");
    assert_eq!(with(json!({"received_at": null})).received_at, None);
}

#[test]
fn the_sample_events_are_understood() {
    for (text, id) in [
        (include_str!("../../../ingest/events/rule_json.json"), "5f1c7a86-3b6f-4a55-9c3e-2f0a5f6f7e01"),
        (include_str!("../../../ingest/events/rule_binary.json"), "0b7e3c19-52d8-4f0e-8f4b-a1c9d3e5b702"),
        (include_str!("../../../ingest/events/rule_empty.json"), "e2a4c6f8-1b3d-4e5f-8a7c-9d0e1f2a3b03"),
        (include_str!("../../../ingest/events/rule_device_id.json"), "7c5e3a19-0f8d-4b6c-9a2e-4d6f8b0c2e04"),
        (include_str!("../../../ingest/events/rule_error.json"), "91f0b2c4-7d6e-4a3b-8c5f-0e1d2c3b4a05"),
        (include_str!("../../../ingest/events/failed_invocation.json"), "2d4f6a8c-0e1b-4c3d-9e5f-7a8b9c0d1e06"),
    ] {
        let message = one(&serde_json::from_str(text).unwrap());
        assert_eq!(message.id.as_str(), id);
        decide(message, &terms(), Stamp::NONE, now()).unwrap();
    }
    let records = batch(include_str!("../../../ingest/events/sqs_batch.json"));
    assert!(records.len() == 3 && records.iter().all(|record| record.message.is_ok()));
    let records = batch(include_str!("../../../ingest/events/sqs_rule_error.json"));
    let at = records[0].message.as_ref().unwrap().received_at;
    assert_eq!(at, Some(Timestamp::from_ms(1_767_225_603_123)), "the queue's time");
    let records = batch(include_str!("../../../ingest/events/kinesis_batch.json"));
    assert!(records.len() == 3 && records.iter().all(|record| record.message.is_ok()));
    assert_eq!(records[0].item_identifier, "49659832105713945720384756102938475610293847561029384801");
}

#[test]
fn in_a_batch_only_the_malformed_record_fails() {
    let records = batch(include_str!("../../../ingest/events/sqs_partial_batch.json"));
    let failed: Vec<_> = records.iter().filter(|record| record.message.is_err()).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].item_identifier, "f5a1b3c7-0e8b-4d3e-9d86-9f525ea04004");
    assert_eq!(failed[0].message.as_ref().unwrap_err().field, "Records[1].body.payload");
}

#[test]
fn a_carrier_fills_in_what_the_event_lacks() {
    let carried = |event: Value| match parse(&event).unwrap() {
        Event::Batch(mut records) => records.remove(0).message.unwrap(),
        Event::One(_) => panic!("no batch"),
    };
    let error = json!({"topic": "t", "base64OriginalPayload": "", "clientId": "n/a"});
    let message = carried(sqs(&error));
    assert_eq!((message.id.as_str(), message.client_id), ("sqs-1", None));
    assert_eq!(message.received_at, Some(Timestamp::from_ms(1_767_225_603_123)));
    let message = carried(sqs(&json!({"requestPayload": rule_event()})));
    assert_eq!(message.received_at, Some(Timestamp::from_ms(1_767_225_600_123)), "the event's own time");
    let data = |event: &Value| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(event.to_string())
    };
    let mut event = rule_event();
    event["received_at"] = Value::Null;
    for (seconds, ms) in
        [("1767225600.201", 1_767_225_600_201), ("1767225600", 1_767_225_600_000), ("1767225600.5", 1_767_225_600_500)]
    {
        let seconds: Value = serde_json::from_str(seconds).unwrap();
        let record = json!({"eventSource": "aws:kinesis", "kinesis": {
            "sequenceNumber": "1", "data": data(&event), "approximateArrivalTimestamp": seconds}});
        assert_eq!(carried(json!({"Records": [record]})).received_at, Some(Timestamp::from_ms(ms)));
    }
}

#[test]
fn malformed_events_name_the_field_and_the_fix() {
    let without = |name: &str| {
        let mut event = rule_event();
        event.as_object_mut().unwrap().remove(name);
        event
    };
    let with = |name: &str, value: Value| {
        let mut event = rule_event();
        event[name] = value;
        event
    };
    let mut nameless = without("message_id");
    nameless["trace_id"] = Value::Null;
    let nested = json!({"requestPayload": {"requestPayload": {"requestPayload": rule_event()}}});
    for (event, field, words) in [
        (json!([]), "event", "not a JSON object"),
        (json!({"temperature": 1}), "event", "none that ingest knows"),
        (without("payload"), "payload", "encode(*, 'base64') AS payload"),
        (with("payload", json!("no base64!")), "payload", "not base64"),
        (with("payload", json!({"t": 1})), "payload", "not a string"),
        (without("topic"), "topic", "topic() AS topic"),
        (with("topic", json!("")), "topic", "is empty"),
        (without("schema"), "schema", "1 AS schema"),
        (with("schema", json!(2)), "schema", "update the stack"),
        (nameless, "message_id", "newuuid() AS message_id"),
        (with("received_at", json!("today")), "received_at", "whole number"),
        (with("received_at", json!(10_000_000_000_000u64)), "received_at", "milliseconds"),
        (with("client_id", json!(7)), "client_id", "not a string"),
        (json!({"requestPayload": null}), "requestPayload", "not a JSON object"),
        (nested, "requestPayload.requestPayload.requestPayload", "once too often"),
        (json!({"base64OriginalPayload": "", "topic": "t"}), "cloudwatchTraceId", "is missing"),
        (json!({"Records": 1}), "Records", "not a list"),
        (json!({"Records": [{}]}), "Records[0].eventSource", "is missing"),
        (json!({"Records": [{"eventSource": "aws:s3"}]}), "Records[0].eventSource", "neither"),
        (json!({"Records": [{"eventSource": "aws:sqs"}]}), "Records[0].messageId", "is missing"),
        (json!({"Records": [{"eventSource": "aws:kinesis"}]}), "Records[0].kinesis", "is missing"),
    ] {
        let malformed = parse(&event).unwrap_err();
        assert_eq!(malformed.field, field, "{event}");
        assert!(malformed.problem.contains(words), "{malformed}");
    }
}

#[test]
fn what_does_not_fit_a_row_is_refused_by_name() {
    let message = |bytes| Message { payload: vec![0; bytes], ..one(&rule_event()) };
    let decided = |bytes| decide(message(bytes), &terms(), Stamp::NONE, now());
    assert!(decided(limits::IOT_PAYLOAD_BYTES_MAX).is_ok());
    let beside = "telemetry/a".len() + "dev-1".len() + limits::ROW_OVERHEAD_BYTES_MAX;
    assert!(decided(limits::ITEM_BYTES_MAX - beside).is_ok());
    let refused = decided(limits::ITEM_BYTES_MAX - beside + 1).unwrap_err();
    assert_eq!(refused.field, "payload");
    assert!(refused.problem.contains(&(limits::ITEM_BYTES_MAX - beside).to_string()), "{refused}");
}

#[test]
fn a_row_bears_its_stamp_and_the_devices_own_id_which_counts_as_bytes() {
    let own_id = "own-7".to_owned();
    let message = Message { device_message_id: Some(own_id.clone()), ..one(&rule_event()) };
    let row = decide(message.clone(), &terms(), Stamp::new(7).unwrap(), now()).unwrap();
    assert_eq!((row.stamp.get(), row.device_message_id.as_ref()), (7, Some(&own_id)));
    let beside = "telemetry/a".len() + "dev-1".len() + own_id.len() + limits::ROW_OVERHEAD_BYTES_MAX;
    let decided = |bytes| {
        let message = Message { payload: vec![0; bytes], ..message.clone() };
        decide(message, &terms(), Stamp::NONE, now()).is_ok()
    };
    assert!(decided(limits::ITEM_BYTES_MAX - beside) && !decided(limits::ITEM_BYTES_MAX - beside + 1));
}

#[test]
fn the_latest_moment_that_a_position_holds_is_taken() {
    let mut event = rule_event();
    event["received_at"] = Timestamp::MAX.as_ms().into();
    assert_eq!(one(&event).received_at, Some(Timestamp::MAX));
}

#[test]
fn a_long_text_becomes_an_id_of_eighty_characters() {
    let text = "x".repeat(200);
    let digest = PayloadDigest::of(text.as_bytes());
    let expected = format!("{}-{}", "x".repeat(63), digest.short(16));
    assert_eq!((sanitised_id(&text).unwrap().as_str(), expected.len()), (expected.as_str(), 80));
    assert_eq!(sanitised_id(&"x".repeat(80)).unwrap().as_str(), "x".repeat(80), "as it is");
}

#[test]
fn a_taken_key_is_a_duplicate_or_another_message() {
    let row = row();
    let other = OutboxRow { payload: b"other".to_vec(), ..row.clone() };
    let damage = Damage { record: "row".to_owned(), malformed: Malformed::new("x", "y"), newer_schema: false };
    assert_eq!(on_exists(&row, &Slot::Present(OutboxRow { attempts: 4, ..row.clone() })), OnExists::Duplicate);
    assert_eq!(on_exists(&row, &Slot::Absent), OnExists::PutAgain);
    let OnExists::Suffixed(suffixed) = on_exists(&row, &Slot::Present(other.clone())) else { panic!() };
    assert_eq!(suffixed.id().as_str(), format!("trace-1.{}", PayloadDigest::of(&row.payload).short(16)));
    assert_eq!(suffixed.key.position.received_at(), row.key.position.received_at());
    assert_eq!(on_exists(&row, &Slot::Damaged(damage)), OnExists::Suffixed(suffixed.clone()), "it repeats");
    assert_eq!(on_exists(&suffixed, &Slot::Present(suffixed.clone())), OnExists::Duplicate);
    assert_eq!(on_exists(&suffixed, &Slot::Present(other)), OnExists::Clash);
}

#[test]
fn a_stamp_is_what_the_lease_row_shows_or_none() {
    let damage = Damage { record: "LEASE".to_owned(), malformed: Malformed::new("x", "y"), newer_schema: false };
    for unknown in [None, Some(Slot::Absent), Some(Slot::Damaged(damage))] {
        assert_eq!(stamp(unknown.as_ref()), Stamp::NONE);
    }
    let owner = Identity { name: terms().origin, stack: StackId::new("s").unwrap() };
    let record = LeaseRecord {
        lease: terms().lease,
        owner: Some(owner),
        token: FencingToken::new(7).unwrap(),
        renewal: 0,
        lease_ttl: std::time::Duration::from_secs(300),
        confirmed_at: now(),
        acquired_as: crate::lease::AcquiredAs::Acquired,
        stepping_down: None,
        released: None,
        last_release: None,
        takeover_done: Stamp::NONE,
        takeover_try: 0,
        takeover_try_at: now(),
        attempt: crate::ids::AttemptId::new("a").unwrap(),
    };
    assert_eq!(stamp(Some(&Slot::Present(record))).get(), 7);
}

proptest! {
    #[test]
    fn any_text_becomes_an_id_that_repeats_and_takes_a_suffix(text in "\\PC{1,200}") {
        let id = sanitised_id(&text).unwrap();
        prop_assert_eq!(&id, &sanitised_id(&text).unwrap());
        let mut message = one(&rule_event());
        message.id = id;
        let row = decide(message, &terms(), Stamp::NONE, now()).unwrap();
        let other = OutboxRow { payload: b"other".to_vec(), ..row.clone() };
        prop_assert!(matches!(on_exists(&row, &Slot::Present(other)), OnExists::Suffixed(_)));
    }

    #[test]
    fn different_texts_stay_different(a in "\\PC{1,120}", b in "\\PC{1,120}") {
        prop_assume!(a != b);
        prop_assert_ne!(sanitised_id(&a).unwrap(), sanitised_id(&b).unwrap());
    }

    #[test]
    fn one_delivery_is_one_row_whenever_it_is_decided(payload in proptest::collection::vec(any::<u8>(), 0..50), later in 0u64..1_000_000) {
        let message = Message { payload, ..one(&rule_event()) };
        let first = decide(message.clone(), &terms(), Stamp::NONE, now()).unwrap();
        let second = decide(message, &terms(), Stamp::NONE, Timestamp::from_ms(NOW_MS + later)).unwrap();
        prop_assert_eq!(on_exists(&second, &Slot::Present(first)), OnExists::Duplicate);
    }

    #[test]
    fn no_json_makes_the_parser_panic(text in "[{}\\[\\]\",:a-z0-9 ]{0,80}", field in "Records|payload|requestPayload|base64OriginalPayload|schema", value in "\\PC{0,20}") {
        if let Ok(value) = serde_json::from_str::<Value>(&text) { let _ = parse(&value); }
        let _ = parse(&json!({field: value}));
    }
}
