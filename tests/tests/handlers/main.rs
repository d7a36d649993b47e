//! The three handlers over the memory stores: each step of the protocol, each fault of each call, and what it costs.

mod costs;
mod drainer;
mod drainer_faults;
mod ingest;
mod lease;
