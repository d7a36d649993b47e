//! The attributes of a queue: which there are, which values they take, and what follows from them.

use std::collections::BTreeMap;

use super::refusal::{Refusal, RefusalKind};

/// What `CreateQueue` set, with SQS's defaults for the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    /// Whether the queue keeps order in each group and removes duplicates.
    pub(crate) fifo: bool,
    /// How long a received message stays hidden, in seconds.
    pub(crate) visibility_timeout_s: u64,
    /// How long a sent message stays hidden at first, in seconds.
    pub(crate) delay_s: u64,
    /// How long a message is kept, in seconds.
    pub(crate) retention_s: u64,
    /// How long a receive waits by default, in seconds.
    pub(crate) receive_wait_s: u64,
    /// The largest message, in bytes, with its attributes.
    pub(crate) message_bytes_max: u64,
    /// FIFO: an entry without a deduplication id takes the hash of its body.
    pub(crate) content_based_deduplication: bool,
    /// FIFO: duplicates are looked for in the group and not in the whole queue.
    pub(crate) deduplication_per_group: bool,
    /// Every attribute as it is shown, the defaults included.
    pub(crate) shown: BTreeMap<String, String>,
}

/// Numeric attributes: name, default, least and greatest value.
const NUMBERS: [(&str, u64, u64, u64); 5] = [
    ("DelaySeconds", 0, 0, 900),
    ("MaximumMessageSize", 1_048_576, 1_024, 1_048_576),
    ("MessageRetentionPeriod", 345_600, 60, 1_209_600),
    ("ReceiveMessageWaitTimeSeconds", 0, 0, 20),
    ("VisibilityTimeout", 30, 0, 43_200),
];

/// Attributes that are kept and shown and have no effect on one machine.
const WITHOUT_EFFECT: [&str; 4] = ["Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled"];

impl QueueSettings {
    /// The settings of a queue of this name with these attributes.
    ///
    /// # Errors
    /// The name or an attribute breaks SQS's rules, or the attribute is not offered here.
    pub(crate) fn from_attributes(name: &str, given: &BTreeMap<String, String>) -> Result<QueueSettings, Refusal> {
        let fifo = check_name(name, given)?;
        let mut shown = BTreeMap::new();
        for (attribute, default, least, greatest) in NUMBERS {
            let value = number(given, attribute, default, least, greatest)?;
            shown.insert(attribute.to_owned(), value.to_string());
        }
        for (attribute, value) in given {
            let known = NUMBERS.iter().any(|(number, ..)| number == attribute);
            match attribute.as_str() {
                _ if known => {}
                "FifoQueue" => {}
                "ContentBasedDeduplication" if fifo => one_of(attribute, value, &["true", "false"])?,
                "DeduplicationScope" if fifo => one_of(attribute, value, &["queue", "messageGroup"])?,
                "FifoThroughputLimit" if fifo => one_of(attribute, value, &["perQueue", "perMessageGroupId"])?,
                _ if WITHOUT_EFFECT.contains(&attribute.as_str()) => {}
                "RedrivePolicy" | "RedriveAllowPolicy" => {
                    let message = format!("{attribute} is not offered by the local queue.");
                    return Err(Refusal::new(RefusalKind::InvalidAttributeName, message));
                }
                _ => return Err(unknown_attribute(attribute)),
            }
            shown.insert(attribute.clone(), value.clone());
        }
        if fifo {
            for (attribute, default) in [
                ("ContentBasedDeduplication", "false"),
                ("DeduplicationScope", "queue"),
                ("FifoThroughputLimit", "perQueue"),
            ] {
                shown.entry(attribute.to_owned()).or_insert_with(|| default.to_owned());
            }
        }
        let value = |attribute: &str| shown.get(attribute).and_then(|value| value.parse().ok()).unwrap_or_default();
        Ok(QueueSettings {
            fifo,
            visibility_timeout_s: value("VisibilityTimeout"),
            delay_s: value("DelaySeconds"),
            retention_s: value("MessageRetentionPeriod"),
            receive_wait_s: value("ReceiveMessageWaitTimeSeconds"),
            message_bytes_max: value("MaximumMessageSize"),
            content_based_deduplication: is(&shown, "ContentBasedDeduplication", "true"),
            deduplication_per_group: is(&shown, "DeduplicationScope", "messageGroup"),
            shown,
        })
    }
}

/// The error of an attribute that does not exist.
pub(crate) fn unknown_attribute(attribute: &str) -> Refusal {
    Refusal::new(RefusalKind::InvalidAttributeName, format!("Unknown Attribute {attribute}."))
}

/// Whether the queue is a FIFO queue, when its name and `FifoQueue` agree.
fn check_name(name: &str, given: &BTreeMap<String, String>) -> Result<bool, Refusal> {
    let stem = name.strip_suffix(".fifo");
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let plain = stem.unwrap_or(name);
    if plain.is_empty() || name.len() > 80 || !plain.chars().all(allowed) {
        let reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.";
        return Err(Refusal::value("QueueName", name, reason));
    }
    let asked = match given.get("FifoQueue").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(value) => return Err(invalid_value("FifoQueue", value)),
    };
    if asked != stem.is_some() {
        let reason =
            "A FIFO queue has a name that ends in .fifo and the attribute FifoQueue=true; other queues have neither.";
        return Err(Refusal::value("QueueName", name, reason));
    }
    Ok(asked)
}

fn number(
    given: &BTreeMap<String, String>,
    attribute: &str,
    default: u64,
    least: u64,
    greatest: u64,
) -> Result<u64, Refusal> {
    let Some(text) = given.get(attribute) else { return Ok(default) };
    match text.parse() {
        Ok(value) if (least..=greatest).contains(&value) => Ok(value),
        _ => Err(invalid_value(attribute, text)),
    }
}

fn one_of(attribute: &str, value: &str, allowed: &[&str]) -> Result<(), Refusal> {
    if allowed.contains(&value) { Ok(()) } else { Err(invalid_value(attribute, value)) }
}

fn invalid_value(attribute: &str, value: &str) -> Refusal {
    let message = format!("Invalid value {value} for the parameter {attribute}.");
    Refusal::new(RefusalKind::InvalidAttributeValue, message)
}

fn is(shown: &BTreeMap<String, String>, attribute: &str, value: &str) -> bool {
    shown.get(attribute).is_some_and(|shown| shown == value)
}
