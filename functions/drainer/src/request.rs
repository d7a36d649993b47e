//! What the drainer can be asked.

use std::collections::BTreeSet;

use fencepost_protocol::drain::{DrainRequest, RedriveRequest};
use fencepost_protocol::ids::{LeaseName, Malformed, Shard};
use fencepost_runtime::input;
use serde::Deserialize;
use serde_json::Value;

/// One request. Unknown commands and unknown fields are refused by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Which shards there are, if this instance leads.
    Plan,
    /// Which shards there are.
    Shards,
    /// One call of a pass.
    Drain(DrainRequest),
    /// Put dead records back.
    Redrive(RedriveRequest),
    /// The outbox's stream saw new rows in these shards.
    Wake(Vec<Shard>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    Plan {},
    Shards {},
    Drain(DrainRequest),
    Redrive(RedriveRequest),
}

/// The part of a DynamoDB stream batch that a wake-up needs: keys, never images.
#[derive(Deserialize)]
struct StreamBatch {
    #[serde(rename = "Records")]
    records: Vec<StreamRecord>,
}

#[derive(Deserialize)]
struct StreamRecord {
    dynamodb: StreamKeysOf,
}

#[derive(Deserialize)]
struct StreamKeysOf {
    #[serde(rename = "Keys")]
    keys: StreamKeys,
}

#[derive(Deserialize)]
struct StreamKeys {
    shard: TextAttribute,
}

#[derive(Deserialize)]
struct TextAttribute {
    #[serde(rename = "S")]
    text: String,
}

impl Request {
    /// Reads a request to the drainer of `lease`.
    ///
    /// # Errors
    /// [`Malformed`] that names what is wrong; also for shards of another lease.
    pub fn parse(lease: &LeaseName, input: Value) -> Result<Self, Malformed> {
        if input.get("Records").is_some() {
            let batch: StreamBatch = input::read("input", input)?;
            return Ok(Request::Wake(shards_of(lease, &batch)));
        }
        match input::command(input)? {
            Command::Plan {} => Ok(Request::Plan),
            Command::Shards {} => Ok(Request::Shards),
            Command::Drain(request) => own(lease, &request.shards).map(|()| Request::Drain(request)),
            Command::Redrive(request) => own(lease, &request.shards).map(|()| Request::Redrive(request)),
        }
    }
}

fn own(lease: &LeaseName, shards: &[Shard]) -> Result<(), Malformed> {
    match shards.iter().find(|shard| shard.lease() != lease) {
        Some(foreign) => Err(Malformed::new(
            "shards",
            format!("{foreign} is not a shard of the lease {lease}, which this function serves"),
        )),
        None => Ok(()),
    }
}

/// The shards that a stream batch names. Dead rows, tombstones and fences wake nobody, also where the stream's filter let
/// them through.
fn shards_of(lease: &LeaseName, batch: &StreamBatch) -> Vec<Shard> {
    let keys = batch.records.iter().map(|record| record.dynamodb.keys.shard.text.as_str());
    let shards: BTreeSet<Shard> =
        keys.filter_map(|key| Shard::parse(key).ok()).filter(|shard| shard.lease() == lease).collect();
    shards.into_iter().collect()
}
