//! A world that a test or a run drives: time passes only in [`World::run_for`] and its kin.

use fencepost_local::shipped::Machine;
use std::sync::Arc;
use std::time::Duration;

use fencepost_local::machine::{Outcome, TaskError};
use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::ids::{FencingToken, Position, Shard};
use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::outbox::{DeadRow, OutboxRow, Slot};
use fencepost_runtime::settings::{Function, Settings};
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::Page;
use fencepost_storage::memory::{MemoryQueue, MemoryTables};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::act::Act;
use super::fault::{CallFault, Fault};
use super::history::History;
use super::intake::Message;
use super::ledger::Published;
use super::observer::Broken;
use super::options::Options;
use super::reached::Reached;
use super::region::Total;
use super::site::{BusEvent, Site};

/// How often it is looked who leads.
const LOOK: Duration = Duration::from_millis(250);
/// How often the lease table is copied, for a restore.
const COPY: Duration = Duration::from_secs(10);

/// Who holds the lease, by the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The instance.
    pub instance: String,
    /// The fencing token.
    pub token: u64,
}

/// A running world. Everything happens inside its calls, on the thread that makes them.
pub struct World {
    runtime: Runtime,
    pub(crate) site: Arc<Site>,
}

impl World {
    /// Builds a world and starts its instances. No time has passed yet.
    ///
    /// # Panics
    /// Where the options make no sound settings: the message names each fault.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime of one thread can be built");
        let guard = runtime.enter();
        let site = Site::build(options);
        for host in site.hosts() {
            host.start(&site);
        }
        let (watching, copying) = (Arc::clone(&site), Arc::clone(&site));
        drop(tokio::spawn(async move {
            loop {
                watching.look_at_leadership();
                tokio::time::sleep(LOOK).await;
            }
        }));
        drop(tokio::spawn(async move {
            loop {
                copying.copy_lease_table();
                tokio::time::sleep(COPY).await;
            }
        }));
        drop(guard);
        Self { runtime, site }
    }

    // ---- time --------------------------------------------------------------------------------------------------

    /// Lets so much time pass.
    pub fn run_for(&mut self, duration: Duration) {
        self.runtime.block_on(async move { tokio::time::sleep(duration).await });
    }

    /// Lets time pass until `moment` of the run; nothing where that is over.
    pub fn run_until(&mut self, moment: Duration) {
        self.runtime.block_on(self.site.time.until(moment));
    }

    /// Lets time pass until `condition` holds, looking every 50 ms, for `most` at most; whether it came to hold.
    pub fn run_until_that(&mut self, most: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let until = self.now() + most;
        while !condition(self) {
            if self.now() >= until {
                return false;
            }
            self.run_for(Duration::from_millis(50));
        }
        true
    }

    /// The true time since the beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        let _guard = self.runtime.enter();
        self.site.now()
    }

    /// Works on the shared part inside the runtime.
    pub(crate) fn entered<T>(&mut self, work: impl FnOnce(&Arc<Site>) -> T) -> T {
        let _guard = self.runtime.enter();
        work(&self.site)
    }

    // ---- doing -------------------------------------------------------------------------------------------------

    /// Does it now.
    pub fn act(&mut self, act: Act) {
        let _guard = self.runtime.enter();
        self.site.act(&act);
    }

    /// Does it at `moment` of the run.
    pub fn at(&mut self, moment: Duration, act: Act) {
        let _guard = self.runtime.enter();
        let site = Arc::clone(&self.site);
        drop(tokio::spawn(async move {
            site.time.until(moment).await;
            site.act(&act);
        }));
    }

    /// The `number`th request of `operation` by the instance (from 1, what an adapter tries again counted) meets `fault`.
    pub fn fault(&mut self, instance: &str, operation: &str, number: u64, fault: CallFault) {
        let index = self.site.host(instance).index;
        self.site.book().place(index, operation, number, fault);
    }

    /// The next request of `operation` by the instance meets `fault`.
    pub fn fault_next(&mut self, instance: &str, operation: &str, fault: CallFault) {
        self.fault_next_times(instance, operation, 1, &fault);
    }

    /// The next `times` requests of `operation` by the instance meet `fault`.
    pub fn fault_next_times(&mut self, instance: &str, operation: &str, times: u64, fault: &CallFault) {
        let from = self.calls(instance, operation);
        for number in 1..=times {
            self.fault(instance, operation, from + number, fault.clone());
        }
    }

    /// Publishes a message; ingest gets it as time passes. Gives its id.
    pub fn publish(&mut self, message: &Message) -> String {
        let _guard = self.runtime.enter();
        self.site.publish(message)
    }

    /// Publishes a message at `moment` of the run.
    pub fn publish_at(&mut self, moment: Duration, message: Message) {
        self.entered(|site| {
            let site = Arc::clone(site);
            drop(tokio::spawn(async move {
                site.time.until(moment).await;
                site.publish(&message);
            }));
        });
    }

    /// Publishes `count` messages of a device at once, and gives their ids.
    pub fn publish_many(&mut self, device: &str, count: usize) -> Vec<String> {
        (0..count)
            .map(|number| self.publish(&Message::new(device, format!("reading {number:04}").into_bytes())))
            .collect()
    }

    /// Invokes a function of the instance and lets time pass until it has answered.
    ///
    /// # Errors
    /// By the name that the platform reports.
    pub fn invoke(&mut self, instance: &str, function: Function, payload: Value) -> Result<Value, TaskError> {
        let (site, host) = (Arc::clone(&self.site), Arc::clone(self.site.host(instance)));
        self.runtime.block_on(async move { host.invoke_apart(&site, function, payload, "test".to_owned()).await })
    }

    /// Runs a machine in the instance to its end, under a fresh name; `None` where the instance died meanwhile.
    pub fn execute(&mut self, instance: &str, machine: Machine, input: Value) -> Option<Outcome> {
        let (site, host) = (Arc::clone(&self.site), Arc::clone(self.site.host(instance)));
        self.runtime.block_on(async move {
            let name = host.next_execution();
            host.execute(&site, machine, name, input).await.ok()
        })
    }

    // ---- looking -----------------------------------------------------------------------------------------------

    /// How many requests of `operation` the instance has made.
    #[must_use]
    pub fn calls(&self, instance: &str, operation: &str) -> u64 {
        let index = self.site.host(instance).index;
        self.site.book().count(index, operation)
    }

    /// The lease row.
    #[must_use]
    pub fn lease(&self) -> Slot<LeaseRecord> {
        self.site.server.lease(&self.site.lease)
    }

    /// Who holds the lease by its row; a holder that is past its deadline still stands there.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        let slot = self.lease();
        let record = slot.present()?;
        let owner = record.owner.as_ref()?;
        Some(Leader { instance: owner.name.to_string(), token: record.token.get() })
    }

    /// The token of the lease row; 0 where there is none.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.lease().present().map_or(0, |record| FencingToken::get(record.token))
    }

    /// Outstanding rows, by shard and position. Damaged ones are left out.
    #[must_use]
    pub fn rows(&self) -> Vec<OutboxRow> {
        self.outstanding().into_iter().filter_map(|slot| slot.present().cloned()).collect()
    }

    /// Everything that stands in the shards, damaged rows too.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Slot<OutboxRow>> {
        let rows = |shard: &Shard| every_page(|after| self.site.server.page_of(shard, after, usize::MAX));
        self.shards().iter().flat_map(rows).collect()
    }

    /// Does nothing stand in the shards? It is asked twenty times a second, so no backlog is decoded for it.
    pub(crate) fn is_drained(&self) -> bool {
        self.shards().iter().all(|shard| self.site.server.page_of(shard, None, 1).rows.is_empty())
    }

    /// Dead records.
    #[must_use]
    pub fn dead(&self) -> Vec<DeadRow> {
        let rows = |shard: &Shard| every_page(|after| self.site.server.dead_page_of(shard, after, usize::MAX));
        self.shards().iter().flat_map(rows).filter_map(|slot| slot.present().cloned()).collect()
    }

    fn shards(&self) -> Vec<Shard> {
        let count = self.settings_of_first().drained_shards();
        (0..count).filter_map(|index| Shard::new(self.site.lease.clone(), index).ok()).collect()
    }

    fn settings_of_first(&self) -> &Settings {
        &self.site.hosts()[0].settings
    }

    /// The settings of an instance.
    #[must_use]
    pub fn settings(&self, instance: &str) -> &Settings {
        &self.site.host(instance).settings
    }

    /// What the queue accepted, in order.
    #[must_use]
    pub fn queue(&self) -> Vec<QueueEntry> {
        self.site.server.queue.accepted()
    }

    /// The ids of the messages that the queue accepted, in order.
    #[must_use]
    pub fn delivered(&self) -> Vec<String> {
        self.queue().iter().map(super::site::id_of).collect()
    }

    /// The very tables, to look into or to change by hand.
    #[must_use]
    pub fn tables(&self) -> &MemoryTables {
        &self.site.server.tables
    }

    /// The very queue.
    #[must_use]
    pub fn memory_queue(&self) -> &MemoryQueue {
        &self.site.server.queue
    }

    /// What an instance's metric came to over the whole run.
    #[must_use]
    pub fn metric(&self, instance: &str, metric: Metric) -> Total {
        self.site.host(instance).metrics.of(metric)
    }

    /// The sum of a metric over all instances.
    #[must_use]
    pub fn metric_sum(&self, metric: Metric) -> f64 {
        self.site.hosts().iter().map(|host| host.metrics.of(metric).sum).sum()
    }

    /// Ticks that the instance's lease function has answered.
    #[must_use]
    pub fn ticks(&self, instance: &str) -> u64 {
        self.site.host(instance).ticks()
    }

    /// Ticks of all instances together.
    #[must_use]
    pub fn ticks_of_all(&self) -> u64 {
        self.site.hosts().iter().map(|host| host.ticks()).sum()
    }

    /// Running executions of a machine.
    #[must_use]
    pub fn running(&self, instance: &str, machine: Machine) -> usize {
        self.site.host(instance).running(machine)
    }

    /// Is the instance alive?
    #[must_use]
    pub fn is_alive(&self, instance: &str) -> bool {
        self.site.host(instance).is_alive()
    }

    /// Is the topic rule of the instance enabled?
    #[must_use]
    pub fn is_source_enabled(&self, instance: &str) -> bool {
        self.site.host(instance).source()
    }

    /// Everything that was put on the bus.
    #[must_use]
    pub fn events(&self) -> Vec<BusEvent> {
        self.site.events().clone()
    }

    /// What happened so far.
    #[must_use]
    pub fn history(&self) -> History {
        self.site.history().clone()
    }

    /// What was published, and whether ingest acknowledged it.
    #[must_use]
    pub fn published(&self) -> Vec<Published> {
        self.site.ledger().all()
    }

    /// Rules that were broken so far.
    #[must_use]
    pub fn broken(&self) -> Vec<Broken> {
        self.site.observer().broken().to_vec()
    }

    /// Faults that were met so far.
    #[must_use]
    pub fn met(&self) -> Vec<Fault> {
        self.site.book().met().to_vec()
    }

    /// What was reached so far.
    #[must_use]
    pub fn reached(&self) -> Reached {
        self.site.observer().reached.clone()
    }
}

/// The functions of a living instance hold the world, which holds the instance: whoever leaves them alive keeps every world of a
/// batch in memory.
impl Drop for World {
    fn drop(&mut self) {
        for host in self.site.hosts() {
            host.kill();
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("leader", &self.leader()).finish_non_exhaustive()
    }
}

/// All rows of a shard: a page ends with its bytes too, whatever its limit, and large records fill one soon.
fn every_page<T>(page: impl Fn(Option<&Position>) -> Page<T>) -> Vec<Slot<T>> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = page(after.as_ref());
        rows.extend(page.rows.into_iter().map(|(_, slot)| slot));
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}
