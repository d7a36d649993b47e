//! What the queues do, without clock, disk or network: every operation is given the time.
//!
//! A message is hidden while `visible_at_ms` lies ahead, and in flight when it is hidden and was received. Each operation
//! notes what it changed, and `store` writes that before the reply leaves.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sha2::{Digest, Sha256};

use super::refusal::{Refusal, RefusalKind};
use super::settings::QueueSettings;
use super::submission::{MessageAttributes, Submission, hexadecimal};

#[cfg(test)]
mod tests;

/// How long a FIFO queue remembers a deduplication id.
const DEDUPLICATION_MS: u64 = 300_000;
/// How long after a purge no other is allowed.
const PURGE_PAUSE_MS: u64 = 60_000;
/// Sequence numbers are shown with twenty digits, as SQS does.
const SEQUENCE_SHOWN_FROM: u64 = 10_000_000_000_000_000_000;

/// A message of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its place in the queue; grows with every send and is never used again.
    pub sequence: u64,
    /// The id that the queue gave it.
    pub message_id: String,
    /// The body.
    pub body: String,
    /// The sender's attributes.
    pub attributes: MessageAttributes,
    /// The platform's attributes.
    pub system_attributes: MessageAttributes,
    /// The group, where the sender gave one.
    pub group_id: Option<String>,
    /// The deduplication id, in a FIFO queue.
    pub deduplication_id: Option<String>,
    /// When it was sent, in milliseconds since the epoch.
    pub sent_at_ms: u64,
    /// From when on it can be received, in milliseconds since the epoch.
    pub visible_at_ms: u64,
    /// When it was first received, in milliseconds since the epoch.
    pub first_received_at_ms: Option<u64>,
    /// How often it was received.
    pub receive_count: u64,
    /// What the newest receipt handle must show.
    pub receipt: Option<String>,
}

impl Message {
    /// The sequence number as SQS shows it.
    #[must_use]
    pub fn sequence_number(&self) -> String {
        shown_sequence(self.sequence)
    }

    /// The handle that deletes the message, when it was received.
    pub(crate) fn receipt_handle(&self) -> Option<String> {
        self.receipt.as_ref().map(|receipt| format!("{}:{receipt}", self.sequence))
    }

    fn is_in_flight(&self, now_ms: u64) -> bool {
        self.receipt.is_some() && self.visible_at_ms > now_ms
    }
}

/// What a FIFO queue remembers of a message for five minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) message_id: String,
    pub(crate) sequence: u64,
    pub(crate) until_ms: u64,
}

/// What the sender of a message is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) message_id: String,
    pub(crate) sequence_number: Option<String>,
}

/// How many messages there are, by what can be done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) visible: usize,
    pub(crate) in_flight: usize,
    pub(crate) delayed: usize,
}

/// What changed since the store last wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The queue's own row.
    pub(crate) queue: bool,
    /// All messages are gone.
    pub(crate) emptied: bool,
    /// Messages by sequence: those that are still there are new or changed, the others are gone.
    pub(crate) messages: BTreeSet<u64>,
    /// Remembered deduplication ids, likewise.
    pub(crate) remembered: BTreeSet<String>,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) settings: QueueSettings,
    pub(crate) created_at_ms: u64,
    pub(crate) purged_at_ms: Option<u64>,
    pub(crate) last_sequence: u64,
    pub(crate) messages: BTreeMap<u64, Message>,
    pub(crate) remembered: BTreeMap<String, Remembered>,
    /// (visible from, sequence) of every message.
    by_visibility: BTreeSet<(u64, u64)>,
    changes: Changes,
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(name: &str, settings: QueueSettings, created_at_ms: u64) -> Queue {
        Queue {
            name: name.to_owned(),
            settings,
            created_at_ms,
            purged_at_ms: None,
            last_sequence: 0,
            messages: BTreeMap::new(),
            remembered: BTreeMap::new(),
            by_visibility: BTreeSet::new(),
            changes: Changes { queue: true, ..Changes::default() },
        }
    }

    /// Puts back a message that the store kept.
    pub(crate) fn restore(&mut self, message: Message) {
        self.by_visibility.insert((message.visible_at_ms, message.sequence));
        self.messages.insert(message.sequence, message);
    }

    /// What changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Sends one message. A duplicate in a FIFO queue is accepted, told the id of the first, and not stored.
    ///
    /// # Errors
    /// The message breaks a rule.
    pub(crate) fn send(
        &mut self,
        submission: Submission,
        now_ms: u64,
        message_id: String,
    ) -> Result<Accepted, Refusal> {
        submission.check(&self.settings)?;
        let deduplication_id = self.settings.fifo.then(|| {
            submission
                .deduplication_id
                .clone()
                .unwrap_or_else(|| hexadecimal(&Sha256::digest(submission.body.as_bytes())))
        });
        let key = deduplication_id.as_ref().map(|id| match &submission.group_id {
            Some(group) if self.settings.deduplication_per_group => format!("{group} {id}"),
            _ => id.clone(),
        });
        if let Some(first) =
            key.as_ref().and_then(|key| self.remembered.get(key)).filter(|first| first.until_ms > now_ms)
        {
            let sequence_number = Some(shown_sequence(first.sequence));
            return Ok(Accepted { message_id: first.message_id.clone(), sequence_number });
        }
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        if let Some(key) = key {
            let until_ms = now_ms.saturating_add(DEDUPLICATION_MS);
            self.changes.remembered.insert(key.clone());
            self.remembered.insert(key, Remembered { message_id: message_id.clone(), sequence, until_ms });
        }
        let delay_s = submission.delay_s.unwrap_or(self.settings.delay_s);
        let accepted = Accepted {
            message_id: message_id.clone(),
            sequence_number: self.settings.fifo.then(|| shown_sequence(sequence)),
        };
        self.restore(Message {
            sequence,
            message_id,
            body: submission.body,
            attributes: submission.attributes,
            system_attributes: submission.system_attributes,
            group_id: submission.group_id,
            deduplication_id,
            sent_at_ms: now_ms,
            visible_at_ms: now_ms.saturating_add(delay_s * 1_000),
            first_received_at_ms: None,
            receive_count: 0,
            receipt: None,
        });
        self.changes.queue = true;
        self.changes.messages.insert(sequence);
        Ok(accepted)
    }

    /// Receives up to `messages_max` messages and hides them for `visibility_s` seconds (the queue's time-out when absent).
    /// `fresh` makes an id for each receipt.
    pub(crate) fn receive(
        &mut self,
        messages_max: usize,
        visibility_s: Option<u64>,
        now_ms: u64,
        mut fresh: impl FnMut() -> String,
    ) -> Vec<Message> {
        self.forget_old(now_ms);
        let chosen = if self.settings.fifo {
            self.choose_by_group(messages_max, now_ms)
        } else {
            self.choose(messages_max, now_ms)
        };
        let hidden_for_s = visibility_s.unwrap_or(self.settings.visibility_timeout_s);
        let mut received = Vec::with_capacity(chosen.len());
        for sequence in chosen {
            self.hide(sequence, now_ms.saturating_add(hidden_for_s * 1_000));
            if let Some(message) = self.messages.get_mut(&sequence) {
                message.receive_count += 1;
                message.first_received_at_ms.get_or_insert(now_ms);
                message.receipt = Some(fresh());
                received.push(message.clone());
            }
        }
        received
    }

    /// Standard: whatever is visible, the longest visible first.
    fn choose(&self, messages_max: usize, now_ms: u64) -> Vec<u64> {
        let visible = self.by_visibility.range(..=(now_ms, u64::MAX));
        visible.take(messages_max).map(|(_, sequence)| *sequence).collect()
    }

    /// FIFO: in the order of sending, and nothing of a group that has a hidden message.
    fn choose_by_group(&self, messages_max: usize, now_ms: u64) -> Vec<u64> {
        let hidden = self.by_visibility.range((now_ms.saturating_add(1), 0)..);
        let locked: HashSet<&str> =
            hidden.filter_map(|(_, sequence)| self.messages.get(sequence)?.group_id.as_deref()).collect();
        self.messages
            .values()
            .filter(|message| !message.group_id.as_deref().is_some_and(|group| locked.contains(group)))
            .take(messages_max)
            .map(|message| message.sequence)
            .collect()
    }

    /// Deletes the message of a receipt handle. Deleting twice is a success; so is an old handle in a standard queue, which
    /// deletes nothing, as SQS says.
    ///
    /// # Errors
    /// The handle is not one of ours, or it has expired (FIFO).
    pub(crate) fn delete(&mut self, receipt_handle: &str, now_ms: u64) -> Result<(), Refusal> {
        let (sequence, receipt) = parse_handle(receipt_handle)?;
        let Some(message) = self.messages.get(&sequence) else { return Ok(()) };
        let newest = message.receipt.as_deref() == Some(receipt);
        if self.settings.fifo && !(newest && message.is_in_flight(now_ms)) {
            return Err(Refusal::value("ReceiptHandle", receipt_handle, "The receipt handle has expired."));
        }
        if newest {
            self.remove(sequence);
        }
        Ok(())
    }

    /// Hides the message of a receipt handle for `visibility_s` seconds from now; 0 shows it at once.
    ///
    /// # Errors
    /// The handle is not one of ours, or its message is not in flight.
    pub(crate) fn change_visibility(
        &mut self,
        receipt_handle: &str,
        visibility_s: u64,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let (sequence, receipt) = parse_handle(receipt_handle)?;
        let in_flight = self
            .messages
            .get(&sequence)
            .is_some_and(|message| message.receipt.as_deref() == Some(receipt) && message.is_in_flight(now_ms));
        if !in_flight {
            let message = format!("The message of receipt handle {receipt_handle} is not in flight.");
            return Err(Refusal::new(RefusalKind::NotInFlight, message));
        }
        self.hide(sequence, now_ms.saturating_add(visibility_s * 1_000));
        Ok(())
    }

    /// Deletes all messages.
    ///
    /// # Errors
    /// The last purge is less than a minute ago.
    pub(crate) fn purge(&mut self, now_ms: u64) -> Result<(), Refusal> {
        if self.purged_at_ms.is_some_and(|purged| now_ms < purged.saturating_add(PURGE_PAUSE_MS)) {
            let message = format!("Only one PurgeQueue operation on {} is allowed every 60 seconds.", self.name);
            return Err(Refusal::new(RefusalKind::PurgeInProgress, message));
        }
        self.purged_at_ms = Some(now_ms);
        self.messages.clear();
        self.by_visibility.clear();
        self.changes.queue = true;
        self.changes.emptied = true;
        self.changes.messages.clear();
        Ok(())
    }

    /// How many messages there are.
    pub(crate) fn counts(&mut self, now_ms: u64) -> Counts {
        self.forget_old(now_ms);
        let hidden = self.by_visibility.range((now_ms.saturating_add(1), 0)..);
        let mut counts = Counts::default();
        for (_, sequence) in hidden {
            match self.messages.get(sequence).is_some_and(|message| message.receipt.is_some()) {
                true => counts.in_flight += 1,
                false => counts.delayed += 1,
            }
        }
        counts.visible = self.messages.len() - counts.in_flight - counts.delayed;
        counts
    }

    /// Drops messages whose retention is over, and deduplication ids whose five minutes are.
    fn forget_old(&mut self, now_ms: u64) {
        let retention_ms = self.settings.retention_s * 1_000;
        while let Some(oldest) = self.messages.values().next() {
            if oldest.sent_at_ms.saturating_add(retention_ms) > now_ms {
                break;
            }
            self.remove(oldest.sequence);
        }
        let old: Vec<String> = self
            .remembered
            .iter()
            .filter(|(_, remembered)| remembered.until_ms <= now_ms)
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            self.remembered.remove(&key);
            self.changes.remembered.insert(key);
        }
    }

    fn hide(&mut self, sequence: u64, until_ms: u64) {
        if let Some(message) = self.messages.get_mut(&sequence) {
            self.by_visibility.remove(&(message.visible_at_ms, sequence));
            message.visible_at_ms = until_ms;
            self.by_visibility.insert((until_ms, sequence));
            self.changes.messages.insert(sequence);
        }
    }

    fn remove(&mut self, sequence: u64) {
        if let Some(message) = self.messages.remove(&sequence) {
            self.by_visibility.remove(&(message.visible_at_ms, sequence));
            self.changes.messages.insert(sequence);
        }
    }
}

/// All queues of the machine.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) by_name: BTreeMap<String, Queue>,
}

impl Queues {
    /// Makes a queue; one that exists with the same attributes is left as it is.
    ///
    /// # Errors
    /// The name or an attribute breaks a rule, or the queue exists and one of the given attributes differs.
    pub(crate) fn create(&mut self, name: &str, given: BTreeMap<String, String>, now_ms: u64) -> Result<(), Refusal> {
        let settings = QueueSettings::from_attributes(name, &given)?;
        let Some(existing) = self.by_name.get(name) else {
            self.by_name.insert(name.to_owned(), Queue::new(name, settings, now_ms));
            return Ok(());
        };
        match given.iter().find(|(attribute, value)| existing.settings.shown.get(*attribute) != Some(value)) {
            None => Ok(()),
            Some((attribute, _)) => {
                let message =
                    format!("A queue named {name} already exists with a different value for attribute {attribute}.");
                Err(Refusal::new(RefusalKind::QueueNameExists, message))
            }
        }
    }

    /// The queue of this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn get(&mut self, name: &str) -> Result<&mut Queue, Refusal> {
        self.by_name.get_mut(name).ok_or_else(|| {
            Refusal::new(RefusalKind::QueueDoesNotExist, format!("The specified queue does not exist: {name}"))
        })
    }
}

fn shown_sequence(sequence: u64) -> String {
    SEQUENCE_SHOWN_FROM.saturating_add(sequence).to_string()
}

fn parse_handle(receipt_handle: &str) -> Result<(u64, &str), Refusal> {
    receipt_handle.split_once(':').and_then(|(sequence, receipt)| Some((sequence.parse().ok()?, receipt))).ok_or_else(
        || {
            let message = format!("The input receipt handle \"{receipt_handle}\" is not a valid receipt handle.");
            Refusal::new(RefusalKind::ReceiptHandleInvalid, message)
        },
    )
}
