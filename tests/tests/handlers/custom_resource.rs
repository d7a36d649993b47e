//! CloudFormation asks the lease function: it is answered by one PUT, whatever happens.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_lease::{Entry, LeaseFunction};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::tables::{Replication, TableFacts};
use fencepost_runtime::clock::Clock;
use fencepost_runtime::failure::{ErrorType, FunctionError};
use fencepost_runtime::lambda::Limit;
use fencepost_storage::memory::{Effect, Fault, MemoryTableInspection, Script};
use fencepost_storage::operation;
use fencepost_tests::harness::{Harness, Instance};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The lifecycle function's own time limit, less what the runtime keeps back.
const BUDGET: Duration = Duration::from_secs(74);

/// Where CloudFormation waits for the answer.
struct Waiting {
    url: String,
    answers: mpsc::UnboundedReceiver<Value>,
}

impl Waiting {
    /// Refuses the first `refusals` answers with `status`.
    async fn refusing(refusals: usize, status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/answer?Signature=secret", listener.local_addr().unwrap());
        let (sender, answers) = mpsc::unbounded_channel();
        let left = AtomicUsize::new(refusals);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut read = Vec::new();
                let body: Option<Value> = loop {
                    if connection.read_buf(&mut read).await.unwrap() == 0 {
                        break None;
                    }
                    let text = String::from_utf8_lossy(&read).into_owned();
                    assert!(text.starts_with("PUT /answer?Signature=secret "), "{text}");
                    let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
                    if let Ok(body) = serde_json::from_str(body) {
                        break Some(body);
                    }
                };
                let Some(body) = body else { continue };
                let refused = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
                let status = if refused { status } else { 200 };
                let reply = format!("HTTP/1.1 {status} Stub\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                connection.write_all(reply.as_bytes()).await.unwrap();
                sender.send(json!({ "status": status, "body": body })).unwrap();
            }
        });
        Self { url, answers }
    }

    async fn open() -> Self {
        Self::refusing(0, 200).await
    }

    /// Every answer so far, those that were refused included.
    fn received(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.answers.try_recv().ok()).collect()
    }

    fn request(&self, kind: &str, resource: &str, properties: Value) -> Value {
        json!({
            "RequestType": kind,
            "ResponseURL": self.url,
            "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/east/5b918d10",
            "RequestId": "1f0e2d3c",
            "ResourceType": resource,
            "LogicalResourceId": "Resource",
            "ResourceProperties": properties,
        })
    }
}

/// Lets a second pass each time that nothing else can go on, and the instance tick in it.
async fn while_time_passes<T>(
    harness: &Harness,
    mut ticking: Option<&mut Instance>,
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    loop {
        // Real time only for the loopback connection; every wait of the code is on the harness's clock.
        match tokio::time::timeout(Duration::from_millis(50), &mut work).await {
            Ok(done) => return done,
            Err(_) => {
                harness.clock.advance(Duration::from_secs(1));
                if let Some(instance) = ticking.as_deref_mut() {
                    instance.tick().await;
                }
            }
        }
    }
}

fn limit(harness: &Harness) -> Limit {
    Limit::new(harness.clock.now(), BUDGET)
}

fn entry<'a>(
    harness: &'a Harness,
    name: &'a str,
) -> Entry<impl Fn() -> std::future::Ready<Result<LeaseFunction, FunctionError>> + 'a> {
    let clock: Arc<dyn Clock> = Arc::clone(&harness.clock) as Arc<dyn Clock>;
    let inspection = Arc::new(MemoryTableInspection::default());
    Entry::new(clock, inspection, move || std::future::ready(Ok(harness.instance(name).lease))).unwrap()
}

fn wrong_settings() -> FunctionError {
    FunctionError::new(ErrorType::SettingsInvalid, "FENCEPOST_LEASE_TTL is wrong")
}

#[tokio::test]
async fn a_deletion_releases_the_lease_at_once_where_nothing_is_in_flight() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    let mut waiting = Waiting::open().await;
    let request = waiting.request("Delete", "Custom::FencepostLease", json!({}));
    entry(&harness, "east").handle(request, &limit(&harness)).await.unwrap();
    let answers = waiting.received();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["body"]["Status"], "SUCCESS");
    assert_eq!(answers[0]["body"]["Reason"], "the lease is released");
    assert_eq!(answers[0]["body"]["PhysicalResourceId"], "fencepost-Resource-5b918d10");
    // A loop that still runs does not take it back; another instance has it at its first tick.
    assert_eq!(east.tick().await["role"], "abstaining");
    assert_eq!(harness.instance("west").tick().await["token"], 2);
}

#[tokio::test]
async fn a_deletion_waits_for_the_tick_that_releases() {
    let harness = Harness::with(&[("FENCEPOST_SOURCE", "gated")]);
    let mut east = harness.instance("east");
    east.tick().await;
    east.lease(json!({ "command": "source", "enabled": true })).await.unwrap();
    let mut waiting = Waiting::open().await;
    let request = waiting.request("Delete", "Custom::FencepostLease", json!({}));
    let (entry, limit) = (entry(&harness, "east"), limit(&harness));
    while_time_passes(&harness, Some(&mut east), entry.handle(request, &limit)).await.unwrap();
    assert_eq!(waiting.received()[0]["body"]["Reason"], "the lease is released");
    assert!(limit.remaining(harness.clock.now()) > Duration::from_secs(40), "one grace and two ticks at most");
}

#[tokio::test]
async fn a_deletion_finishes_the_release_itself_where_no_tick_does() {
    let harness = Harness::with(&[("FENCEPOST_SOURCE", "gated")]);
    let mut east = harness.instance("east");
    east.tick().await;
    east.lease(json!({ "command": "source", "enabled": true })).await.unwrap();
    let mut waiting = Waiting::open().await;
    let request = waiting.request("Delete", "Custom::FencepostLease", json!({}));
    let (entry, limit) = (entry(&harness, "east"), limit(&harness));
    while_time_passes(&harness, None, entry.handle(request, &limit)).await.unwrap();
    assert_eq!(waiting.received()[0]["body"]["Reason"], "the lease is released");
    assert!(
        limit.remaining(harness.clock.now()) > Duration::from_secs(40),
        "the grace, or the deadline, ends the wait"
    );
}

#[tokio::test]
async fn a_deletion_succeeds_in_time_where_the_lease_cannot_be_released() {
    let harness = Harness::new();
    harness.instance("east").tick().await;
    for call in 1..=100 {
        harness.faults.set(operation::READ_GROUP, call, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    }
    let mut waiting = Waiting::open().await;
    let request = waiting.request("Delete", "Custom::FencepostLease", json!({}));
    let (entry, limit) = (entry(&harness, "east"), limit(&harness));
    while_time_passes(&harness, None, entry.handle(request, &limit)).await.unwrap();
    let answers = waiting.received();
    assert_eq!(answers[0]["body"]["Status"], "SUCCESS");
    assert!(answers[0]["body"]["Reason"].as_str().unwrap().contains("its TTL ends it"), "{answers:?}");
    let left = limit.remaining(harness.clock.now());
    assert!(left > Duration::from_secs(15), "{left:?} is too little for the answer's three tries");
    assert!(left < Duration::from_secs(25), "{left:?}: it was given up early");
}

#[tokio::test]
async fn a_deletion_outlasts_a_store_that_fails_for_a_while_and_survives_one_that_denies() {
    let harness = Harness::new();
    harness.instance("east").tick().await;
    for call in 1..=3 {
        harness.faults.set(operation::READ_GROUP, call, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    }
    let mut waiting = Waiting::open().await;
    let request = waiting.request("Delete", "Custom::FencepostLease", json!({}));
    let entry = entry(&harness, "east");
    let limit = limit(&harness);
    while_time_passes(&harness, None, entry.handle(request.clone(), &limit)).await.unwrap();
    assert_eq!(waiting.received()[0]["body"]["Reason"], "the lease is released");

    harness.faults.set(operation::READ_GROUP, 5, Fault::of(Effect::FailBefore(FailureKind::Denied)));
    let again = Limit::new(harness.clock.now(), BUDGET);
    while_time_passes(&harness, None, entry.handle(request, &again)).await.unwrap();
    let answers = waiting.received();
    assert_eq!(answers[0]["body"]["Status"], "SUCCESS");
    assert!(answers[0]["body"]["Reason"].as_str().unwrap().contains("denied"), "{answers:?}");
}

#[tokio::test]
async fn wrong_settings_in_the_environment_keep_nobody_waiting() {
    let harness = Harness::new();
    let clock: Arc<dyn Clock> = Arc::clone(&harness.clock) as Arc<dyn Clock>;
    let inspection = Arc::new(MemoryTableInspection::default());
    let entry = Entry::open(clock, inspection, || std::future::ready(Err(wrong_settings()))).await.unwrap();
    let mut waiting = Waiting::open().await;
    let properties = json!({ "FENCEPOST_LEASE_TTL": "3s" });
    let create = waiting.request("Create", "Custom::FencepostSettings", properties);
    let delete = waiting.request("Delete", "Custom::FencepostLease", json!({}));
    entry.handle(create, &limit(&harness)).await.unwrap();
    entry.handle(delete, &limit(&harness)).await.unwrap();
    let answers = waiting.received();
    assert_eq!(answers[0]["body"]["Status"], "FAILED");
    for name in ["FENCEPOST_LEASE_TTL", "FENCEPOST_QUEUE_URL", "FENCEPOST_LEASE_TABLE"] {
        assert!(answers[0]["body"]["Reason"].as_str().unwrap().contains(name), "{name}: {answers:?}");
    }
    assert_eq!(answers[1]["body"]["Status"], "SUCCESS");
    // Our own commands are told so, as before.
    let error = entry.handle(json!({ "command": "status" }), &limit(&harness)).await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::SettingsInvalid);
}

#[tokio::test]
async fn an_answer_is_tried_three_times_and_then_the_invocation_fails() {
    let harness = Harness::new();
    let entry = entry(&harness, "east");
    let mut waiting = Waiting::refusing(2, 503).await;
    let request = waiting.request("Create", "Custom::FencepostLease", json!({}));
    while_time_passes(&harness, None, entry.handle(request, &limit(&harness))).await.unwrap();
    let statuses: Vec<_> = waiting.received().iter().map(|answer| answer["status"].clone()).collect();
    assert_eq!(statuses, [503, 503, 200]);

    let mut waiting = Waiting::refusing(9, 503).await;
    let request = waiting.request("Create", "Custom::FencepostLease", json!({}));
    let error = while_time_passes(&harness, None, entry.handle(request, &limit(&harness))).await.unwrap_err();
    assert_eq!((error.error_type, waiting.received().len()), (ErrorType::StoreUnavailable, 3));
    assert!(!error.message.contains("secret"), "{error}");

    // An address whose signature has expired stays so.
    let mut waiting = Waiting::refusing(9, 403).await;
    let request = waiting.request("Create", "Custom::FencepostLease", json!({}));
    let error = while_time_passes(&harness, None, entry.handle(request, &limit(&harness))).await.unwrap_err();
    assert_eq!((error.error_type, waiting.received().len()), (ErrorType::AccessDenied, 1));
}

const CREATE: &str = include_str!("../../../functions/lease/events/custom_resource_create.json");

/// The settings of the sample, and an inspection that meets `faults` and knows its tables.
fn sample_tables(faults: &Script) -> (Value, MemoryTableInspection) {
    let sample: Value = serde_json::from_str(CREATE).unwrap();
    let settings = sample["ResourceProperties"].clone();
    let inspection = MemoryTableInspection::default().with_faults(Arc::new(faults.clone()));
    for (setting, expires_by) in [("FENCEPOST_LEASE_TABLE", None), ("FENCEPOST_OUTBOX_TABLE", Some("expires_at"))] {
        let facts = TableFacts {
            has_our_keys: true,
            replication: Replication::OneRegion,
            expires_by: expires_by.map(str::to_owned),
        };
        inspection.tell(settings[setting].as_str().unwrap(), facts);
    }
    (settings, inspection)
}

/// The answer to a new stack with these settings, and how much of the limit is left.
async fn made(settings: Value, inspection: MemoryTableInspection) -> (Value, Duration) {
    let harness = Harness::new();
    let clock: Arc<dyn Clock> = Arc::clone(&harness.clock) as Arc<dyn Clock>;
    // No function is built for it: its settings may be the wrong ones that are being replaced.
    let entry = Entry::new(clock, Arc::new(inspection), || std::future::ready(Err(wrong_settings()))).unwrap();
    let mut waiting = Waiting::open().await;
    let request = waiting.request("Create", "Custom::FencepostSettings", settings);
    let limit = limit(&harness);
    while_time_passes(&harness, None, entry.handle(request, &limit)).await.unwrap();
    (waiting.received().remove(0)["body"].clone(), limit.remaining(harness.clock.now()))
}

#[tokio::test]
async fn a_stack_with_sound_settings_and_fit_tables_is_made() {
    let (settings, inspection) = sample_tables(&Script::default());
    let (answer, _) = made(settings, inspection).await;
    assert_eq!(answer["Status"], "SUCCESS", "{answer}");
    assert!(answer["Data"]["SettingsDigest"].is_string(), "{answer}");
}

#[tokio::test]
async fn an_eventually_consistent_table_is_refused_with_the_reason() {
    let (settings, inspection) = sample_tables(&Script::default());
    let name = settings["FENCEPOST_LEASE_TABLE"].as_str().unwrap();
    let facts = TableFacts { has_our_keys: true, replication: Replication::Eventual, expires_by: None };
    inspection.tell(name, facts);
    let (answer, _) = made(settings, inspection).await;
    let reason = answer["Reason"].as_str().unwrap();
    assert_eq!(answer["Status"], "FAILED");
    assert!(reason.contains("FENCEPOST_LEASE_TABLE") && reason.contains("last writer wins"), "{reason}");
}

#[tokio::test]
async fn a_table_that_is_not_there_is_refused_at_once() {
    let (mut settings, inspection) = sample_tables(&Script::default());
    settings["FENCEPOST_OUTBOX_TABLE"] = json!("nowhere");
    let (answer, left) = made(settings, inspection).await;
    assert_eq!(answer["Status"], "FAILED");
    assert!(answer["Reason"].as_str().unwrap().contains("nowhere"), "{answer}");
    assert!(left > BUDGET - Duration::from_secs(3), "{left:?} is left: it was tried again");
}

#[tokio::test]
async fn a_role_that_is_too_young_is_waited_for_and_one_that_lacks_the_right_is_told() {
    let faults = Script::default();
    for (call, kind) in [(1, FailureKind::Denied), (2, FailureKind::Unavailable), (3, FailureKind::Denied)] {
        faults.set(operation::INSPECT, call, Fault::of(Effect::FailBefore(kind)));
    }
    let (settings, inspection) = sample_tables(&faults);
    let (answer, left) = made(settings.clone(), inspection.clone()).await;
    assert_eq!(answer["Status"], "SUCCESS", "{answer}");
    assert!(left <= BUDGET - Duration::from_secs(6), "three pauses were made: {left:?}");

    for call in 1..=100 {
        faults.set(operation::INSPECT, call, Fault::of(Effect::FailBefore(FailureKind::Denied)));
    }
    let (answer, left) = made(settings, inspection).await;
    assert_eq!(answer["Status"], "FAILED");
    assert!(answer["Reason"].as_str().unwrap().contains("denied"), "{answer}");
    assert!(left > Duration::from_secs(15), "{left:?} is too little for the answer's three tries");
    assert!(left < Duration::from_secs(25), "{left:?}: it was given up early");
}
