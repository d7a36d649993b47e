//! The topic rule and its failures list against an ingest that the test plays.

use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use fencepost_protocol::ingest::{Event, parse};
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::clock::{Clock, ManualClock};
use fencepost_runtime::settings::Function;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::broker::Published;
use crate::shipped::Machines;
use crate::world::counters::{Counters, Counts};
use crate::world::event::{IngestOutcome, WorldEvent};
use crate::world::failures::Failures;
use crate::world::history::History;
use crate::world::options::WorldOptions;
use crate::world::process::{Door, Order};
use crate::world::region::InvokeError;
use crate::world::regions::Regions;
use crate::world::rule::TopicRule;
use crate::world::site::Site;

type Reply = oneshot::Sender<Result<Value, InvokeError>>;

/// A rule whose instances the test plays, and a clock that every sleep moves.
struct Stage {
    regions: Arc<Regions>,
    site: Arc<Site>,
    publish: mpsc::Sender<Published>,
    /// What was told, and how many messages were counted as waiting at that moment.
    told: Arc<Mutex<Vec<(WorldEvent, u64)>>>,
}

impl Stage {
    fn new() -> Self {
        let options = WorldOptions::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let counted: Arc<OnceLock<Arc<Counters>>> = Arc::default();
        let counters = Arc::clone(&counted);
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::skipping(Timestamp::from_ms(1_800_000_000_000)));
        let site = Arc::new(Site::new(
            options.lease.clone(),
            clock,
            Machines::parse().unwrap(),
            options.body_format,
            String::new(),
            String::new(),
            Arc::new(move |_: Timestamp, event: &WorldEvent| {
                let waiting = counted.get().map_or(0, |counters| counters.counts().rule_waiting);
                hears.lock().unwrap().push((event.clone(), waiting));
            }),
            None::<History>,
        ));
        counters.set(Arc::clone(&site.counters)).unwrap();
        let settings =
            options.instances.iter().map(|name| options.settings_of(name, "http://127.0.0.1/queue").unwrap()).collect();
        let regions = Arc::new(Regions::new(Arc::clone(&site), settings));
        let failures = Arc::new(Failures::new(Arc::clone(&site), Arc::clone(&regions)));
        let rule = Arc::new(TopicRule {
            site: Arc::clone(&site),
            regions: Arc::clone(&regions),
            failures: Arc::clone(&failures),
            filter: options.check().unwrap(),
            all_taken: Arc::default(),
        });
        let (publish, mut published) = mpsc::channel(10);
        tokio::spawn(async move { rule.run(&mut published, std::future::pending()).await });
        tokio::spawn(failures.feed());
        Self { regions, site, publish, told }
    }

    fn play(&self, name: &str) -> mpsc::Receiver<Order> {
        let (door, orders) = Door::played();
        self.regions.play(name, Some(door));
        orders
    }

    async fn publish(&self, client_id: &str, payload: &'static [u8]) {
        let published = Published {
            client_id: client_id.to_owned(),
            topic: "telemetry/pump".to_owned(),
            payload: Bytes::from_static(payload),
            qos: 1,
            retain: false,
            user_properties: vec![("device-message-id".to_owned(), "d-7".to_owned())],
        };
        self.publish.send(published).await.unwrap();
    }

    async fn until(&self, reached: impl Fn(&Counts) -> bool) -> Counts {
        loop {
            let counts = self.site.counters.counts();
            if reached(&counts) {
                return counts;
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn next(orders: &mut mpsc::Receiver<Order>) -> (Value, Reply) {
    match orders.recv().await.unwrap() {
        Order::Invoke(Function::Ingest, event, reply) => (event, reply),
        other => panic!("ingest was not asked: {other:?}"),
    }
}

fn unavailable() -> Result<Value, InvokeError> {
    Err(InvokeError { error_type: "StoreUnavailable".to_owned(), message: "not now".to_owned() })
}

fn id_of(event: &Value) -> String {
    match parse(event).unwrap() {
        Event::One(message) => message.id.to_string(),
        Event::Batch(_) => panic!("a batch"),
    }
}

#[tokio::test]
async fn the_event_is_what_ingest_parses() {
    let stage = Stage::new();
    let mut east = stage.play("east");
    stage.publish("pump-1", &[0x00, 0xFF]).await;
    let (event, _reply) = next(&mut east).await;
    let Event::One(message) = parse(&event).unwrap() else { panic!("a batch") };
    assert_eq!(message.payload, [0x00, 0xFF]);
    assert_eq!((message.topic.as_str(), message.client_id.as_deref()), ("telemetry/pump", Some("pump-1")));
    assert_eq!(message.device_message_id.as_deref(), Some("d-7"));
    assert_eq!(message.received_at, Some(Timestamp::from_ms(1_800_000_000_000)));
    assert_eq!(message.id.as_str(), event["trace_id"]);
    assert_ne!(event["trace_id"], event["message_id"]);
}

#[tokio::test]
async fn a_failing_ingest_gets_the_same_event_three_times_then_in_batches_until_it_takes_it() {
    let stage = Stage::new();
    let mut east = stage.play("east");
    stage.publish("pump-1", b"one").await;
    let (first, reply) = next(&mut east).await;
    reply.send(unavailable()).unwrap();
    for _ in 1..3 {
        let (again, reply) = next(&mut east).await;
        assert_eq!(again, first);
        reply.send(unavailable()).unwrap();
    }
    for taken in [false, true] {
        let (batch, reply) = next(&mut east).await;
        let Event::Batch(records) = parse(&batch).unwrap() else { panic!("no batch: {batch}") };
        let [record] = records.as_slice() else { panic!("{} records", records.len()) };
        let message = record.message.as_ref().unwrap();
        assert_eq!((message.id.to_string(), message.payload.as_slice()), (id_of(&first), b"one".as_slice()));
        let counts = stage.site.counters.counts();
        assert_eq!((counts.rule_waiting, counts.ingest_failures, counts.ingested), (1, 1, 0));
        let failures = if taken { json!([]) } else { json!([{ "itemIdentifier": record.item_identifier }]) };
        reply.send(Ok(json!({ "batchItemFailures": failures }))).unwrap();
    }
    let counts = stage.until(|counts| counts.rule_waiting == 0).await;
    assert_eq!((counts.recovered, counts.ingest_failures), (1, 0));
    let told = stage.told.lock().unwrap();
    let kept: Vec<bool> = told
        .iter()
        .filter_map(|(event, _)| match event {
            WorldEvent::IngestFailed { kept, .. } => Some(*kept),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [false, false, true, true]);
    assert!(
        told.iter().any(|(event, _)| matches!(event, WorldEvent::Ingested { outcome: IngestOutcome::Recovered, .. }))
    );
}

#[tokio::test]
async fn a_region_that_dies_in_the_call_costs_no_try_and_its_devices_connect_to_the_next() {
    let stage = Stage::new();
    let mut east = stage.play("east");
    stage.publish("pump-1", b"one").await;
    let mut last = None;
    for _ in 0..5 {
        let (event, reply) = next(&mut east).await;
        assert!(last.as_ref().is_none_or(|last| *last == event), "the same event each time");
        last = Some(event);
        stage.regions.play("east", None);
        drop((reply, east));
        east = stage.play("east");
    }
    let (_, reply) = next(&mut east).await;
    stage.regions.play("east", None);
    let mut west = stage.play("west");
    drop(reply);
    let (event, reply) = next(&mut west).await;
    assert_eq!(Some(&event), last.as_ref());
    reply.send(Ok(json!({ "outcome": "stored", "message_id": id_of(&event) }))).unwrap();
    stage.until(|counts| counts.ingested == 1).await;
    let told = stage.told.lock().unwrap();
    assert!(!told.iter().any(|(event, _)| matches!(event, WorldEvent::IngestFailed { .. })));
}

#[tokio::test]
async fn an_acknowledgement_is_told_before_it_is_counted() {
    let stage = Stage::new();
    let mut east = stage.play("east");
    stage.publish("pump-1", b"one").await;
    let (event, reply) = next(&mut east).await;
    assert_eq!(stage.site.counters.counts().rule_waiting, 1);
    reply.send(Ok(json!({ "outcome": "duplicate", "message_id": id_of(&event) }))).unwrap();
    let counts = stage.until(|counts| counts.rule_waiting == 0).await;
    assert_eq!((counts.ingested, counts.duplicates_ingest), (0, 1));
    let told = stage.told.lock().unwrap();
    let told_as = |event: &WorldEvent| matches!(event, WorldEvent::Ingested { outcome: IngestOutcome::Duplicate, .. });
    assert!(told.iter().any(|(event, waiting)| told_as(event) && *waiting == 1));
}
