//! The event `Records Dead`: whoever woke the drainer, the bus is told at least once, and a bus that fails fails no drain.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::Shard;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, EntryFault, Fault};
use fencepost_storage::operation;
use fencepost_tests::harness::{Harness, Instance, START};
use serde_json::{Value, json};

/// A leader with three records, the second of which the queue will refuse for good.
async fn about_to_bury_one(harness: &Harness) -> Instance {
    let mut east = harness.instance("east");
    assert_eq!(east.tick().await["role"], "leader");
    east.ingest_many(3).await;
    let refused = [(1, EntryFault::Refuse("InvalidMessageContents".into()))];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(refused.into())));
    east
}

fn fails(harness: &Harness, puts: impl IntoIterator<Item = u64>, effect: &Effect) {
    puts.into_iter().for_each(|put| harness.bus_faults.set(operation::PUT_EVENT, put, Fault::of(effect.clone())));
}

/// Drains while the clock goes on by 10ms at a time.
async fn drain(harness: &Harness, east: &Instance) -> Value {
    let clock = std::sync::Arc::clone(&harness.clock);
    let passing = async move {
        loop {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_millis(10));
        }
    };
    tokio::select! {
        biased;
        reply = east.drain(json!({})) => reply.unwrap(),
        () = passing => unreachable!("time never ends"),
    }
}

fn details(harness: &Harness) -> Vec<Value> {
    let events = harness.bus.events();
    assert!(events.iter().all(|event| event.detail_type == "Records Dead"), "{events:?}");
    events.iter().map(|event| serde_json::from_str(&event.detail).unwrap()).collect()
}

fn drained(reply: &Value, east: &Instance) {
    assert_eq!(
        (&reply["done"], &reply["counts"]["committed"], &reply["counts"]["dead"]),
        (&json!(true), &json!(2), &json!(1))
    );
    assert_eq!(east.metrics.total(Metric::Dead), 1.0, "the metric and its alarm tell it in any case");
}

#[tokio::test]
async fn a_drain_of_a_workflow_tells_once_and_its_answer_holds_no_event() {
    let harness = Harness::new();
    let east = about_to_bury_one(&harness).await;
    let reply = east.drain(json!({})).await.unwrap();
    drained(&reply, &east);
    assert_eq!(reply.get("events"), None, "nobody puts it a second time");
    let detail = json!({
        "lease": "telemetry", "instance": "east", "stack": "east", "count": 1, "by_reason": { "refused": 1 }, "at_ms": START.as_ms(),
    });
    assert_eq!(details(&harness), [detail]);
    assert_eq!(east.drain(json!({})).await.unwrap()["done"], true);
    assert_eq!(details(&harness).len(), 1, "a call in which nothing died tells nothing");
}

#[tokio::test]
async fn a_drain_that_the_stream_woke_tells_too() {
    let harness = Harness::new();
    let east = about_to_bury_one(&harness).await;
    let shard: Shard = east.outstanding().await[0].key.shard.clone();
    let wake = json!({ "Records": [{ "eventSource": "aws:dynamodb", "eventName": "INSERT",
        "dynamodb": { "Keys": { "shard": { "S": shard.to_string() }, "position": { "S": "1700000000000#m" } } } }] });
    let limit = east.limit(Duration::from_secs(10));
    assert_eq!(east.drainer.handle(wake, &limit).await.unwrap(), json!({}));
    let details = details(&harness);
    assert_eq!((details.len(), &details[0]["count"]), (1, &json!(1)));
}

#[tokio::test]
async fn a_put_that_may_pass_is_made_again_and_one_that_was_applied_may_be_there_twice() {
    for (effect, copies) in [
        (Effect::FailBefore(FailureKind::Throttled), 1),
        (Effect::FailBefore(FailureKind::Unavailable), 1),
        (Effect::FailAfter(FailureKind::TimedOut), 3),
    ] {
        let harness = Harness::new();
        let east = about_to_bury_one(&harness).await;
        fails(&harness, 1..=2, &effect);
        drained(&drain(&harness, &east).await, &east);
        let details = details(&harness);
        assert_eq!(details.len(), copies, "{effect:?}");
        assert!(details.iter().all(|detail| *detail == details[0]), "a double is told by its own detail: {details:?}");
    }
}

#[tokio::test]
async fn a_bus_that_refuses_fails_no_drain_and_is_asked_as_often_as_it_helps() {
    for (kind, puts) in [(FailureKind::Denied, 1), (FailureKind::Invalid, 1), (FailureKind::Unavailable, 3)] {
        let harness = Harness::new();
        let east = about_to_bury_one(&harness).await;
        fails(&harness, 1..=9, &Effect::FailAfter(kind));
        drained(&drain(&harness, &east).await, &east);
        assert_eq!(details(&harness).len(), puts, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_hangs_holds_a_drain_up_for_three_seconds_at_most() {
    let harness = Harness::new();
    let east = about_to_bury_one(&harness).await;
    let hang = Fault { delay_before: Duration::from_secs(86_400), ..Fault::default() };
    harness.bus_faults.set(operation::PUT_EVENT, 1, hang);
    drained(&drain(&harness, &east).await, &east);
    let took = east.limit(Duration::ZERO).stop_at().since(START);
    assert!((3_000..3_100).contains(&took.as_millis()), "{took:?}");
    assert!(harness.bus.events().is_empty());
}
