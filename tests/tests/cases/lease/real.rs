//! The handlers over the real SDK client and an embedded DynamoDB, with a proxy between the two that spoils chosen requests.

use std::sync::Arc;

use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::outbox::Slot;
use fencepost_runtime::clock::ManualClock;
use fencepost_runtime::settings::Settings;
use fencepost_storage::memory::{MemoryEventBus, MemoryQueue, QueueKind};
use fencepost_tests::harness::sdk::{REGION, RealTables, TABLE_SETTINGS, patient};
use fencepost_tests::harness::{Instance, START, SeedOf, settings};

use super::lab::{Extra, group};

/// Two tables behind a proxy, and a clock that every process shares.
pub(crate) struct Real {
    /// The tables, and what stands between them and the SDK.
    pub(crate) tables: RealTables,
    /// The destination.
    pub(crate) queue: MemoryQueue,
    /// Stands still unless it is moved; the SDK's own time-outs are real.
    pub(crate) clock: Arc<ManualClock>,
    processes: u64,
}

impl Real {
    /// Empty tables.
    pub(crate) async fn start() -> Self {
        Self {
            tables: RealTables::start().await,
            queue: MemoryQueue::new(QueueKind::Standard),
            clock: Arc::new(ManualClock::new(START)),
            processes: 0,
        }
    }

    /// A client that goes past the proxy.
    pub(crate) fn client(&self) -> aws_sdk_dynamodb::Client {
        use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Credentials, Region};
        let config = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(self.tables.server.endpoint_url())
            .credentials_provider(Credentials::new("loopback", "loopback", None, None, "fixed"));
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    /// A cold process of instance `name`, whose calls wait as long as it takes.
    pub(crate) async fn process(&mut self, name: &str, extra: Extra<'_>) -> Instance {
        let settings = real_settings(name, extra);
        self.process_over(&settings, &patient(&settings)).await
    }

    /// A cold process whose calls wait as long as its settings say.
    pub(crate) async fn process_with_its_own_time_outs(&mut self, name: &str, extra: Extra<'_>) -> Instance {
        let settings = real_settings(name, extra);
        self.process_over(&settings, &settings).await
    }

    async fn process_over(&mut self, settings: &Settings, of_calls: &Settings) -> Instance {
        let stores = self.tables.open(of_calls).await;
        self.processes += 1;
        let (queue, bus) = (Arc::new(self.queue.clone()), Arc::new(MemoryEventBus::new()));
        let seed = SeedOf { name: settings.identity.name.as_str(), process: self.processes };
        Instance::over(settings, &stores, queue, bus, None, Arc::clone(&self.clock), seed)
    }

    /// The lease row, read past the proxy.
    pub(crate) async fn row(&self) -> LeaseRecord {
        let stores = self.tables.open_past_the_proxy(&real_settings("reader", &[])).await;
        match stores.leases.read_lease(&group()).await.unwrap() {
            Slot::Present(record) => record,
            other => panic!("no lease row: {other:?}"),
        }
    }
}

fn real_settings(name: &str, extra: Extra<'_>) -> Settings {
    let extra: Vec<(&str, &str)> = TABLE_SETTINGS.iter().chain(extra).copied().collect();
    settings(name, &extra)
}
