//! Those who publish: events as the topic rule makes them, singly and in the batches of the failure queue, to the ingest of
//! any instance that is up, tried again as the platform does. What was acknowledged is kept, to be found again at the end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fencepost_protocol::ids::{MessageId, PayloadDigest};
use fencepost_runtime::clock::{Clock as _, SystemClock};
use fencepost_runtime::settings::Function;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::instance::{Instance, Mode};
use crate::chance::Chance;

/// Tries of one event, as of an asynchronous invocation.
const TRIES: usize = 3;
/// Messages of a round, at least, and what chance may add.
const MESSAGES: (u64, u64) = (4, 9);

/// What was published.
#[derive(Debug, Clone, Default)]
pub(super) struct Published {
    /// Acknowledged messages and the digests of their payloads.
    pub(super) acknowledged: BTreeMap<MessageId, PayloadDigest>,
    /// Every message, acknowledged or not.
    pub(super) offered: BTreeMap<MessageId, PayloadDigest>,
}

/// Publishes.
pub(super) struct Publisher {
    dice: Chance,
    instances: Vec<Arc<Instance>>,
    published: Arc<Mutex<Published>>,
    running: JoinSet<()>,
    number: u64,
}

struct Message {
    id: MessageId,
    digest: PayloadDigest,
    event: Value,
}

impl Publisher {
    pub(super) fn new(seed: u64, instances: Vec<Arc<Instance>>) -> Self {
        Self { dice: Chance::new(!seed), instances, published: Arc::default(), running: JoinSet::new(), number: 0 }
    }

    /// Publishes a round's messages, in the background.
    pub(super) fn publish(&mut self) {
        while self.running.try_join_next().is_some() {}
        let count = MESSAGES.0 + self.dice.below(MESSAGES.1);
        let messages: Vec<Message> = (0..count).filter_map(|_| self.message()).collect();
        let batches: Vec<Vec<Message>> = if self.dice.below(4) == 0 {
            vec![messages]
        } else {
            messages.into_iter().map(|message| vec![message]).collect()
        };
        for batch in batches {
            let first = self.dice.below(1_000);
            let (instances, published) = (self.instances.clone(), Arc::clone(&self.published));
            self.running.spawn(async move { deliver(batch, first, &instances, &published).await });
        }
    }

    /// Waits for every try, and tells what was published.
    pub(super) async fn finish(mut self) -> Published {
        while self.running.join_next().await.is_some() {}
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn message(&mut self) -> Option<Message> {
        self.number += 1;
        let id = MessageId::new(format!("m-{:05}", self.number)).ok()?;
        let length = self.dice.below(400);
        // Every other one is no text.
        let noise = if self.number.is_multiple_of(2) { 0x100 } else { 0x5f };
        let payload: Vec<u8> = format!("{id} ")
            .into_bytes()
            .into_iter()
            .chain((0..length).filter_map(|_| u8::try_from(0x20 + self.dice.below(noise - 0x20)).ok()))
            .collect();
        let device = format!("device-{}", self.dice.below(20));
        let event = json!({
            "schema": 1,
            "payload": BASE64.encode(&payload),
            "topic": format!("telemetry/{device}"),
            "client_id": device,
            "received_at": SystemClock::new().now().wall.as_ms(),
            "trace_id": id.as_str(),
            "message_id": id.as_str(),
        });
        let digest = PayloadDigest::of(&payload);
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.offered.insert(id.clone(), digest.clone());
        drop(published);
        Some(Message { id, digest, event })
    }
}

async fn deliver(mut batch: Vec<Message>, first: u64, instances: &[Arc<Instance>], published: &Mutex<Published>) {
    for attempt in 0..TRIES {
        let at = usize::try_from(first).unwrap_or(0) + attempt;
        let Some(instance) = choose(instances, at) else {
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        let single = batch.len() == 1;
        let answer = instance.invoke(Function::Ingest, input(&batch)).await;
        let open = match answer {
            Ok(_) if single => Vec::new(),
            Ok(answer) => failed(&answer),
            Err(_) => batch.iter().map(|message| message.id.to_string()).collect(),
        };
        let (again, done): (Vec<_>, Vec<_>) = batch.into_iter().partition(|one| open.contains(&one.id.to_string()));
        let mut published = published.lock().unwrap_or_else(PoisonError::into_inner);
        published.acknowledged.extend(done.into_iter().map(|message| (message.id, message.digest)));
        drop(published);
        batch = again;
        if batch.is_empty() {
            return;
        }
    }
}

fn choose(instances: &[Arc<Instance>], at: usize) -> Option<&Arc<Instance>> {
    let up: Vec<_> = instances.iter().filter(|instance| instance.mode() == Mode::Up).collect();
    (!up.is_empty()).then(|| up[at % up.len()])
}

/// One event as the rule's; several as a batch of the failure queue.
fn input(batch: &[Message]) -> Value {
    if let [only] = batch {
        return only.event.clone();
    }
    let record = |message: &Message| {
        json!({
            "messageId": message.id.as_str(),
            "body": message.event.to_string(),
            "attributes": { "SentTimestamp": message.event["received_at"].to_string() },
            "eventSource": "aws:sqs",
        })
    };
    json!({ "Records": batch.iter().map(record).collect::<Vec<_>>() })
}

/// The records that a batch's answer says were not stored.
fn failed(answer: &Value) -> Vec<String> {
    let failures = answer["batchItemFailures"].as_array().map(Vec::as_slice).unwrap_or_default();
    failures.iter().filter_map(|failure| failure["itemIdentifier"].as_str().map(str::to_owned)).collect()
}
