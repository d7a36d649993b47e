//! The event bus of Amazon EventBridge, for the one event that a function puts itself.
//!
//! One call is one try, and one that the service answers may still have refused its only entry: that is a failure like any
//! other here. How often to try is the caller's, which alone knows how much time it has left.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::config::Builder;
use aws_sdk_eventbridge::config::retry::RetryConfig;
use aws_sdk_eventbridge::config::timeout::TimeoutConfig;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use fencepost_protocol::failure::FailureKind;

use crate::clients::Clients;
use crate::ports::{BusEvent, EventBus};
use crate::{StoreError, operation, sdk_failure};

#[cfg(test)]
mod tests;

/// The source of every event of the product.
const SOURCE: &str = "fencepost";
/// The status that the kind of an entry's unknown code is chosen by: the service refused what we sent.
const ENTRY_REFUSED: u16 = 400;

/// One bus.
#[derive(Clone)]
pub struct EventBridgeBus {
    client: Client,
    bus_name: String,
}

impl std::fmt::Debug for EventBridgeBus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EventBridgeBus").field("bus_name", &self.bus_name).finish_non_exhaustive()
    }
}

impl EventBridgeBus {
    /// The bus `bus_name` in the clients' region; a put ends after `put_timeout`, answered or not. Opens no connection.
    pub fn new(clients: &Clients, bus_name: impl Into<String>, put_timeout: Duration) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(put_timeout)
            .operation_timeout(put_timeout)
            .operation_attempt_timeout(put_timeout);
        let config = Builder::from(clients.config())
            .timeout_config(timeouts.build())
            .retry_config(RetryConfig::disabled())
            .build();
        Self { client: Client::from_conf(config), bus_name: bus_name.into() }
    }

    fn refused(&self, code: &str, message: &str) -> StoreError {
        let kind = sdk_failure::kind_of_code(code, ENTRY_REFUSED);
        let mut detail = format!("{code}: {message}");
        if matches!(kind, FailureKind::Denied | FailureKind::Invalid) {
            detail.push_str(&format!("; the bus is {:?}: check FENCEPOST_EVENT_BUS", self.bus_name));
        }
        StoreError::new(kind, operation::PUT_EVENT, detail)
    }
}

#[async_trait]
impl EventBus for EventBridgeBus {
    async fn put_event(&self, event: &BusEvent) -> Result<(), StoreError> {
        let entry = PutEventsRequestEntry::builder()
            .source(SOURCE)
            .detail_type(event.detail_type)
            .detail(&event.detail)
            .event_bus_name(&self.bus_name)
            .build();
        let output = self.client.put_events().entries(entry).send().await;
        let output = output.map_err(|error| sdk_failure::store_error(operation::PUT_EVENT, &error))?;
        if output.failed_entry_count == 0 {
            return Ok(());
        }
        let refused = output.entries.unwrap_or_default().into_iter().find(|entry| entry.error_code.is_some());
        let (code, message) = refused.map(|entry| (entry.error_code, entry.error_message)).unwrap_or_default();
        Err(self.refused(code.as_deref().unwrap_or("no code"), message.as_deref().unwrap_or("no message")))
    }
}
