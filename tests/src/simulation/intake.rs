//! The way of a published message to ingest: the topic rule's asynchronous invocation with its retries, then the failure queue.
//!
//! Neither dies with an instance: AWS keeps both. A message waits while no instance lives.

use std::sync::Arc;
use std::time::Duration;

use fencepost_local::machine::{TaskError, format_timestamp};
use fencepost_protocol::ids::{LeaseName, PayloadDigest, Shard};
use fencepost_runtime::settings::Function;
use serde_json::{Value, json};

use super::book::Asked;
use super::fault::{CallFault, platform};
use super::ledger::Published;
use super::reached::Sometimes;
use super::region::Host;
use super::site::Site;

/// Tries of an asynchronous invocation.
const TRIES: u32 = 3;
/// The pause before the failure queue gives an event to ingest again.
const QUEUE_PAUSE: Duration = Duration::from_secs(20);
/// How often a message looks for a living instance.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// A message to publish. What is not set is made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) device: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) id: Option<String>,
    pub(crate) device_message_id: Option<String>,
    pub(crate) through: Option<String>,
    pub(crate) again_after: Vec<Duration>,
}

impl Message {
    /// A message of `device`, whose messages keep their order.
    #[must_use]
    pub fn new(device: &str, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            device: device.to_owned(),
            payload: payload.into(),
            id: None,
            device_message_id: None,
            through: None,
            again_after: Vec::new(),
        }
    }

    /// Under this id of the broker's.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// With an id that the device made.
    #[must_use]
    pub fn device_message_id(mut self, id: &str) -> Self {
        self.device_message_id = Some(id.to_owned());
        self
    }

    /// Through this instance, while it lives.
    #[must_use]
    pub fn through(mut self, instance: &str) -> Self {
        self.through = Some(instance.to_owned());
        self
    }

    /// The same event is delivered once more, so long after.
    #[must_use]
    pub fn delivered_again_after(mut self, pause: Duration) -> Self {
        self.again_after.push(pause);
        self
    }
}

impl Site {
    /// Publishes a message and gives its id. Inside the runtime only.
    pub(crate) fn publish(self: &Arc<Self>, message: &Message) -> String {
        use base64::Engine as _;
        let made_up = self.ledger().next_id();
        let id = message.id.clone().unwrap_or(made_up);
        let at = self.now();
        let mut event = json!({
            "schema": 1,
            "payload": base64::engine::general_purpose::STANDARD.encode(&message.payload),
            "topic": format!("telemetry/{}", message.device),
            "client_id": message.device,
            "received_at": self.time.wall().as_ms(),
            "trace_id": id,
            "message_id": format!("uuid-{id}"),
        });
        if let Some(device_message_id) = &message.device_message_id {
            event["device_message_id"] = json!(device_message_id);
        }
        let line = self.ledger().published(Published {
            id: id.clone(),
            device: message.device.clone(),
            digest: PayloadDigest::of(&message.payload),
            bytes: message.payload.len(),
            at,
            acknowledged: None,
        });
        let first = self.home_of(message);
        let course = self.book().course(Asked { at, instance: first, operation: platform::DELIVER, in_process: false });
        self.note_call(first, platform::DELIVER, &course);
        let mut pauses = vec![Duration::ZERO];
        match course.fault {
            Some(CallFault::Twice) => pauses.push(Duration::from_millis(course.number % 7_000)),
            Some(CallFault::Slow { ms }) => pauses[0] = Duration::from_millis(ms),
            _ => {}
        }
        pauses.extend(&message.again_after);
        for pause in pauses {
            let (site, event, id) = (Arc::clone(self), event.clone(), id.clone());
            drop(tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                site.deliver(first, event, &id, line).await;
            }));
        }
        id
    }

    /// The instance that a device connects to.
    fn home_of(&self, message: &Message) -> usize {
        if let Some(name) = &message.through {
            return self.host(name).index;
        }
        let count = u16::try_from(self.hosts().len()).unwrap_or(1);
        let lease: &LeaseName = &self.lease;
        usize::from(Shard::of_key(lease, &message.device, count).index())
    }

    /// The first living instance from `first` on whose topic rule is enabled.
    async fn living(&self, first: usize) -> Arc<Host> {
        loop {
            let hosts = self.hosts();
            let from = hosts.iter().cycle().skip(first).take(hosts.len());
            let mut alive = from.into_iter().filter(|host| host.is_alive()).enumerate();
            if let Some((passed, host)) = alive.find(|(_, host)| host.source()) {
                if passed > 0 {
                    self.reach(Sometimes::PassedOver);
                }
                return Arc::clone(host);
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    async fn ingest(self: &Arc<Self>, first: usize, event: Value) -> Result<Value, TaskError> {
        let host = self.living(first).await;
        let scope = format!("{}-ingest", host.name);
        host.invoke_apart(self, Function::Ingest, event, scope).await
    }

    async fn deliver(self: &Arc<Self>, first: usize, event: Value, id: &str, line: usize) {
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(self.options.retry_pause * 2_u32.pow(attempt - 1)).await;
            }
            if let Ok(reply) = self.ingest(first, event.clone()).await {
                if reply["outcome"] == "duplicate" {
                    self.reach(Sometimes::DuplicateEvent);
                }
                self.acknowledged(first, id, line, reply["outcome"].as_str().unwrap_or("stored"));
                return;
            }
        }
        self.recover(first, event, id, line).await;
    }

    /// The failure queue: the failed invocation's record comes back in a batch until ingest takes it.
    async fn recover(self: &Arc<Self>, first: usize, event: Value, id: &str, line: usize) {
        let kept_at = self.time.wall().as_ms();
        let body = json!({
            "version": "1.0",
            "timestamp": format_timestamp(kept_at),
            "requestContext": { "requestId": id, "condition": "RetriesExhausted", "approximateInvokeCount": TRIES },
            "requestPayload": event,
            "responsePayload": { "errorType": "StoreUnavailable" },
        });
        let batch = json!({ "Records": [{
            "messageId": format!("failure-{id}"),
            "attributes": { "SentTimestamp": kept_at.to_string() },
            "body": body.to_string(),
            "eventSource": "aws:sqs",
        }] });
        loop {
            tokio::time::sleep(QUEUE_PAUSE).await;
            let reply = self.ingest(first, batch.clone()).await;
            let failures = reply.as_ref().ok().and_then(|reply| reply["batchItemFailures"].as_array().map(Vec::len));
            if failures == Some(0) {
                self.reach(Sometimes::Recovered);
                self.acknowledged(first, id, line, "recovered");
                return;
            }
        }
    }

    fn acknowledged(&self, instance: usize, id: &str, line: usize, how: &str) {
        let at = self.now();
        self.ledger().acknowledge(line, at);
        self.tell(instance, format!("ingest acknowledges {id} ({how})"));
    }
}
