//! `MessageGroupId` and `MessageDeduplicationId`: 1 to 128 ASCII letters, digits and punctuation marks.

use sha2::{Digest as _, Sha256};

use crate::ids::hex;
use crate::limits;
use crate::outbox::OutboxRow;

/// The group of an ordering key: the key itself, or its SHA-256 in hexadecimal where SQS would refuse the key.
pub fn group_id(ordering_key: &str) -> String {
    let fits = (1..=limits::QUEUE_ID_CHARS_MAX).contains(&ordering_key.len());
    if fits && ordering_key.bytes().all(|b| b.is_ascii_graphic()) {
        ordering_key.to_owned()
    } else {
        hex(&Sha256::digest(ordering_key.as_bytes()))
    }
}

/// The deduplication id of a row: its message id; where the device made an id of its own, a hash of ordering key, that id and
/// the payload, since such ids are often unique only for one device, and a device may use one again for other bytes.
pub fn deduplication_id(row: &OutboxRow) -> String {
    let Some(device_id) = &row.device_message_id else { return row.id().to_string() };
    let mut hash = Sha256::new();
    for part in [row.ordering_key().as_bytes(), device_id.as_bytes(), &row.payload] {
        // The length first, so that no two triples run together into the same bytes.
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}
