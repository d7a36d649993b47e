//! DynamoDB's own words on top of the common mapping ([`crate::sdk_failure`]): which table is missing and which setting
//! names it, and what an outcome of a single statement in a batch means.

use std::error::Error;

use aws_sdk_dynamodb::types::BatchStatementError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use fencepost_protocol::failure::FailureKind;

use crate::StoreError;
use crate::records::Table;
use crate::sdk_failure;

/// An operation's own error, as the SDK types it.
pub(super) trait ServiceFailure: ProvideErrorMetadata + Error + Send + Sync + 'static {}

impl<E: ProvideErrorMetadata + Error + Send + Sync + 'static> ServiceFailure for E {}

/// The setting that names a table.
pub(super) const fn table_setting(table: Table) -> &'static str {
    match table {
        Table::Lease => "FENCEPOST_LEASE_TABLE",
        Table::Outbox => "FENCEPOST_OUTBOX_TABLE",
    }
}

/// Maps the failure of a call on table `name`.
pub(super) fn store_error<E: ServiceFailure>(
    operation: &'static str,
    table: Table,
    name: &str,
    error: &SdkError<E, HttpResponse>,
) -> StoreError {
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code);
    if matches!(code, Some("ResourceNotFoundException" | "TableNotFoundException")) {
        return missing_table(operation, table, name);
    }
    sdk_failure::store_error(operation, error)
}

/// Maps the failure of one statement of a batch. A lost condition and a taken key are not failures and do not come here.
pub(super) fn statement_error(
    operation: &'static str,
    table: Table,
    name: &str,
    error: &BatchStatementError,
) -> StoreError {
    let code = error.code().map_or("no code", |code| code.as_str());
    let kind = match code {
        "ResourceNotFound" => return missing_table(operation, table, name),
        // The codes of a statement come without an HTTP status. One that is not known may have been applied.
        "ValidationError" | "ItemCollectionSizeLimitExceeded" => FailureKind::Invalid,
        code => sdk_failure::kind_of_code(code, 500),
    };
    let message = error.message().map_or_else(|| "no message".to_owned(), sdk_failure::without_echo);
    StoreError::new(kind, operation, format!("{code}: {message}"))
}

fn missing_table(operation: &'static str, table: Table, name: &str) -> StoreError {
    let setting = table_setting(table);
    let detail = format!(
        "there is no table {name:?} in this account and region: set {setting} to the table's name, or create it, or set \
         the region in which it is"
    );
    StoreError::new(FailureKind::Invalid, operation, detail)
}
