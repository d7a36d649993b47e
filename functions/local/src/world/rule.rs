//! The topic rule: takes what the broker acknowledged and invokes the ingest of the device's home region with the event that
//! IoT Core's rule would make, asynchronously.
//!
//! Guarantees while the process lives: a message that the broker acknowledged and the rule takes is handed to ingest until
//! ingest acknowledges it, always as the same event, so that a try whose answer was lost is found as a duplicate. A region that
//! dies in the middle of a call costs no try: its devices connect to the next one. After [`TRIES`] failures of living ones the
//! event goes to the failures list (`failures`).
//!
//! Messages of one client keep their order: they share a lane, and a lane delivers one at a time. Lanes that are full hold the
//! broker's publishers back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fencepost_protocol::ids::{InstanceName, PayloadDigest, Shard};
use fencepost_runtime::settings::Function;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::event::{IngestOutcome, WorldEvent};
use super::failures::{Failures, Kept};
use super::process::Gone;
use super::regions::Regions;
use super::site::Site;
use super::topic::TopicFilter;
use crate::broker::Published;

/// Tries of one event before it goes to the failures list, as Lambda's asynchronous invocation has.
pub(super) const TRIES: u32 = 3;
/// The pause after the first failed try; it doubles. (Lambda waits a minute; nobody wants to watch that.)
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Messages that are delivered side by side.
const LANES: u16 = 32;
/// Messages that wait in one lane.
const LANE_LENGTH: usize = 4;
/// The MQTT 5 user property that brings a device-made message id.
const DEVICE_MESSAGE_ID: &str = "device-message-id";

/// The rule and where it delivers.
pub(super) struct TopicRule {
    pub(super) site: Arc<Site>,
    pub(super) regions: Arc<Regions>,
    pub(super) failures: Arc<Failures>,
    pub(super) filter: TopicFilter,
    /// The broker is gone, and every message that it left is taken and counted.
    pub(super) all_taken: Arc<AtomicBool>,
}

/// A message on its way to ingest.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// The rule's event.
    pub(super) event: Value,
    pub(super) message_id: String,
    pub(super) topic: String,
    pub(super) client_id: String,
    pub(super) digest: PayloadDigest,
}

impl TopicRule {
    /// Takes messages until the broker is gone and its last one has a lane. The lanes go on until they are empty. When
    /// `closed` tells that the broker is gone, everything that it left is taken at once, and so counted, though no lane has
    /// room for it yet.
    pub(super) async fn run(
        self: &Arc<Self>,
        published: &mut mpsc::Receiver<Published>,
        closed: impl Future<Output = ()>,
    ) {
        let lanes: Vec<mpsc::Sender<Message>> = (0..LANES).map(|_| Arc::clone(self).open_lane()).collect();
        let mut taken = VecDeque::new();
        tokio::pin!(closed);
        loop {
            let Some(next) = taken.front().map(|message| self.lane_of(message)) else {
                let Some(message) = published.recv().await else { break };
                taken.extend(self.take(&message));
                continue;
            };
            tokio::select! {
                biased;
                () = &mut closed, if !self.has_all() => {
                    while let Ok(message) = published.try_recv() {
                        taken.extend(self.take(&message));
                    }
                    self.all_taken.store(true, Ordering::SeqCst);
                }
                room = lanes[next].reserve() => match (room, taken.pop_front()) {
                    (Ok(room), Some(message)) => room.send(message),
                    _ => return self.site.trouble("a lane of the topic rule ended".to_owned()),
                },
            }
        }
        self.all_taken.store(true, Ordering::SeqCst);
    }

    fn has_all(&self) -> bool {
        self.all_taken.load(Ordering::SeqCst)
    }

    fn lane_of(&self, message: &Message) -> usize {
        usize::from(Shard::of_key(&self.site.lease, &message.client_id, LANES).index())
    }

    fn open_lane(self: Arc<Self>) -> mpsc::Sender<Message> {
        let (sender, mut messages) = mpsc::channel(LANE_LENGTH);
        drop(tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                self.deliver(message).await;
            }
        }));
        sender
    }

    /// Tells of a message and makes its event, where the rule takes its topic.
    pub(super) fn take(&self, published: &Published) -> Option<Message> {
        let digest = PayloadDigest::of(&published.payload);
        let matched = self.filter.matches(&published.topic);
        self.site.tell(&WorldEvent::Published {
            client_id: published.client_id.clone(),
            topic: published.topic.clone(),
            digest: digest.clone(),
            bytes: published.payload.len(),
            qos: published.qos,
            matched,
        });
        if !matched {
            self.site.counters.unmatched.add(1);
            return None;
        }
        self.site.counters.published.add(1);
        let trace_id = Uuid::new_v4().to_string();
        Some(Message {
            event: self.event(published, &trace_id),
            message_id: trace_id,
            topic: published.topic.clone(),
            client_id: published.client_id.clone(),
            digest,
        })
    }

    /// What IoT Core's SQL makes of a message; what is undefined there is left out.
    fn event(&self, published: &Published, trace_id: &str) -> Value {
        let mut event = json!({
            "schema": 1,
            "payload": BASE64.encode(&published.payload),
            "topic": published.topic,
            "client_id": published.client_id,
            "received_at": self.site.clock.now().wall,
            "trace_id": trace_id,
            "message_id": Uuid::new_v4().to_string(),
        });
        let device = published.user_properties.iter().find(|(name, _)| name == DEVICE_MESSAGE_ID);
        if let Some((_, id)) = device {
            event["device_message_id"] = json!(id);
        }
        event
    }

    async fn deliver(&self, message: Message) {
        let mut pause = RETRY_PAUSE;
        let mut error = None;
        for attempt in 1..=TRIES {
            match self.call_home(&message, attempt).await {
                Ok(()) => return,
                Err(failed) => error = Some(failed),
            }
            if attempt < TRIES {
                self.site.clock.sleep(pause).await;
                pause *= 2;
            }
        }
        self.failures.keep(Kept::new(message, error.unwrap_or_default(), self.site.clock.now().wall)).await;
    }

    /// One try, at whichever region lives; regions that die in the middle of it do not count.
    async fn call_home(&self, message: &Message, attempt: u32) -> Result<(), String> {
        loop {
            let (instance, door) = self.regions.home(&self.site.lease, &message.client_id).await;
            match door.invoke(Function::Ingest, message.event.clone()).await {
                Err(Gone) => self.regions.settle().await,
                Ok(Ok(reply)) => {
                    self.acknowledged(message, instance, &reply);
                    return Ok(());
                }
                Ok(Err(error)) => {
                    self.site.tell(&WorldEvent::IngestFailed {
                        instance,
                        message_id: message.message_id.clone(),
                        attempt,
                        error: format!("{}: {}", error.error_type, error.message),
                        kept: attempt == TRIES,
                    });
                    return Err(error.error_type);
                }
            }
        }
    }

    fn acknowledged(&self, message: &Message, instance: InstanceName, reply: &Value) {
        let duplicate = reply["outcome"] == "duplicate";
        self.site.tell(&WorldEvent::Ingested {
            instance,
            message_id: reply["message_id"].as_str().unwrap_or(&message.message_id).to_owned(),
            topic: message.topic.clone(),
            digest: message.digest.clone(),
            outcome: if duplicate { IngestOutcome::Duplicate } else { IngestOutcome::Stored },
        });
        let counters = &self.site.counters;
        if duplicate { &counters.duplicates_ingest } else { &counters.ingested }.add(1);
    }
}
