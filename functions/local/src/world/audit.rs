//! What the stores and the queue really hold, and what the history makes of it.

use std::collections::HashSet;
use std::time::Duration;

use fencepost_protocol::body::{BodyFormat, CLIENT_ID, FENCING_TOKEN, MESSAGE_ID, TOPIC, attribute, decode_body};
use fencepost_protocol::ids::{LeaseName, Malformed, PayloadDigest, RowKey, Shard};
use fencepost_protocol::invariants::{Conservation, Violation};
use fencepost_protocol::outbox::{DeadRow, DeathReason, OutboxRow, Slot};
use fencepost_storage::{Outbox, StoreError};

use super::{World, WorldError};
use crate::queue::{AttributeContent, StoredMessage};

/// Rows of one read.
const PAGE_ROWS: usize = 500;
/// How often an audit looks whether the stream was read to its end.
const AUDIT_PAUSE: Duration = Duration::from_millis(20);
/// How often it looks at most: 10 s.
const AUDIT_LOOKS: u32 = 500;

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Where it is; of a dead record, where it was.
    pub key: RowKey,
    /// The topic.
    pub topic: String,
    /// Who published it.
    pub client_id: Option<String>,
    /// Of the payload.
    pub digest: PayloadDigest,
    /// Is it, or was it, claimed?
    pub claimed: bool,
    /// Why it died; `None` for an outstanding row.
    pub reason: Option<DeathReason>,
}

/// A message in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredMessage {
    /// The queue's own id of it.
    pub queue_message_id: String,
    /// The message's id.
    pub message_id: String,
    /// The topic.
    pub topic: String,
    /// Who published it.
    pub client_id: Option<String>,
    /// Of the decoded payload.
    pub digest: PayloadDigest,
    /// Under which token it was sent.
    pub token: Option<u64>,
}

/// What an audit found.
#[derive(Debug, Clone, Default)]
pub struct AuditReport {
    /// Rows that are outstanding.
    pub outstanding: Vec<StoredRecord>,
    /// Records that are dead.
    pub dead: Vec<StoredRecord>,
    /// Items that do not decode, each with the field.
    pub damaged: Vec<String>,
    /// Messages in the queue, oldest first. Nothing is consumed.
    pub delivered: Vec<DeliveredMessage>,
    /// Messages in the queue that do not decode: the queue's id and the field.
    pub undecodable: Vec<String>,
    /// Rows that were committed more often than they were put. Empty without a history.
    pub committed_twice: Vec<String>,
    /// Broken invariants. Empty without a history.
    pub violations: Vec<Violation>,
    /// The numbers of the rows that the history knows; `None` without a history.
    pub conservation: Option<Conservation>,
}

impl AuditReport {
    /// How many different messages the queue holds.
    #[must_use]
    pub fn delivered_unique(&self) -> usize {
        self.delivered.iter().map(|message| message.message_id.as_str()).collect::<HashSet<_>>().len()
    }
}

impl World {
    /// Reads what the stores hold, and judges the history where one is kept. At rest it is exact; while messages flow, a row may
    /// be seen both outstanding and delivered.
    ///
    /// # Errors
    /// The outbox cannot be read, or its stream could not be read to its end.
    pub async fn audit(&self) -> Result<AuditReport, WorldError> {
        let site = &self.commands.site;
        let contents = Contents::read(self.commands.outbox.as_ref(), &site.lease, self.commands.drained_shards).await?;
        let mut report = AuditReport {
            outstanding: contents.outstanding.iter().map(|row| record(row, None)).collect(),
            dead: contents.dead.iter().map(|dead| record(&dead.row, Some(dead.reason))).collect(),
            damaged: contents.damaged,
            ..AuditReport::default()
        };
        for message in self.queue.messages(&self.destination) {
            match delivered(site.body_format, &message) {
                Ok(message) => report.delivered.push(message),
                Err(malformed) => report.undecodable.push(format!("{}: {malformed}", message.message_id)),
            }
        }
        self.read_stream_to_its_end().await?;
        if let Some(history) = site.history() {
            let keys = |records: &[StoredRecord]| records.iter().map(|record| record.key.clone()).collect::<Vec<_>>();
            let now = site.clock.now().wall;
            let judgement = history.judge(now, &keys(&report.outstanding), &keys(&report.dead));
            report.violations = judgement.violations;
            report.conservation = Some(judgement.conservation);
            report.committed_twice = judgement.committed_twice;
        }
        Ok(report)
    }

    async fn read_stream_to_its_end(&self) -> Result<(), WorldError> {
        let mark = self.feed.mark();
        for _ in 0..AUDIT_LOOKS {
            if self.feed.has_seen(mark) {
                return Ok(());
            }
            self.commands.site.clock.sleep(AUDIT_PAUSE).await;
        }
        let problem = "it did not come to rest; audit when no message flows".to_owned();
        Err(WorldError::Internal { what: "the outbox's stream", problem })
    }
}

/// Everything in the outbox's shards.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) outstanding: Vec<OutboxRow>,
    pub(super) dead: Vec<DeadRow>,
    pub(super) damaged: Vec<String>,
}

impl Contents {
    /// Reads every shard whole.
    pub(super) async fn read(outbox: &dyn Outbox, lease: &LeaseName, shards: u16) -> Result<Self, StoreError> {
        let mut contents = Self::default();
        for index in 0..shards {
            let Ok(shard) = Shard::new(lease.clone(), index) else { continue };
            let mut after = None;
            loop {
                let page = outbox.page(&shard, after.as_ref(), PAGE_ROWS).await?;
                contents.damaged.extend(page.strays.iter().map(ToString::to_string));
                for (_, slot) in page.rows {
                    contents.take(slot, |contents, row| contents.outstanding.push(row));
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            loop {
                let page = outbox.dead_page(&shard, after.as_ref(), PAGE_ROWS).await?;
                contents.damaged.extend(page.strays.iter().map(ToString::to_string));
                for (_, slot) in page.rows {
                    contents.take(slot, |contents, row| contents.dead.push(row));
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(contents)
    }

    fn take<T>(&mut self, slot: Slot<T>, keep: impl FnOnce(&mut Self, T)) {
        match slot {
            Slot::Present(row) => keep(self, row),
            Slot::Damaged(damage) => self.damaged.push(damage.to_string()),
            Slot::Absent => {}
        }
    }
}

/// How many rows are outstanding.
pub(super) async fn count_outstanding(outbox: &dyn Outbox, lease: &LeaseName, shards: u16) -> Result<u64, StoreError> {
    let mut count = 0;
    for index in 0..shards {
        let Ok(shard) = Shard::new(lease.clone(), index) else { continue };
        let mut after = None;
        loop {
            let page = outbox.page(&shard, after.as_ref(), PAGE_ROWS).await?;
            count += u64::try_from(page.rows.len()).unwrap_or(u64::MAX);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(count)
}

/// A row as the report shows it.
pub(super) fn record(row: &OutboxRow, reason: Option<DeathReason>) -> StoredRecord {
    StoredRecord {
        key: row.key.clone(),
        topic: row.topic.clone(),
        client_id: row.client_id.clone(),
        digest: PayloadDigest::of(&row.payload),
        claimed: row.claim().is_some(),
        reason,
    }
}

/// A message of the queue as its consumer would decode it.
pub(super) fn delivered(format: BodyFormat, message: &StoredMessage) -> Result<DeliveredMessage, Malformed> {
    let attributes: Vec<(String, String)> = message
        .attributes
        .iter()
        .filter_map(|(name, attribute)| match &attribute.content {
            AttributeContent::Text(text) => Some((name.clone(), text.clone())),
            AttributeContent::Bytes(_) => None,
        })
        .collect();
    let needed = |name| attribute(&attributes, name)?.ok_or_else(|| Malformed::new(name, "is missing"));
    let payload = decode_body(format, &message.body, &attributes)?;
    Ok(DeliveredMessage {
        queue_message_id: message.message_id.clone(),
        message_id: needed(MESSAGE_ID)?,
        topic: needed(TOPIC)?,
        client_id: attribute(&attributes, CLIENT_ID)?,
        digest: PayloadDigest::of(&payload),
        token: attribute(&attributes, FENCING_TOKEN)?.and_then(|token| token.parse().ok()),
    })
}
