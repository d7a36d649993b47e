//! `ReceiveMessage`: what is asked for, and how a message is shown.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ACCOUNT;
use super::model::Message;
use super::protocol::{BATCH_ENTRIES_MAX, check_visibility, find, fresh_id, parse, show_attributes};
use super::refusal::Refusal;
use super::state::Shared;
use super::submission::{AttributeContent, MessageAttribute, MessageAttributes, md5_of_attributes, md5_of_body};

/// The longest wait of a receive, in seconds.
const WAIT_S_MAX: u64 = 20;

/// A receive, checked. It is asked again and again until something is there or its wait is over.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Receive {
    queue_url: String,
    #[serde(default = "one")]
    max_number_of_messages: usize,
    visibility_timeout: Option<u64>,
    wait_time_seconds: Option<u64>,
    #[serde(default)]
    attribute_names: Vec<String>,
    #[serde(default)]
    message_system_attribute_names: Vec<String>,
    #[serde(default)]
    message_attribute_names: Vec<String>,
}

fn one() -> usize {
    1
}

impl Receive {
    /// Reads and checks the request, and tells how long it waits for a message, in seconds.
    ///
    /// # Errors
    /// SQS's own.
    pub(crate) fn parse(shared: &Shared, body: &[u8]) -> Result<(Receive, u64), Refusal> {
        let request: Receive = parse(body)?;
        let messages_max = request.max_number_of_messages;
        if !(1..=BATCH_ENTRIES_MAX).contains(&messages_max) {
            let reason = "Must be between 1 and 10, if provided.";
            return Err(Refusal::value("MaxNumberOfMessages", messages_max, reason));
        }
        check_visibility(request.visibility_timeout)?;
        let default_wait_s = shared.apply(|queues, _| Ok(find(queues, &request.queue_url)?.settings.receive_wait_s))?;
        let wait_s = request.wait_time_seconds.unwrap_or(default_wait_s);
        if wait_s > WAIT_S_MAX {
            return Err(Refusal::value("WaitTimeSeconds", wait_s, "Must be >= 0 and <= 20, if provided."));
        }
        Ok((request, wait_s))
    }

    /// Receives what is there; `None` when nothing is.
    ///
    /// # Errors
    /// SQS's own.
    pub(crate) fn attempt(&self, shared: &Shared) -> Result<Option<Value>, Refusal> {
        let received = shared.apply(|queues, now_ms| {
            let queue = find(queues, &self.queue_url)?;
            Ok(queue.receive(self.max_number_of_messages, self.visibility_timeout, now_ms, fresh_id))
        })?;
        if received.is_empty() {
            return Ok(None);
        }
        let messages: Vec<Value> = received.iter().map(|message| self.show(message)).collect();
        Ok(Some(json!({ "Messages": messages })))
    }

    fn show(&self, message: &Message) -> Value {
        let mut shown = Map::new();
        shown.insert("MessageId".into(), json!(message.message_id));
        shown.insert("ReceiptHandle".into(), json!(message.receipt_handle()));
        shown.insert("Body".into(), json!(message.body));
        shown.insert("MD5OfBody".into(), json!(md5_of_body(&message.body)));
        let attributes: MessageAttributes = message
            .attributes
            .iter()
            .filter(|(name, _)| self.message_attribute_names.iter().any(|wanted| is_wanted(wanted, name)))
            .map(|(name, attribute)| (name.clone(), attribute.clone()))
            .collect();
        if let Some(md5) = md5_of_attributes(&attributes) {
            shown.insert("MD5OfMessageAttributes".into(), json!(md5));
            shown.insert("MessageAttributes".into(), show_attributes(&attributes));
        }
        let system: Map<String, Value> = system_attributes(message)
            .into_iter()
            .filter(|(name, _)| {
                let mut wanted = self.attribute_names.iter().chain(&self.message_system_attribute_names);
                wanted.any(|wanted| wanted == "All" || wanted == name)
            })
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        if !system.is_empty() {
            shown.insert("Attributes".into(), Value::Object(system));
        }
        Value::Object(shown)
    }
}

fn system_attributes(message: &Message) -> Vec<(&'static str, String)> {
    let mut attributes = vec![
        ("SenderId", ACCOUNT.to_owned()),
        ("SentTimestamp", message.sent_at_ms.to_string()),
        ("ApproximateReceiveCount", message.receive_count.to_string()),
    ];
    if let Some(first_ms) = message.first_received_at_ms {
        attributes.push(("ApproximateFirstReceiveTimestamp", first_ms.to_string()));
    }
    if let Some(group_id) = &message.group_id {
        attributes.push(("MessageGroupId", group_id.clone()));
    }
    if let Some(deduplication_id) = &message.deduplication_id {
        attributes.push(("MessageDeduplicationId", deduplication_id.clone()));
        attributes.push(("SequenceNumber", message.sequence_number()));
    }
    if let Some(MessageAttribute { content: AttributeContent::Text(trace), .. }) =
        message.system_attributes.get("AWSTraceHeader")
    {
        attributes.push(("AWSTraceHeader", trace.clone()));
    }
    attributes
}

/// Whether a name in `MessageAttributeNames` asks for this attribute: `All`, `.*`, `prefix.*`, or the name itself.
fn is_wanted(wanted: &str, name: &str) -> bool {
    match wanted.strip_suffix(".*") {
        Some(prefix) => name.starts_with(prefix),
        None => wanted == "All" || wanted == name,
    }
}
