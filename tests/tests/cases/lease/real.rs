//! The handlers over the real SDK client and an embedded DynamoDB, with a proxy between the two that spoils chosen requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use fencepost_local::table_server::{TableServer, TableStorage};
use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::outbox::Slot;
use fencepost_runtime::clock::{Clock, ManualClock};
use fencepost_runtime::wiring::Stores;
use fencepost_storage::dynamodb::{TableNames, create_tables};
use fencepost_storage::memory::{MemoryQueue, MemorySource, QueueKind};
use fencepost_storage::{ClientOptions, Clients};
use fencepost_tests::harness::{START, settings};
use fencepost_tests::proxy::Proxy;

use super::lab::{Extra, Process, group};

const REGION: &str = "eu-west-1";
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The tables' names, as the laboratory's settings have them; longer ones, because DynamoDB wants three characters.
const TABLES: Extra<'static> = &[("FENCEPOST_LEASE_TABLE", "lease-table"), ("FENCEPOST_OUTBOX_TABLE", "outbox-table")];

/// Two tables behind a proxy, and a clock that every process shares.
pub(crate) struct Real {
    server: TableServer,
    /// What stands between the SDK and the tables.
    pub(crate) proxy: Proxy,
    /// The destination.
    pub(crate) queue: MemoryQueue,
    /// Stands still unless it is moved; the SDK's own time-outs are real.
    pub(crate) clock: Arc<ManualClock>,
    processes: u64,
}

impl Real {
    /// Empty tables.
    pub(crate) async fn start() -> Self {
        let server = TableServer::start(ANY_PORT, TableStorage::Memory).unwrap();
        let proxy = Proxy::start("tables", &server.endpoint_url()).await.unwrap();
        let real = Self {
            server,
            proxy,
            queue: MemoryQueue::new(QueueKind::Standard),
            clock: Arc::new(ManualClock::new(START)),
            processes: 0,
        };
        real.create_tables().await;
        real
    }

    /// Makes the tables that are missing.
    pub(crate) async fn create_tables(&self) {
        let clients = Clients::load(ClientOptions::loopback(self.server.endpoint_url(), REGION)).await.unwrap();
        let names = TableNames { lease: "lease-table".to_owned(), outbox: "outbox-table".to_owned() };
        create_tables(&clients, &names).await.unwrap();
    }

    /// A client that goes past the proxy.
    pub(crate) fn client(&self) -> aws_sdk_dynamodb::Client {
        use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Credentials, Region};
        let config = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(self.server.endpoint_url())
            .credentials_provider(Credentials::new("loopback", "loopback", None, None, "fixed"));
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    /// A cold process of instance `name` on the shared clock.
    pub(crate) async fn process(&mut self, name: &str, extra: Extra<'_>) -> Process {
        let clock = Arc::clone(&self.clock);
        self.process_on(name, extra, clock).await
    }

    /// A cold process on a clock of its own.
    pub(crate) async fn process_on(&mut self, name: &str, extra: Extra<'_>, clock: Arc<dyn Clock>) -> Process {
        let extra: Vec<(&str, &str)> = TABLES.iter().chain(extra).copied().collect();
        let settings = settings(name, &extra);
        let options = ClientOptions::loopback(self.proxy.endpoint_url(), REGION);
        let stores = Stores::open(&settings, options, None).await.unwrap();
        self.processes += 1;
        let queue = Arc::new(self.queue.clone());
        Process::new(&settings, &stores, queue, &MemorySource::new(false), clock, self.processes)
    }

    /// The lease row, read past the proxy.
    pub(crate) async fn row(&self) -> LeaseRecord {
        let options = ClientOptions::loopback(self.server.endpoint_url(), REGION);
        let stores = Stores::open(&settings("reader", TABLES), options, None).await.unwrap();
        match stores.leases.read_lease(&group()).await.unwrap() {
            Slot::Present(record) => record,
            other => panic!("no lease row: {other:?}"),
        }
    }
}
