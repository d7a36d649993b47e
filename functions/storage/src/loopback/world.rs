//! For tests: the embedded DynamoDB behind the real SDK client, its tables made, and an observer that counts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Act, Loopback, Request};
use crate::call::{CallInProgress, CallObserver, CallPolicy, CallReport};
use crate::clients::{ClientOptions, Clients};
use crate::dynamodb::{DynamoLeaseStore, DynamoOutbox, TableNames, create_tables};

/// Enough for a busy machine; a test that waits for a time-out states its own.
pub(crate) const POLICY: CallPolicy =
    CallPolicy { call_timeout: Duration::from_secs(20), attempt_timeout: Duration::from_secs(10), max_attempts: 3 };

/// Clients of everything at `url`.
pub(crate) async fn clients_at(url: &str) -> Clients {
    Clients::load(ClientOptions::loopback(url, "eu-west-1")).await.expect("a configuration")
}

/// The embedded DynamoDB with both tables. It ends with the value.
pub(crate) struct World {
    pub(crate) addr: SocketAddr,
    pub(crate) clients: Clients,
    pub(crate) names: TableNames,
    task: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        let database = dynoxide::Database::memory().expect("a database in memory");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free loopback port");
        let addr = listener.local_addr().expect("an address");
        let task = tokio::spawn(dynoxide::server::serve_on(listener, database));
        let clients = clients_at(&format!("http://{addr}")).await;
        let names = TableNames { lease: "lease-table".to_owned(), outbox: "outbox-table".to_owned() };
        create_tables(&clients, &names).await.expect("the tables");
        Self { addr, clients, names, task }
    }

    /// The lease table, directly.
    pub(crate) fn lease_store(&self) -> DynamoLeaseStore {
        DynamoLeaseStore::new(&self.clients, &self.names.lease, POLICY, None)
    }

    /// The outbox, directly.
    pub(crate) fn outbox(&self, batching: bool) -> DynamoOutbox {
        DynamoOutbox::new(&self.clients, &self.names.outbox, POLICY, batching, None)
    }

    /// A server in front of the database that does with each request as `script` says.
    pub(crate) async fn behind(
        &self,
        script: impl Fn(usize, &Request) -> Act + Send + Sync + 'static,
    ) -> (Loopback, Clients) {
        let front = Loopback::start(Some(self.addr), script).await;
        let clients = clients_at(&front.url).await;
        (front, clients)
    }
}

/// Counts requests and units by operation.
#[derive(Clone, Default)]
pub(crate) struct Counter {
    counts: Arc<Mutex<BTreeMap<&'static str, Count>>>,
}

/// What was counted of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) requests: usize,
    pub(crate) failures: usize,
    pub(crate) units: f64,
}

impl Counter {
    pub(crate) fn of(&self, operation: &str) -> Count {
        self.counts.lock().expect("not poisoned").get(operation).copied().unwrap_or_default()
    }

    /// Every operation that was seen.
    pub(crate) fn all(&self) -> BTreeMap<&'static str, Count> {
        self.counts.lock().expect("not poisoned").clone()
    }
}

impl CallObserver for Counter {
    fn begin(&self, operation: &'static str) -> Box<dyn CallInProgress> {
        self.counts.lock().expect("not poisoned").entry(operation).or_default().requests += 1;
        Box::new(Counting { counter: self.clone(), operation })
    }
}

struct Counting {
    counter: Counter,
    operation: &'static str,
}

impl CallInProgress for Counting {
    fn end(self: Box<Self>, report: CallReport) {
        let mut counts = self.counter.counts.lock().expect("not poisoned");
        let count = counts.entry(self.operation).or_default();
        count.units += report.capacity_units;
        count.failures += usize::from(report.failure.is_some());
    }
}
