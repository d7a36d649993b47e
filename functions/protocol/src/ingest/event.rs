//! The events that bring messages: JSON in, [`Message`] out.
//!
//! | event | known by | id | time |
//! |---|---|---|---|
//! | the topic rule's | `payload` | `trace_id`, else `message_id` | `received_at` |
//! | the rule's error action's | `base64OriginalPayload` | `cloudwatchTraceId` | the failure queue's `SentTimestamp` |
//! | a failed invocation's record | `requestPayload` | those of the event in it | |
//! | an SQS batch of any of these | `Records`, `aws:sqs` | else `messageId` | else `SentTimestamp` |
//! | a Kinesis batch of rule events | `Records`, `aws:kinesis` | | else `approximateArrivalTimestamp` |
//!
//! What is malformed is refused by the field's path and the fix; in a batch only its own record is.

use serde_json::Value;

use super::fields::Fields;
use super::{Message, sanitised_id};
use crate::ids::{Malformed, MessageId};
use crate::time::Timestamp;

/// The newest form of the rule's event that this code reads.
const EVENT_SCHEMA: u64 = 1;
/// How deep a failed invocation's record may hold another.
const NESTING_MAX: usize = 2;

/// An event, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// One message.
    One(Message),
    /// A batch, each record by itself.
    Batch(Vec<BatchRecord>),
}

/// One record of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BatchRecord {
    /// By which a partial-batch response names it.
    pub item_identifier: String,
    /// Its message.
    pub message: Result<Message, Malformed>,
}

/// What a queue or stream says about an event that it carries.
#[derive(Debug, Clone, Copy, Default)]
struct Carrier<'a> {
    message_id: Option<&'a str>,
    arrived_at: Option<Timestamp>,
}

/// Parses any event that ingest accepts.
///
/// # Errors
/// [`Malformed`] for a single event that is none, and for a batch whose records cannot be named.
pub fn parse(event: &Value) -> Result<Event, Malformed> {
    let fields = Fields::of(event, "")?;
    if !fields.has("Records") {
        return message(event, "", Carrier::default(), NESTING_MAX).map(Event::One);
    }
    let records = fields.value("Records").and_then(Value::as_array);
    let records = records.ok_or_else(|| fields.malformed("Records", "is not a list"))?;
    let batch = records.iter().enumerate().map(|(index, value)| record(value, &format!("Records[{index}]")));
    batch.collect::<Result<_, _>>().map(Event::Batch)
}

fn record(value: &Value, path: &str) -> Result<BatchRecord, Malformed> {
    let fields = Fields::of(value, path)?;
    match fields.required_text("eventSource", "it is aws:sqs or aws:kinesis")? {
        "aws:sqs" => {
            let id = fields.required_text("messageId", "an SQS record has one")?;
            Ok(BatchRecord { item_identifier: id.to_owned(), message: from_sqs(&fields, id) })
        }
        "aws:kinesis" => {
            let kinesis = fields.object("kinesis", "a Kinesis record has it")?;
            let number = kinesis.required_text("sequenceNumber", "a Kinesis record has one")?;
            Ok(BatchRecord { item_identifier: number.to_owned(), message: from_kinesis(&kinesis) })
        }
        _ => Err(fields.malformed("eventSource", "is neither aws:sqs nor aws:kinesis; connect ingest to one of these")),
    }
}

fn from_sqs(fields: &Fields<'_>, message_id: &str) -> Result<Message, Malformed> {
    let body = fields.required_text("body", "an SQS record has one")?;
    let event: Value = serde_json::from_str(body).map_err(|_| {
        fields.malformed(
            "body",
            "is not JSON; it must be a rule event, its error action's, or a failed invocation's record",
        )
    })?;
    let sent_at = match fields.value("attributes") {
        None => None,
        Some(value) => {
            let attributes = Fields::of(value, fields.path("attributes"))?;
            let digits = attributes.text("SentTimestamp")?;
            let bad = || attributes.malformed("SentTimestamp", "is not milliseconds since the epoch, in digits");
            digits.map(|digits| digits.parse().map_err(|_| bad())).transpose()?.map(Timestamp::from_ms)
        }
    };
    let carrier = Carrier { message_id: Some(message_id), arrived_at: sent_at };
    message(&event, &fields.path("body"), carrier, NESTING_MAX)
}

fn from_kinesis(fields: &Fields<'_>) -> Result<Message, Malformed> {
    let data = fields.required_bytes("data", "a Kinesis record has it")?;
    let event: Value = serde_json::from_slice(&data)
        .map_err(|_| fields.malformed("data", "is not base64 of JSON; the rule must send its event, as to Lambda"))?;
    let arrived_at = match fields.value("approximateArrivalTimestamp") {
        None => None,
        Some(value) => Some(seconds(value).ok_or_else(|| {
            fields.malformed("approximateArrivalTimestamp", "is not a number of seconds since the epoch")
        })?),
    };
    message(&event, &fields.path("data"), Carrier { message_id: None, arrived_at }, NESTING_MAX)
}

/// Seconds with a fraction, read from the number's own digits: no float, no rounding. Parts of a millisecond are dropped.
fn seconds(value: &Value) -> Option<Timestamp> {
    let digits = value.as_number()?.to_string();
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let ms: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(ms).map(Timestamp::from_ms)
}

fn message(event: &Value, path: &str, carrier: Carrier<'_>, nesting_left: usize) -> Result<Message, Malformed> {
    let fields = Fields::of(event, path)?;
    if fields.has("requestPayload") {
        let Some(nesting_left) = nesting_left.checked_sub(1) else {
            return Err(fields.malformed("requestPayload", "holds a record of a failed invocation once too often"));
        };
        let inner = fields.value("requestPayload").unwrap_or(&Value::Null);
        return message(inner, &fields.path("requestPayload"), carrier, nesting_left);
    }
    if fields.has("base64OriginalPayload") {
        return from_error_action(&fields, carrier);
    }
    if fields.has("payload") || fields.has("schema") {
        return from_rule(&fields, carrier);
    }
    let name = if path.is_empty() { "event" } else { path };
    Err(Malformed::new(
        name,
        "is none that ingest knows: a rule event has payload, its error action's base64OriginalPayload, a failed invocation's \
         record requestPayload, a batch Records",
    ))
}

fn from_rule(fields: &Fields<'_>, carrier: Carrier<'_>) -> Result<Message, Malformed> {
    match fields.number("schema")? {
        Some(EVENT_SCHEMA) => {}
        Some(_) => {
            return Err(
                fields.malformed("schema", format!("is not {EVENT_SCHEMA}; update the stack and its rule together"))
            );
        }
        None => {
            return Err(
                fields.malformed("schema", format!("is missing; the topic rule must select {EVENT_SCHEMA} AS schema"))
            );
        }
    }
    let payload = fields.required_bytes("payload", "the topic rule must select encode(*, 'base64') AS payload")?;
    let topic = topic(fields, "the topic rule must select topic() AS topic")?;
    let id = match (identity(fields, "trace_id")?, identity(fields, "message_id")?) {
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => {
            if let Some(message_id) = carrier.message_id {
                sanitised_id(message_id)?
            } else {
                let problem = "is missing, and so is trace_id; the topic rule must select newuuid() AS message_id";
                return Err(fields.malformed("message_id", problem));
            }
        }
    };
    Ok(Message {
        payload,
        topic,
        client_id: client_id(fields, "client_id")?,
        id,
        device_message_id: fields.text("device_message_id")?.filter(|id| !id.is_empty()).map(str::to_owned),
        received_at: received_at(fields)?.or(carrier.arrived_at),
    })
}

fn from_error_action(fields: &Fields<'_>, carrier: Carrier<'_>) -> Result<Message, Malformed> {
    let payload = fields.required_bytes("base64OriginalPayload", "IoT Core's error action sends it")?;
    let topic = topic(fields, "IoT Core's error action sends it")?;
    let id = match (identity(fields, "cloudwatchTraceId")?, carrier.message_id) {
        (Some(id), _) => id,
        (None, Some(message_id)) => sanitised_id(message_id)?,
        (None, None) => {
            return Err(fields.malformed("cloudwatchTraceId", "is missing; IoT Core's error action sends it"));
        }
    };
    Ok(Message {
        payload,
        topic,
        client_id: client_id(fields, "clientId")?,
        id,
        device_message_id: None,
        received_at: carrier.arrived_at,
    })
}

fn topic(fields: &Fields<'_>, fix: &str) -> Result<String, Malformed> {
    let topic = fields.required_text("topic", fix)?;
    if topic.is_empty() { Err(fields.malformed("topic", format!("is empty; {fix}"))) } else { Ok(topic.to_owned()) }
}

fn identity(fields: &Fields<'_>, name: &str) -> Result<Option<MessageId>, Malformed> {
    let text = fields.text(name)?.filter(|text| !text.is_empty());
    text.map(sanitised_id).transpose().map_err(|malformed| fields.malformed(name, malformed.problem))
}

/// IoT SQL's `clientid()` is `n/a` for a message that did not come over MQTT.
fn client_id(fields: &Fields<'_>, name: &str) -> Result<Option<String>, Malformed> {
    let text = fields.text(name)?;
    Ok(text.filter(|id| !id.is_empty() && !id.eq_ignore_ascii_case("n/a")).map(str::to_owned))
}

fn received_at(fields: &Fields<'_>) -> Result<Option<Timestamp>, Malformed> {
    let Some(ms) = fields.number("received_at")? else { return Ok(None) };
    let at = Timestamp::from_ms(ms);
    if at > Timestamp::MAX {
        return Err(
            fields.malformed("received_at", "is no moment of this age (more than 13 digits); it is in milliseconds")
        );
    }
    Ok(Some(at))
}
