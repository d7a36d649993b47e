//! placeholder: the specification in prose, written last
pub mod body;
pub mod drain;
pub mod failure;
pub mod ids;
pub mod ingest;
pub mod invariants;
pub mod lease;
pub mod limits;
pub mod outbox;
pub mod time;
pub mod timing;
