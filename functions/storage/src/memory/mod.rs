//! The ports in memory: the reference that the AWS adapters are measured against, and the world of tests and simulations.
//!
//! It holds the very items that a database would hold ([`MemoryTables`]), so that a damaged row can be planted, and applies
//! each write under its condition, one at a time. Limits are the real ones: item size, page size, entries and bytes of a
//! queue's batch, characters, attributes. Requests and units are counted as DynamoDB bills them, failed conditions too.
//!
//! Guarantees: no clock and no randomness (a delay is tokio's, virtual under a paused runtime), nothing locked while it
//! waits, rows in one order always. Faults come from a [`FaultPlan`], asked before each call.
//!
//! What must stay out: knowledge of who calls, and conditions that a real table could not state.

mod event_bus;
mod faults;
mod inspection;
mod lease_store;
mod outbox;
mod queue;
mod source;
mod tables;
mod usage;

#[cfg(test)]
mod tests;

pub use event_bus::MemoryEventBus;
pub use faults::{Call, Effect, EntryFault, Fault, FaultPlan, NoFaults, RowFault, Script};
pub use inspection::MemoryTableInspection;
pub use lease_store::MemoryLeaseStore;
pub use outbox::MemoryOutbox;
pub use queue::{MemoryQueue, QueueKind};
pub use source::MemorySource;
pub use tables::MemoryTables;
pub use usage::Usage;
