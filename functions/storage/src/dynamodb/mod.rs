//! The lease table and the outbox table in DynamoDB.
//!
//! Guarantees: every condition is the service's own (a conditional write of one item; no transaction anywhere); reads are
//! strongly consistent; a lost condition comes back with the item that won; time-outs, tries and error kinds are the
//! store's [`crate::CallPolicy`] and nobody else's. A batch request of conditional statements and single calls are two
//! forms of the same [`write::Write`].
//!
//! What must stay out: what an item means (that is in [`crate::records`]) and what to do about an answer (the protocol).

mod batch;
mod convert;
mod error;
mod expression;
mod inspection;
mod lease_store;
mod outbox;
mod schema;
mod statement;
mod table;
mod tries;
mod write;

#[cfg(test)]
mod tests;

pub use inspection::DynamoTableInspection;
pub use lease_store::DynamoLeaseStore;
pub use outbox::DynamoOutbox;
pub use schema::{TableNames, create_tables};
