//! A local SQS: the AWS CLI, boto3 and the Rust SDK use it over HTTP, with SQS's own rules, sizes and checksums.
//!
//! - `model` holds the queues: what a send, a receive and a delete do, with the time as an argument.
//! - `settings`, `submission` and `refusal` hold the rules of a queue, of a message, and the errors SQS answers with.
//! - `store` writes what changed to one SQLite file; `protocol` and `receive` speak AWS JSON 1.0; `server` is the HTTP edge.
//!
//! **What was answered is kept**: with a file, the change is committed before the reply is written, so a `kill -9`
//! loses nothing that a client was told, and (by SQLite's `synchronous = FULL`) neither does a power cut. Messages that
//! were in flight stay in flight, with their receipt handles.
//!
//! Not here, and refused rather than ignored: redrive policies, message moves, tags, permissions, the old query
//! protocol. No credentials are checked, which is why only loopback is listened on. Delivery order of a standard queue is
//! the order of sending, which SQS does not promise: no code may count on it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

mod model;
mod protocol;
mod receive;
mod refusal;
mod server;
mod settings;
mod state;
mod store;
mod submission;
#[cfg(test)]
mod tests;

pub use model::Message as StoredMessage;
pub use refusal::{Refusal, RefusalKind};
pub use submission::{AttributeContent, MessageAttribute, MessageAttributes};

use crate::endpoint::{self, DataFile, EndpointThread, StartError};
use state::Shared;
use store::Store;

/// The option of `fencepost local` that sets the port.
const PORT_OPTION: &str = "--sqs-port";
/// The account that owns every queue.
const ACCOUNT: &str = "000000000000";

/// Tells the time in milliseconds since the epoch. Visibility, delay, retention and deduplication go by it; the wait of a
/// long poll is real time.
pub type NowMs = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Where the queues are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueStorage {
    /// In memory, gone with the server.
    Memory,
    /// In this file. Directories above it are made. One process at a time may use it.
    File(PathBuf),
}

/// What is wrong with the queue, for demonstrations and tests. It holds for every request until it is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueFault {
    /// Nothing.
    #[default]
    None,
    /// Every request fails with HTTP 500, and nothing is applied.
    Unavailable,
    /// Every request is throttled, and nothing is applied.
    Throttle,
    /// Every request is applied and never answered.
    BlackHole,
}

/// A running SQS endpoint. Dropping it stops it without waiting.
pub struct QueueServer {
    addr: SocketAddr,
    shared: Shared,
    thread: EndpointThread,
    file: Option<DataFile>,
}

impl std::fmt::Debug for QueueServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("QueueServer").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl QueueServer {
    /// Starts the endpoint on a loopback address (port 0 takes any free port).
    ///
    /// # Errors
    /// The port is taken or refused, or the file cannot be made, written or read. The message names the option to change.
    pub fn start(addr: SocketAddr, storage: QueueStorage, now_ms: NowMs) -> Result<QueueServer, StartError> {
        let (listener, addr) = endpoint::listen(addr, PORT_OPTION)?;
        let (store, file) = match &storage {
            QueueStorage::Memory => (None, None),
            QueueStorage::File(path) => {
                let file = DataFile::claim(path)?;
                (Some(Store::open(file.path()).map_err(|error| file.unusable(error))?), Some(file))
            }
        };
        let base_url = format!("http://{addr}/{ACCOUNT}");
        let shared = Shared::new(store, now_ms, base_url)
            .map_err(|error| StartError::Prepare { what: "the queues", problem: error.to_string() })?;
        let served = shared.clone();
        let thread = EndpointThread::spawn("sqs endpoint", move |stop| server::serve(listener, served, stop))?;
        Ok(QueueServer { addr, shared, thread, file })
    }

    /// The URL for the SDK, for example `http://127.0.0.1:9324`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The URL of the queue of this name, whether or not it exists.
    #[must_use]
    pub fn queue_url(&self, name: &str) -> String {
        self.shared.queue_url(name)
    }

    /// Makes a queue as `CreateQueue` does, and gives its URL. A name that ends in `.fifo` makes a FIFO queue.
    ///
    /// # Errors
    /// The name or an attribute breaks SQS's rules, or the queue exists with other attributes.
    pub fn create_queue(&self, name: &str, attributes: &[(&str, &str)]) -> Result<String, Refusal> {
        let mut attributes: std::collections::BTreeMap<String, String> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if name.ends_with(".fifo") {
            attributes.entry("FifoQueue".to_owned()).or_insert_with(|| "true".to_owned());
        }
        self.shared.apply(|queues, now_ms| queues.create(name, attributes, now_ms))?;
        Ok(self.queue_url(name))
    }

    /// All messages of the queue, oldest first, whether visible or not. Nothing is consumed. Empty when there is no such
    /// queue.
    #[must_use]
    pub fn messages(&self, name: &str) -> Vec<StoredMessage> {
        self.shared.messages(name)
    }

    /// Breaks the queue, or mends it with [`QueueFault::None`]. Requests that were already swallowed stay unanswered.
    pub fn set_fault(&self, fault: QueueFault) {
        self.shared.set_fault(fault);
    }

    /// Stops the endpoint. Requests that run lose their reply; what they applied is kept.
    pub async fn stop(self) {
        let QueueServer { shared, thread, file, .. } = self;
        thread.stop().await;
        drop(shared);
        drop(file);
    }
}
