//! The three handlers over the memory stores: each step of the protocol, each fault of each call, and what it costs.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod costs;
mod custom_resource;
mod dead_events;
mod drainer;
mod drainer_faults;
mod ingest;
mod lease;
