//! The `ingest-failures` queue: events that ingest did not take, given to it again in SQS batches until it does.
//!
//! On AWS a dead-letter queue follows; here an event stays until it is taken, and the list is bounded by holding the topic
//! rule back. Kept in memory: what is on it when the process dies was never acknowledged by ingest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_protocol::ids::InstanceName;
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::settings::Function;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::event::{IngestOutcome, WorldEvent};
use super::process::Gone;
use super::regions::Regions;
use super::rule::{Message, TRIES};
use super::site::Site;

/// Events on the list before the topic rule is held back.
const KEPT_MAX: usize = 10_000;
/// Messages of one SQS batch.
const BATCH: usize = 10;
/// The pause before the first batch; it doubles while batches fail, and falls back when one succeeds.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);

/// An event on the list.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    message: Message,
    error: String,
    queue_id: String,
    kept_at: Timestamp,
    receives: u32,
}

impl Kept {
    /// An event that ingest refused with `error`.
    pub(super) fn new(message: Message, error: String, kept_at: Timestamp) -> Self {
        Self { message, error, queue_id: Uuid::new_v4().to_string(), kept_at, receives: 0 }
    }

    /// The SQS record that an event source mapping hands to ingest: its body is what Lambda's failure destination writes.
    fn record(&self) -> Value {
        let body = json!({
            "version": "1.0",
            "timestamp": crate::machine::format_timestamp(self.kept_at.as_ms()),
            "requestContext": {
                "requestId": self.queue_id,
                "functionArn": "arn:aws:lambda:us-east-1:000000000000:function:fencepost-ingest:live",
                "condition": "RetriesExhausted",
                "approximateInvokeCount": TRIES,
            },
            "requestPayload": self.message.event,
            "responseContext": { "statusCode": 200, "executedVersion": "1", "functionError": "Unhandled" },
            "responsePayload": { "errorType": self.error },
        })
        .to_string();
        json!({
            "messageId": self.queue_id,
            "receiptHandle": format!("{}#{}", self.queue_id, self.receives),
            "attributes": {
                "ApproximateReceiveCount": self.receives.to_string(),
                "SentTimestamp": self.kept_at.as_ms().to_string(),
                "SenderId": "fencepost",
            },
            "messageAttributes": {},
            "md5OfBody": hex(&Md5::digest(body.as_bytes())),
            "body": body,
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:ingest-failures",
            "awsRegion": "us-east-1",
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The list.
pub(super) struct Failures {
    site: Arc<Site>,
    regions: Arc<Regions>,
    kept: Mutex<VecDeque<Kept>>,
    changed: Notify,
}

impl Failures {
    /// An empty list.
    pub(super) fn new(site: Arc<Site>, regions: Arc<Regions>) -> Self {
        Self { site, regions, kept: Mutex::default(), changed: Notify::new() }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an event on the list; waits while it is full.
    pub(super) async fn keep(&self, event: Kept) {
        loop {
            let changed = self.changed.notified();
            {
                let mut kept = self.kept();
                if kept.len() < KEPT_MAX {
                    kept.push_back(event);
                    self.site.counters.ingest_failures.add(1);
                    break;
                }
            }
            changed.await;
        }
        self.changed.notify_waiters();
    }

    /// Feeds the list to ingest, for ever.
    pub(super) async fn feed(self: Arc<Self>) {
        let mut pause = PAUSE;
        loop {
            self.until_some().await;
            self.site.clock.sleep(pause).await;
            let failed = self.feed_batch().await;
            pause = if failed { (pause * 2).min(PAUSE_MAX) } else { PAUSE };
        }
    }

    async fn until_some(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.kept().is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// One batch; tells whether any of it is still on the list.
    async fn feed_batch(&self) -> bool {
        let mut batch: Vec<Kept> = {
            let mut kept = self.kept();
            let count = kept.len().min(BATCH);
            kept.drain(..count).collect()
        };
        batch.iter_mut().for_each(|event| event.receives += 1);
        let records: Vec<Value> = batch.iter().map(Kept::record).collect();
        let device = batch.first().map(|event| event.message.client_id.clone()).unwrap_or_default();
        let (instance, answer) = loop {
            let (instance, door) = self.regions.home(&self.site.lease, &device).await;
            match door.invoke(Function::Ingest, json!({ "Records": records })).await {
                Ok(answer) => break (instance, answer),
                Err(Gone) => self.regions.settle().await,
            }
        };
        let still = match answer {
            Ok(reply) => {
                let failed = failed_ids(&reply);
                let (still, taken): (Vec<Kept>, Vec<Kept>) =
                    batch.into_iter().partition(|event| failed.contains(&event.queue_id));
                taken.iter().for_each(|event| self.acknowledged(event, &instance));
                still
            }
            Err(error) => {
                batch.iter_mut().for_each(|event| event.error.clone_from(&error.error_type));
                batch
            }
        };
        let failed = !still.is_empty();
        for event in still {
            self.site.tell(&WorldEvent::IngestFailed {
                instance: instance.clone(),
                message_id: event.message.message_id.clone(),
                attempt: TRIES + event.receives,
                error: event.error.clone(),
                kept: true,
            });
            self.kept().push_back(event);
        }
        self.changed.notify_waiters();
        failed
    }

    fn acknowledged(&self, event: &Kept, instance: &InstanceName) {
        let message = &event.message;
        self.site.tell(&WorldEvent::Ingested {
            instance: instance.clone(),
            message_id: message.message_id.clone(),
            topic: message.topic.clone(),
            digest: message.digest.clone(),
            outcome: IngestOutcome::Recovered,
        });
        self.site.counters.ingest_failures.subtract(1);
        self.site.counters.recovered.add(1);
    }
}

fn failed_ids(reply: &Value) -> Vec<String> {
    let failures = reply["batchItemFailures"].as_array().map(Vec::as_slice).unwrap_or_default();
    failures.iter().filter_map(|failure| failure["itemIdentifier"].as_str()).map(str::to_owned).collect()
}
