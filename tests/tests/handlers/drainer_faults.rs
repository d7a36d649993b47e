//! The drainer under faults: every lost reply, every late worker, every successor.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::outbox::Status;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, EntryFault, Fault};
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, Instance};
use serde_json::{Value, json};

async fn leader_with(harness: &Harness, messages: usize) -> Instance {
    let mut east = harness.instance("east");
    assert_eq!(east.tick().await["role"], "leader");
    east.ingest_many(messages).await;
    east
}

/// The claims that a reply reports, as they are passed back after the wait.
fn settled(reply: &Value) -> Value {
    let claims = reply["unsettled"].as_array().unwrap().iter();
    claims.map(|one| json!({ "shard": one["shard"], "position": one["position"], "claim": one["claim"] })).collect()
}

#[tokio::test]
async fn claims_whose_reply_was_lost_are_handed_back_at_once_for_they_were_not_sent() {
    let harness = Harness::new();
    let east = leader_with(&harness, 5).await;
    harness.faults.set(operation::CLAIM, 1, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    let lost = east.drain(json!({})).await.unwrap();
    assert_eq!((&lost["counts"]["sent"], &lost["stopped_by"]), (&json!(0), &json!("store")));
    assert_eq!((&lost["counts"]["handed_back"], &lost["again_after_seconds"]), (&json!(5), &json!(10)));
    let rows = east.outstanding().await;
    assert!(rows.iter().all(|row| row.status == Status::Pending && row.attempts == 0), "{rows:?}");
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["committed"], 5);
    assert_eq!(harness.queue.accepted().len(), 5);
}

#[tokio::test]
async fn claims_that_cannot_even_be_handed_back_are_delivered_after_the_wait() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 5).await;
    harness.faults.set(operation::CLAIM, 1, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    harness.faults.set(operation::HAND_BACK, 1, Fault::of(Effect::FailBefore(FailureKind::TimedOut)));
    east.drain(json!({})).await.unwrap();
    let seen = east.drain(json!({})).await.unwrap();
    assert_eq!(seen["unsettled"].as_array().unwrap().len(), 1, "one claim id for the page");
    for _ in 0..20 {
        harness.clock.advance(Duration::from_secs(1));
        east.tick().await;
    }
    let reply = east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
    assert_eq!((&reply["counts"]["committed"], &reply["counts"]["stale_claims"]), (&json!(5), &json!(5)));
    assert_eq!(harness.queue.accepted().len(), 5);
}

#[tokio::test]
async fn a_send_of_unknown_outcome_keeps_its_claim_restores_the_attempt_and_is_counted_when_repeated() {
    for effect in [Effect::FailAfter(FailureKind::TimedOut), Effect::FailBefore(FailureKind::TimedOut)] {
        let harness = Harness::new();
        let mut east = leader_with(&harness, 3).await;
        harness.queue_faults.set(operation::SEND, 1, Fault::of(effect.clone()));
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!((&reply["counts"]["unknown"], &reply["stopped_by"]), (&json!(3), &json!("queue")));
        let rows = east.outstanding().await;
        assert!(rows.iter().all(|row| matches!(row.status, Status::Claimed(_)) && row.attempts == 0), "{rows:?}");
        let seen = east.drain(json!({})).await.unwrap();
        assert_eq!(seen["counts"]["claimed"], 0, "never handed back, never taken at once");
        for _ in 0..20 {
            harness.clock.advance(Duration::from_secs(1));
            east.tick().await;
        }
        let reply = east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
        assert_eq!(reply["counts"]["committed"], 3);
        assert_eq!(east.metrics.total(Metric::DuplicateRisk), 3.0);
        let twice = if matches!(effect, Effect::FailAfter(_)) { 6 } else { 3 };
        assert_eq!(harness.queue.accepted().len(), twice);
    }
}

#[tokio::test]
async fn replies_that_omit_repeat_or_rename_entries_prove_only_what_they_name() {
    let harness = Harness::new();
    let east = leader_with(&harness, 4).await;
    let entries = [
        (0, EntryFault::Omit),
        (1, EntryFault::Repeat),
        (2, EntryFault::Rename("someone-else".into())),
        (3, EntryFault::Lose),
    ];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(entries.into())));
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["counts"]["committed"], &reply["counts"]["unknown"]), (&json!(1), &json!(3)));
    assert_eq!(east.outstanding().await.len(), 3);
}

#[tokio::test]
async fn commits_whose_reply_was_lost_are_mine_at_the_second_try() {
    let harness = Harness::new();
    let east = leader_with(&harness, 4).await;
    harness.faults.set(operation::COMMIT, 1, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["counts"]["committed"], &reply["counts"]["fenced"]), (&json!(4), &json!(0)));
    assert_eq!(east.metrics.total(Metric::CommitsFenced), 0.0);
}

#[tokio::test]
async fn a_sent_record_whose_commit_never_came_is_committed_later_without_a_second_send() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 3).await;
    for call in 1..=2 {
        harness.faults.set(operation::COMMIT, call, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    }
    east.drain(json!({})).await.unwrap();
    assert_eq!((harness.queue.accepted().len(), east.outstanding().await.len()), (3, 3));
    let seen = east.drain(json!({})).await.unwrap();
    for _ in 0..20 {
        harness.clock.advance(Duration::from_secs(1));
        east.tick().await;
    }
    let reply = east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
    assert_eq!(reply["counts"]["committed"], 3);
    assert_eq!(harness.queue.accepted().len(), 3, "the tombstone proves the first send");
}

#[tokio::test]
async fn a_tombstone_that_was_not_acknowledged_holds_its_commit_back() {
    let harness = Harness::new();
    let east = leader_with(&harness, 2).await;
    harness.faults.set(operation::WRITE_TOMBSTONES, 1, Fault::of(Effect::FailBefore(FailureKind::Throttled)));
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["counts"]["sent"], &reply["counts"]["committed"]), (&json!(2), &json!(0)));
    assert!(east.outstanding().await.iter().all(|row| matches!(row.status, Status::Claimed(_))));
}

#[tokio::test]
async fn a_lease_lost_between_claim_and_send_hands_everything_back_unsent() {
    let harness = Harness::new();
    let east = leader_with(&harness, 5).await;
    // The strong read between claim and send is the second read of the lease in this call, ingest's stamp was one more.
    harness.faults.set(operation::READ_LEASE, 3, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["counts"]["sent"], &reply["counts"]["handed_back"]), (&json!(0), &json!(5)));
    let rows = east.outstanding().await;
    assert!(rows.iter().all(|row| row.status == Status::Pending && row.attempts == 0), "{rows:?}");
    assert!(harness.queue.accepted().is_empty());
}

#[tokio::test]
async fn a_slow_claim_that_spends_its_budget_sends_nothing() {
    let harness = Harness::new();
    let east = leader_with(&harness, 2).await;
    let clock = harness.clock.clone();
    // The claims' answer takes three seconds: the claim budget is two.
    let slow = Fault { delay_after: Duration::from_secs(3), ..Fault::default() };
    harness.faults.set(operation::CLAIM, 1, slow);
    tokio::time::pause();
    let drain = east.drain(json!({}));
    let (reply, ()) = tokio::join!(drain, async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        clock.advance(Duration::from_secs(3));
    });
    let reply = reply.unwrap();
    assert_eq!((&reply["counts"]["sent"], &reply["counts"]["handed_back"]), (&json!(0), &json!(2)));
}

#[tokio::test]
async fn a_page_begins_with_a_lease_that_was_read_within_the_second() {
    let harness = Harness::with(&[("FENCEPOST_PAGE_ROWS", "1")]);
    let east = leader_with(&harness, 0).await;
    for id in ["m0001", "m0002"] {
        east.ingest(fencepost_tests::harness::rule_event(id, "telemetry/device-1", id.as_bytes())).await.unwrap();
    }
    let clock = harness.clock.clone();
    let slow = Fault { delay_after: Duration::from_millis(1_500), ..Fault::default() };
    harness.queue_faults.set(operation::SEND, 1, slow);
    tokio::time::pause();
    // While the first page waits for the queue, a step-down is marked.
    let (reply, ()) = tokio::join!(east.drain(json!({})), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        clock.advance(Duration::from_millis(1_500));
        east.lease(json!({ "command": "step_down" })).await.unwrap();
    });
    let counts = reply.unwrap()["counts"].clone();
    assert_eq!((&counts["claimed"], &counts["committed"]), (&json!(1), &json!(1)), "what was sent, and nothing more");
}

#[tokio::test]
async fn burials_end_with_the_calls_time() {
    let harness = Harness::new();
    let east = leader_with(&harness, 3).await;
    let clock = harness.clock.clone();
    let refused = (0..3).map(|index| (index, EntryFault::Refuse("InvalidMessageContents".into()))).collect();
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(refused)));
    let slow = Fault { delay_after: Duration::from_secs(60), ..Fault::default() };
    harness.faults.set(operation::KILL, 1, slow);
    tokio::time::pause();
    let (reply, ()) = tokio::join!(east.drain(json!({})), async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        clock.advance(Duration::from_secs(60));
    });
    let counts = reply.unwrap()["counts"].clone();
    assert_eq!((&counts["dead"], &counts["skipped"]), (&json!(1), &json!(2)), "the one that was under way");
    assert_eq!(east.outstanding().await.len(), 2, "the others wait under their claims");
}

#[tokio::test]
async fn a_paused_holder_is_fenced_by_its_successor() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 3).await;
    let mut west = harness.instance("west");
    west.tick().await;
    // East claims and sends, and its commit is lost before it arrives: it pauses there, past its TTL.
    for call in 1..=2 {
        harness.faults.set(operation::COMMIT, call, Fault::of(Effect::FailBefore(FailureKind::TimedOut)));
    }
    harness.faults.set(operation::WRITE_TOMBSTONES, 1, Fault::of(Effect::FailBefore(FailureKind::TimedOut)));
    east.drain(json!({})).await.unwrap();
    for (operation, call) in [(operation::COMMIT, 1), (operation::COMMIT, 2), (operation::WRITE_TOMBSTONES, 1)] {
        harness.faults.set(operation, call, Fault::default());
    }
    for _ in 0..17 {
        harness.clock.advance(Duration::from_secs(1));
        west.tick().await;
    }
    // West leads under token 2 and takes the orphans over after the wait.
    let mode = json!({ "kind": "takeover", "token": 2, "cut": "1800000000000#~" });
    let seen = west.drain(json!({ "mode": mode })).await.unwrap();
    assert_eq!((&seen["leading"], &seen["counts"]["claimed"]), (&json!(true), &json!(0)));
    let reply = west.drain(json!({ "mode": mode, "settled": settled(&seen) })).await.unwrap();
    assert_eq!(reply["counts"]["committed"], 3);
    assert_eq!(harness.queue.accepted().len(), 6, "sent twice: nothing proves the first send");
    assert_eq!(west.metrics.total(Metric::DuplicateRisk), 3.0, "and counted");
    // East wakes: it holds nothing, claims nothing, commits nothing.
    let woken = east.drain(json!({})).await.unwrap();
    assert_eq!((&woken["leading"], &woken["counts"]["claimed"]), (&json!(false), &json!(0)));
    assert_eq!(east.tick().await["role"], "standby");
    assert!(east.outstanding().await.is_empty());
}

#[tokio::test]
async fn a_takeover_takes_orphans_below_the_cut_and_leaves_new_traffic_alone() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 4).await;
    let mut west = harness.instance("west");
    west.tick().await;
    for _ in 0..17 {
        harness.clock.advance(Duration::from_secs(1));
        west.tick().await;
    }
    // New traffic, stamped with west's own token.
    let mut fresh = fencepost_tests::harness::rule_event("fresh", "telemetry/device-1", b"fresh");
    fresh["received_at"] = json!(1_700_000_016_000_u64);
    west.ingest(fresh).await.unwrap();
    let mode = json!({ "kind": "takeover", "token": 2, "cut": "1700000017000#~" });
    let reply = west.drain(json!({ "mode": mode })).await.unwrap();
    assert_eq!((&reply["done"], &reply["counts"]["committed"]), (&json!(true), &json!(4)));
    assert_eq!(west.outstanding().await.len(), 1, "that one belongs to the scheduled drain");
    assert_eq!(west.drain(json!({})).await.unwrap()["counts"]["committed"], 1);
    let old = json!({ "kind": "takeover", "token": 1, "cut": "1700000017000#~" });
    assert_eq!(west.drain(json!({ "mode": old })).await.unwrap()["leading"], false, "an outdated takeover ends");
    east.tick().await;
}

#[tokio::test]
async fn a_store_that_fails_in_any_call_loses_nothing() {
    use operation::{CLAIM, COMMIT, HAND_BACK, PAGE, READ_LEASE, TOMBSTONES, WRITE_TOMBSTONES};
    for operation in [READ_LEASE, PAGE, CLAIM, TOMBSTONES, WRITE_TOMBSTONES, COMMIT, HAND_BACK] {
        for kind in [FailureKind::Throttled, FailureKind::Unavailable, FailureKind::TimedOut, FailureKind::Denied] {
            for after in [false, true] {
                let harness = Harness::new();
                let mut east = leader_with(&harness, 15).await;
                let effect = if after { Effect::FailAfter(kind) } else { Effect::FailBefore(kind) };
                // Past ingest's one read of the lease.
                harness.faults.set(operation, if operation == READ_LEASE { 2 } else { 1 }, Fault::of(effect));
                let _ = east.drain(json!({})).await;
                let seen = east.drain(json!({})).await.unwrap();
                for _ in 0..20 {
                    harness.clock.advance(Duration::from_secs(1));
                    east.tick().await;
                }
                east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
                let mut delivered = harness.delivered();
                let total = delivered.len();
                delivered.dedup();
                let what = format!("{operation} {kind:?} after={after}");
                assert_eq!(delivered.len(), 15, "{what}");
                assert!(east.outstanding().await.is_empty(), "{what}");
                // Only a tombstone that was never written leaves a second send unprevented.
                let unproven = operation == WRITE_TOMBSTONES && !after;
                assert_eq!(total, if unproven { 30 } else { 15 }, "{what}: sends");
            }
        }
    }
}

#[tokio::test]
async fn a_woken_drainer_comes_back_for_what_its_pass_handed_back() {
    let harness = Harness::new();
    let east = leader_with(&harness, 5).await;
    // The lease is not readable between claim and send: everything goes back, and no new row will wake anybody.
    harness.faults.set(operation::READ_LEASE, 3, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    let shard = east.outstanding().await[0].key.shard.to_string();
    let wake = json!({ "Records": [{ "eventSource": "aws:dynamodb", "eventName": "INSERT",
        "dynamodb": { "Keys": { "shard": { "S": shard }, "position": { "S": "1700000000000#m0000" } } } }] });
    let limit = east.limit(Duration::from_secs(30));
    let clock = harness.clock.clone();
    let time_passes = async {
        loop {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_millis(50));
        }
    };
    tokio::select! {
        reply = east.drainer.handle(wake, &limit) => assert_eq!(reply.unwrap(), json!({})),
        () = time_passes => unreachable!("time passes for ever"),
    }
    assert_eq!(east.metrics.total(Metric::Committed), 5.0);
    assert_eq!(harness.queue.accepted().len(), 5);
}

#[tokio::test]
async fn a_backlog_that_cannot_be_read_is_told_by_nobody_and_its_alarm_rings_for_want_of_data() {
    let harness = Harness::new();
    let east = leader_with(&harness, 2).await;
    harness.clock.advance(Duration::from_secs(3));
    for call in 1..=2 {
        harness.faults.set(operation::PAGE, call, Fault::of(Effect::FailBefore(FailureKind::Throttled)));
    }
    east.drain(json!({})).await.unwrap();
    assert!(east.metrics.values(Metric::OldestOutstandingAge).is_empty());
    east.drain(json!({})).await.unwrap();
    assert_eq!(east.metrics.values(Metric::OldestOutstandingAge), [3.0]);
    assert_eq!(east.metrics.values(Metric::OutboxOutstanding), [0.0]);
}

#[tokio::test]
async fn a_damaged_row_is_counted_left_alone_and_delivered_after_its_repair() {
    let harness = Harness::new();
    let east = leader_with(&harness, 3).await;
    let good = harness.tables.dump(Table::Outbox).into_iter().find(|item| item.contains_key("payload")).unwrap();
    let mut damaged = good.clone();
    damaged.remove("payload");
    harness.tables.plant(Table::Outbox, damaged.clone()).unwrap();
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["held"], 1);
    assert_eq!(east.metrics.total(Metric::Held), 1.0);
    assert_eq!(harness.queue.accepted().len(), 2, "the others flow");
    assert!(harness.tables.dump(Table::Outbox).contains(&damaged));
    harness.tables.plant(Table::Outbox, good).unwrap();
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["committed"], 1);
}

#[tokio::test]
async fn no_shard_waits_for_the_end_of_another() {
    // Five shards with three pages each, and room for four at a time: the fifth gets its turn in the first round.
    let harness = Harness::with(&[("FENCEPOST_SHARDS", "5"), ("FENCEPOST_PAGE_ROWS", "2")]);
    let mut east = harness.instance("east");
    east.tick().await;
    for number in 0..60 {
        let event = fencepost_tests::harness::rule_event(&format!("m{number}"), &format!("telemetry/d{number}"), b"x");
        east.ingest(event).await.unwrap();
    }
    let shards: Vec<_> = (0..5).map(|index| format!("telemetry#{index:04}")).collect();
    east.drain(json!({ "shards": shards })).await.unwrap();
    let sent: Vec<_> =
        harness.queue.accepted().iter().map(|entry| entry.group_id.clone().unwrap_or_default()).collect();
    assert_eq!(sent.len(), 60);
    let lease = fencepost_protocol::ids::LeaseName::new("telemetry").unwrap();
    let shard_of = |device: &String| fencepost_protocol::ids::Shard::of_key(&lease, device, 5).index();
    let first_round: std::collections::BTreeSet<_> = sent.iter().take(12).map(shard_of).collect();
    assert_eq!(first_round.len(), 5, "{first_round:?}");
}

#[tokio::test]
async fn a_woken_drainer_waits_for_the_claim_in_flight_before_its_row() {
    let harness = Harness::with(&[("FENCEPOST_QUEUE_URL", "http://127.0.0.1/queue.fifo")]);
    let east = leader_with(&harness, 1).await;
    // Another call of this instance has the head of the key in its hands: its send takes five seconds.
    let slow = Fault { delay_after: Duration::from_secs(5), ..Fault::default() };
    harness.queue_faults.set(operation::SEND, 1, slow);
    let shard = east.outstanding().await[0].key.shard.to_string();
    let wake = json!({ "Records": [{ "eventSource": "aws:dynamodb", "eventName": "INSERT",
        "dynamodb": { "Keys": { "shard": { "S": shard }, "position": { "S": "1700000000000#m0001" } } } }] });
    let limit = east.limit(Duration::from_secs(20));
    let clock = harness.clock.clone();
    tokio::time::pause();
    let other = async { east.drain(json!({})).await.unwrap()["counts"]["committed"].clone() };
    let woken = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut event = fencepost_tests::harness::rule_event("m0001", "telemetry/device-1", b"second");
        event["received_at"] = json!(1_700_000_000_001_u64);
        east.ingest(event).await.unwrap();
        east.drainer.handle(wake, &limit).await.unwrap()
    };
    let time_passes = async {
        for _ in 0..80 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            clock.advance(Duration::from_millis(100));
        }
    };
    let (committed, reply, ()) = tokio::join!(other, woken, time_passes);
    assert_eq!((committed, reply), (json!(1), json!({})));
    assert_eq!(harness.queue.accepted().len(), 2);
    assert!(east.outstanding().await.is_empty(), "nobody else would have come for the second");
}
