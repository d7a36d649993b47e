//! A laboratory of one lease group: processes of instances over one pair of tables, each process with its own clock, its own
//! ids and its own faults.
//!
//! Cases that are a sequence of ticks and commands run here. What needs loops, schedules or workflows runs in the simulator.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_protocol::ids::LeaseName;
use fencepost_protocol::lease::{GroupRecords, InstanceRecord, InstanceWrite, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::{Fence, OutboxRow, Slot};
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::clock::{Clock, ManualClock};
use fencepost_runtime::telemetry::Metric;
use fencepost_runtime::wiring::Stores;
use fencepost_storage::item::{Item, Value as Attribute};
use fencepost_storage::memory::{
    Effect, Fault, MemoryEventBus, MemoryLeaseStore, MemoryOutbox, MemoryQueue, MemorySource, MemoryTables, QueueKind,
    Script,
};
use fencepost_storage::records::Table;
use fencepost_storage::{LeaseStore, Outbox as _, Source, StoreError, WriteAnswer};
use fencepost_tests::harness::{Instance, START, SeedOf, outstanding, settings};
use serde_json::Value;

/// Settings that win over the laboratory's own.
pub(crate) type Extra<'a> = &'a [(&'a str, &'a str)];

/// The group that every case is about.
pub(crate) fn group() -> LeaseName {
    LeaseName::new("telemetry").unwrap()
}

/// The tables, the queue and the true time.
pub(crate) struct Lab {
    pub(crate) tables: MemoryTables,
    pub(crate) queue: MemoryQueue,
    pub(crate) source: MemorySource,
    extra: Vec<(&'static str, &'static str)>,
    time: Arc<Time>,
    processes: Cell<u64>,
}

/// The true time of a laboratory, and every clock in it.
#[derive(Default)]
pub(crate) struct Time {
    clocks: Mutex<(Duration, Vec<Arc<ManualClock>>)>,
}

impl Time {
    /// Lets `duration` pass, on every clock.
    pub(crate) fn advance(&self, duration: Duration) {
        let mut clocks = self.clocks.lock().unwrap();
        clocks.0 += duration;
        clocks.1.iter().for_each(|clock| clock.advance(duration));
    }

    fn elapsed(&self) -> Duration {
        self.clocks.lock().unwrap().0
    }

    /// A clock that is right.
    fn clock(&self) -> Arc<ManualClock> {
        let mut clocks = self.clocks.lock().unwrap();
        let clock = Arc::new(ManualClock::new(START));
        clock.advance(clocks.0);
        clocks.1.push(Arc::clone(&clock));
        clock
    }
}

/// A lease table whose answers to reads of the group may take their time: the read itself is at once, its answer comes later.
pub(crate) struct SlowAnswers {
    inner: MemoryLeaseStore,
    time: Arc<Time>,
    /// How long each answer from now on takes, in order; no time where it is empty.
    pub(crate) delays: Mutex<VecDeque<Duration>>,
}

#[async_trait]
impl LeaseStore for SlowAnswers {
    async fn read_group(&self, lease: &LeaseName) -> Result<GroupRecords, StoreError> {
        let answer = self.inner.read_group(lease).await;
        let delay = self.delays.lock().unwrap().pop_front().unwrap_or_default();
        self.time.advance(delay);
        answer
    }

    async fn read_lease(&self, lease: &LeaseName) -> Result<Slot<LeaseRecord>, StoreError> {
        self.inner.read_lease(lease).await
    }

    async fn write_lease(&self, write: &LeaseWrite) -> Result<WriteAnswer<LeaseRecord>, StoreError> {
        self.inner.write_lease(write).await
    }

    async fn write_instance(&self, write: &InstanceWrite) -> Result<WriteAnswer<InstanceRecord>, StoreError> {
        self.inner.write_instance(write).await
    }
}

impl Lab {
    /// A laboratory whose instances have the settings `extra` on top of profile `fast`.
    pub(crate) fn new(extra: &[(&'static str, &'static str)]) -> Self {
        Self {
            tables: MemoryTables::new(),
            queue: MemoryQueue::new(QueueKind::Standard),
            source: MemorySource::new(false),
            extra: extra.to_vec(),
            time: Arc::default(),
            processes: Cell::default(),
        }
    }

    /// A cold process of instance `name`.
    pub(crate) fn process(&self, name: &str) -> Process {
        self.process_with(name, &[])
    }

    /// A cold process of instance `name` with settings of its own.
    pub(crate) fn process_with(&self, name: &str, own: Extra<'_>) -> Process {
        let kept = self.extra.iter().filter(|(name, _)| !own.iter().any(|(other, _)| other == name));
        let extra: Vec<(&str, &str)> = kept.chain(own).copied().collect();
        let settings = settings(name, &extra);
        let clock = self.time.clock();
        let faults = Script::default();
        let inner = MemoryLeaseStore::new(self.tables.clone()).with_faults(Arc::new(faults.clone()));
        let answers = Arc::new(SlowAnswers { inner, time: Arc::clone(&self.time), delays: Mutex::default() });
        let leases: Arc<dyn LeaseStore> = answers.clone();
        let outbox = Arc::new(MemoryOutbox::new(self.tables.clone()).with_faults(Arc::new(faults.clone())));
        let stores = Stores { leases: Arc::clone(&leases), hasty_leases: leases, outbox };
        self.processes.set(self.processes.get() + 1);
        let seed = SeedOf { name, process: self.processes.get() };
        let (queue, bus) = (Arc::new(self.queue.clone()), Arc::new(MemoryEventBus::new()));
        let source = Some(Arc::new(self.source.clone()) as Arc<dyn Source>);
        let instance = Instance::over(&settings, &stores, queue, bus, source, Arc::clone(&clock), seed);
        Process { instance, faults, clock, answers }
    }

    /// Lets `duration` pass, on every clock.
    pub(crate) fn advance(&self, duration: Duration) {
        self.time.advance(duration);
    }

    /// Lets milliseconds pass.
    pub(crate) fn advance_ms(&self, ms: u64) {
        self.advance(Duration::from_millis(ms));
    }

    /// How long the laboratory has run, in milliseconds.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.time.elapsed().as_millis()).unwrap()
    }

    /// A second passes and each process ticks, `seconds` times. The replies of the last second.
    pub(crate) async fn pass(&self, seconds: u64, ticking: &mut [&mut Process]) -> Vec<Value> {
        let mut replies = Vec::new();
        for _ in 0..seconds {
            self.advance(Duration::from_secs(1));
            replies.clear();
            for process in ticking.iter_mut() {
                replies.push(process.tick().await);
            }
        }
        replies
    }

    /// The lease row, decoded.
    pub(crate) async fn row(&self) -> LeaseRecord {
        match MemoryLeaseStore::new(self.tables.clone()).read_lease(&group()).await.unwrap() {
            Slot::Present(record) => record,
            other => panic!("no lease row: {other:?}"),
        }
    }

    /// The highest token that the fence admits to have been issued; 0 for none.
    pub(crate) async fn fence(&self) -> u64 {
        match MemoryOutbox::new(self.tables.clone()).read_fence(&group()).await.unwrap() {
            Slot::Present(Fence { highest, .. }) => highest.get(),
            Slot::Absent => 0,
            Slot::Damaged(damage) => panic!("{damage}"),
        }
    }

    /// The lease row as an item.
    pub(crate) fn row_item(&self) -> Item {
        let is_lease_row = |item: &Item| item.get("record") == Some(&Attribute::text("LEASE"));
        self.tables.dump(Table::Lease).into_iter().find(is_lease_row).unwrap()
    }

    /// The outstanding rows of both shards.
    pub(crate) async fn outstanding(&self) -> Vec<OutboxRow> {
        outstanding(&MemoryOutbox::new(self.tables.clone())).await
    }
}

/// An instance as one process has it, on a clock of its own, over stores of its own faults.
pub(crate) struct Process {
    instance: Instance,
    /// Faults of its tables' calls, by operation and number.
    pub(crate) faults: Script,
    clock: Arc<ManualClock>,
    answers: Arc<SlowAnswers>,
}

impl Deref for Process {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Instance {
        &mut self.instance
    }
}

impl Process {
    /// Sets the wall clock of this process's host forward, or back.
    pub(crate) fn step_clock(&self, by_ms: i64) {
        let wall = Timestamp::from_ms(self.clock.now().wall.as_ms().saturating_add_signed(by_ms));
        self.clock.step_wall_to(wall);
    }

    /// The answer to its next read of the group takes so long, on every clock.
    pub(crate) fn next_answer_takes(&self, delay: Duration) {
        self.answers.delays.lock().unwrap().push_back(delay);
    }

    /// The last value of a metric.
    pub(crate) fn last(&self, metric: Metric) -> f64 {
        *self.metrics.values(metric).last().unwrap()
    }
}

/// What a tick's reply says its instance is, and under which token.
pub(crate) fn standing(reply: &Value) -> (&str, Option<u64>) {
    (reply["role"].as_str().unwrap(), reply["token"].as_u64())
}

/// Calls `calls` of `operation` (from 1) meet `effect`.
pub(crate) fn fail(process: &Process, operation: &'static str, calls: RangeInclusive<u64>, effect: &Effect) {
    for call in calls {
        process.faults.set(operation, call, Fault::of(effect.clone()));
    }
}

/// The names of a reply's events.
pub(crate) fn events(reply: &Value) -> Vec<&str> {
    reply["events"].as_array().unwrap().iter().map(|event| event["detail_type"].as_str().unwrap()).collect()
}
