//! Where the protocol's records live, and how its plans are carried out.
//!
//! The ports ([`LeaseStore`], [`Outbox`], [`Queue`], [`Source`], [`EventBus`]) are what handlers see. Each has an in-memory
//! adapter, which is the reference, and an AWS adapter; one conformance suite runs over both (of tables and queue).
//!
//! Guarantees: a write happens under exactly the condition that its plan states; a lost condition is an answer that carries
//! the row that won; a write whose reply was lost is recognised as own by its attempt or claim id; an item that does not
//! decode is refused by field name and never overwritten; every failure is mapped once to a [`StoreError`].
//!
//! What must stay out: decisions (those are in `fencepost-protocol`), settings from the environment, clocks. What must not
//! get out: a type of an AWS crate.

mod call;
pub mod callback;
mod clients;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod dynamodb;
mod error;
#[cfg(feature = "eventbridge")]
pub mod eventbridge;
mod inspection;
#[cfg(feature = "iot")]
pub mod iot;
pub mod item;
#[cfg(test)]
mod loopback;
pub mod memory;
pub mod operation;
mod ports;
pub mod records;
mod sdk_failure;
pub mod sqs;

pub use call::{CallInProgress, CallObserver, CallPolicy, CallReport};
pub use clients::{ClientOptions, Clients, FixedCredentials};
pub use error::StoreError;
pub use inspection::TableInspection;
pub use ports::*;
