//! What ingest keeps: doubles, dropped events, and a lease row that must not be believed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::failure::ErrorType;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::item::Value as Attribute;
use fencepost_storage::memory::{Effect, Fault};
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, Instance, START, rule_event};
use fencepost_tests::proxy;
use fencepost_tests::proxy::{Match, Times};
use serde_json::{Value, json};

use super::sdk::World;
use super::{accepted_ids, count, in_virtual_time, late_by, leader, live, live_rows, own_faults};

/// Reported: two equal readings were taken for one and the second was dropped; an event that the platform delivered twice
/// became two messages.
/// Right: equal payloads are two messages. One event, delivered again by the platform or written again by the SDK after a lost
/// reply, is one row and one send.
///
/// Kills: `an_event_delivered_twice_is_two_messages`
#[tokio::test]
async fn case_29_equal_payloads_and_equal_events() {
    for lost in [proxy::Fault::DropAfter, proxy::Fault::FailAfter] {
        let mut world = World::start(&[]).await;
        let east = world.leader().await;
        let first = east.ingest(rule_event("a", "telemetry/d1", b"21.5")).await.unwrap();
        let second = east.ingest(rule_event("b", "telemetry/d1", b"21.5")).await.unwrap();
        assert_eq!((&first["outcome"], &second["outcome"]), (&json!("stored"), &json!("stored")), "two messages");
        let again = east.ingest(rule_event("a", "telemetry/d1", b"21.5")).await.unwrap();
        assert_eq!((&again["outcome"], &again["position"]), (&json!("duplicate"), &first["position"]));
        let placed = world.tables.proxy.place(Match::operation("PutItem"), Times::Nth(1), lost.clone());
        let before = world.tables.proxy.count("PutItem");
        let retried = east.ingest(rule_event("c", "telemetry/d1", b"21.5")).await.unwrap();
        assert_eq!(
            (placed.hits(), world.tables.proxy.count("PutItem") - before),
            (1, 2),
            "{lost:?}: the SDK tried again"
        );
        assert_eq!(retried["outcome"], "duplicate", "{lost:?}: the first try had stored it");
        assert_eq!(east.outstanding().await.len(), 3, "{lost:?}");
        assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 3);
        assert_eq!(
            (world.ids(), world.payloads()),
            (["a", "b", "c"].map(str::to_owned).to_vec(), vec![b"21.5".to_vec(); 3])
        );
    }
}

/// Reported: the rule's function was throttled or failed, the event was dropped, and nobody noticed.
/// Right: the rule's error action and the failure destination bring it back with its exact bytes, under the id that it would
/// have had; a try that had stored it makes the return a duplicate; one bad record fails alone.
///
/// Kills: `failed_invocations_are_unknown_events`
#[tokio::test]
async fn case_37_dropped_event_comes_back() {
    let harness = Harness::new();
    let mut east = leader(&harness).await;
    let payload = b"\x00\xff\xfe 21.5".to_vec();
    // Each of the platform's three tries fails; the last one had stored the row, its reply was lost.
    let event = rule_event("trace-1", "telemetry/d1", &payload);
    for call in 1..=2 {
        harness.faults.set(operation::PUT, call, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    }
    harness.faults.set(operation::PUT, 3, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    for expected in [ErrorType::StoreUnavailable, ErrorType::StoreUnavailable, ErrorType::StoreTimedOut] {
        assert_eq!(east.ingest(event.clone()).await.unwrap_err().error_type, expected);
    }
    let failed_invocation = |event: &Value| {
        json!({ "version": "1.0", "requestContext": { "condition": "RetriesExhausted", "approximateInvokeCount": 3 },
            "requestPayload": event, "responsePayload": { "errorType": "StoreUnavailable" } })
    };
    // An event that the function never saw: the rule's error action made its own form of it, without our id.
    let error_action = json!({ "ruleName": "telemetry", "topic": "telemetry/d2", "cloudwatchTraceId": "trace-2",
        "clientId": "d2", "base64OriginalPayload": BASE64.encode(&payload),
        "failures": [{ "failedAction": "LambdaAction", "errorMessage": "throttled" }] });
    let sent_at = START.plus(Duration::from_secs(3)).as_ms().to_string();
    let record = |id: &str, body: String| json!({ "eventSource": "aws:sqs", "messageId": id, "body": body, "attributes": { "SentTimestamp": sent_at } });
    let unseen = failed_invocation(&rule_event("trace-3", "telemetry/d3", &payload));
    let batch = json!({ "Records": [
        record("one", failed_invocation(&event).to_string()),
        record("two", error_action.to_string()),
        record("bad", "{\"requestPayload\": {}}".to_owned()),
        record("three", unseen.to_string()),
    ] });
    let reply = east.ingest(batch.clone()).await.unwrap();
    assert_eq!(reply, json!({ "batchItemFailures": [{ "itemIdentifier": "bad" }] }), "it fails alone");
    let again = east.ingest(batch).await.unwrap();
    assert_eq!(again, reply, "a repeated batch stores nothing new");
    let mut rows = east.outstanding().await;
    rows.sort_by(|a, b| a.id().as_str().cmp(b.id().as_str()));
    let facts: Vec<_> =
        rows.iter().map(|row| (row.id().as_str(), row.topic.as_str(), row.client_id.as_deref())).collect();
    assert_eq!(
        facts,
        [
            ("trace-1", "telemetry/d1", Some("d1")),
            ("trace-2", "telemetry/d2", Some("d2")),
            ("trace-3", "telemetry/d3", Some("d3")),
        ]
    );
    let times: Vec<_> = rows.iter().map(|row| row.key.position.received_at().since(START).as_secs()).collect();
    assert_eq!(times, [0, 3, 0], "the broker's time where it is known, else when the failure queue got it");
    assert_eq!(east.metrics.total(Metric::Ingested), 2.0);
    assert_eq!(east.metrics.total(Metric::IngestDuplicates), 4.0);
    live(&harness, &mut [&mut east], 4).await;
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 3);
    assert_eq!(harness.delivered(), vec![payload; 3]);
}

/// Where a second delivery of one event falls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Point {
    BeforeTheClaim,
    BetweenClaimAndSend,
    BetweenSendAndProof,
    BetweenProofAndCommit,
    AfterTheCommit,
}

/// Found by us: the broker delivered an event again after its row was committed and gone, so it became a new row and went out
/// twice.
/// Right: wherever the double falls, at 1 s, at 10 s or days later, there is one send inside the window; what comes after
/// the commit is committed by its proof. Only after the window it is a message of its own.
///
/// Kills: `proof_expires_at_once`
#[tokio::test(start_paused = true)]
async fn case_46_duplicate_ingest_at_every_point() {
    use Point::{AfterTheCommit, BeforeTheClaim, BetweenClaimAndSend, BetweenProofAndCommit, BetweenSendAndProof};
    for point in [BeforeTheClaim, BetweenClaimAndSend, BetweenSendAndProof, BetweenProofAndCommit, AfterTheCommit] {
        for pause in [1, 10] {
            let harness = Harness::new();
            let mut east = leader(&harness).await;
            let other = harness.instance("east");
            east.ingest(event()).await.unwrap();
            let held = own_faults(&harness, &mut east);
            match point {
                BetweenClaimAndSend => harness.queue_faults.set(operation::SEND, 1, late_by(2)),
                BetweenSendAndProof => held.set(operation::WRITE_TOMBSTONES, 1, late_by(2)),
                BetweenProofAndCommit => held.set(operation::COMMIT, 1, late_by(2)),
                BeforeTheClaim | AfterTheCommit => {}
            }
            if point == BeforeTheClaim {
                assert_eq!(double(&other).await, "duplicate");
                live(&harness, &mut [&mut east], pause).await;
                assert_eq!(double(&other).await, "duplicate");
            }
            let inside = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if matches!(point, BetweenClaimAndSend | BetweenSendAndProof | BetweenProofAndCommit) {
                    assert_eq!(double(&other).await, "duplicate", "{point:?}: its row still stands");
                }
            };
            let work = async { tokio::join!(east.drain(json!({})), inside) };
            let (reply, ()) = in_virtual_time(&harness, work).await;
            assert_eq!(count(&reply.unwrap(), "committed"), 1, "{point:?}");
            live(&harness, &mut [&mut east], pause).await;
            commits_without_a_send(&harness, &mut east, point).await;
        }
    }
}

fn event() -> Value {
    rule_event("a", "telemetry/d1", b"21.5")
}

async fn double(instance: &Instance) -> Value {
    instance.ingest(event()).await.unwrap()["outcome"].clone()
}

/// Doubles after the commit: now, and up to the end of the window of five days; then one after it.
async fn commits_without_a_send(harness: &Harness, east: &mut Instance, point: Point) {
    let window = Duration::from_secs(5 * 86_400);
    for later in [Duration::ZERO, Duration::from_secs(9), window - Duration::from_secs(120)] {
        harness.clock.advance(later);
        live(harness, &mut [east], 1).await;
        harness.tables.expire(harness_seconds(harness));
        assert_eq!(double(east).await, "stored", "{point:?}: the row is gone, so it is put again");
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!((count(&reply, "committed"), count(&reply, "sent")), (1, 0), "{point:?} {later:?}: by its proof");
        assert_eq!(accepted_ids(harness), ["a"], "{point:?} {later:?}: one send");
        assert_eq!(live_rows(harness), 0);
    }
    harness.clock.advance(Duration::from_secs(300));
    live(harness, &mut [east], 1).await;
    harness.tables.expire(harness_seconds(harness));
    assert_eq!(double(east).await, "stored");
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "sent"), 1, "{point:?}: after the window");
}

fn harness_seconds(harness: &Harness) -> u64 {
    use fencepost_runtime::clock::Clock as _;
    harness.clock.now().wall.as_ms() / 1_000
}

/// Found by us: ingest stamped rows with the maximum token of a damaged lease row; nobody could ever claim them again.
/// Right: a row that does not decode stamps nobody: ingest goes on with stamp 0, the drain and the tick refuse by name, nothing
/// is overwritten, and after the repair everything is drained.
///
/// Kills: `token_above_the_maximum_is_believed`
#[tokio::test]
async fn case_47_damaged_lease_row() {
    let broken: [(&str, Option<Attribute>); 5] = [
        ("fencing_token", Some(Attribute::Number(u64::MAX.to_string()))),
        ("fencing_token", Some(Attribute::Number("9007199254740991".into()))),
        ("fencing_token", Some(Attribute::Number("0".into()))),
        ("fencing_token", Some(Attribute::Text("1".into()))),
        ("renewal", None),
    ];
    for (field, value) in broken {
        let what = format!("{field} = {value:?}");
        let harness = Harness::new();
        let mut east = leader(&harness).await;
        east.ingest(rule_event("before", "telemetry/d1", b"1")).await.unwrap();
        let sound = harness.tables.dump(Table::Lease).into_iter().find(|row| row.contains_key("owner")).unwrap();
        let mut damaged = sound.clone();
        match &value {
            Some(value) => damaged.insert(field.into(), value.clone()),
            None => damaged.remove(field),
        };
        harness.tables.plant(Table::Lease, damaged.clone()).unwrap();
        // The stamp of a warm process is believed for five seconds; a cold one and a later one stamp none.
        let cold = harness.instance("east");
        cold.ingest(rule_event("cold", "telemetry/d1", b"2")).await.unwrap();
        harness.clock.advance(Duration::from_secs(6));
        let stored = east.ingest(rule_event("warm", "telemetry/d1", b"3")).await.unwrap();
        assert_eq!(stored["outcome"], "stored", "{what}: no message is refused");
        let stamps: Vec<_> =
            east.outstanding().await.iter().map(|row| (row.id().to_string(), row.stamp.get())).collect();
        let expected = [("before", 1), ("cold", 0), ("warm", 0)].map(|(id, stamp)| (id.to_owned(), stamp));
        let mut sorted = stamps;
        sorted.sort();
        assert_eq!(sorted, expected, "{what}");
        let refused = east.drain(json!({})).await.unwrap_err();
        assert_eq!(refused.error_type, ErrorType::LeaseRecordInvalid, "{what}");
        assert!(refused.message.contains(field), "{what}: {}", refused.message);
        east.tick().await;
        assert!(harness.tables.dump(Table::Lease).contains(&damaged), "{what}: nothing is overwritten");
        assert!(harness.queue.accepted().is_empty());
        harness.tables.plant(Table::Lease, sound).unwrap();
        live(&harness, &mut [&mut east], 1).await;
        assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 3, "{what}: drainable after the repair");
        assert_eq!(east.metrics.total(Metric::TokenRegression), 0.0, "{what}");
    }
}
