//! What the main paths cost, counted as DynamoDB bills them.

use std::time::Duration;

use fencepost_storage::memory::Usage;
use fencepost_storage::operation;
use fencepost_tests::harness::{Harness, rule_event};

fn payload() -> Vec<u8> {
    vec![b'x'; 512]
}

#[tokio::test]
async fn a_warm_ingest_is_one_request_and_no_read() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    east.ingest(rule_event("cold", "telemetry/device-1", &payload())).await.unwrap();
    let before = harness.tables.usage();
    east.ingest(rule_event("warm", "telemetry/device-1", &payload())).await.unwrap();
    let after = harness.tables.usage();
    assert_eq!(after.requests - before.requests, 1);
    assert_eq!(after.read_units - before.read_units, 0);
    assert_eq!(after.write_units - before.write_units, 1);
}

/// Usage of ingest and drain of one message of 512 bytes, without the lease table's reads.
async fn one_message(dedupe_window: &'static str) -> (Usage, u64) {
    let harness = Harness::with(&[("FENCEPOST_DEDUPE_WINDOW", dedupe_window)]);
    let mut east = harness.instance("east");
    east.tick().await;
    let before = harness.tables.usage();
    east.ingest(rule_event("0f9a7c1e-5b1f-4f5e-9d0a-3a2b1c4d5e6f", "telemetry/device-1", &payload())).await.unwrap();
    harness.clock.advance(Duration::from_millis(10));
    let reply = east.drain(serde_json::json!({})).await.unwrap();
    assert_eq!(reply["counts"]["committed"], 1);
    assert_eq!(harness.delivered(), [payload()]);
    let after = harness.tables.usage();
    let writes = Usage {
        write_units: after.write_units - before.write_units,
        read_units: after.read_units - before.read_units,
        requests: after.requests - before.requests,
    };
    (writes, harness.tables.usage_of(operation::TOMBSTONES).read_units)
}

#[tokio::test]
async fn a_record_of_512_bytes_costs_four_write_units_and_one_batched_read_unit() {
    let (usage, tombstone_reads) = one_message("5d").await;
    assert_eq!(usage.write_units, 4, "put, claim, tombstone, delete");
    assert_eq!(tombstone_reads, 1);
}

#[tokio::test]
async fn without_a_dedupe_window_it_costs_three_and_none() {
    let (usage, tombstone_reads) = one_message("0s").await;
    assert_eq!(usage.write_units, 3, "put, claim, delete");
    assert_eq!(tombstone_reads, 0);
}

#[tokio::test]
async fn an_idle_drain_costs_one_read_for_each_shard_and_no_write() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    let before = harness.tables.usage();
    let reply = east.drain(serde_json::json!({})).await.unwrap();
    assert_eq!(reply["done"], true);
    assert_eq!(harness.tables.usage_of(operation::PAGE).requests, 2, "two shards");
    assert_eq!(harness.tables.usage_of(operation::PAGE).read_units, 2);
    let after = harness.tables.usage();
    assert_eq!(after.write_units, before.write_units);
    assert_eq!(after.requests - before.requests, 3, "and the lease, once");
}

#[tokio::test]
async fn a_hundred_records_take_a_quarter_of_a_request_each() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    east.ingest_many(100).await;
    let before = harness.tables.usage();
    east.drain(serde_json::json!({})).await.unwrap();
    let requests = harness.tables.usage().requests - before.requests;
    assert_eq!(harness.delivered().len(), 100);
    // Claims and commits travel 25 to a request, tombstones with each batch of ten sends' wave; reads are one each.
    assert!(requests <= 25, "{requests} requests for 100 records");
}
