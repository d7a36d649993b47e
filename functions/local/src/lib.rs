//! One machine's world: what the bridge runs in when there is no account. An embedded DynamoDB, a queue that speaks SQS,
//! an MQTT broker in the place of IoT Core, and the machine that ties them together.
//!
//! Everything listens on loopback only and checks no credentials. The real SDK clients, the AWS CLI, boto3 and MQTT
//! clients talk to it. Decisions of the bridge stay out: they are `protocol`'s, and the handlers that run here are the
//! shipped ones.

pub mod broker;
mod endpoint;
pub mod machine;
pub mod queue;
pub mod shipped;
pub mod table_server;
pub mod world;

pub use endpoint::StartError;
