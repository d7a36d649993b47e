//! The destination, with SQS's rules for batches, entries and FIFO queues.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::drain::{QueueRefusal, QueueReply};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::limits::{
    QUEUE_ATTRIBUTES_MAX, QUEUE_BATCH_ENTRIES_MAX, QUEUE_ID_CHARS_MAX, QUEUE_REQUEST_BYTES_MAX,
};

use super::faults::{EntryFault, FaultPlan, Gate, NoFaults};
use crate::ports::Queue;
use crate::{StoreError, operation};

/// Characters of an entry's id inside its request.
const ENTRY_ID_CHARS_MAX: usize = 80;
/// Characters of an attribute's name.
const ATTRIBUTE_NAME_CHARS_MAX: usize = 256;

/// Which kind of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// At least once, no order.
    Standard,
    /// In order by group; a deduplication id seen before is accepted and dropped.
    Fifo,
}

/// [`Queue`] as a list. Clones share it.
#[derive(Clone)]
pub struct MemoryQueue {
    kind: QueueKind,
    inbox: Arc<Mutex<Inbox>>,
    gate: Gate,
}

#[derive(Default)]
struct Inbox {
    accepted: Vec<QueueEntry>,
    seen: BTreeSet<String>,
    deduplicated: usize,
}

impl MemoryQueue {
    /// An empty queue.
    pub fn new(kind: QueueKind) -> Self {
        Self { kind, inbox: Arc::default(), gate: Gate::new(Arc::new(NoFaults)) }
    }

    /// The same, with the faults of `plan`. Calls are counted from 1 for this adapter and its clones.
    #[must_use]
    pub fn with_faults(self, plan: Arc<dyn FaultPlan>) -> Self {
        Self { gate: Gate::new(plan), ..self }
    }

    /// Every message that it holds, in the order of acceptance.
    pub fn accepted(&self) -> Vec<QueueEntry> {
        self.with(|inbox| inbox.accepted.clone())
    }

    /// The same, and the queue is empty afterwards: a consumer that receives and deletes everything.
    pub fn take_accepted(&self) -> Vec<QueueEntry> {
        self.with(|inbox| std::mem::take(&mut inbox.accepted))
    }

    /// How many messages a FIFO queue accepted and dropped as seen before.
    pub fn deduplicated(&self) -> usize {
        self.with(|inbox| inbox.deduplicated)
    }

    /// Forgets the deduplication ids, as SQS does five minutes after each.
    pub fn forget_deduplication(&self) {
        self.with(|inbox| inbox.seen.clear());
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inbox) -> T) -> T {
        work(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inbox {
    fn accept(&mut self, kind: QueueKind, entry: &QueueEntry) {
        let repeated = match (&entry.deduplication_id, kind) {
            (Some(id), QueueKind::Fifo) => !self.seen.insert(id.clone()),
            _ => false,
        };
        if repeated {
            self.deduplicated += 1;
        } else {
            self.accepted.push(entry.clone());
        }
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn send(&self, entries: &[QueueEntry]) -> Result<QueueReply, StoreError> {
        let pass = self.gate.enter(operation::SEND, entries.len()).await?;
        check_request(entries)?;
        let mut reply = QueueReply::default();
        self.with(|inbox| {
            for (index, entry) in entries.iter().enumerate() {
                let fault = pass.entry(index);
                let refusal = match fault {
                    Some(EntryFault::Refuse(code)) => Some((code.as_str(), "injected fault".to_owned())),
                    _ => entry_fault(self.kind, entry),
                };
                if let Some((code, message)) = refusal {
                    reply.refused.push(QueueRefusal {
                        entry_id: entry.entry_id.clone(),
                        code: code.to_owned(),
                        message,
                    });
                    continue;
                }
                if fault != Some(&EntryFault::Lose) {
                    inbox.accept(self.kind, entry);
                }
                match fault {
                    Some(EntryFault::Omit | EntryFault::Lose) => {}
                    Some(EntryFault::Rename(id)) => reply.accepted.push(id.clone()),
                    Some(EntryFault::Repeat) => reply.accepted.extend([entry.entry_id.clone(), entry.entry_id.clone()]),
                    _ => reply.accepted.push(entry.entry_id.clone()),
                }
            }
        });
        pass.leave().await?;
        Ok(reply)
    }
}

/// What refuses the whole request.
fn check_request(entries: &[QueueEntry]) -> Result<(), StoreError> {
    let invalid = |detail: String| Err(StoreError::new(FailureKind::Invalid, operation::SEND, detail));
    if entries.is_empty() || entries.len() > QUEUE_BATCH_ENTRIES_MAX {
        return invalid(format!("a batch has 1 to {QUEUE_BATCH_ENTRIES_MAX} entries, not {}", entries.len()));
    }
    let ids: BTreeSet<&str> = entries.iter().map(|entry| entry.entry_id.as_str()).collect();
    if ids.len() < entries.len() {
        return invalid("two entries have one id; give each its own".to_owned());
    }
    let id_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if let Some(id) = ids.iter().find(|id| id.is_empty() || id.len() > ENTRY_ID_CHARS_MAX || !id.chars().all(id_char)) {
        return invalid(format!("entry id {id:?} must be 1 to {ENTRY_ID_CHARS_MAX} letters, digits, '-' and '_'"));
    }
    let bytes: usize = entries.iter().map(QueueEntry::size_bytes).sum();
    if bytes > QUEUE_REQUEST_BYTES_MAX {
        return invalid(format!("a batch of {bytes} bytes is over the limit of {QUEUE_REQUEST_BYTES_MAX}"));
    }
    Ok(())
}

/// What refuses one entry: code and words.
fn entry_fault(kind: QueueKind, entry: &QueueEntry) -> Option<(&'static str, String)> {
    let invalid = |words: String| Some(("InvalidParameterValue", words));
    if entry.body.is_empty() {
        return Some(("MissingParameter", "the body is empty".to_owned()));
    }
    if !entry.body.chars().all(is_allowed) {
        return Some(("InvalidMessageContents", "the body has a character that a queue does not carry".to_owned()));
    }
    if entry.attributes.len() > QUEUE_ATTRIBUTES_MAX {
        return invalid(format!("more than {QUEUE_ATTRIBUTES_MAX} attributes"));
    }
    let names: BTreeSet<&str> = entry.attributes.iter().map(|(name, _)| name.as_str()).collect();
    if names.len() < entry.attributes.len() {
        return invalid("an attribute's name comes twice".to_owned());
    }
    if let Some((name, _)) = entry.attributes.iter().find(|(name, value)| !attribute_fits(name, value)) {
        return invalid(format!("attribute {name:?} has a name or value that a queue does not carry"));
    }
    let id_fits =
        |id: &String| (1..=QUEUE_ID_CHARS_MAX).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
    for (name, id) in [("MessageGroupId", &entry.group_id), ("MessageDeduplicationId", &entry.deduplication_id)] {
        if id.as_ref().is_some_and(|id| !id_fits(id)) {
            return invalid(format!("{name} must be 1 to {QUEUE_ID_CHARS_MAX} letters, digits and punctuation marks"));
        }
        if kind == QueueKind::Fifo && id.is_none() {
            return Some(("MissingParameter", format!("a FIFO queue wants {name}")));
        }
    }
    if kind == QueueKind::Standard && entry.deduplication_id.is_some() {
        return invalid("MessageDeduplicationId is not for a standard queue".to_owned());
    }
    None
}

fn attribute_fits(name: &str, value: &str) -> bool {
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=ATTRIBUTE_NAME_CHARS_MAX).contains(&name.len())
        && name.chars().all(name_char)
        && !value.is_empty()
        && value.chars().all(is_allowed)
}

/// The characters that SQS carries.
fn is_allowed(c: char) -> bool {
    matches!(c, '\u{9}' | '\u{A}' | '\u{D}' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}')
}
