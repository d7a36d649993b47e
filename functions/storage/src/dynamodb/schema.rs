//! The two tables as their key schemas want them, made through the API: for one machine's world and for tests. In an
//! account the stacks make them.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, StreamSpecification,
    StreamViewType, TimeToLiveSpecification,
};
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
use aws_smithy_types::error::operation::BuildError;
use fencepost_protocol::failure::FailureKind;

use super::error::store_error;
use crate::StoreError;
use crate::clients::Clients;
use crate::records::{Table, tombstone};

/// The call's name in errors.
const OPERATION: &str = "create_tables";

/// What the two tables are called. DynamoDB wants three characters at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableNames {
    /// The lease table.
    pub lease: String,
    /// The outbox table.
    pub outbox: String,
}

/// Creates the tables that do not exist yet: on demand, without index; the outbox with a stream of keys and with its time to
/// live on `expires_at`, the lease table with neither.
///
/// # Errors
/// Whatever the service answers, except that a table exists already.
pub async fn create_tables(clients: &Clients, names: &TableNames) -> Result<(), StoreError> {
    let client = clients.dynamodb();
    create_table(client, Table::Lease, &names.lease).await?;
    create_table(client, Table::Outbox, &names.outbox).await?;
    expire_tombstones(client, &names.outbox).await
}

async fn create_table(client: &Client, table: Table, name: &str) -> Result<(), StoreError> {
    let unbuildable = |error: BuildError| StoreError::new(FailureKind::Invalid, OPERATION, error.to_string());
    let mut request = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    for (attribute, kind) in [(table.partition_attribute(), KeyType::Hash), (table.sort_attribute(), KeyType::Range)] {
        let key = KeySchemaElement::builder().attribute_name(attribute).key_type(kind).build();
        let definition =
            AttributeDefinition::builder().attribute_name(attribute).attribute_type(ScalarAttributeType::S).build();
        request = request.key_schema(key.map_err(unbuildable)?).attribute_definitions(definition.map_err(unbuildable)?);
    }
    if table == Table::Outbox {
        let stream = StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::KeysOnly);
        request = request.stream_specification(stream.build().map_err(unbuildable)?);
    }
    match request.send().await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some("ResourceInUseException") => Ok(()),
        Err(error) => Err(store_error(OPERATION, table, name, &error)),
    }
}

async fn expire_tombstones(client: &Client, name: &str) -> Result<(), StoreError> {
    let unbuildable = |error: BuildError| StoreError::new(FailureKind::Invalid, OPERATION, error.to_string());
    let described = client.describe_time_to_live().table_name(name).send().await;
    let described = described.map_err(|error| store_error(OPERATION, Table::Outbox, name, &error))?;
    let attribute = described.time_to_live_description.and_then(|ttl| ttl.attribute_name);
    if attribute.as_deref() == Some(tombstone::EXPIRES_AT) {
        return Ok(());
    }
    let on = TimeToLiveSpecification::builder().enabled(true).attribute_name(tombstone::EXPIRES_AT).build();
    let request = client.update_time_to_live().table_name(name);
    let result = request.time_to_live_specification(on.map_err(unbuildable)?).send().await;
    result.map(|_| ()).map_err(|error| store_error(OPERATION, Table::Outbox, name, &error))
}
