//! AWS JSON 1.0: the requests, and what is answered to each.
//!
//! Names are SQS's own (PascalCase), because clients that are not ours read them. A queue is found by the last part of
//! its URL, so that a URL with another host name or port works too.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ACCOUNT;
use super::model::{Counts, Queue, Queues};
use super::refusal::{Refusal, RefusalKind};
use super::settings::unknown_attribute;
use super::state::Shared;
use super::submission::{
    AttributeContent, MessageAttribute, MessageAttributes, Submission, md5_of_attributes, md5_of_body,
};

/// The most entries of a batch, and messages of a receive.
pub(super) const BATCH_ENTRIES_MAX: usize = 10;
/// The largest batch, in bytes with attributes.
const BATCH_BYTES_MAX: u64 = 1_048_576;
/// The longest visibility time-out, in seconds.
const VISIBILITY_S_MAX: u64 = 43_200;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreateQueue {
    queue_name: String,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetQueueUrl {
    queue_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListQueues {
    #[serde(default)]
    queue_name_prefix: String,
    max_results: Option<usize>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OneQueue {
    queue_url: String,
    #[serde(default)]
    attribute_names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Send {
    #[serde(default)]
    queue_url: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    message_body: String,
    delay_seconds: Option<u64>,
    #[serde(default)]
    message_attributes: BTreeMap<String, WireAttribute>,
    #[serde(default)]
    message_system_attributes: BTreeMap<String, WireAttribute>,
    message_group_id: Option<String>,
    message_deduplication_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireAttribute {
    #[serde(default)]
    data_type: String,
    string_value: Option<String>,
    binary_value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", bound = "T: DeserializeOwned")]
struct Batch<T> {
    queue_url: String,
    #[serde(default = "Vec::new")]
    entries: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Delete {
    #[serde(default)]
    queue_url: String,
    #[serde(default)]
    id: String,
    receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChangeVisibility {
    queue_url: String,
    receipt_handle: String,
    visibility_timeout: u64,
}

/// Answers a request of any action but `ReceiveMessage`.
///
/// # Errors
/// SQS's own.
pub(crate) fn answer(shared: &Shared, action: &str, body: &[u8]) -> Result<Value, Refusal> {
    match action {
        "CreateQueue" => {
            let request: CreateQueue = parse(body)?;
            shared.apply(|queues, now_ms| queues.create(&request.queue_name, request.attributes, now_ms))?;
            Ok(json!({ "QueueUrl": shared.queue_url(&request.queue_name) }))
        }
        "GetQueueUrl" => {
            let request: GetQueueUrl = parse(body)?;
            shared.apply(|queues, _| queues.get(&request.queue_name).map(drop))?;
            Ok(json!({ "QueueUrl": shared.queue_url(&request.queue_name) }))
        }
        "ListQueues" => list_queues(shared, &parse(body)?),
        "GetQueueAttributes" => {
            let request: OneQueue = parse(body)?;
            shared.apply(|queues, now_ms| {
                queue_attributes(find(queues, &request.queue_url)?, &request.attribute_names, now_ms)
            })
        }
        "SendMessage" => send(shared, parse(body)?),
        "SendMessageBatch" => send_batch(shared, parse(body)?),
        "DeleteMessage" => {
            let request: Delete = parse(body)?;
            shared.apply(|queues, now_ms| {
                find(queues, &request.queue_url)?.delete(&request.receipt_handle, now_ms).map(|()| json!({}))
            })
        }
        "DeleteMessageBatch" => delete_batch(shared, parse(body)?),
        "ChangeMessageVisibility" => {
            let request: ChangeVisibility = parse(body)?;
            check_visibility(Some(request.visibility_timeout))?;
            shared.apply(|queues, now_ms| {
                let queue = find(queues, &request.queue_url)?;
                queue.change_visibility(&request.receipt_handle, request.visibility_timeout, now_ms).map(|()| json!({}))
            })
        }
        "PurgeQueue" => {
            let request: OneQueue = parse(body)?;
            shared.apply(|queues, now_ms| find(queues, &request.queue_url)?.purge(now_ms).map(|()| json!({})))
        }
        _ => Err(Refusal::new(
            RefusalKind::InvalidAction,
            format!("The action {action} is not valid for this endpoint: the local queue does not offer it."),
        )),
    }
}

fn send(shared: &Shared, request: Send) -> Result<Value, Refusal> {
    let queue_url = request.queue_url.clone();
    let submission = submission(request)?;
    shared.apply(|queues, now_ms| accept(find(queues, &queue_url)?, submission, now_ms).map(Value::Object))
}

fn send_batch(shared: &Shared, request: Batch<Send>) -> Result<Value, Refusal> {
    let ids: Vec<String> = request.entries.iter().map(|entry| entry.id.clone()).collect();
    check_batch(&ids)?;
    let submissions: Vec<Result<Submission, Refusal>> = request.entries.into_iter().map(submission).collect();
    let bytes: u64 = submissions.iter().flatten().map(Submission::bytes).sum();
    if bytes > BATCH_BYTES_MAX {
        let message =
            format!("Batch requests cannot be longer than {BATCH_BYTES_MAX} bytes. You have sent {bytes} bytes.");
        return Err(Refusal::new(RefusalKind::BatchTooLong, message));
    }
    shared.apply(|queues, now_ms| {
        let queue = find(queues, &request.queue_url)?;
        let outcomes = submissions.into_iter().map(|submission| accept(queue, submission?, now_ms));
        Ok(batch_outcome(ids.into_iter().zip(outcomes)))
    })
}

fn delete_batch(shared: &Shared, request: Batch<Delete>) -> Result<Value, Refusal> {
    let ids: Vec<String> = request.entries.iter().map(|entry| entry.id.clone()).collect();
    check_batch(&ids)?;
    shared.apply(|queues, now_ms| {
        let queue = find(queues, &request.queue_url)?;
        let outcomes =
            request.entries.iter().map(|entry| queue.delete(&entry.receipt_handle, now_ms).map(|()| Map::new()));
        Ok(batch_outcome(ids.into_iter().zip(outcomes)))
    })
}

/// Sends one message and shows what its sender is told.
fn accept(queue: &mut Queue, submission: Submission, now_ms: u64) -> Result<Map<String, Value>, Refusal> {
    let mut shown = Map::new();
    shown.insert("MD5OfMessageBody".into(), json!(md5_of_body(&submission.body)));
    for (name, attributes) in [
        ("MD5OfMessageAttributes", &submission.attributes),
        ("MD5OfMessageSystemAttributes", &submission.system_attributes),
    ] {
        if let Some(md5) = md5_of_attributes(attributes) {
            shown.insert(name.into(), json!(md5));
        }
    }
    let accepted = queue.send(submission, now_ms, fresh_id())?;
    shown.insert("MessageId".into(), json!(accepted.message_id));
    if let Some(sequence_number) = accepted.sequence_number {
        shown.insert("SequenceNumber".into(), json!(sequence_number));
    }
    Ok(shown)
}

fn batch_outcome(outcomes: impl Iterator<Item = (String, Result<Map<String, Value>, Refusal>)>) -> Value {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (id, outcome) in outcomes {
        match outcome {
            Ok(mut shown) => {
                shown.insert("Id".into(), json!(id));
                successful.push(Value::Object(shown));
            }
            Err(refusal) => failed.push(json!({
                "Id": id,
                "Code": refusal.kind.code(),
                "Message": refusal.message,
                "SenderFault": !refusal.kind.is_our_fault(),
            })),
        }
    }
    let mut shown = Map::new();
    shown.insert("Successful".into(), json!(successful));
    if !failed.is_empty() {
        shown.insert("Failed".into(), json!(failed));
    }
    Value::Object(shown)
}

fn check_batch(ids: &[String]) -> Result<(), Refusal> {
    if ids.is_empty() {
        return Err(Refusal::new(RefusalKind::EmptyBatchRequest, "There should be at least one entry in the request."));
    }
    if ids.len() > BATCH_ENTRIES_MAX {
        let message = format!("Maximum number of entries per request are 10. You have sent {}.", ids.len());
        return Err(Refusal::new(RefusalKind::TooManyEntries, message));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if let Some(id) = ids.iter().find(|id| id.is_empty() || id.len() > 80 || !id.chars().all(allowed)) {
        let message = format!(
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores, 1 to 80 of them: \"{id}\"."
        );
        return Err(Refusal::new(RefusalKind::InvalidEntryId, message));
    }
    if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() {
        return Err(Refusal::new(RefusalKind::EntryIdsNotDistinct, "Two or more batch entries have the same Id."));
    }
    Ok(())
}

pub(super) fn check_visibility(visibility_s: Option<u64>) -> Result<(), Refusal> {
    match visibility_s {
        Some(visibility_s) if visibility_s > VISIBILITY_S_MAX => {
            Err(Refusal::value("VisibilityTimeout", visibility_s, "Must be between 0 and 43200, if provided."))
        }
        _ => Ok(()),
    }
}

fn submission(request: Send) -> Result<Submission, Refusal> {
    Ok(Submission {
        body: request.message_body,
        attributes: attributes(request.message_attributes)?,
        system_attributes: attributes(request.message_system_attributes)?,
        delay_s: request.delay_seconds,
        group_id: request.message_group_id,
        deduplication_id: request.message_deduplication_id,
    })
}

fn attributes(wire: BTreeMap<String, WireAttribute>) -> Result<MessageAttributes, Refusal> {
    let read = |(name, wire): (String, WireAttribute)| {
        let content = match (wire.string_value, wire.binary_value) {
            (Some(text), None) => AttributeContent::Text(text),
            (None, Some(encoded)) => AttributeContent::Bytes(BASE64.decode(encoded).map_err(|error| {
                Refusal::new(RefusalKind::Serialization, format!("BinaryValue of '{name}' is not base64: {error}"))
            })?),
            _ => {
                let message =
                    format!("The message attribute '{name}' must contain one value: a string or a binary one.");
                return Err(Refusal::new(RefusalKind::InvalidParameterValue, message));
            }
        };
        Ok((name, MessageAttribute { data_type: wire.data_type, content }))
    };
    wire.into_iter().map(read).collect()
}

pub(super) fn show_attributes(attributes: &MessageAttributes) -> Value {
    let show = |attribute: &MessageAttribute| match &attribute.content {
        AttributeContent::Text(text) => json!({ "DataType": attribute.data_type, "StringValue": text }),
        AttributeContent::Bytes(bytes) => {
            json!({ "DataType": attribute.data_type, "BinaryValue": BASE64.encode(bytes) })
        }
    };
    Value::Object(attributes.iter().map(|(name, attribute)| (name.clone(), show(attribute))).collect())
}

fn list_queues(shared: &Shared, request: &ListQueues) -> Result<Value, Refusal> {
    let names: Vec<String> = shared.apply(|queues, _| Ok(queues.by_name.keys().cloned().collect()))?;
    let after = request.next_token.as_deref().unwrap_or_default();
    let mut matching: Vec<String> = names
        .into_iter()
        .filter(|name| name.starts_with(&request.queue_name_prefix) && name.as_str() > after)
        .collect();
    let page = request.max_results.unwrap_or(1_000).clamp(1, 1_000);
    let more = matching.len() > page;
    matching.truncate(page);
    let mut shown = Map::new();
    if let Some(last) = matching.last().filter(|_| more) {
        shown.insert("NextToken".into(), json!(last));
    }
    let urls: Vec<String> = matching.iter().map(|name| shared.queue_url(name)).collect();
    shown.insert("QueueUrls".into(), json!(urls));
    Ok(Value::Object(shown))
}

fn queue_attributes(queue: &mut Queue, names: &[String], now_ms: u64) -> Result<Value, Refusal> {
    let Counts { visible, in_flight, delayed } = queue.counts(now_ms);
    let mut all = queue.settings.shown.clone();
    let created_s = (queue.created_at_ms / 1_000).to_string();
    for (name, value) in [
        ("ApproximateNumberOfMessages", visible.to_string()),
        ("ApproximateNumberOfMessagesNotVisible", in_flight.to_string()),
        ("ApproximateNumberOfMessagesDelayed", delayed.to_string()),
        ("CreatedTimestamp", created_s.clone()),
        ("LastModifiedTimestamp", created_s),
        ("QueueArn", format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{}", queue.name)),
    ] {
        all.insert(name.to_owned(), value);
    }
    // Known, but not set on this queue: SQS leaves them out of the answer.
    const OPTIONAL: [&str; 10] = [
        "Policy",
        "FifoQueue",
        "ContentBasedDeduplication",
        "DeduplicationScope",
        "FifoThroughputLimit",
        "KmsMasterKeyId",
        "KmsDataKeyReusePeriodSeconds",
        "SqsManagedSseEnabled",
        "RedrivePolicy",
        "RedriveAllowPolicy",
    ];
    let mut shown = Map::new();
    for name in names {
        match all.get(name) {
            _ if name == "All" => shown.extend(all.iter().map(|(name, value)| (name.clone(), json!(value)))),
            Some(value) => drop(shown.insert(name.clone(), json!(value))),
            None if OPTIONAL.contains(&name.as_str()) => {}
            None => return Err(unknown_attribute(name)),
        }
    }
    Ok(json!({ "Attributes": shown }))
}

/// The queue that a URL names.
pub(super) fn find<'a>(queues: &'a mut Queues, queue_url: &str) -> Result<&'a mut Queue, Refusal> {
    let name = queue_url.rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        return Err(Refusal::missing("QueueUrl"));
    }
    queues.get(name)
}

pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::new(RefusalKind::Serialization, error.to_string()))
}

pub(super) fn fresh_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
