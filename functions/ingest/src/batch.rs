//! A batch from a queue or a stream: each record by itself, the puts together.

use std::collections::BTreeSet;

use fencepost_protocol::ids::RowKey;
use fencepost_protocol::ingest::BatchRecord;
use fencepost_protocol::outbox::OutboxRow;
use fencepost_runtime::lambda::Limit;
use fencepost_storage::{PutAnswer, StoreError};
use serde::Serialize;

use crate::{IngestFunction, Next, Outcome, PUTS_MAX};

/// A partial-batch response: the records that must be delivered again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BatchReply {
    #[serde(rename = "batchItemFailures")]
    failures: Vec<ItemFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ItemFailure {
    #[serde(rename = "itemIdentifier")]
    item_identifier: String,
}

/// A record on its way into the outbox.
struct InWork {
    item_identifier: String,
    row: OutboxRow,
}

impl IngestFunction {
    pub(crate) async fn batch(&self, records: Vec<BatchRecord>, limit: &Limit) -> BatchReply {
        let started = self.clock.now();
        let stamp = self.stamp().await;
        let mut failures = Vec::new();
        let mut waiting = Vec::new();
        for BatchRecord { item_identifier, message } in records {
            match message.and_then(|message| self.row(message, stamp)) {
                Ok(row) => waiting.push(InWork { item_identifier, row }),
                Err(malformed) => {
                    tracing::error!(item_identifier, field = malformed.field, %malformed, "a record is malformed");
                    failures.push(ItemFailure { item_identifier });
                }
            }
        }
        let mut outcomes = Vec::new();
        for _ in 0..PUTS_MAX {
            if waiting.is_empty() || limit.is_over(self.clock.now()) {
                break;
            }
            waiting = self.put_round(waiting, &mut outcomes, &mut failures).await;
        }
        failures.extend(waiting.into_iter().map(|left| ItemFailure { item_identifier: left.item_identifier }));
        self.measure(&outcomes, self.clock.now().monotonic.saturating_sub(started.monotonic));
        BatchReply { failures }
    }

    /// Puts every row once, those of one key one after the other; returns what is to be put again.
    async fn put_round(
        &self,
        waiting: Vec<InWork>,
        outcomes: &mut Vec<Outcome>,
        failures: &mut Vec<ItemFailure>,
    ) -> Vec<InWork> {
        let mut keys: BTreeSet<RowKey> = BTreeSet::new();
        let (now, mut later): (Vec<InWork>, Vec<InWork>) =
            waiting.into_iter().partition(|work| keys.insert(work.row.key.clone()));
        let rows: Vec<OutboxRow> = now.iter().map(|work| work.row.clone()).collect();
        let answers = self.outbox.put_many(&rows).await;
        let mut answers = answers.into_iter();
        for work in now {
            let answer = answers.next().unwrap_or_else(|| Err(crate::clash("the put was not answered")));
            let failed = |error: StoreError| {
                tracing::error!(message_id = %work.row.id(), kind = error.kind.as_str(), %error, "a record is not stored");
                ItemFailure { item_identifier: work.item_identifier.clone() }
            };
            match answer {
                Ok(PutAnswer::Stored) => outcomes.push(Outcome::Stored),
                Ok(PutAnswer::Exists(existing)) => match self.after_refusal(work.row.clone(), &existing) {
                    Ok(Next::Known(_)) => outcomes.push(Outcome::Duplicate),
                    Ok(Next::Put(row)) => later.push(InWork { row, item_identifier: work.item_identifier }),
                    Err(error) => failures.push(failed(error)),
                },
                Err(error) => failures.push(failed(error)),
            }
        }
        later
    }
}
