//! What the platform's own limits must not cost: time limits of functions, retention, pages without end.

use std::time::Duration;

use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::Fault;
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, rule_event};
use serde_json::json;

use super::sdk::World;
use super::{
    STALE_WAIT_SECS, accepted_ids, answered_after, count, dead_rows, in_virtual_time, is_claimed, leader_with, live,
    live_rows, settled,
};

/// Reported: a function with a limit of 3 s was killed in the middle of its batch each time; what it had claimed was stuck, and
/// nothing was ever delivered.
/// Right: a limit that fits no page is refused at deployment, and such a call claims nothing; one that fits is kept: the call
/// begins no page that could end after it and answers with a cursor. What a kill leaves claimed is delivered after the wait.
///
/// Kills: `a_page_is_begun_that_cannot_end`
#[tokio::test(start_paused = true)]
async fn case_32_function_limit_of_three_seconds() {
    // The profile's page may take 5s: with a limit of 3s no page is begun, and nothing is stuck.
    let harness = Harness::new();
    let east = leader_with(&harness, 5).await;
    let drain = json!({ "command": "drain", "shards": ["telemetry#0000", "telemetry#0001"],
        "mode": { "kind": "scheduled" } });
    let reply = east.drainer.handle(drain.clone(), &east.limit(Duration::from_secs(3))).await.unwrap();
    assert_eq!((&reply["done"], count(&reply, "claimed"), live_rows(&harness)), (&json!(false), 0, 5));
    assert!(east.outstanding().await.iter().all(|row| !is_claimed(row)));

    // Timings that fit: 0.5s + 0.4s a page. The runtime keeps one second of the three, so the handler has two.
    let harness = Harness::with(&[
        ("FENCEPOST_CLAIM_BUDGET", "500ms"),
        ("FENCEPOST_SEND_TIMEOUT", "400ms"),
        ("FENCEPOST_DRAINER_LIMIT", "3s"),
        ("FENCEPOST_PAGE_ROWS", "2"),
    ]);
    let mut east = leader_with(&harness, 20).await;
    for call in 1..=20 {
        harness.faults.set(operation::CLAIM, call, answered_after(Duration::from_millis(200)));
        harness.queue_faults.set(operation::SEND, call, answered_after(Duration::from_millis(300)));
    }
    let (handler, whole) = (Duration::from_secs(2), Duration::from_secs(3));
    let (mut calls, mut request) = (0, drain.clone());
    loop {
        let started = tokio::time::Instant::now();
        let limit = east.limit(handler);
        let reply = in_virtual_time(&harness, east.drainer.handle(request, &limit)).await.unwrap();
        assert!(started.elapsed() < whole, "call {calls}: {:?}", started.elapsed());
        assert!(east.outstanding().await.iter().all(|row| !is_claimed(row)), "call {calls} leaves no claim");
        assert!(count(&reply, "committed") > 0 || reply["done"] == true, "call {calls} gets on");
        calls += 1;
        east.tick().await;
        if reply["done"] == true {
            break;
        }
        request = drain.clone();
        request["cursor"] = reply["cursor"].clone();
    }
    assert!((3..=10).contains(&calls), "{calls} calls for ten pages of half a second");
    assert_eq!((accepted_ids(&harness).len(), live_rows(&harness)), (20, 0));
    assert_eq!(east.metrics.total(Metric::DuplicateRisk), 0.0);

    // A send that hangs: the platform ends the function at its limit.
    east.ingest(rule_event("stuck", "telemetry/device-1", b"21.5")).await.unwrap();
    for call in 1..=100 {
        harness.queue_faults.set(operation::SEND, call, Fault { delay_before: whole * 2, ..Fault::default() });
    }
    let limit = east.limit(handler);
    let killed = async { tokio::time::timeout(whole, east.drainer.handle(drain.clone(), &limit)).await.is_err() };
    assert!(in_virtual_time(&harness, killed).await);
    for call in 1..=100 {
        harness.queue_faults.set(operation::SEND, call, Fault::default());
    }
    assert!(is_claimed(&east.outstanding().await[0]), "stuck");
    let seen = east.drain(json!({})).await.unwrap();
    live(&harness, &mut [&mut east], STALE_WAIT_SECS).await;
    let reply = east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
    assert_eq!((count(&reply, "committed"), count(&reply, "stale_claims")), (1, 1), "and recovered");
    assert_eq!(live_rows(&harness), 0);
}

/// Reported: the table's time to live was shorter than an outage, and messages that nobody had sent expired.
/// Right: nothing but the proof of a send carries an expiry. Pending, claimed and dead records stay for as long as it takes,
/// whatever sweeps the table.
///
/// Kills: `outstanding_rows_expire`
#[tokio::test]
async fn case_34_retention_shorter_than_the_backlog() {
    // Against the embedded DynamoDB with the table's real setting: its sweep goes by the host's clock, which is years after
    // everything in it.
    let mut world = World::start(&[("FENCEPOST_REQUEST_BYTES_MAX", "1024")]).await;
    let mut east = world.leader().await;
    east.ingest(rule_event("committed", "telemetry/device-1", b"1")).await.unwrap();
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 1);
    east.ingest(rule_event("dead", "telemetry/device-1", &[b'x'; 2_000])).await.unwrap();
    east.ingest(rule_event("claimed", "telemetry/device-1", b"2")).await.unwrap();
    world.queue.place(
        fencepost_tests::proxy::Match::any(),
        fencepost_tests::proxy::Times::Nth(1),
        fencepost_tests::proxy::Fault::FailBefore,
    );
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&reply, "dead"), count(&reply, "unknown")), (1, 1));
    east.ingest(rule_event("pending", "telemetry/device-1", b"3")).await.unwrap();
    assert_eq!(world.tables.server.expire().unwrap(), 1, "the proof of the committed one, and nothing else");
    let rows = east.outstanding().await;
    let mut facts: Vec<_> = rows.iter().map(|row| (row.id().as_str(), is_claimed(row))).collect();
    facts.sort_unstable();
    assert_eq!(facts, [("claimed", true), ("pending", false)]);
    let dead = east.outbox.dead_page(&rows[0].key.shard, None, 10).await.unwrap();
    assert_eq!(dead.rows.len(), 1);
    let seen = east.drain(json!({})).await.unwrap();
    world.live(&mut east, STALE_WAIT_SECS).await;
    east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
    let mut ids = world.ids();
    ids.sort();
    assert_eq!(ids, ["claimed", "committed", "pending"]);

    // A backlog of a month, swept each day by a clock that is a year ahead.
    let harness = Harness::new();
    let mut east = leader_with(&harness, 10).await;
    for _ in 0..30 {
        harness.clock.advance(Duration::from_secs(86_400));
        assert_eq!(harness.tables.expire(1_731_600_000), 0);
    }
    let has_expiry = |item: &fencepost_storage::item::Item| item.contains_key("expires_at");
    assert!(!harness.tables.dump(Table::Outbox).iter().any(has_expiry));
    live(&harness, &mut [&mut east], 1).await;
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 10);
    assert_eq!((accepted_ids(&harness).len(), dead_rows(&harness)), (10, 0));
}

/// Found by us: a page on which nothing could be claimed was read again and again, and what lay behind it never went out.
/// Right: the cursor moves over it; each page is read once a pass, the pass ends, and the records behind it are delivered.
///
/// Kills: `cursor_stands_still_on_an_empty_choice`
#[tokio::test(start_paused = true)]
async fn case_55_page_of_unclaimable_rows() {
    let harness = Harness::with(&[("FENCEPOST_PAGE_ROWS", "5")]);
    let mut east = leader_with(&harness, 12).await;
    // Time passes with each read, so that a pass without end would end by its limit and be seen.
    for call in 1..=1_000 {
        harness.faults.set(operation::PAGE, call, answered_after(Duration::from_millis(50)));
    }
    // Twelve records of one shard are claimed by a drainer that is killed; then five more arrive.
    harness.queue_faults.set(operation::SEND, 1, answered_after(Duration::from_secs(9)));
    let killed = async { tokio::time::timeout(Duration::from_secs(1), east.drain(json!({}))).await.is_err() };
    assert!(in_virtual_time(&harness, killed).await);
    let mut claimed = east.outstanding().await.iter().filter(|row| is_claimed(row)).count();
    assert_eq!(claimed, 5, "the first page");
    for number in 0..5 {
        let mut event = rule_event(&format!("n{number}"), "telemetry/device-1", b"21.5");
        event["received_at"] = json!(1_700_000_000_001_u64);
        east.ingest(event).await.unwrap();
    }
    let reads = || harness.tables.usage_of(operation::PAGE).requests;
    let before = reads();
    let reply = in_virtual_time(&harness, east.drain(json!({}))).await.unwrap();
    assert_eq!((&reply["done"], count(&reply, "committed"), count(&reply, "skipped")), (&json!(true), 12, 5));
    assert_eq!(reply["unsettled"].as_array().unwrap().len(), 1);
    assert_eq!(reads() - before, 5, "17 rows are four pages, and one of the empty shard");
    // Nothing but unclaimable rows: the pass ends as well.
    let before = reads();
    let reply = in_virtual_time(&harness, east.drain(json!({}))).await.unwrap();
    assert_eq!((&reply["done"], count(&reply, "claimed"), count(&reply, "skipped")), (&json!(true), 0, 5));
    assert_eq!(reads() - before, 3, "a full page, what lies behind it, and the empty shard");
    live(&harness, &mut [&mut east], STALE_WAIT_SECS).await;
    let reply = in_virtual_time(&harness, east.drain(json!({ "settled": settled(&reply) }))).await.unwrap();
    claimed = usize::try_from(count(&reply, "committed")).unwrap();
    assert_eq!((claimed, live_rows(&harness)), (5, 0));
}
