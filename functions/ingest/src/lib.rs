//! The ingest function: one durable row for each message, before anything else happens to it.
//!
//! A handler over the ports that carries out what [`fencepost_protocol::ingest`] decides. Warm, a message costs one
//! conditional put and no read: the token that a row is stamped with comes from a lease row that is cached for a few seconds.
//!
//! Guarantees: what was answered as stored or duplicate is in the outbox; a message is never refused because the lease could
//! not be read; a batch answers for each of its records by itself.
//!
//! What must stay out: decisions, environment, AWS types, and any look at what a payload says.

mod batch;
mod stamp;

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::{Malformed, MessageId, Position, Shard, Stamp};
use fencepost_protocol::ingest::{Event, IngestTerms, Message, OnExists, decide, on_exists, parse};
use fencepost_protocol::outbox::OutboxRow;
use fencepost_runtime::clock::Clock;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::settings::Settings;
use fencepost_runtime::telemetry::{Metric, Metrics};
use fencepost_runtime::wiring::{Edge, Stores};
use fencepost_storage::{LeaseStore, Outbox, PutAnswer, StoreError};
use serde::Serialize;
use serde_json::Value;

pub use stamp::StampCache;

/// Puts that one message may take: the first, one under a suffixed id, and one more where a row vanished in between.
const PUTS_MAX: usize = 4;

/// The handler and what it works with.
pub struct IngestFunction {
    /// What every row has in common.
    pub terms: IngestTerms,
    /// The lease table, for the stamp.
    pub leases: Arc<dyn LeaseStore>,
    /// The outbox.
    pub outbox: Arc<dyn Outbox>,
    /// The stamp of the last few seconds.
    pub stamps: StampCache,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Where measures go.
    pub metrics: Metrics,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is in the outbox now.
    Stored,
    /// It was in the outbox already: one event delivered twice.
    Duplicate,
}

/// The answer to a single event: where the message is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IngestReply {
    /// What became of it.
    pub outcome: Outcome,
    /// Its id.
    pub message_id: MessageId,
    /// Its shard.
    pub shard: Shard,
    /// Its position.
    pub position: Position,
}

impl IngestFunction {
    /// The handler of an instance.
    pub fn new(settings: &Settings, stores: &Stores, edge: Edge) -> Self {
        Self {
            terms: IngestTerms {
                lease: settings.lease.clone(),
                origin: settings.identity.name.clone(),
                shards: settings.shards,
            },
            leases: Arc::clone(&stores.hasty_leases),
            outbox: Arc::clone(&stores.outbox),
            stamps: StampCache::new(settings.stamp_cache),
            clock: edge.clock,
            metrics: edge.metrics,
        }
    }

    /// Stores what an event brings, inside `limit`.
    ///
    /// # Errors
    /// For a single event `EventMalformed`, or the store's own kinds: the platform then keeps the event (retries, failure
    /// destination). A batch answers with the records that failed instead.
    pub async fn handle(&self, input: Value, limit: &Limit) -> Result<Value, FunctionError> {
        let reply = match parse(&input).map_err(|malformed| FunctionError::event(&malformed))? {
            Event::One(message) => serde_json::to_value(self.one(message).await?),
            Event::Batch(records) => serde_json::to_value(self.batch(records, limit).await),
        };
        reply.map_err(|error| Malformed::new("reply", error.to_string()).into())
    }

    async fn one(&self, message: Message) -> Result<IngestReply, FunctionError> {
        let started = self.clock.now();
        let row = self.row(message, self.stamp().await).map_err(|malformed| FunctionError::event(&malformed))?;
        let (row, outcome) = self.store(row).await?;
        self.measure(&[outcome], self.clock.now().monotonic.saturating_sub(started.monotonic));
        tracing::debug!(message_id = %row.id(), shard = %row.key.shard, ?outcome, "ingested");
        Ok(reply(&row, outcome))
    }

    fn row(&self, message: Message, stamp: Stamp) -> Result<OutboxRow, Malformed> {
        decide(message, &self.terms, stamp, self.clock.now().wall)
    }

    async fn stamp(&self) -> Stamp {
        self.stamps.stamp(self.leases.as_ref(), &self.terms.lease, self.clock.as_ref()).await
    }

    /// Puts one row, under a suffixed id where another message has its place.
    async fn store(&self, mut row: OutboxRow) -> Result<(OutboxRow, Outcome), StoreError> {
        for _ in 0..PUTS_MAX {
            match self.outbox.put(&row).await? {
                PutAnswer::Stored => return Ok((row, Outcome::Stored)),
                PutAnswer::Exists(existing) => match self.after_refusal(row, &existing)? {
                    Next::Known(row) => return Ok((row, Outcome::Duplicate)),
                    Next::Put(next) => row = next,
                },
            }
        }
        Err(clash("the row kept changing under its key; deliver the event again"))
    }

    fn after_refusal(
        &self,
        row: OutboxRow,
        existing: &fencepost_protocol::outbox::Slot<OutboxRow>,
    ) -> Result<Next, StoreError> {
        match on_exists(&row, existing) {
            OnExists::Duplicate => Ok(Next::Known(row)),
            OnExists::PutAgain => Ok(Next::Put(row)),
            OnExists::Suffixed(suffixed) => {
                tracing::warn!(message_id = %row.id(), suffixed = %suffixed.id(), "another message has this id");
                Ok(Next::Put(suffixed))
            }
            OnExists::Clash => Err(clash("two other messages have this id and its suffixed form")),
        }
    }

    fn measure(&self, outcomes: &[Outcome], took: Duration) {
        let count = |wanted: Outcome| {
            let count = outcomes.iter().filter(|outcome| **outcome == wanted).count();
            f64::from(u32::try_from(count).unwrap_or(u32::MAX))
        };
        self.metrics.emit(&[
            (Metric::Ingested, count(Outcome::Stored)),
            (Metric::IngestDuplicates, count(Outcome::Duplicate)),
            (Metric::PersistLatency, took.as_secs_f64() * 1000.0),
        ]);
    }
}

/// What follows a put that was refused.
enum Next {
    /// The message is there already.
    Known(OutboxRow),
    /// Put this.
    Put(OutboxRow),
}

fn clash(detail: &str) -> StoreError {
    StoreError::new(FailureKind::Unavailable, "put", detail)
}

fn reply(row: &OutboxRow, outcome: Outcome) -> IngestReply {
    IngestReply {
        outcome,
        message_id: row.id().clone(),
        shard: row.key.shard.clone(),
        position: row.key.position.clone(),
    }
}
