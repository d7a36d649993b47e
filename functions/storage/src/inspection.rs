//! Looking at a table from outside: the port that a deployment's check asks before anything uses the table.
//!
//! What must stay out: whether a table is fit (the protocol's [`fencepost_protocol::tables`] says).

use async_trait::async_trait;
use fencepost_protocol::tables::TableFacts;

use crate::StoreError;
use crate::records::Table;

/// Looks at tables; changes nothing.
#[async_trait]
pub trait TableInspection: Send + Sync {
    /// The table `name` (or its ARN) of `region`, or of the own region, as what it is given.
    ///
    /// # Errors
    /// [`fencepost_protocol::failure::FailureKind::Invalid`] where there is no such table; otherwise how the call failed.
    async fn inspect(&self, table: Table, name: &str, region: Option<&str>) -> Result<TableFacts, StoreError>;
}
