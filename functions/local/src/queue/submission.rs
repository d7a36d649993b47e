//! A message as a client sends it: the rules for its parts, its size and its checksums.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use super::refusal::{Refusal, RefusalKind};
use super::settings::QueueSettings;

/// The most message attributes.
const ATTRIBUTES_MAX: usize = 10;
/// The longest name or type of an attribute, in characters.
const NAME_CHARACTERS_MAX: usize = 256;
/// The longest group or deduplication id, in characters.
const ID_CHARACTERS_MAX: usize = 128;
/// The longest delay of a message, in seconds.
const DELAY_S_MAX: u64 = 900;

/// The value of a message attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributeContent {
    /// A string or a number.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A message attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, with an optional label after a dot.
    pub data_type: String,
    /// The value.
    pub content: AttributeContent,
}

/// Message attributes by name.
pub type MessageAttributes = BTreeMap<String, MessageAttribute>;

/// A message that a client wants to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Submission {
    /// The body.
    pub(crate) body: String,
    /// The sender's attributes.
    pub(crate) attributes: MessageAttributes,
    /// Attributes of the platform (`AWSTraceHeader`).
    pub(crate) system_attributes: MessageAttributes,
    /// How long it stays hidden, in seconds; the queue's delay when absent.
    pub(crate) delay_s: Option<u64>,
    /// The group: order in a FIFO queue, fairness in a standard one.
    pub(crate) group_id: Option<String>,
    /// FIFO: what makes it a duplicate of another.
    pub(crate) deduplication_id: Option<String>,
}

impl Submission {
    /// The size that counts against the limits: body, and names, types and values of attributes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let attributes = self
            .attributes
            .iter()
            .map(|(name, attribute)| name.len() + attribute.data_type.len() + content_bytes(&attribute.content).len());
        let total = self.body.len() + attributes.sum::<usize>();
        u64::try_from(total).unwrap_or(u64::MAX)
    }

    /// Checks the message against SQS's rules and the queue's settings.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn check(&self, settings: &QueueSettings) -> Result<(), Refusal> {
        if self.body.is_empty() {
            return Err(Refusal::missing("MessageBody"));
        }
        check_characters(&self.body)?;
        check_attributes(&self.attributes)?;
        if self.bytes() > settings.message_bytes_max {
            let message = format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {} bytes.",
                settings.message_bytes_max
            );
            return Err(Refusal::new(RefusalKind::InvalidParameterValue, message));
        }
        if let Some(delay_s) = self.delay_s {
            if delay_s > DELAY_S_MAX {
                return Err(Refusal::value("DelaySeconds", delay_s, "DelaySeconds must be >= 0 and <= 900."));
            }
            if settings.fifo {
                let reason = "The request include parameter that is not valid for this queue type.";
                return Err(Refusal::value("DelaySeconds", delay_s, reason));
            }
        }
        self.check_ids(settings)
    }

    fn check_ids(&self, settings: &QueueSettings) -> Result<(), Refusal> {
        if let Some(group_id) = &self.group_id {
            check_id("MessageGroupId", group_id)?;
        }
        if let Some(deduplication_id) = &self.deduplication_id {
            check_id("MessageDeduplicationId", deduplication_id)?;
        }
        if !settings.fifo {
            return match &self.deduplication_id {
                None => Ok(()),
                Some(id) => {
                    let reason = "The request include parameter that is not valid for this queue type.";
                    Err(Refusal::value("MessageDeduplicationId", id, reason))
                }
            };
        }
        if self.group_id.is_none() {
            return Err(Refusal::missing("MessageGroupId"));
        }
        if self.deduplication_id.is_none() && !settings.content_based_deduplication {
            let message = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly";
            return Err(Refusal::new(RefusalKind::InvalidParameterValue, message));
        }
        Ok(())
    }
}

/// The MD5 of a body, in hexadecimal.
pub(crate) fn md5_of_body(body: &str) -> String {
    hexadecimal(&Md5::digest(body.as_bytes()))
}

/// The MD5 of attributes as SQS defines it: for each by name, the length and bytes of name and type, a byte for the kind
/// of value, the length and bytes of the value. `None` when there are none.
pub(crate) fn md5_of_attributes(attributes: &MessageAttributes) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut md5 = Md5::new();
    let part = |md5: &mut Md5, bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        md5.update(length.to_be_bytes());
        md5.update(bytes);
    };
    for (name, attribute) in attributes {
        part(&mut md5, name.as_bytes());
        part(&mut md5, attribute.data_type.as_bytes());
        md5.update(match attribute.content {
            AttributeContent::Text(_) => [1_u8],
            AttributeContent::Bytes(_) => [2_u8],
        });
        part(&mut md5, content_bytes(&attribute.content));
    }
    Some(hexadecimal(&md5.finalize()))
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether SQS takes this character.
fn is_allowed(c: char) -> bool {
    matches!(c, '\u{9}' | '\u{A}' | '\u{D}' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}')
}

fn check_characters(text: &str) -> Result<(), Refusal> {
    match text.chars().find(|c| !is_allowed(*c)) {
        None => Ok(()),
        Some(refused) => {
            let message =
                format!("Invalid binary character '#x{:X}' was found in the message body.", u32::from(refused));
            Err(Refusal::new(RefusalKind::InvalidMessageContents, message))
        }
    }
}

fn check_attributes(attributes: &MessageAttributes) -> Result<(), Refusal> {
    if attributes.len() > ATTRIBUTES_MAX {
        let message = format!("Number of message attributes [{}] exceeds the allowed maximum [10].", attributes.len());
        return Err(Refusal::new(RefusalKind::InvalidParameterValue, message));
    }
    for (name, attribute) in attributes {
        check_attribute_name(name)?;
        check_attribute_value(name, attribute)?;
    }
    Ok(())
}

fn check_attribute_name(name: &str) -> Result<(), Refusal> {
    let lower = name.to_ascii_lowercase();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let well_formed = !name.is_empty()
        && name.len() <= NAME_CHARACTERS_MAX
        && name.chars().all(allowed)
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && !lower.starts_with("aws.")
        && !lower.starts_with("amazon.");
    if well_formed {
        return Ok(());
    }
    let message =
        format!("Message (user) attribute name '{name}' is invalid. Use A-Z, a-z, 0-9, _, -, and single dots inside.");
    Err(Refusal::new(RefusalKind::InvalidParameterValue, message))
}

fn check_attribute_value(name: &str, attribute: &MessageAttribute) -> Result<(), Refusal> {
    let refused = |what: &str| {
        Err(Refusal::new(RefusalKind::InvalidParameterValue, format!("The message attribute '{name}' {what}.")))
    };
    let data_type = &attribute.data_type;
    if data_type.is_empty() || data_type.len() > NAME_CHARACTERS_MAX {
        return refused("must have a type of 1 to 256 characters");
    }
    let base = data_type.split('.').next().unwrap_or_default();
    match (base, &attribute.content) {
        ("String", AttributeContent::Text(text)) if text.is_empty() => refused("must contain a non-empty value"),
        ("String", AttributeContent::Text(text)) => check_characters(text),
        ("Number", AttributeContent::Text(text)) if text.parse::<f64>().is_ok_and(f64::is_finite) => Ok(()),
        ("Number", AttributeContent::Text(_)) => refused("with type 'Number' must be a number"),
        ("Binary", AttributeContent::Bytes(bytes)) if bytes.is_empty() => refused("must contain a non-empty value"),
        ("Binary", AttributeContent::Bytes(_)) => Ok(()),
        ("String" | "Number" | "Binary", _) => refused("has a value that is not of its type"),
        _ => refused("has a type that is none of Binary, Number, String"),
    }
}

fn check_id(parameter: &str, id: &str) -> Result<(), Refusal> {
    if !id.is_empty() && id.len() <= ID_CHARACTERS_MAX && id.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(());
    }
    let reason = format!("{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length.");
    Err(Refusal::value(parameter, id, &reason))
}

fn content_bytes(content: &AttributeContent) -> &[u8] {
    match content {
        AttributeContent::Text(text) => text.as_bytes(),
        AttributeContent::Bytes(bytes) => bytes,
    }
}
