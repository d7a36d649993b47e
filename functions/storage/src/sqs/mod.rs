//! The destination queue in SQS: one request for one batch, never tried again inside.
//!
//! A second send is the drainer's decision: it must know which records may have been sent twice. The reply is passed on as
//! it came; an entry that it does not mention has an unknown outcome. Bodies never go into an error or a log.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Builder;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
use aws_smithy_types::error::operation::BuildError;
use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::drain::{QueueRefusal, QueueReply};
use fencepost_protocol::failure::FailureKind;

use crate::call::{CallObserver, CallReport};
use crate::clients::Clients;
use crate::ports::Queue;
use crate::{StoreError, operation, sdk_failure};

#[cfg(test)]
mod tests;

/// A queue in SQS.
#[derive(Clone)]
pub struct SqsQueue {
    client: Client,
    queue_url: String,
    observer: Option<Arc<dyn CallObserver>>,
}

impl std::fmt::Debug for SqsQueue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SqsQueue").field("queue_url", &self.queue_url).finish_non_exhaustive()
    }
}

impl SqsQueue {
    /// The queue at `queue_url`; a send ends after `send_timeout`, answered or not. Opens no connection.
    pub fn new(
        clients: &Clients,
        queue_url: impl Into<String>,
        send_timeout: Duration,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(send_timeout)
            .operation_timeout(send_timeout)
            .operation_attempt_timeout(send_timeout);
        let config = Builder::from(clients.config())
            .timeout_config(timeouts.build())
            .retry_config(RetryConfig::disabled())
            .build();
        Self { client: Client::from_conf(config), queue_url: queue_url.into(), observer }
    }

    async fn send_batch(&self, entries: Vec<SendMessageBatchRequestEntry>) -> Result<QueueReply, StoreError> {
        let request = self.client.send_message_batch().queue_url(&self.queue_url).set_entries(Some(entries));
        let output = request.send().await.map_err(|error| match error.code() {
            Some("QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue") => StoreError::new(
                FailureKind::Invalid,
                operation::SEND,
                format!(
                    "there is no queue {} in this account and region: set FENCEPOST_QUEUE_URL to the queue's URL",
                    self.queue_url
                ),
            ),
            _ => sdk_failure::store_error(operation::SEND, &error),
        })?;
        let refusal = |failed: aws_sdk_sqs::types::BatchResultErrorEntry| QueueRefusal {
            entry_id: failed.id,
            code: failed.code,
            message: failed.message.unwrap_or_default(),
        };
        Ok(QueueReply {
            accepted: output.successful.into_iter().map(|accepted| accepted.id).collect(),
            refused: output.failed.into_iter().map(refusal).collect(),
        })
    }
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send(&self, entries: &[QueueEntry]) -> Result<QueueReply, StoreError> {
        let built: Result<Vec<_>, BuildError> = entries.iter().map(request_entry).collect();
        let built = built.map_err(|error| StoreError::new(FailureKind::Invalid, operation::SEND, error.to_string()))?;
        let in_progress = self.observer.as_ref().map(|observer| observer.begin(operation::SEND));
        let result = self.send_batch(built).await;
        if let Some(in_progress) = in_progress {
            let failure = result.as_ref().err().map(|error| error.kind);
            in_progress.end(CallReport { capacity_units: 0.0, failure });
        }
        result
    }
}

fn request_entry(entry: &QueueEntry) -> Result<SendMessageBatchRequestEntry, BuildError> {
    let mut request = SendMessageBatchRequestEntry::builder()
        .id(&entry.entry_id)
        .message_body(&entry.body)
        .set_message_group_id(entry.group_id.clone())
        .set_message_deduplication_id(entry.deduplication_id.clone());
    for (name, value) in &entry.attributes {
        let attribute = MessageAttributeValue::builder().data_type("String").string_value(value).build()?;
        request = request.message_attributes(name, attribute);
    }
    request.build()
}
