//! What the world tells while it runs: enough for a timeline and for an outside ledger, never a payload.

use fencepost_protocol::ids::{InstanceName, PayloadDigest};
use fencepost_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How ingest acknowledged a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IngestOutcome {
    /// It is in the outbox now.
    Stored,
    /// An earlier try had stored it.
    Duplicate,
    /// It came back through the failures queue, whose batches do not tell stored from duplicate.
    Recovered,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorldEvent {
    /// An instance's process is up, cold.
    Started {
        /// Which.
        instance: InstanceName,
    },
    /// An instance's process is gone, with everything that it was doing.
    Killed {
        /// Which.
        instance: InstanceName,
    },
    /// The lease function reported a transition on the event bus.
    Lease {
        /// Who reported.
        instance: InstanceName,
        /// The event's detail type, for example `Lease Seized`.
        transition: String,
        /// The token that it is about.
        token: Option<u64>,
        /// Why, where there is a reason.
        reason: Option<String>,
        /// When, on the instance's clock, in milliseconds since the epoch.
        at_ms: u64,
    },
    /// A takeover workflow drained what former holders had left behind.
    TakeoverCompleted {
        /// By whom.
        instance: InstanceName,
        /// The token that it took over under.
        token: u64,
        /// The event's whole detail, with counts.
        detail: Value,
    },
    /// Records died.
    RecordsDead {
        /// Who reported.
        instance: InstanceName,
        /// The event's whole detail.
        detail: Value,
    },
    /// The broker acknowledged a message to its publisher; nothing else has happened to it yet.
    Published {
        /// Who published.
        client_id: String,
        /// The topic.
        topic: String,
        /// Of the payload.
        digest: PayloadDigest,
        /// The payload's length.
        bytes: usize,
        /// 0 or 1.
        qos: u8,
        /// Does the topic rule take it?
        matched: bool,
    },
    /// Ingest acknowledged a message. Told before the topic rule counts it as acknowledged.
    Ingested {
        /// Whose ingest.
        instance: InstanceName,
        /// The message's id in the outbox.
        message_id: String,
        /// The topic.
        topic: String,
        /// Of the payload.
        digest: PayloadDigest,
        /// How.
        outcome: IngestOutcome,
    },
    /// A call of ingest failed; the event is kept and tried again.
    IngestFailed {
        /// Whose ingest.
        instance: InstanceName,
        /// The message's id.
        message_id: String,
        /// Which try it was, from 1.
        attempt: u32,
        /// The function's error.
        error: String,
        /// Is the event on the failures list now?
        kept: bool,
    },
    /// A drainer claimed rows of a page.
    Claimed {
        /// Whose drainer.
        instance: InstanceName,
        /// Under which token.
        token: u64,
        /// How many.
        rows: u64,
    },
    /// The queue accepted entries of one request.
    Sent {
        /// Whose drainer.
        instance: InstanceName,
        /// How many.
        rows: u64,
    },
    /// A drainer committed rows.
    Committed {
        /// Whose drainer.
        instance: InstanceName,
        /// Under which token.
        token: u64,
        /// How many.
        rows: u64,
    },
    /// An execution of a state machine failed.
    ExecutionFailed {
        /// Whose.
        instance: InstanceName,
        /// The machine.
        machine: String,
        /// The execution's name.
        execution: String,
        /// The error's stable name.
        error: String,
        /// What happened.
        cause: String,
    },
    /// A function answered with an error, or was ended at its time limit.
    FunctionFailed {
        /// Whose.
        instance: InstanceName,
        /// Which function.
        function: String,
        /// The error's stable name.
        error_type: String,
        /// What happened.
        message: String,
    },
    /// The world ends, the broker takes nothing any more, and ingest has not acknowledged everything yet. Told each second.
    Stopping {
        /// Messages that the broker had acknowledged and ingest has not.
        waiting: u64,
        /// What is left of the time without an acknowledgement after which the rest is dropped, in milliseconds.
        quiet_ms_left: u64,
    },
    /// The world ended without an acknowledgement of ingest for messages that the broker had acknowledged. One of them whose
    /// call was under way may be in the outbox all the same.
    Dropped {
        /// How many.
        messages: u64,
        /// Why.
        reason: String,
    },
    /// Something is wrong with the world itself.
    Trouble {
        /// What.
        what: String,
    },
}

/// Somebody who is told what happens.
pub trait WorldObserver: Send + Sync {
    /// Called where it happens, on the thread that makes it happen: it must be quick. `at` is the world's clock.
    fn observe(&self, at: Timestamp, event: &WorldEvent);
}

/// Hears nothing.
impl WorldObserver for () {
    fn observe(&self, _at: Timestamp, _event: &WorldEvent) {}
}

impl<F: Fn(Timestamp, &WorldEvent) + Send + Sync> WorldObserver for F {
    fn observe(&self, at: Timestamp, event: &WorldEvent) {
        self(at, event);
    }
}
