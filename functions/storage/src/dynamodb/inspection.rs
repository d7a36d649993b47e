//! [`TableInspection`] by DescribeTable and DescribeTimeToLive.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::{KeyType, MultiRegionConsistency, TableDescription, TimeToLiveStatus};
use fencepost_protocol::tables::{Replication, TableFacts};

use super::error::store_error;
use crate::clients::{ClientOptions, Clients};
use crate::inspection::TableInspection;
use crate::operation::INSPECT;
use crate::records::Table;
use crate::{CallPolicy, StoreError};

/// One of the two calls. Nobody waits for it but a deployment.
const CALL_TIMEOUT: Duration = Duration::from_secs(9);

/// Looks at tables in DynamoDB. Builds its clients at each look: a deployment looks, and nothing else does.
#[derive(Debug, Clone, Default)]
pub struct DynamoTableInspection {
    options: ClientOptions,
}

impl DynamoTableInspection {
    /// An inspection by `options`; a region that is asked for wins over theirs.
    pub fn new(options: ClientOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl TableInspection for DynamoTableInspection {
    async fn inspect(&self, table: Table, name: &str, region: Option<&str>) -> Result<TableFacts, StoreError> {
        let region = region.map(str::to_owned).or_else(|| self.options.region.clone());
        let clients = Clients::load(ClientOptions { region, ..self.options.clone() }).await?;
        let described = describe(clients.dynamodb(), table, name).await?;
        let expires_by = time_to_live(clients.dynamodb(), table, name).await?;
        let replication = replication(&described);
        Ok(TableFacts { has_our_keys: has_keys_of(table, &described), replication, expires_by })
    }
}

async fn describe(client: &Client, table: Table, name: &str) -> Result<TableDescription, StoreError> {
    let reply = client.describe_table().table_name(name).customize().config_override(bounds()).send().await;
    let reply = reply.map_err(|error| store_error(INSPECT, table, name, &error))?;
    let unknown =
        || StoreError::new(fencepost_protocol::failure::FailureKind::Unavailable, INSPECT, "an empty description");
    reply.table.ok_or_else(unknown)
}

/// The attribute by which items expire. A time to live that is being switched off may still delete.
async fn time_to_live(client: &Client, table: Table, name: &str) -> Result<Option<String>, StoreError> {
    let reply = client.describe_time_to_live().table_name(name).customize().config_override(bounds()).send().await;
    let reply = reply.map_err(|error| store_error(INSPECT, table, name, &error))?;
    let on = reply
        .time_to_live_description
        .filter(|ttl| ttl.time_to_live_status.as_ref().is_some_and(|status| *status != TimeToLiveStatus::Disabled));
    Ok(on.map(|ttl| ttl.attribute_name.unwrap_or_default()))
}

fn bounds() -> Builder {
    let policy = CallPolicy::in_thirds(CALL_TIMEOUT);
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(policy.call_timeout)
        .operation_attempt_timeout(policy.attempt_timeout)
        .build();
    Builder::new().timeout_config(timeouts).retry_config(RetryConfig::standard().with_max_attempts(policy.max_attempts))
}

/// A global table of the old kind, or of the new one without a word on consistency, is eventually consistent.
fn replication(table: &TableDescription) -> Replication {
    if table.multi_region_consistency == Some(MultiRegionConsistency::Strong) {
        return Replication::Strong;
    }
    let elsewhere = !table.replicas().is_empty() || !table.global_table_witnesses().is_empty();
    if elsewhere || table.multi_region_consistency.is_some() || table.global_table_version.is_some() {
        return Replication::Eventual;
    }
    Replication::OneRegion
}

fn has_keys_of(table: Table, described: &TableDescription) -> bool {
    let key = |kind: &KeyType| {
        let part = described.key_schema().iter().find(|part| part.key_type() == kind);
        part.map(|part| part.attribute_name())
    };
    key(&KeyType::Hash) == Some(table.partition_attribute()) && key(&KeyType::Range) == Some(table.sort_attribute())
}
