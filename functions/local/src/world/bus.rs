//! The event bus of the world: whatever is put on it, by a workflow or by a function, the observer is told.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::InstanceName;
use fencepost_storage::{BusEvent, EventBus, StoreError, operation};
use serde_json::Value;

use super::event::WorldEvent;
use super::site::Site;

/// The bus as one instance puts on it.
pub(super) struct Bus {
    site: Arc<Site>,
    instance: InstanceName,
}

impl Bus {
    /// The bus of `instance`.
    pub(super) fn new(site: Arc<Site>, instance: InstanceName) -> Self {
        Self { site, instance }
    }

    /// Takes an event.
    pub(super) fn put(&self, detail_type: &str, detail: &Value) {
        let instance = self.instance.clone();
        let event = match detail_type {
            "Takeover Completed" => WorldEvent::TakeoverCompleted {
                instance,
                token: detail["token"].as_u64().unwrap_or_default(),
                detail: detail.clone(),
            },
            "Records Dead" => WorldEvent::RecordsDead { instance, detail: detail.clone() },
            transition => WorldEvent::Lease {
                instance,
                transition: transition.to_owned(),
                token: detail["token"].as_u64(),
                reason: detail["reason"].as_str().map(str::to_owned),
                at_ms: detail["at_ms"].as_u64().unwrap_or_else(|| self.site.clock.now().wall.as_ms()),
            },
        };
        self.site.tell(&event);
    }
}

#[async_trait]
impl EventBus for Bus {
    async fn put_event(&self, event: &BusEvent) -> Result<(), StoreError> {
        let detail = serde_json::from_str(&event.detail).map_err(|error| {
            StoreError::new(FailureKind::Invalid, operation::PUT_EVENT, format!("MalformedDetail: {error}"))
        })?;
        self.put(event.detail_type, &detail);
        Ok(())
    }
}
