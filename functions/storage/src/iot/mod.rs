//! The topic rule as a switch: read, enable, disable. The service allows five changes a second, so the caller reconciles
//! seldom; nothing here remembers a state.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_iot::Client;
use aws_sdk_iot::config::Builder;
use aws_sdk_iot::config::retry::RetryConfig;
use aws_sdk_iot::config::timeout::TimeoutConfig;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use fencepost_protocol::failure::FailureKind;

use crate::call::{CallObserver, CallPolicy, CallReport};
use crate::clients::Clients;
use crate::ports::Source;
use crate::{StoreError, operation, sdk_failure};

#[cfg(test)]
mod tests;

/// The first pause of the SDK between two tries, randomised: five changes a second are allowed.
const RETRY_BACKOFF_INITIAL: Duration = Duration::from_millis(200);

/// A topic rule of AWS IoT Core.
#[derive(Clone)]
pub struct TopicRuleSource {
    client: Client,
    rule_name: String,
    observer: Option<Arc<dyn CallObserver>>,
}

impl std::fmt::Debug for TopicRuleSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TopicRuleSource").field("rule_name", &self.rule_name).finish_non_exhaustive()
    }
}

impl TopicRuleSource {
    /// The rule `rule_name` in the clients' region. Opens no connection.
    pub fn new(
        clients: &Clients,
        rule_name: impl Into<String>,
        policy: CallPolicy,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Self {
        let timeouts = TimeoutConfig::builder()
            .operation_timeout(policy.call_timeout)
            .operation_attempt_timeout(policy.attempt_timeout);
        let config = Builder::from(clients.config())
            .timeout_config(timeouts.build())
            .retry_config(
                RetryConfig::standard()
                    .with_max_attempts(policy.max_attempts.max(1))
                    .with_initial_backoff(RETRY_BACKOFF_INITIAL),
            )
            .build();
        Self { client: Client::from_conf(config), rule_name: rule_name.into(), observer }
    }

    async fn observed<T>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let in_progress = self.observer.as_ref().map(|observer| observer.begin(operation));
        let result = request.await;
        if let Some(in_progress) = in_progress {
            let failure = result.as_ref().err().map(|error| error.kind);
            in_progress.end(CallReport { capacity_units: 0.0, failure });
        }
        result
    }

    /// The service answers a question about a rule that does not exist as unauthorised, so both are named.
    fn failed<E>(&self, operation: &'static str, error: &SdkError<E, HttpResponse>) -> StoreError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let mut failure = sdk_failure::store_error(operation, error);
        if failure.kind == FailureKind::Denied {
            let hint = format!(
                "; or there is no topic rule {:?} in this account and region: check FENCEPOST_TOPIC_RULE",
                self.rule_name
            );
            failure.detail.push_str(&hint);
        }
        failure
    }
}

#[async_trait]
impl Source for TopicRuleSource {
    async fn is_enabled(&self) -> Result<bool, StoreError> {
        self.observed(operation::IS_ENABLED, async {
            let output = self.client.get_topic_rule().rule_name(&self.rule_name).send().await;
            let output = output.map_err(|error| self.failed(operation::IS_ENABLED, &error))?;
            let disabled = output.rule.and_then(|rule| rule.rule_disabled);
            // A rule that does not say it is disabled is enabled: that is the service's own default.
            Ok(!disabled.unwrap_or(false))
        })
        .await
    }

    async fn set_enabled(&self, enabled: bool) -> Result<(), StoreError> {
        self.observed(operation::SET_ENABLED, async {
            if enabled {
                let result = self.client.enable_topic_rule().rule_name(&self.rule_name).send().await;
                result.map(|_| ()).map_err(|error| self.failed(operation::SET_ENABLED, &error))
            } else {
                let result = self.client.disable_topic_rule().rule_name(&self.rule_name).send().await;
                result.map(|_| ()).map_err(|error| self.failed(operation::SET_ENABLED, &error))
            }
        })
        .await
    }
}
