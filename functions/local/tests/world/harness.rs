//! A world with a publisher and somebody who remembers what was told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_local::world::{AuditReport, LeaseView, Ports, World, WorldError, WorldEvent, WorldOptions};
use fencepost_protocol::ids::PayloadDigest;
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::clock::SystemClock;
use rumqttc::{AsyncClient, Event, Incoming, MqttOptions, QoS};

/// A guard against waiting for ever; no test judges a time by it. Longer than a schedule's minute: what a busy machine's
/// stream gave up comes with the next one.
const LIMIT: Duration = Duration::from_secs(150);

/// How an execution ends whose calls waited too long, or that lost its lease over it.
const OF_A_BUSY_MACHINE: [&str; 4] = ["StoreTimedOut", "StoreUnavailable", "Sandbox.Timedout", "Superseded"];

/// What was told, with the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<(Timestamp, WorldEvent)>>>);

impl Told {
    /// What `pick` makes of the events, in order.
    pub(crate) fn all<T>(&self, pick: impl Fn(&WorldEvent) -> Option<T>) -> Vec<T> {
        self.0.lock().unwrap().iter().filter_map(|(_, event)| pick(event)).collect()
    }

    /// Troubles of the world and failures of executions: none is expected unless a test says so. An execution that a busy
    /// machine kept waiting may fail; the next one goes on.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.all(|event| match event {
            WorldEvent::ExecutionFailed { error, .. } if OF_A_BUSY_MACHINE.contains(&error.as_str()) => None,
            WorldEvent::Trouble { .. } | WorldEvent::ExecutionFailed { .. } => Some(format!("{event:?}")),
            _ => None,
        })
    }

    /// The tokens of the takeovers that completed.
    pub(crate) fn takeovers_completed(&self) -> Vec<u64> {
        self.all(|event| match event {
            WorldEvent::TakeoverCompleted { token, .. } => Some(*token),
            _ => None,
        })
    }

    /// Acquisitions: instance, token, moment.
    pub(crate) fn acquisitions(&self) -> Vec<(String, u64, u64)> {
        self.all(|event| match event {
            WorldEvent::Lease { instance, transition, token: Some(token), at_ms, .. }
                if ["Lease Acquired", "Lease Seized", "Lease Reclaimed"].contains(&transition.as_str()) =>
            {
                Some((instance.to_string(), *token, *at_ms))
            }
            _ => None,
        })
    }
}

/// In memory, on free ports, with short durations: a crash is over after about eight seconds, a stale claim after ten.
pub(crate) fn options() -> WorldOptions {
    let settings = [
        ("FENCEPOST_LEASE_TTL", "5s"),
        ("FENCEPOST_RENEW_INTERVAL", "1s"),
        ("FENCEPOST_RENEW_CALL_TIMEOUT", "1s"),
        ("FENCEPOST_STEP_DOWN_GRACE", "3s"),
        ("FENCEPOST_CLAIM_BUDGET", "1s"),
        ("FENCEPOST_SEND_TIMEOUT", "1s"),
        ("FENCEPOST_DRAINER_LIMIT", "5s"),
        ("FENCEPOST_STALE_CLAIM_DURATION", "10s"),
    ];
    WorldOptions {
        ports: Ports::any(),
        keep_history: true,
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..WorldOptions::default()
    }
}

/// As [`options`], but nobody seizes the lease from a leader that this machine keeps waiting for less than two minutes.
pub(crate) fn options_of_one_leader() -> WorldOptions {
    let mut options = options();
    options.settings.extend([("FENCEPOST_LEASE_TTL".to_owned(), "2m".to_owned())]);
    options
}

/// A directory of its own, gone with the value.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("fencepost-world-{name}-{}", uuid::Uuid::new_v4())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub(crate) async fn try_start(options: WorldOptions) -> Result<(World, Told), WorldError> {
    let told = Told::default();
    let events = Arc::clone(&told.0);
    let observer = move |at: Timestamp, event: &WorldEvent| events.lock().unwrap().push((at, event.clone()));
    let world = World::start(options, Arc::new(SystemClock::new()), Arc::new(observer)).await?;
    Ok((world, told))
}

pub(crate) async fn start(options: WorldOptions) -> (World, Told) {
    try_start(options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Publishes with QoS 1 as one client, in order, and returns when everything is acknowledged.
pub(crate) async fn publish(world: &World, client_id: &str, topic: &str, payloads: &[Vec<u8>]) {
    let mut options = MqttOptions::new(client_id, "127.0.0.1", world.mqtt_addr().port());
    options.set_max_packet_size(300_000, 300_000);
    let (client, mut events) = AsyncClient::new(options, payloads.len().max(1));
    events.network_options.set_connection_timeout(LIMIT.as_secs());
    for payload in payloads {
        client.publish(topic, QoS::AtLeastOnce, false, payload.clone()).await.unwrap();
    }
    let mut acknowledged = 0;
    while acknowledged < payloads.len() {
        let event = tokio::time::timeout(LIMIT, events.poll()).await.expect("the broker answers").unwrap();
        acknowledged += usize::from(matches!(event, Event::Incoming(Incoming::PubAck(_))));
    }
}

impl Drop for Told {
    /// A failed test shows what happened in it.
    #[expect(clippy::print_stdout, reason = "a test's output is shown where the test fails")]
    fn drop(&mut self) {
        if std::thread::panicking() && Arc::strong_count(&self.0) <= 2 {
            for (at, event) in self.0.lock().unwrap().iter() {
                println!("{} {event:?}", at.as_ms() % 10_000_000);
            }
        }
    }
}

/// Waits until `reached` tells so.
pub(crate) async fn until(what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// Waits until ingest has acknowledged everything, a try's lost answer that the next one found as a duplicate included.
pub(crate) async fn until_ingest_has(world: &World, published: u64) {
    until("ingest has everything", async || {
        let counts = world.counts();
        counts.published == published && counts.rule_waiting == 0
    })
    .await;
}

/// Waits until nothing is on its way: ingest has everything, and the outbox is empty.
pub(crate) async fn until_at_rest(world: &World, published: u64) {
    until_ingest_has(world, published).await;
    until("the outbox is empty", async || world.outstanding().await.unwrap() == 0).await;
}

pub(crate) async fn until_led_by(world: &World, name: &str) {
    until("the instance leads", async || {
        let lease = world.lease().await.unwrap();
        lease.and_then(|lease| lease.owner).is_some_and(|owner| owner.name.as_str() == name)
    })
    .await;
}

/// Who leads.
pub(crate) async fn leader(world: &World) -> String {
    let mut found = None;
    until("somebody leads", async || {
        found = world.lease().await.unwrap().and_then(|lease| lease.owner).map(|owner| owner.name.to_string());
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// Kills who leads. Gives its name, and the lease row that it left.
pub(crate) async fn kill_the_leader(world: &World) -> (String, LeaseView) {
    loop {
        let led = leader(world).await;
        world.kill(&led).await.unwrap();
        let left = world.lease().await.unwrap().unwrap();
        if left.owner.as_ref().is_some_and(|owner| owner.name.as_str() == led) {
            return (led, left);
        }
        // It was seized from a slow one in between.
        world.start_instance(&led).await.unwrap();
    }
}

/// The one that is not `name`.
pub(crate) fn other(name: &str) -> &'static str {
    if name == "east" { "west" } else { "east" }
}

/// Audits, and checks that exactly these payloads were delivered, each at least once, with nothing broken.
pub(crate) async fn assert_delivered(world: &World, payloads: &[Vec<u8>]) -> AuditReport {
    let report = world.audit().await.unwrap();
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert!(report.committed_twice.is_empty(), "{:?}", report.committed_twice);
    assert!(report.undecodable.is_empty() && report.damaged.is_empty(), "{report:?}");
    assert!(report.dead.is_empty() && report.outstanding.is_empty(), "{report:?}");
    let mut delivered: BTreeMap<&str, &PayloadDigest> = BTreeMap::new();
    for message in &report.delivered {
        if let Some(before) = delivered.insert(&message.message_id, &message.digest) {
            assert_eq!(before, &message.digest, "{} came with two payloads", message.message_id);
        }
    }
    let mut got: Vec<PayloadDigest> = delivered.values().map(|digest| (*digest).clone()).collect();
    let mut wanted: Vec<PayloadDigest> = payloads.iter().map(|payload| PayloadDigest::of(payload)).collect();
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted);
    report
}

/// `count` payloads, every second one binary.
pub(crate) fn telemetry(prefix: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|n| {
            let mut payload = format!("{{\"device\":\"{prefix}\",\"n\":{n}}}").into_bytes();
            if n % 2 == 1 {
                payload.extend([0x00, 0xFF]);
            }
            payload
        })
        .collect()
}
