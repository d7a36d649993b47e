//! The shipped handlers over the memory stores, on a clock that moves only when it is told to.
//!
//! Several instances share one pair of tables and one queue. Faults are placed at exact calls through [`Harness::faults`] (all
//! tables of an instance), [`Harness::queue_faults`] and [`Harness::bus_faults`].

pub mod sdk;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_drainer::DrainerFunction;
use fencepost_ingest::IngestFunction;
use fencepost_lease::LeaseFunction;
use fencepost_protocol::body::{BodyFormat, QueueEntry, decode_body};
use fencepost_protocol::ids::Shard;
use fencepost_protocol::outbox::OutboxRow;
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::clock::{Clock, ManualClock};
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::ids::SeededIds;
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::settings::{Function, Settings};
use fencepost_runtime::telemetry::CollectedMetrics;
use fencepost_runtime::wiring::{Edge, Stores};
use fencepost_storage::memory::{
    MemoryEventBus, MemoryLeaseStore, MemoryOutbox, MemoryQueue, MemorySource, MemoryTables, QueueKind, Script,
};
use fencepost_storage::{EventBus, LeaseStore, Outbox, Queue, Source};
use serde_json::{Value, json};

/// A morning in November 2023.
pub const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);

/// Both shards of the harness's settings.
const SHARDS: [&str; 2] = ["telemetry#0000", "telemetry#0001"];

/// Tables, queue, source and clock of a group of instances.
pub struct Harness {
    /// Both tables.
    pub tables: MemoryTables,
    /// The destination.
    pub queue: MemoryQueue,
    /// The topic rule, where the source is gated.
    pub source: MemorySource,
    /// The event bus that drainers put their events on.
    pub bus: MemoryEventBus,
    /// The clock of every instance.
    pub clock: Arc<ManualClock>,
    /// Faults of the tables' calls, by operation and call number of each instance.
    pub faults: Script,
    /// Faults of the queue's calls.
    pub queue_faults: Script,
    /// Faults of the event bus's calls.
    pub bus_faults: Script,
    extra: Vec<(&'static str, &'static str)>,
    processes: AtomicU64,
}

/// One instance: its three handlers and what they measured.
pub struct Instance {
    /// Stores messages.
    pub ingest: IngestFunction,
    /// Ticks.
    pub lease: LeaseFunction,
    /// Drains.
    pub drainer: DrainerFunction,
    /// Every metric that it emitted.
    pub metrics: Arc<CollectedMetrics>,
    /// The outbox as it sees it.
    pub outbox: Arc<dyn Outbox>,
    /// What the loop hands from tick to tick.
    pub carried: Value,
    /// The start of the loop that ticks it, and the loop's name.
    pub loop_id: (Timestamp, String),
    clock: Arc<ManualClock>,
}

impl Harness {
    /// A group on a standard queue, profile `fast`.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// A group with further settings (`FENCEPOST_…`), which win over the defaults.
    pub fn with(extra: &[(&'static str, &'static str)]) -> Self {
        let is_fifo = extra.iter().any(|(name, url)| *name == "FENCEPOST_QUEUE_URL" && url.ends_with(".fifo"));
        let kind = if is_fifo { QueueKind::Fifo } else { QueueKind::Standard };
        let queue_faults = Script::default();
        let bus_faults = Script::default();
        Self {
            tables: MemoryTables::new(),
            queue: MemoryQueue::new(kind).with_faults(Arc::new(queue_faults.clone())),
            source: MemorySource::new(false),
            bus: MemoryEventBus::new().with_faults(Arc::new(bus_faults.clone())),
            clock: Arc::new(ManualClock::new(START)),
            faults: Script::default(),
            queue_faults,
            bus_faults,
            extra: extra.to_vec(),
            processes: AtomicU64::new(0),
        }
    }

    /// A cold process of instance `name`.
    pub fn instance(&self, name: &str) -> Instance {
        let settings = settings(name, &self.extra);
        let faults = Arc::new(self.faults.clone());
        let leases: Arc<dyn LeaseStore> =
            Arc::new(MemoryLeaseStore::new(self.tables.clone()).with_faults(faults.clone()));
        let outbox: Arc<dyn Outbox> = Arc::new(MemoryOutbox::new(self.tables.clone()).with_faults(faults));
        let stores =
            Stores { leases: Arc::clone(&leases), hasty_leases: Arc::clone(&leases), outbox: Arc::clone(&outbox) };
        let seed = SeedOf { name, process: self.processes.fetch_add(1, Ordering::Relaxed) };
        let source: Arc<dyn Source> = Arc::new(self.source.clone());
        let (queue, bus) = (Arc::new(self.queue.clone()), Arc::new(self.bus.clone()));
        Instance::over(&settings, &stores, queue, bus, Some(source), Arc::clone(&self.clock), seed)
    }

    /// The exact bytes of every message in the queue, sorted.
    pub fn delivered(&self) -> Vec<Vec<u8>> {
        let mut bytes: Vec<_> = self.queue.accepted().iter().map(bytes_of).collect();
        bytes.sort();
        bytes
    }
}

impl Default for Harness {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes that a message in the queue stands for.
pub fn bytes_of(entry: &QueueEntry) -> Vec<u8> {
    decode_body(BodyFormat::Raw, &entry.body, &entry.attributes).expect("the bridge's own body decodes")
}

/// A rule event, as the topic rule makes it.
pub fn rule_event(id: &str, topic: &str, payload: &[u8]) -> Value {
    use base64::Engine as _;
    let payload = base64::engine::general_purpose::STANDARD.encode(payload);
    json!({
        "schema": 1,
        "payload": payload,
        "topic": topic,
        "client_id": topic.rsplit('/').next(),
        "received_at": START.as_ms(),
        "trace_id": id,
        "message_id": format!("uuid-{id}"),
    })
}

/// The settings of instance `name`: two shards, profile `fast`, and `extra` (`FENCEPOST_…`), which wins over the defaults.
///
/// # Panics
/// The settings are refused.
pub fn settings(name: &str, extra: &[(&str, &str)]) -> Settings {
    let defaults = [
        ("FENCEPOST_LEASE", "telemetry"),
        ("FENCEPOST_INSTANCE", name),
        ("FENCEPOST_STACK", name),
        ("FENCEPOST_PROFILE", "fast"),
        ("FENCEPOST_SHARDS", "2"),
        ("FENCEPOST_LEASE_TABLE", "lease"),
        ("FENCEPOST_OUTBOX_TABLE", "outbox"),
        ("FENCEPOST_QUEUE_URL", "http://127.0.0.1/queue"),
        ("FENCEPOST_TOPIC_RULE", "rule"),
    ];
    let kept = defaults.iter().filter(|(name, _)| !extra.iter().any(|(other, _)| other == name));
    let pairs = kept.chain(extra).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::parse(&Function::ALL, pairs).expect("the harness's settings are sound")
}

/// What a process draws its ids from: no two processes of a test make the same id.
#[derive(Debug, Clone, Copy)]
pub struct SeedOf<'a> {
    /// The instance.
    pub name: &'a str,
    /// The how manieth process of the test, from 0.
    pub process: u64,
}

impl SeedOf<'_> {
    fn seed(self) -> u64 {
        let of_name = self.name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        of_name.wrapping_add(self.process.wrapping_mul(1 << 40))
    }
}

impl Instance {
    /// A cold process over any adapters: memory, or the real ones.
    ///
    /// # Panics
    /// The settings name no queue.
    pub fn over(
        settings: &Settings,
        stores: &Stores,
        queue: Arc<dyn Queue>,
        bus: Arc<dyn EventBus>,
        source: Option<Arc<dyn Source>>,
        clock: Arc<ManualClock>,
        seed: SeedOf<'_>,
    ) -> Self {
        let metrics = Arc::new(CollectedMetrics::default());
        let ids = Arc::new(SeededIds::new(seed.seed()));
        let edge = Edge::new(settings, Arc::clone(&clock) as Arc<dyn Clock>, ids, metrics.clone());
        Instance {
            ingest: IngestFunction::new(settings, stores, edge.clone()),
            lease: LeaseFunction::new(settings, stores, source, edge.clone()),
            drainer: DrainerFunction::new(settings, stores, queue, bus, edge).expect("the settings name a queue"),
            metrics,
            outbox: Arc::clone(&stores.outbox),
            carried: Value::Null,
            loop_id: (clock.now().wall, format!("loop-{}", seed.process)),
            clock,
        }
    }

    /// The limit of an invocation that starts now and may take `budget`.
    pub fn limit(&self, budget: Duration) -> Limit {
        Limit::new(self.clock.now(), budget)
    }

    /// Ingests one event.
    ///
    /// # Errors
    /// The function's own.
    pub async fn ingest(&self, event: Value) -> Result<Value, FunctionError> {
        self.ingest.handle(event, &self.limit(Duration::from_secs(10))).await
    }

    /// Ingests one message of one device, whose payload is its id.
    ///
    /// # Errors
    /// The function's own.
    pub async fn store(&self, id: &str) -> Result<Value, FunctionError> {
        self.ingest(rule_event(id, "telemetry/device-1", id.as_bytes())).await
    }

    /// Ingests `count` messages of one device and returns their payloads.
    pub async fn ingest_many(&self, count: usize) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        for number in 0..count {
            let payload = format!("reading {number:04}").into_bytes();
            let event = rule_event(&format!("m{number:04}"), "telemetry/device-1", &payload);
            self.ingest(event).await.expect("ingest stores it");
            payloads.push(payload);
        }
        payloads
    }

    /// Sends the lease function one command.
    ///
    /// # Errors
    /// The function's own.
    pub async fn lease(&self, command: Value) -> Result<Value, FunctionError> {
        self.lease.handle(command, &self.limit(Duration::from_secs(30))).await
    }

    /// One tick of this instance's loop, which carries its variable on.
    pub async fn tick(&mut self) -> Value {
        let (started_at, name) = &self.loop_id;
        let command = json!({
            "command": "tick",
            "loop": { "started_at_ms": started_at, "name": name },
            "carried": self.carried,
        });
        let reply = self.lease(command).await.expect("a tick never raises");
        self.carried = reply["carried"].clone();
        reply
    }

    /// One drain call, with the request's further fields in `more`.
    ///
    /// # Errors
    /// The function's own.
    pub async fn drain(&self, more: Value) -> Result<Value, FunctionError> {
        let mut request = json!({
            "command": "drain",
            "shards": SHARDS,
            "mode": { "kind": "scheduled" },
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            request[name] = value.clone();
        }
        self.drainer.handle(request, &self.limit(Duration::from_secs(10))).await
    }

    /// The outstanding rows of both shards.
    pub async fn outstanding(&self) -> Vec<OutboxRow> {
        outstanding(&*self.outbox).await
    }
}

/// The outstanding rows of both shards.
///
/// # Panics
/// The outbox does not answer.
pub async fn outstanding(outbox: &dyn Outbox) -> Vec<OutboxRow> {
    let mut rows = Vec::new();
    for shard in SHARDS {
        let shard = Shard::parse(shard).expect("a shard");
        let mut after = None;
        loop {
            let page = outbox.page(&shard, after.as_ref(), 1_000).await.expect("the outbox answers");
            rows.extend(page.rows.into_iter().filter_map(|(_, slot)| slot.present().cloned()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    rows
}
