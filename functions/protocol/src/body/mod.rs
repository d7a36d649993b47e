//! How a message looks in the queue: body, attributes, group and deduplication id; and back to the exact bytes.
//!
//! Guarantees: [`decode_body`] of what [`encode`] made is the published payload, byte for byte, for any bytes; which encoding
//! was used is always stated in [`PAYLOAD_ENCODING`], never guessed; body and attributes hold only characters that SQS takes
//! and are never empty.
//!
//! | attribute | value | when |
//! |---|---|---|
//! | `message-id` | the outbox's id, for the consumer's own deduplication | always |
//! | `topic` | the MQTT topic | always |
//! | `client-id` | the device's client id | when the rule knew one |
//! | `received-at` | milliseconds since the epoch, at the broker | always |
//! | `payload-encoding` | `text`, `base64` or `empty` (the body, or the envelope's data) | always |
//! | `fencing-token` | the token of the sender | always |
//! | `device-message-id` | the id that the device made itself | when it made one |
//! | `content-type` | `application/cloudevents+json; charset=utf-8` | in that format |
//! | `percent-encoded` | which of the above are percent-encoded, with commas between | when one had to be |
//!
//! A value is percent-encoded when it is empty or has a character that SQS refuses; a `%` in it is then encoded too.

mod cloud_events;
mod queue_ids;
mod text;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::ids::{FencingToken, Malformed};
use crate::outbox::OutboxRow;

pub use queue_ids::{deduplication_id, group_id};
pub use text::{is_allowed, percent_decode};

/// Attribute: the message's id.
pub const MESSAGE_ID: &str = "message-id";
/// Attribute: the topic.
pub const TOPIC: &str = "topic";
/// Attribute: the client id.
pub const CLIENT_ID: &str = "client-id";
/// Attribute: when the broker received it, milliseconds since the epoch.
pub const RECEIVED_AT: &str = "received-at";
/// Attribute: how the payload is encoded.
pub const PAYLOAD_ENCODING: &str = "payload-encoding";
/// Attribute: the sender's token.
pub const FENCING_TOKEN: &str = "fencing-token";
/// Attribute: the id that the device made.
pub const DEVICE_MESSAGE_ID: &str = "device-message-id";
/// Attribute: the media type of the body, where it is an envelope.
pub const CONTENT_TYPE: &str = "content-type";
/// Attribute: the names of percent-encoded attributes.
pub const PERCENT_ENCODED: &str = "percent-encoded";

const TEXT: &str = "text";
const BASE64_NAME: &str = "base64";
const EMPTY: &str = "empty";
/// The body of an empty payload: SQS wants one character at least.
const EMPTY_BODY: &str = "-";

/// One message as the queue gets it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueEntry {
    /// Its id inside the request: at most 80 letters, digits, '-' and '_'.
    pub entry_id: String,
    /// The body: 1 character at least, only characters that SQS allows.
    pub body: String,
    /// String attributes, name and value, at most ten.
    pub attributes: Vec<(String, String)>,
    /// `MessageGroupId`.
    pub group_id: Option<String>,
    /// `MessageDeduplicationId` (FIFO only).
    pub deduplication_id: Option<String>,
}

impl QueueEntry {
    /// What it counts against the request's limit: body, attribute names, types and values, in bytes.
    pub fn size_bytes(&self) -> usize {
        const STRING_TYPE_BYTES: usize = "String".len();
        let attributes: usize =
            self.attributes.iter().map(|(name, value)| name.len() + STRING_TYPE_BYTES + value.len()).sum();
        self.body.len() + attributes
    }
}

/// How a payload becomes a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    /// The payload itself: as text where SQS takes every character, else base64.
    #[default]
    Raw,
    /// A CloudEvents 1.0 envelope in JSON, the payload in `data` or `data_base64`.
    CloudEvents,
}

impl BodyFormat {
    /// The name, as a setting states it.
    pub const fn as_str(self) -> &'static str {
        match self {
            BodyFormat::Raw => "raw",
            BodyFormat::CloudEvents => "cloudevents",
        }
    }

    /// Reads the name.
    ///
    /// # Errors
    /// [`Malformed`] for any other text.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        match text {
            "raw" => Ok(BodyFormat::Raw),
            "cloudevents" => Ok(BodyFormat::CloudEvents),
            other => Err(Malformed::new("body_format", format!("is {other:?}; it is raw or cloudevents"))),
        }
    }
}

/// A payload in characters that SQS takes.
enum Encoded<'a> {
    Text(&'a str),
    Base64(String),
    Empty,
}

impl<'a> Encoded<'a> {
    fn of(payload: &'a [u8]) -> Self {
        if payload.is_empty() {
            return Encoded::Empty;
        }
        match std::str::from_utf8(payload) {
            Ok(text) if text.chars().all(is_allowed) => Encoded::Text(text),
            Ok(_) | Err(_) => Encoded::Base64(BASE64.encode(payload)),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Encoded::Text(_) => TEXT,
            Encoded::Base64(_) => BASE64_NAME,
            Encoded::Empty => EMPTY,
        }
    }
}

/// The queue's form of a row that is sent under `token`. The entry id is left empty: it belongs to the request. `ordered`:
/// the destination is a FIFO queue, which alone takes a deduplication id.
pub fn encode(row: &OutboxRow, token: FencingToken, format: BodyFormat, ordered: bool) -> QueueEntry {
    let encoded = Encoded::of(&row.payload);
    let attributes = attributes(row, token, format, encoded.name());
    let body = match format {
        BodyFormat::Raw => match encoded {
            Encoded::Text(text) => text.to_owned(),
            Encoded::Base64(digits) => digits,
            Encoded::Empty => EMPTY_BODY.to_owned(),
        },
        BodyFormat::CloudEvents => cloud_events::envelope(row, token, encoded),
    };
    QueueEntry {
        entry_id: String::new(),
        body,
        attributes,
        group_id: Some(group_id(row.ordering_key())),
        deduplication_id: ordered.then(|| deduplication_id(row)),
    }
}

fn attributes(row: &OutboxRow, token: FencingToken, format: BodyFormat, encoding: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    let mut percent_encoded = Vec::new();
    let mut add = |name: &'static str, value: &str| {
        let needs_encoding = value.is_empty() || !value.chars().all(is_allowed);
        if needs_encoding {
            percent_encoded.push(name);
        }
        let value = if needs_encoding { text::percent_encode(value) } else { value.to_owned() };
        attributes.push((name.to_owned(), value));
    };
    add(MESSAGE_ID, row.id().as_str());
    add(TOPIC, &row.topic);
    if let Some(client) = &row.client_id {
        add(CLIENT_ID, client);
    }
    add(RECEIVED_AT, &row.key.position.received_at().as_ms().to_string());
    add(PAYLOAD_ENCODING, encoding);
    add(FENCING_TOKEN, &token.to_string());
    if let Some(id) = &row.device_message_id {
        add(DEVICE_MESSAGE_ID, id);
    }
    if format == BodyFormat::CloudEvents {
        add(CONTENT_TYPE, cloud_events::MEDIA_TYPE);
    }
    if !percent_encoded.is_empty() {
        attributes.push((PERCENT_ENCODED.to_owned(), percent_encoded.join(",")));
    }
    attributes
}

/// The value of attribute `name` as it was before encoding; `None` where it is absent.
///
/// # Errors
/// [`Malformed`] where it says that it is percent-encoded and is not.
pub fn attribute(attributes: &[(String, String)], name: &'static str) -> Result<Option<String>, Malformed> {
    let find = |wanted: &str| attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let Some(value) = find(name) else { return Ok(None) };
    if find(PERCENT_ENCODED).is_some_and(|names| names.split(',').any(|encoded| encoded == name)) {
        percent_decode(value).map(Some).ok_or_else(|| Malformed::new(name, "is not percent-encoded text"))
    } else {
        Ok(Some(value.to_owned()))
    }
}

/// The published payload.
///
/// # Errors
/// [`Malformed`] where body or attributes are not of this format: the attribute `payload-encoding` is missing or unknown, or
/// the body contradicts it.
pub fn decode_body(format: BodyFormat, body: &str, attributes: &[(String, String)]) -> Result<Vec<u8>, Malformed> {
    let encoding = attribute(attributes, PAYLOAD_ENCODING)?
        .ok_or_else(|| Malformed::new(PAYLOAD_ENCODING, "is missing; it must be text, base64 or empty"))?;
    match format {
        BodyFormat::CloudEvents => cloud_events::data(body, &encoding),
        BodyFormat::Raw => match encoding.as_str() {
            TEXT => Ok(body.as_bytes().to_vec()),
            BASE64_NAME => from_base64("body", body),
            EMPTY if body == EMPTY_BODY => Ok(Vec::new()),
            EMPTY => Err(Malformed::new("body", "must be \"-\" where payload-encoding is empty")),
            other => Err(unknown_encoding(other)),
        },
    }
}

fn unknown_encoding(encoding: &str) -> Malformed {
    Malformed::new(PAYLOAD_ENCODING, format!("must be text, base64 or empty; it is {encoding:?}"))
}

fn from_base64(field: &'static str, digits: &str) -> Result<Vec<u8>, Malformed> {
    BASE64.decode(digits).map_err(|_| Malformed::new(field, "is not base64 (standard alphabet, with padding)"))
}

#[cfg(test)]
mod tests;
