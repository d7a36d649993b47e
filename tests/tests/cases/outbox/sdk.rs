//! The handlers over the real SDK clients: an embedded DynamoDB and a local SQS, each behind a proxy that spoils chosen
//! requests.

use std::sync::Arc;
use std::time::Duration;

use fencepost_local::queue::{QueueServer, QueueStorage, StoredMessage};
use fencepost_protocol::body::{BodyFormat, decode_body};
use fencepost_runtime::clock::{Clock as _, ManualClock};
use fencepost_runtime::wiring::open_queue;
use fencepost_storage::Clients;
use fencepost_storage::memory::MemoryEventBus;
use fencepost_tests::harness::sdk::{ANY_PORT, RealTables, TABLE_SETTINGS, loopback, patient};
use fencepost_tests::harness::{Instance, START, SeedOf, settings};
use fencepost_tests::proxy::{Match, Proxy};

/// Both services, their proxies, and the clock that every process shares. The SDK waits in real time, as long as it takes.
pub(super) struct World {
    pub(super) clock: Arc<ManualClock>,
    /// The tables and their proxy.
    pub(super) tables: RealTables,
    /// Before the queue.
    pub(super) queue: Proxy,
    pub(super) queue_server: QueueServer,
    extra: Vec<(&'static str, String)>,
    queue_name: &'static str,
    processes: u64,
}

impl World {
    /// Empty tables and an empty standard queue.
    pub(super) async fn start(extra: &[(&'static str, &str)]) -> Self {
        Self::with_queue("out", &[], extra).await
    }

    /// Empty tables and an empty queue with these attributes; FIFO where its name ends in `.fifo`.
    pub(super) async fn with_queue(
        queue_name: &'static str,
        attributes: &[(&str, &str)],
        extra: &[(&'static str, &str)],
    ) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let now_ms = {
            let clock = Arc::clone(&clock);
            Arc::new(move || clock.now().wall.as_ms())
        };
        let queue_server = QueueServer::start(ANY_PORT, QueueStorage::Memory, now_ms).expect("a queue server");
        queue_server.create_queue(queue_name, attributes).unwrap();
        let queue = Proxy::start("queue", &queue_server.endpoint_url()).await.unwrap();
        let own = TABLE_SETTINGS.iter().chain(extra).map(|(name, value)| (*name, (*value).to_owned()));
        let extra = own.chain([("FENCEPOST_QUEUE_URL", queue_server.queue_url(queue_name))]).collect();
        let tables = RealTables::start().await;
        Self { clock, tables, queue, queue_server, extra, queue_name, processes: 0 }
    }

    /// A cold process of instance `name`.
    pub(super) async fn instance(&mut self, name: &str) -> Instance {
        let extra: Vec<(&str, &str)> = self.extra.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let settings = settings(name, &extra);
        let of_calls = patient(&settings);
        let stores = self.tables.open(&of_calls).await;
        let clients = Clients::load(loopback(&self.queue.endpoint_url())).await.unwrap();
        let queue = open_queue(&of_calls, &clients, None).unwrap();
        let seed = SeedOf { name, process: self.processes };
        self.processes += 1;
        let bus = Arc::new(MemoryEventBus::new());
        Instance::over(&settings, &stores, queue, bus, None, Arc::clone(&self.clock), seed)
    }

    /// The same, and it leads.
    pub(super) async fn leader(&mut self) -> Instance {
        let mut east = self.instance("east").await;
        assert_eq!(east.tick().await["role"], "leader");
        east
    }

    /// Lets `seconds` pass, with a tick in every one.
    pub(super) async fn live(&self, instance: &mut Instance, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            instance.tick().await;
        }
    }

    /// Gives the stack another queue, without attributes: processes that start from now on send to it.
    pub(super) fn move_to_queue(&mut self, queue_name: &'static str) {
        self.queue_server.create_queue(queue_name, &[]).unwrap();
        self.extra.retain(|(name, _)| *name != "FENCEPOST_QUEUE_URL");
        self.extra.push(("FENCEPOST_QUEUE_URL", self.queue_server.queue_url(queue_name)));
        self.queue_name = queue_name;
    }

    /// Every message of the queue, oldest first.
    pub(super) fn messages(&self) -> Vec<StoredMessage> {
        self.queue_server.messages(self.queue_name)
    }

    /// The ids that consumers see, in the order of sending.
    pub(super) fn ids(&self) -> Vec<String> {
        self.messages().iter().map(|message| attribute(message, "message-id").expect("a message id")).collect()
    }

    /// The exact bytes of each message, in the order of sending.
    pub(super) fn payloads(&self) -> Vec<Vec<u8>> {
        self.messages().iter().map(bytes_of).collect()
    }

    /// How many requests were made to the queue.
    pub(super) fn sends(&self) -> usize {
        self.queue.count("SendMessageBatch")
    }
}

/// A batch of claims.
pub(super) fn claims() -> Match {
    Match::operation("BatchExecuteStatement").containing("first_attempt_at")
}

/// A batch of commits.
pub(super) fn commits() -> Match {
    Match::operation("BatchExecuteStatement").containing("DELETE FROM")
}

/// A batch of tombstones.
pub(super) fn tombstones() -> Match {
    Match::operation("BatchExecuteStatement").containing("sent#")
}

/// The text of a message's attribute.
pub(super) fn attribute(message: &StoredMessage, name: &str) -> Option<String> {
    let pairs = attributes_of(message);
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// The bytes that a message stands for, by what a consumer sees of it.
pub(super) fn bytes_of(message: &StoredMessage) -> Vec<u8> {
    decode_body(BodyFormat::Raw, &message.body, &attributes_of(message)).expect("the bridge's own body decodes")
}

/// The text attributes of a message, name and value.
pub(super) fn attributes_of(message: &StoredMessage) -> Vec<(String, String)> {
    use fencepost_local::queue::AttributeContent;
    let texts = message.attributes.iter().filter_map(|(name, attribute)| match &attribute.content {
        AttributeContent::Text(text) => Some((name.clone(), text.clone())),
        AttributeContent::Bytes(_) => None,
    });
    texts.collect()
}
