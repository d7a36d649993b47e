//! Standbys, former holders and their successors: who may claim, hand back and commit.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::item::Value as Attribute;
use fencepost_storage::memory::{Effect, EntryFault, Fault};
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, Instance};
use serde_json::{Value, json};

use super::{
    STALE_WAIT_SECS, TAKEOVER_SECS, accepted_ids, answered_after, count, in_virtual_time, is_claimed, late_by,
    leader_with, live, live_rows, own_faults, settled, takeover, wake,
};

/// A leader with `messages` rows, and a standby that has seen it once.
async fn leader_and_standby(harness: &Harness, messages: usize) -> (Instance, Instance) {
    let east = leader_with(harness, messages).await;
    let mut west = harness.instance("west");
    assert_eq!(west.tick().await["role"], "standby");
    (east, west)
}

/// Ticks of `west` alone in virtual time until it leads under token 2.
async fn seize(west: &mut Instance) {
    ticks(west, TAKEOVER_SECS).await;
    assert_eq!(west.tick().await["role"], "leader");
}

/// A tick of `instance` at the end of each of so many virtual seconds.
async fn ticks(instance: &mut Instance, seconds: u64) {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        instance.tick().await;
    }
}

/// Every entry of the next sends is refused for a reason that passes, as often as told from send `from` on.
fn refuse_all(harness: &Harness, from: u64, entries: usize) {
    let faults = (0..entries).map(|index| (index, EntryFault::Refuse("InternalError".into()))).collect();
    harness.queue_faults.set(operation::SEND, from, Fault::of(Effect::Entries(faults)));
}

/// Reported: both regions' drainers were woken by the replicated stream, and each sent every message.
/// Right: who does not hold the lease reads no page and changes no row, whatever woke it and whatever it was told.
///
/// Kills: `standby_drains`
#[tokio::test]
async fn case_31_standby_drainer_claims_nothing() {
    let harness = Harness::new();
    let (east, mut west) = leader_and_standby(&harness, 4).await;
    let before = (harness.tables.dump(Table::Outbox), harness.tables.usage_of(operation::PAGE));
    let shard = east.outstanding().await[0].key.shard.to_string();
    let settled = json!([{ "shard": shard, "position": "1700000000000#m0000", "claim": "claim-1" }]);
    let mut requests: Vec<Value> = vec![wake(&shard)];
    for mode in [json!({ "kind": "scheduled" }), takeover(1), takeover(2)] {
        let request = json!({ "command": "drain", "shards": ["telemetry#0000", "telemetry#0001"],
            "mode": mode, "settled": settled });
        requests.push(request);
    }
    let pages = harness.tables.usage_of(operation::PAGE);
    for request in &requests {
        let reply = west.drainer.handle(request.clone(), &west.limit(Duration::from_secs(10))).await.unwrap();
        if request["command"] == "drain" {
            assert_eq!((&reply["leading"], &reply["done"]), (&json!(false), &json!(true)), "{request}");
            assert_eq!((count(&reply, "claimed"), count(&reply, "sent")), (0, 0), "{request}");
        }
    }
    assert_eq!(harness.tables.usage_of(operation::PAGE), pages, "it reads no page");
    assert_eq!(harness.tables.dump(Table::Outbox), before.0, "it changes no row");
    assert!(harness.queue.accepted().is_empty());
    assert_eq!(west.metrics.total(Metric::Claimed), 0.0);
    // Nor while nobody leads: the lease has run out, and no tick of its own has seized it.
    harness.clock.advance(Duration::from_secs(60));
    assert_eq!(west.drain(json!({})).await.unwrap()["leading"], false);
    assert_eq!(east.drain(json!({})).await.unwrap()["leading"], false, "nor does its former holder past its deadline");
    assert_eq!(harness.tables.dump(Table::Outbox), before.0);
    // As soon as it leads, the same call drains.
    live(&harness, &mut [&mut west], TAKEOVER_SECS).await;
    assert_eq!(count(&west.drain(json!({})).await.unwrap(), "committed"), 4);
}

/// Reported: a worker that had lost its leadership went on claiming; another one cleared the claim of its successor when it
/// came back.
/// Right: a claim that arrives after the successor touched the row is refused; one that arrives before is handed back unsent,
/// without a lost attempt; a hand-back that arrives after the successor's claim changes nothing.
///
/// Kills: `memory_claim_ignores_the_token`, `a_former_holder_sends_by_its_first_look`, `a_late_worker_clears_its_successors_claim`
#[tokio::test(start_paused = true)]
async fn case_36_former_holder_claims_nothing_that_its_successor_touched() {
    late_claim_after_the_successors_touch().await;
    late_claim_before_the_successors_touch().await;
    late_hand_back_after_the_successors_claim().await;
}

async fn late_claim_after_the_successors_touch() {
    let harness = Harness::new();
    let (mut east, mut west) = leader_and_standby(&harness, 3).await;
    own_faults(&harness, &mut east).set(operation::CLAIM, 1, late_by(30));
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::FailBefore(FailureKind::Throttled)));
    let meanwhile = async {
        seize(&mut west).await;
        // West claims under token 2 and hands back: the rows look as east has read them, but for the stamp.
        assert_eq!(count(&west.drain(json!({})).await.unwrap(), "handed_back"), 3);
        west.outstanding().await
    };
    let (late, touched) = in_virtual_time(&harness, async { tokio::join!(east.drain(json!({})), meanwhile) }).await;
    let late = late.unwrap();
    assert!(touched.iter().all(|row| !is_claimed(row) && (row.attempts, row.stamp.get()) == (0, 2)), "{touched:?}");
    assert_eq!((count(&late, "claimed"), count(&late, "conflicts"), count(&late, "sent")), (0, 3, 0));
    assert_eq!((&late["stopped_by"], &late["leading"]), (&json!("former_holder"), &json!(false)));
    assert_eq!(west.outstanding().await, touched, "the row is as the successor left it");
    assert!(harness.queue.accepted().is_empty());
}

async fn late_claim_before_the_successors_touch() {
    let harness = Harness::new();
    let (mut east, mut west) = leader_and_standby(&harness, 3).await;
    own_faults(&harness, &mut east).set(operation::CLAIM, 1, late_by(30));
    let work = async { tokio::join!(east.drain(json!({})), seize(&mut west)) };
    let (late, ()) = in_virtual_time(&harness, work).await;
    let late = late.unwrap();
    west.tick().await;
    assert_eq!((count(&late, "sent"), count(&late, "handed_back")), (0, 3));
    assert_eq!((&late["stopped_by"], &late["leading"]), (&json!("not_permitted"), &json!(false)));
    let rows = west.outstanding().await;
    assert!(rows.iter().all(|row| !is_claimed(row) && (row.attempts, row.stale) == (0, 0)), "{rows:?}");
    assert!(harness.queue.accepted().is_empty());
    assert_eq!(count(&west.drain(json!({})).await.unwrap(), "committed"), 3, "the successor waits for nothing");
    assert_eq!(west.metrics.total(Metric::DuplicateRisk), 0.0);
}

async fn late_hand_back_after_the_successors_claim() {
    let harness = Harness::new();
    let (mut east, mut west) = leader_and_standby(&harness, 3).await;
    let faults = own_faults(&harness, &mut east);
    faults.set(operation::CLAIM, 1, late_by(20));
    faults.set(operation::HAND_BACK, 1, late_by(40));
    harness.queue_faults.set(operation::SEND, 1, answered_after(Duration::from_secs(2)));
    let meanwhile = async {
        seize(&mut west).await;
        // East's claim arrives at second 20, its hand-back at second 60.
        ticks(&mut west, 6).await;
        let seen = west.drain(json!({})).await.unwrap();
        assert_eq!(seen["unsettled"][0]["token"], 1);
        ticks(&mut west, STALE_WAIT_SECS).await;
        // West claims shortly before the 60th second and is still sending when east's hand-back arrives.
        ticks(&mut west, 15).await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        let look = async {
            tokio::time::sleep(Duration::from_millis(1_700)).await;
            let rows = west.outstanding().await;
            assert!(rows.iter().all(|row| is_claimed(row) && row.stamp.get() == 2), "{rows:?}");
        };
        let (reply, ()) = tokio::join!(west.drain(json!({ "settled": settled(&seen) })), look);
        reply.unwrap()
    };
    let (late, winner) = in_virtual_time(&harness, async { tokio::join!(east.drain(json!({})), meanwhile) }).await;
    let late = late.unwrap();
    assert_eq!((count(&late, "handed_back"), count(&late, "conflicts"), count(&late, "sent")), (0, 3, 0));
    assert_eq!((count(&winner, "committed"), count(&winner, "fenced")), (3, 0));
    assert_eq!(accepted_ids(&harness), ["m0000", "m0001", "m0002"]);
    assert_eq!(live_rows(&harness), 0);
}

/// Found by us: a drain call that outlived its lease met rows with its successor's token and rang the alarm for a lease table
/// that went back in time.
/// Right: the lease is read again; it shows that token or a later one, so the call is a former holder's and stops quietly. The
/// alarm rings only where the lease is below the row.
///
/// Kills: `former_holder_rings_the_alarm`
#[tokio::test(start_paused = true)]
async fn case_52_old_drain_call_meets_its_successors_rows() {
    let harness = Harness::with(&[("FENCEPOST_PAGE_ROWS", "2")]);
    let (mut east, mut west) = leader_and_standby(&harness, 6).await;
    // East has committed its first page when its second read is held up until west has touched what is left.
    own_faults(&harness, &mut east).set(operation::PAGE, 3, late_by(30));
    refuse_all(&harness, 2, 2);
    refuse_all(&harness, 3, 2);
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(live_rows(&harness), 4);
        seize(&mut west).await;
        assert_eq!(count(&west.drain(json!({})).await.unwrap(), "refused"), 4);
    };
    let (late, ()) = in_virtual_time(&harness, async { tokio::join!(east.drain(json!({})), meanwhile) }).await;
    let late = late.unwrap();
    assert_eq!((count(&late, "committed"), count(&late, "claimed"), count(&late, "token_regression")), (2, 2, 0));
    assert_eq!((&late["stopped_by"], &late["leading"]), (&json!("former_holder"), &json!(false)));
    assert_eq!(east.metrics.total(Metric::TokenRegression), 0.0);
    assert_eq!((accepted_ids(&harness).len(), live_rows(&harness)), (2, 4), "nothing was sent again");
    // The real thing: rows bear a token that the lease has not reached.
    for mut item in harness.tables.dump(Table::Outbox) {
        if item.contains_key("payload") {
            item.insert("fencing_token".into(), Attribute::Number("9".into()));
            harness.tables.plant(Table::Outbox, item).unwrap();
        }
    }
    west.tick().await;
    let reply = west.drain(json!({})).await.unwrap();
    assert_eq!((&reply["stopped_by"], count(&reply, "claimed")), (&json!("token_regression"), 0));
    assert_eq!(west.metrics.total(Metric::TokenRegression), 1.0);
}

/// Found by us: a holder sends, writes the proof and is fenced before its commit; its successor knew nothing of the send.
/// Right: the successor reads the proof and commits without a second send; the late commit is fenced and counted.
///
/// Kills: `a_successor_sends_what_the_proof_names`
#[tokio::test(start_paused = true)]
async fn case_62_fenced_holder_had_sent_and_left_the_proof() {
    let harness = Harness::new();
    let (mut east, mut west) = leader_and_standby(&harness, 3).await;
    own_faults(&harness, &mut east).set(operation::COMMIT, 1, late_by(60));
    let meanwhile = async {
        seize(&mut west).await;
        assert_eq!(harness.queue.accepted().len(), 3, "east had sent");
        let seen = west.drain(json!({ "mode": takeover(2) })).await.unwrap();
        assert_eq!((count(&seen, "claimed"), seen["unsettled"].as_array().unwrap().len()), (0, 1));
        ticks(&mut west, STALE_WAIT_SECS).await;
        west.drain(json!({ "mode": takeover(2), "settled": settled(&seen) })).await.unwrap()
    };
    let (late, successor) = in_virtual_time(&harness, async { tokio::join!(east.drain(json!({})), meanwhile) }).await;
    assert_eq!((count(&successor, "committed"), count(&successor, "sent")), (3, 0));
    assert_eq!(count(&successor, "duplicate_risk"), 0, "there was no second send");
    assert_eq!(accepted_ids(&harness), ["m0000", "m0001", "m0002"]);
    let late = late.unwrap();
    assert_eq!((count(&late, "committed"), count(&late, "fenced")), (0, 3));
    assert_eq!(east.metrics.total(Metric::CommitsFenced), 3.0);
    assert_eq!(live_rows(&harness), 0);
}
