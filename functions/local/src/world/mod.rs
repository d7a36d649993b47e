//! One machine's world: several instances of the bridge with the broker, tables and queue that AWS would give them.
//!
//! Everything that decides is the shipped code: the handlers, over the SDK's own clients and loopback HTTP; the settings,
//! parsed as in Lambda; the state machine files. What stands in for AWS here:
//!
//! | here | there |
//! |---|---|
//! | an instance: a thread with its own runtime (`process`, `region`) | a region with the stack |
//! | the two schedules, once a minute from the instance's start | EventBridge Scheduler |
//! | executions, the event bus, `lambda:invoke` with the function's own time limit (`machines`) | Step Functions, EventBridge, Lambda |
//! | the topic rule and its failures list (`rule`, `failures`, `intake`) | IoT Core's rule, asynchronous invocation, failure queue |
//! | the outbox's stream (`feed`) | DynamoDB Streams and its event source mapping |
//!
//! Guarantees: a killed instance is gone at whatever await it stood, and a started one remembers nothing; what ingest
//! acknowledged is told to the observer before anything counts it; with a data directory a `kill -9` of the whole process loses
//! nothing that ingest acknowledged. An orderly stop loses nothing that the broker acknowledged either, unless no instance lives,
//! ingest acknowledges nothing for a minute, or its caller gives up; what is dropped then is told, by number.
//!
//! All instances share two tables, as over a strongly consistent global table; a region that is cut off from its tables is not
//! modelled here.
//!
//! Differences from AWS: retries of ingest come after fractions of a second, not minutes; the failures list has no dead-letter
//! queue behind it; the names of Standard executions are forgotten with their instance.
//!
//! What must stay out: decisions of the bridge, AWS types, and anything that prints.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::timing::Timing;
use fencepost_runtime::clock::Clock;
use fencepost_runtime::settings::Settings;
use fencepost_storage::dynamodb::{DynamoLeaseStore, DynamoOutbox, TableNames, create_tables};
use fencepost_storage::{CallPolicy, Clients, LeaseStore, Outbox};
use serde_json::Value;

mod audit;
mod bus;
mod command;
pub mod control;
mod counters;
mod data;
mod error;
mod event;
mod failures;
mod feed;
mod history;
mod intake;
mod machines;
mod options;
mod process;
mod region;
mod regions;
mod rule;
mod site;
#[cfg(test)]
mod tests;
mod topic;
mod watch;

pub use audit::{AuditReport, DeliveredMessage, StoredRecord};
pub use command::{LeaseView, Status};
pub use counters::Counts;
pub use error::WorldError;
pub use event::{IngestOutcome, WorldEvent, WorldObserver};
pub use options::{Ports, WorldOptions};
pub use regions::InstanceState;
pub use site::TOLD;

use crate::broker::Broker;
use crate::endpoint;
use crate::queue::{QueueFault, QueueServer, QueueStorage};
use crate::shipped::{Machine, Machines};
use crate::table_server::{StreamReader, TableServer, TableStorage};
use audit::Contents;
use command::Commands;
use data::DataDirectory;
use feed::Feed;
use history::History;
use intake::Intake;
use options::{LEASE_TABLE, OUTBOX_TABLE, REGION};
use regions::Regions;
use site::Site;

/// The option that sets the control port.
const CONTROL_OPTION: &str = "--control-port";
/// How long the destination keeps a message: as long as SQS may, 14 days, in seconds.
const RETENTION_SECONDS: &str = "1209600";
/// One call of the world's own, retries included.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A running world. Dropping it ends everything without waiting.
pub struct World {
    // Ended in this order: nothing new, the rule and the control port, the stream, the instances, the stores.
    broker: Broker,
    intake: Intake,
    feed: Feed,
    commands: Arc<Commands>,
    queue: QueueServer,
    tables: TableServer,
    _data: Option<DataDirectory>,
    timing: Timing,
    destination: String,
    control: SocketAddr,
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("World").field("mqtt", &self.broker.addr()).finish_non_exhaustive()
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl World {
    /// Starts the endpoints, makes tables and queue where there are none, and starts every instance.
    ///
    /// # Errors
    /// An option or a setting is wrong, a port is taken, the data directory cannot be used. The message names what to change.
    pub async fn start(
        options: WorldOptions,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn WorldObserver>,
    ) -> Result<World, WorldError> {
        let filter = options.check()?;
        // The queue's URL is known later; everything else can be refused before anything is touched.
        let draft = settings(&options, "http://127.0.0.1/queue")?;
        let (timing, drained_shards) = (draft[0].timing, draft[0].drained_shards());
        let data = options
            .data
            .as_deref()
            .map(|directory| DataDirectory::claim(directory, options.lease.as_str(), drained_shards))
            .transpose()?;
        let (table_storage, queue_storage) = match &data {
            Some(data) => (data.tables(), data.queue()),
            None => (TableStorage::Memory, QueueStorage::Memory),
        };
        let (control_listener, control) = endpoint::listen(loopback(options.ports.control), CONTROL_OPTION)?;
        let tables = TableServer::start(loopback(options.ports.dynamodb), table_storage)?;
        let wall = Arc::clone(&clock);
        let now_ms = Arc::new(move || wall.now().wall.as_ms());
        let queue = QueueServer::start(loopback(options.ports.sqs), queue_storage, now_ms)?;
        let queue_url = queue
            .create_queue(&options.destination, &[("MessageRetentionPeriod", RETENTION_SECONDS)])
            .map_err(|refusal| WorldError::Queue { name: options.destination.clone(), refusal })?;
        let site = Arc::new(Site::new(
            options.lease.clone(),
            clock,
            Machines::parse()?,
            options.body_format,
            tables.endpoint_url(),
            queue.endpoint_url(),
            observer,
            options.keep_history.then(|| History::new(options.lease.clone(), options.destination.ends_with(".fifo"))),
        ));
        let (leases, outbox, reader) = open_tables(&site, &tables, drained_shards).await?;
        let regions = Arc::new(Regions::new(Arc::clone(&site), settings(&options, &queue_url)?));
        let feed = Feed::start(Arc::clone(&site), Arc::clone(&regions), reader)?;
        for name in regions.names() {
            regions.start(name.as_str()).await?;
        }
        let (broker, published) = Broker::start(loopback(options.ports.mqtt))?;
        let commands = Arc::new(Commands { site, regions, leases, outbox, drained_shards });
        let intake = Intake::start(Arc::clone(&commands), control_listener, filter, published)?;
        Ok(World {
            broker,
            intake,
            feed,
            commands,
            queue,
            tables,
            _data: data,
            timing,
            destination: options.destination,
            control,
        })
    }

    /// Ends everything and waits for it. The broker ends first, and what it had acknowledged is given to ingest, while an
    /// instance lives and ingest acknowledges something within a minute; gives how many messages it did not acknowledge. Nothing
    /// is released or handed back: to the rest of the bridge it is a power cut.
    pub async fn stop(self) -> u64 {
        self.stop_until(std::future::pending()).await
    }

    /// Ends everything as [`World::stop`] does, and gives the same number, but waits for ingest no longer once `given_up` is
    /// ready. The end of the broker and of the instances takes its time all the same.
    pub async fn stop_until(self, given_up: impl Future<Output = ()>) -> u64 {
        self.broker.stop().await;
        let dropped = self.intake.finish(given_up).await;
        self.feed.stop().await;
        for name in self.commands.regions.names() {
            // Those that are dead already are what was wanted.
            drop(self.commands.regions.kill(name.as_str()).await);
        }
        self.queue.stop().await;
        self.tables.stop().await;
        dropped
    }

    /// Where the MQTT broker listens.
    #[must_use]
    pub fn mqtt_addr(&self) -> SocketAddr {
        self.broker.addr()
    }

    /// Where the control server listens.
    #[must_use]
    pub fn control_addr(&self) -> SocketAddr {
        self.control
    }

    /// The DynamoDB endpoint.
    #[must_use]
    pub fn dynamodb_url(&self) -> String {
        self.tables.endpoint_url()
    }

    /// The SQS endpoint.
    #[must_use]
    pub fn sqs_url(&self) -> String {
        self.queue.endpoint_url()
    }

    /// The destination queue's URL.
    #[must_use]
    pub fn queue_url(&self) -> String {
        self.queue.queue_url(&self.destination)
    }

    /// The lease table's name.
    #[must_use]
    pub fn lease_table(&self) -> &str {
        LEASE_TABLE
    }

    /// The outbox table's name.
    #[must_use]
    pub fn outbox_table(&self) -> &str {
        OUTBOX_TABLE
    }

    /// A region for clients to name; the endpoints take any.
    #[must_use]
    pub fn region(&self) -> &str {
        REGION
    }

    /// The durations that the instances go by.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The instances, and which live.
    #[must_use]
    pub fn instances(&self) -> Vec<InstanceState> {
        self.commands.regions.states()
    }

    /// Kills an instance where it stands. It is dead when this returns.
    ///
    /// # Errors
    /// There is no such instance, or it is not running.
    pub async fn kill(&self, name: &str) -> Result<(), WorldError> {
        self.commands.regions.kill(name).await
    }

    /// Starts a dead instance: a cold process of the same identity.
    ///
    /// # Errors
    /// There is no such instance, it is running, or its functions cannot be built.
    pub async fn start_instance(&self, name: &str) -> Result<(), WorldError> {
        self.commands.regions.start(name).await
    }

    /// Runs the machine `step_down` in an instance to its end, and gives its output.
    ///
    /// # Errors
    /// There is no such instance, it is not running or died meanwhile, or the machine failed.
    pub async fn step_down(&self, name: &str) -> Result<Value, WorldError> {
        self.commands.step_down(name).await
    }

    /// Ends an instance's abstention, or takes an unfinished step-down back.
    ///
    /// # Errors
    /// There is no such instance, it is not running, or its lease function failed.
    pub async fn resume(&self, name: &str) -> Result<Value, WorldError> {
        self.commands.resume(name).await
    }

    /// Runs the machine `redrive` in an instance to its end, and gives its output.
    ///
    /// # Errors
    /// There is no such instance, it is not running or died meanwhile, or the machine failed.
    pub async fn redrive(&self, name: &str, input: Value) -> Result<Value, WorldError> {
        self.commands.execute(name, Machine::Redrive, input).await
    }

    /// What happened so far, in numbers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.commands.site.counters.counts()
    }

    /// The lease row, strongly read; `None` before the first acquisition.
    ///
    /// # Errors
    /// The table cannot be read, or the row does not decode.
    pub async fn lease(&self) -> Result<Option<LeaseView>, WorldError> {
        self.commands.lease().await
    }

    /// How many rows are outstanding.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn outstanding(&self) -> Result<u64, WorldError> {
        self.commands.outstanding().await
    }

    /// Lease, instances, outstanding rows and counts together. Records that do not decode are part of it, no error.
    ///
    /// # Errors
    /// A table cannot be read.
    pub async fn status(&self) -> Result<Status, WorldError> {
        self.commands.status().await
    }

    /// Breaks the queue, or mends it.
    pub fn set_queue_fault(&self, fault: QueueFault) {
        self.queue.set_fault(fault);
    }
}

fn settings(options: &WorldOptions, queue_url: &str) -> Result<Vec<Settings>, WorldError> {
    options.instances.iter().map(|instance| options.settings_of(instance, queue_url)).collect()
}

/// Makes the tables where there are none, notes what lies in them, and stands at the end of the outbox's stream.
async fn open_tables(
    site: &Site,
    tables: &TableServer,
    drained_shards: u16,
) -> Result<(Arc<dyn LeaseStore>, Arc<dyn Outbox>, StreamReader), WorldError> {
    let clients = Clients::load(site.dynamodb()).await?;
    let names = TableNames { lease: LEASE_TABLE.to_owned(), outbox: OUTBOX_TABLE.to_owned() };
    create_tables(&clients, &names).await?;
    let calls = CallPolicy::in_thirds(CALL_TIMEOUT);
    let leases: Arc<dyn LeaseStore> = Arc::new(DynamoLeaseStore::new(&clients, LEASE_TABLE, calls, None));
    let outbox: Arc<dyn Outbox> = Arc::new(DynamoOutbox::new(&clients, OUTBOX_TABLE, calls, true, None));
    let reader = tables
        .stream_reader(OUTBOX_TABLE)
        .map_err(|error| WorldError::Internal { what: "the outbox's stream", problem: error.to_string() })?;
    if site.history().is_some() {
        let contents = Contents::read(outbox.as_ref(), &site.lease, drained_shards).await?;
        if let Some(mut history) = site.history() {
            contents.outstanding.iter().for_each(|row| history.found(row));
            contents.dead.iter().for_each(|dead| history.found_dead(dead));
        }
    }
    Ok((leases, outbox, reader))
}
