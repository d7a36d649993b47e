//! The DynamoDB adapters through the real SDK client: over the embedded DynamoDB, behind a server that spoils replies, and
//! over one that answers by a script.

mod batches;
mod capacity;
mod certainty;
mod conformance;
mod errors;
mod inspection;
mod lost_replies;
mod samples;
mod schema;
