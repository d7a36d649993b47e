//! The drainer: what is sent, committed, handed back and buried when nothing fails but the queue's own answers.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::outbox::Status;
use fencepost_runtime::clock::Clock as _;
use fencepost_runtime::failure::ErrorType;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, EntryFault, Fault};
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, Instance, bytes_of, rule_event};
use serde_json::{Value, json};

async fn leader(harness: &Harness) -> Instance {
    let mut east = harness.instance("east");
    assert_eq!(east.tick().await["role"], "leader");
    east
}

fn dead_rows(harness: &Harness) -> usize {
    let is_dead = |partition: &fencepost_storage::item::Value| matches!(partition, fencepost_storage::item::Value::Text(text) if text.starts_with("dead#"));
    harness.tables.dump(Table::Outbox).iter().filter(|row| row.get("shard").is_some_and(is_dead)).count()
}

#[tokio::test]
async fn everything_is_delivered_once_with_its_exact_bytes() {
    let harness = Harness::new();
    let east = leader(&harness).await;
    let payloads: Vec<Vec<u8>> = vec![
        b"plain".to_vec(),
        b"{\"t\":21.5}".to_vec(),
        vec![0x00, 0xff, 0xfe],
        "\u{fffe}".as_bytes().to_vec(),
        b"aGVsbG8=".to_vec(),
        Vec::new(),
        vec![b'z'; 128 * 1024],
    ];
    for (number, payload) in payloads.iter().enumerate() {
        east.ingest(rule_event(&format!("m{number}"), &format!("telemetry/d{number}"), payload)).await.unwrap();
    }
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["done"], &reply["counts"]["committed"]), (&json!(true), &json!(7)));
    let mut expected = payloads;
    expected.sort();
    assert_eq!(harness.delivered(), expected);
    assert!(east.outstanding().await.is_empty());
    assert_eq!(east.metrics.total(Metric::Committed), 7.0);
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["claimed"], 0);
    assert_eq!(harness.queue.accepted().len(), 7);
}

#[tokio::test]
async fn a_standby_claims_nothing_and_measures_the_backlog() {
    let harness = Harness::new();
    let east = leader(&harness).await;
    let west = harness.instance("west");
    east.ingest_many(3).await;
    harness.clock.advance(Duration::from_secs(9));
    assert_eq!(west.drain(json!({})).await.unwrap()["leading"], false);
    let plan = west.drainer.handle(json!({ "command": "plan" }), &west.limit(Duration::from_secs(10))).await.unwrap();
    assert_eq!((&plan["leading"], &plan["groups"]), (&json!(false), &json!([])));
    assert_eq!(west.metrics.values(Metric::OldestOutstandingAge), [9.0]);
    assert!(east.outstanding().await.iter().all(|row| row.status == Status::Pending));
    let plan = east.drainer.handle(json!({ "command": "plan" }), &east.limit(Duration::from_secs(10))).await.unwrap();
    assert_eq!(plan["groups"], json!([{ "shards": ["telemetry#0000", "telemetry#0001"] }]));
}

#[tokio::test]
async fn a_plan_has_forty_groups_at_most_and_a_drainer_without_stream_asks_to_be_called_again() {
    let harness = Harness::with(&[
        ("FENCEPOST_SHARDS", "9000"),
        ("FENCEPOST_TOPOLOGY", "home"),
        ("FENCEPOST_TABLE_REGION", "eu-west-1"),
    ]);
    let east = leader(&harness).await;
    let plan = east.drainer.handle(json!({ "command": "plan" }), &east.limit(Duration::from_secs(10))).await.unwrap();
    let groups = plan["groups"].as_array().unwrap();
    let shards: usize = groups.iter().map(|group| group["shards"].as_array().unwrap().len()).sum();
    assert_eq!((groups.len(), shards), (40, 9000));
    let idle = east.drain(json!({})).await.unwrap();
    assert_eq!(idle["again_after_seconds"], 2);
}

#[tokio::test]
async fn three_of_ten_refused_entries_go_back_with_their_reason_and_seven_are_committed() {
    let harness = Harness::new();
    let east = leader(&harness).await;
    east.ingest_many(10).await;
    let refuse = |code: &str| EntryFault::Refuse(code.to_owned());
    let entries = [(0, refuse("InternalError")), (4, refuse("ThrottlingException")), (9, refuse("InternalError"))];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(entries.into())));
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["counts"]["committed"], &reply["counts"]["refused"]), (&json!(7), &json!(3)));
    let left = east.outstanding().await;
    assert_eq!(left.len(), 3);
    for row in &left {
        assert!(row.status == Status::Pending && row.attempts == 1, "{row:?}");
        assert!(row.not_before.is_some() && row.last_error.as_ref().is_some_and(|error| !error.is_empty()));
    }
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["claimed"], 0, "not due yet");
    harness.clock.advance(Duration::from_secs(2));
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["committed"], 3);
}

#[tokio::test]
async fn a_permanent_refusal_kills_one_record_and_an_operator_brings_it_back() {
    let harness = Harness::new();
    let east = leader(&harness).await;
    east.ingest_many(3).await;
    let entries = [(1, EntryFault::Refuse("InvalidMessageContents".into()))];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(entries.into())));
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["counts"]["committed"], &reply["counts"]["dead"]), (&json!(2), &json!(1)));
    let [event] = &harness.bus.events()[..] else { panic!("told once, by the function: {reply}") };
    let detail: Value = serde_json::from_str(&event.detail).unwrap();
    let told = json!({
        "lease": "telemetry", "instance": "east", "stack": "east", "count": 1, "by_reason": { "refused": 1 },
        "at_ms": harness.clock.now().wall.as_ms(),
    });
    assert_eq!((event.detail_type, detail), ("Records Dead", told));
    assert_eq!((dead_rows(&harness), east.outstanding().await.len()), (1, 0));

    let request = |dry_run: bool| json!({ "command": "redrive", "shards": ["telemetry#0000", "telemetry#0001"], "limit": 10, "dry_run": dry_run });
    let limit = east.limit(Duration::from_secs(10));
    let redrive = |request: Value| east.drainer.handle(request, &limit);
    assert_eq!(redrive(request(true)).await.unwrap()["redriven"], 1);
    assert_eq!((dead_rows(&harness), east.outstanding().await.len()), (1, 0), "a dry run changes nothing");
    assert_eq!(redrive(request(false)).await.unwrap()["redriven"], 1);
    assert_eq!(dead_rows(&harness), 0);
    assert_eq!(
        redrive(request(false)).await.unwrap(),
        json!({
            "done": true, "cursor": null, "redriven": 0, "skipped": 0, "phantoms": 0
        })
    );
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["committed"], 1);
    assert_eq!(harness.queue.accepted().len(), 3);
}

#[tokio::test]
async fn an_outage_of_the_queue_kills_nothing_and_burns_no_attempt() {
    for kind in [FailureKind::Throttled, FailureKind::Denied] {
        let harness = Harness::new();
        let mut east = leader(&harness).await;
        east.ingest_many(20).await;
        for call in 1..1000 {
            harness.queue_faults.set(operation::SEND, call, Fault::of(Effect::FailBefore(kind)));
        }
        for _ in 0..300 {
            harness.clock.advance(Duration::from_secs(1));
            east.tick().await;
            east.drain(json!({})).await.unwrap();
        }
        let rows = east.outstanding().await;
        assert_eq!((rows.len(), dead_rows(&harness)), (20, 0), "{kind:?}");
        assert!(rows.iter().all(|row| row.attempts == 0 && row.status == Status::Pending), "{kind:?}");
    }
}

#[tokio::test]
async fn an_ordered_destination_keeps_the_order_of_each_key() {
    let harness = Harness::with(&[("FENCEPOST_QUEUE_URL", "http://127.0.0.1/queue.fifo")]);
    let mut east = leader(&harness).await;
    for number in 0..12 {
        for device in ["d1", "d2", "d3"] {
            let topic = format!("telemetry/{device}");
            let mut event =
                rule_event(&format!("{device}-{number:02}"), &topic, format!("{device} {number:02}").as_bytes());
            event["received_at"] = json!(1_700_000_000_000_u64 + number);
            east.ingest(event).await.unwrap();
        }
    }
    // The head of one key is refused: its later records must wait and lose no attempt.
    let entries = [(0, EntryFault::Refuse("InternalError".into()))];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(entries.into())));
    harness.clock.advance(Duration::from_millis(100));
    east.drain(json!({})).await.unwrap();
    let left = east.outstanding().await;
    assert_eq!(left.len(), 12, "one key waits whole");
    assert!(left.iter().skip(1).all(|row| row.attempts == 0), "those behind the head lost no attempt");
    harness.clock.advance(Duration::from_secs(3));
    east.tick().await;
    east.drain(json!({})).await.unwrap();
    assert!(east.outstanding().await.is_empty());
    for device in ["d1", "d2", "d3"] {
        let sent: Vec<_> =
            harness.queue.accepted().iter().map(bytes_of).filter(|b| b.starts_with(device.as_bytes())).collect();
        assert_eq!(sent.len(), 12);
        assert!(sent.is_sorted(), "{device} out of order");
    }
}

#[tokio::test]
async fn a_call_without_time_for_a_page_begins_none_and_answers_a_cursor() {
    let harness = Harness::new();
    let east = leader(&harness).await;
    east.ingest_many(5).await;
    let request =
        json!({ "command": "drain", "shards": ["telemetry#0000", "telemetry#0001"], "mode": { "kind": "scheduled" } });
    let reply = east.drainer.handle(request, &east.limit(Duration::from_secs(3))).await.unwrap();
    assert_eq!((&reply["done"], &reply["counts"]["claimed"]), (&json!(false), &json!(0)));
    let cursor = reply["cursor"].clone();
    assert_eq!(east.drain(json!({ "cursor": cursor })).await.unwrap()["counts"]["committed"], 5);
}

#[tokio::test]
async fn a_stream_batch_wakes_the_shards_that_it_names_and_nothing_else() {
    let harness = Harness::new();
    let east = leader(&harness).await;
    east.ingest_many(4).await;
    let wake = |shard: &str| {
        json!({ "Records": [{ "eventSource": "aws:dynamodb", "eventName": "INSERT",
            "dynamodb": { "Keys": { "shard": { "S": shard }, "position": { "S": "1700000000000#m0000" } } } }] })
    };
    let limit = east.limit(Duration::from_secs(10));
    for shard in ["sent#m0000", "fence#telemetry", "dead#telemetry#0000", "other#0000"] {
        assert_eq!(east.drainer.handle(wake(shard), &limit).await.unwrap(), json!({}));
        assert!(harness.queue.accepted().is_empty(), "{shard} wakes nobody");
    }
    let shard = east.outstanding().await[0].key.shard.to_string();
    assert_eq!(east.drainer.handle(wake(&shard), &limit).await.unwrap(), json!({}));
    assert_eq!(harness.queue.accepted().len(), 4);
}

#[tokio::test]
async fn requests_that_are_none_are_refused_by_name() {
    let harness = Harness::new();
    let east = leader(&harness).await;
    for (request, word) in [
        (json!([]), "object"),
        (json!({ "command": "drown" }), "drown"),
        (json!({ "command": "drain", "shards": ["telemetry#0000"] }), "mode"),
        (json!({ "command": "drain", "shards": ["telemetry"], "mode": { "kind": "scheduled" } }), "shard"),
        (json!({ "command": "drain", "shards": ["other#0000"], "mode": { "kind": "scheduled" } }), "other#0000"),
        (json!({ "command": "redrive", "shards": [], "limit": 0 }), "limit"),
        (json!({ "Records": [{}] }), "dynamodb"),
    ] {
        let error = east.drainer.handle(request.clone(), &east.limit(Duration::from_secs(10))).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::InputInvalid, "{request}");
        assert!(error.message.contains(word), "{request}: {}", error.message);
    }
}
