//! The JSON lines of `fencepost local --json`: every event of the world, and where it listens.
//!
//! Each line is one object with `event` and `observed_at_ms` (the world's clock, milliseconds since the epoch). A payload is
//! named by its `sha256`, in lower-case hexadecimal; the payload itself is never written.

use std::io;
use std::sync::{Mutex, PoisonError};

use fencepost_local::world::{World, WorldEvent, WorldObserver};
use fencepost_protocol::time::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Writes events as lines.
#[derive(Debug, Default)]
pub(super) struct JsonLines {
    failure: Mutex<Option<io::Error>>,
    failed: Notify,
}

impl JsonLines {
    /// Tells that everything is up, and where.
    pub(super) fn listening(&self, world: &World) {
        self.write(&json!({
            "event": "listening",
            "mqtt": world.mqtt_addr().to_string(),
            "dynamodb_url": world.dynamodb_url(),
            "sqs_url": world.sqs_url(),
            "queue_url": world.queue_url(),
            "control": world.control_addr().to_string(),
            "lease_table": world.lease_table(),
            "outbox_table": world.outbox_table(),
            "region": world.region(),
        }));
    }

    /// Tells that everything has stopped in good order.
    pub(super) fn stopped(&self, at: Timestamp) {
        self.write(&json!({"event": "stopped", "observed_at_ms": at.as_ms()}));
    }

    /// Waits for the first line that could not be written.
    pub(super) async fn failed(&self) -> io::Error {
        loop {
            let failed = self.failed.notified();
            if let Some(error) = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return error;
            }
            failed.await;
        }
    }

    fn write(&self, value: &Value) {
        if let Err(error) = super::write(value) {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.failed.notify_waiters();
        }
    }
}

impl WorldObserver for JsonLines {
    fn observe(&self, at: Timestamp, event: &WorldEvent) {
        self.write(&line(at, event));
    }
}

fn line(at: Timestamp, event: &WorldEvent) -> Value {
    let mut line =
        serde_json::to_value(event).unwrap_or_else(|error| json!({"event": "trouble", "what": error.to_string()}));
    if let Some(fields) = line.as_object_mut() {
        if let Some(digest) = fields.remove("digest") {
            fields.insert("sha256".to_owned(), digest);
        }
        fields.insert("observed_at_ms".to_owned(), json!(at.as_ms()));
    }
    line
}

#[cfg(test)]
mod tests {
    use fencepost_local::world::IngestOutcome;
    use fencepost_protocol::ids::{InstanceName, PayloadDigest};

    use super::*;

    #[test]
    fn an_acknowledged_message_is_told_by_id_topic_and_hash() {
        let event = WorldEvent::Ingested {
            instance: InstanceName::new("east").unwrap(),
            message_id: "m-1".into(),
            topic: "telemetry/device-1".into(),
            digest: PayloadDigest::of(b"secret reading"),
            outcome: IngestOutcome::Stored,
        };
        let expected = json!({
            "event": "ingested",
            "instance": "east",
            "message_id": "m-1",
            "topic": "telemetry/device-1",
            "sha256": PayloadDigest::of(b"secret reading").as_str(),
            "outcome": "stored",
            "observed_at_ms": 17,
        });
        assert_eq!(line(Timestamp::from_ms(17), &event), expected);
    }
}
