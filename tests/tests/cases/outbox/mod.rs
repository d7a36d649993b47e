//! The outbox: claims, sends, commits, bodies, order, outages. One test for each case that users of such systems reported,
//! at the outermost layer where it can be true.

mod bodies;
mod claims;
mod fencing;
mod ingest;
mod kept;
mod order;
mod outages;
mod replies;
mod sdk;
mod unusual;
mod workflows;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::outbox::{OutboxRow, Status};
use fencepost_storage::item::Value as Attribute;
use fencepost_storage::memory::{Fault, MemoryLeaseStore, MemoryOutbox, Script};
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, Instance};
use serde_json::{Value, json};

/// How finely the instances' clock follows virtual time.
const PACE: Duration = Duration::from_millis(50);
/// `stale_claim_duration` of the profile `fast`: how long the workflow waits before a claim counts as settled.
const STALE_WAIT_SECS: u64 = 20;
/// The TTL of the profile `fast`, its margin and two ticks: by then a standby that watched has taken over.
const TAKEOVER_SECS: u64 = 17;

async fn leader(harness: &Harness) -> Instance {
    let mut east = harness.instance("east");
    assert_eq!(east.tick().await["role"], "leader");
    east
}

/// A leader and `messages` rows of one device, m0000 onwards.
async fn leader_with(harness: &Harness, messages: usize) -> Instance {
    let east = leader(harness).await;
    east.ingest_many(messages).await;
    east
}

/// The claims that a reply reports, as the workflow passes them back after its wait.
fn settled(reply: &Value) -> Value {
    let claims = reply["unsettled"].as_array().expect("a reply lists unsettled claims").iter();
    claims.map(|one| json!({ "shard": one["shard"], "position": one["position"], "claim": one["claim"] })).collect()
}

/// One number of a reply's counts.
fn count(reply: &Value, name: &str) -> u64 {
    reply["counts"][name].as_u64().unwrap_or_else(|| panic!("no count {name} in {reply}"))
}

/// The mode of a takeover under `token` whose cut lies above everything that these tests store.
fn takeover(token: u64) -> Value {
    json!({ "kind": "takeover", "token": token, "cut": "1800000000000#~" })
}

/// The stream's record of a new row in `shard`.
fn wake(shard: &str) -> Value {
    json!({ "Records": [{ "eventSource": "aws:dynamodb", "eventName": "INSERT",
        "dynamodb": { "Keys": { "shard": { "S": shard }, "position": { "S": "1700000000000#m0000" } } } }] })
}

/// Lets `seconds` pass, with a tick of each instance in every one.
async fn live(harness: &Harness, instances: &mut [&mut Instance], seconds: u64) {
    for _ in 0..seconds {
        harness.clock.advance(Duration::from_secs(1));
        for instance in instances.iter_mut() {
            instance.tick().await;
        }
    }
}

/// Runs `work` while the instances' clock keeps pace with the paused runtime's virtual time.
async fn in_virtual_time<T>(harness: &Harness, work: impl Future<Output = T>) -> T {
    let clock = Arc::clone(&harness.clock);
    let pace = async move {
        loop {
            tokio::time::sleep(PACE).await;
            clock.advance(PACE);
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        () = pace => unreachable!("time passes for ever"),
    }
}

/// Gives the drainer of `instance` faults of its own: a call's number is counted from 1, from now on.
fn own_faults(harness: &Harness, instance: &mut Instance) -> Script {
    let script = Script::default();
    let faults = Arc::new(script.clone());
    instance.drainer.outbox = Arc::new(MemoryOutbox::new(harness.tables.clone()).with_faults(faults.clone()));
    instance.drainer.leases = Arc::new(MemoryLeaseStore::new(harness.tables.clone()).with_faults(faults));
    script
}

/// A call that arrives late.
fn late_by(seconds: u64) -> Fault {
    Fault { delay_before: Duration::from_secs(seconds), ..Fault::default() }
}

/// A call that takes effect at once and is answered late.
fn answered_after(delay: Duration) -> Fault {
    Fault { delay_after: delay, ..Fault::default() }
}

/// How many rows stand in partitions whose name begins so.
fn rows_below(harness: &Harness, prefix: &str) -> usize {
    let is_one = |partition: &Attribute| matches!(partition, Attribute::Text(text) if text.starts_with(prefix));
    harness.tables.dump(Table::Outbox).iter().filter(|row| row.get("shard").is_some_and(is_one)).count()
}

fn dead_rows(harness: &Harness) -> usize {
    rows_below(harness, "dead#")
}

fn live_rows(harness: &Harness) -> usize {
    rows_below(harness, "telemetry#")
}

fn is_claimed(row: &OutboxRow) -> bool {
    matches!(row.status, Status::Claimed(_))
}

/// The ids under which the queue accepted messages, in the order of acceptance.
fn accepted_ids(harness: &Harness) -> Vec<String> {
    let id_of = |attributes: &[(String, String)]| {
        attributes.iter().find(|(name, _)| name == "message-id").map(|(_, id)| id.clone()).expect("a message id")
    };
    harness.queue.accepted().iter().map(|entry| id_of(&entry.attributes)).collect()
}
