//! Records out of the ordinary: of a newer schema, one that kills its drainer, one that dies while it is put back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::drain::QueueReply;
use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::item::Value as Attribute;
use fencepost_storage::memory::{Effect, EntryFault, Fault, MemoryQueue};
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_storage::{Queue, StoreError};
use fencepost_tests::harness::{Harness, Instance, bytes_of, rule_event};
use serde_json::{Value, json};

use super::{
    STALE_WAIT_SECS, accepted_ids, count, dead_rows, in_virtual_time, late_by, leader, leader_with, live, live_rows,
    own_faults, settled,
};

/// Reported: during a rolling update the older workers took rows of the newer form for poison and buried them.
/// Right: such a row is left as it is and counted at each pass; it loses no attempt, does not die, and its neighbours flow. The
/// update that knows it delivers it.
///
/// Kills: `newer_schema_is_believed`, `held_rows_are_not_counted`
#[tokio::test]
async fn case_38_row_of_a_newer_schema() {
    let harness = Harness::with(&[("FENCEPOST_MAX_ATTEMPTS", "1"), ("FENCEPOST_MAX_AGE", "1s")]);
    let mut east = leader_with(&harness, 3).await;
    let is_middle = |item: &fencepost_storage::item::Item| matches!(item.get("position"), Some(Attribute::Text(text)) if text.ends_with("#m0001"));
    let known = harness.tables.dump(Table::Outbox).into_iter().find(is_middle).unwrap();
    let mut newer = known.clone();
    newer.insert("schema".into(), Attribute::Number("2".into()));
    newer.insert("compression".into(), Attribute::Text("zstd".into()));
    harness.tables.plant(Table::Outbox, newer.clone()).unwrap();
    for pass in 1..=100 {
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!((count(&reply, "held"), count(&reply, "dead")), (1, 0), "pass {pass}");
        assert_eq!(count(&reply, "committed"), if pass == 1 { 2 } else { 0 }, "its neighbours flow");
        live(&harness, &mut [&mut east], 1).await;
    }
    assert_eq!(east.metrics.total(Metric::Held), 100.0, "counted at each pass");
    assert!(harness.tables.dump(Table::Outbox).contains(&newer), "as it was written");
    assert_eq!(dead_rows(&harness), 0);
    harness.tables.plant(Table::Outbox, known).unwrap();
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 1);
    assert_eq!(accepted_ids(&harness), ["m0000", "m0002", "m0001"]);
}

/// A queue whose client dies of one payload: the call never ends, and the test kills the function.
struct Deadly {
    queue: MemoryQueue,
    deaths: Arc<AtomicUsize>,
}

const POISON: &[u8] = b"poison";

#[async_trait]
impl Queue for Deadly {
    async fn send(&self, entries: &[QueueEntry]) -> Result<QueueReply, StoreError> {
        if entries.iter().any(|entry| bytes_of(entry) == POISON) {
            self.deaths.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        self.queue.send(entries).await
    }
}

/// One call; a function that does not end is killed at its limit, and the workflow sees no answer.
async fn call_or_death(harness: &Harness, east: &Instance, request: Value) -> Option<Value> {
    let call = tokio::time::timeout(Duration::from_secs(10), east.drain(request));
    in_virtual_time(harness, call).await.ok().map(|reply| reply.unwrap())
}

/// Reported: one record crashed every worker that touched it; each crash took the whole batch along, until all of it was
/// dead.
/// Right: after three claims that went stale a record is claimed alone, so only it takes its drainer down; its neighbours
/// are delivered, once each, and it dies by attempts and age.
///
/// Kills: `stale_records_are_claimed_together`
#[tokio::test(start_paused = true)]
async fn case_50_record_that_kills_its_drainer() {
    let harness = Harness::with(&[("FENCEPOST_MAX_ATTEMPTS", "6"), ("FENCEPOST_MAX_AGE", "1m")]);
    let mut east = leader(&harness).await;
    let deaths = Arc::new(AtomicUsize::new(0));
    east.drainer.queue = Arc::new(Deadly { queue: harness.queue.clone(), deaths: Arc::clone(&deaths) });
    for number in 0..8 {
        let payload = if number == 3 { POISON.to_vec() } else { format!("reading {number}").into_bytes() };
        east.ingest(rule_event(&format!("m{number}"), "telemetry/device-1", &payload)).await.unwrap();
    }
    // The drain workflow, pass after pass: a call, the wait, the settled call, then the lone ones.
    for _ in 0..12 {
        live(&harness, &mut [&mut east], 5).await;
        let seen = call_or_death(&harness, &east, json!({})).await;
        live(&harness, &mut [&mut east], STALE_WAIT_SECS).await;
        let Some(seen) = seen else { continue };
        let after = call_or_death(&harness, &east, json!({ "settled": settled(&seen) })).await;
        let after = after.unwrap_or(json!({ "alone": [] }));
        for lone in seen["alone"].as_array().into_iter().chain(after["alone"].as_array()).flatten() {
            live(&harness, &mut [&mut east], 1).await;
            call_or_death(&harness, &east, json!({ "alone": lone })).await;
        }
    }
    let mut delivered = harness.delivered();
    delivered.dedup();
    assert_eq!(delivered.len(), 7, "its neighbours are delivered");
    assert_eq!(harness.queue.accepted().len(), 7, "once each");
    assert_eq!((live_rows(&harness), dead_rows(&harness)), (0, 1));
    let dead = harness.tables.dump(Table::Outbox).into_iter().find(|item| item.contains_key("reason")).unwrap();
    assert_eq!(dead["payload"], Attribute::Bytes(POISON.to_vec()));
    assert_eq!(dead["reason"], Attribute::Text("exhausted".into()));
    assert_eq!(deaths.load(Ordering::Relaxed), 6, "three with its neighbours, three alone");
    assert_eq!(east.metrics.total(Metric::Dead), 1.0);
}

/// Reported: an operator put a dead record back in the moment in which it died, and it was in neither place, or in both and was
/// sent twice.
/// Right: at every moment the record stands somewhere, at most once alive; the act may be repeated after any lost reply; a late
/// half of an earlier death ends no later life.
///
/// Kills: `memory_late_burial_ends_the_next_life`, `phantom_is_redriven`, `memory_dead_row_of_a_later_life_is_deleted`
#[tokio::test(start_paused = true)]
async fn case_56_redrive_while_the_record_is_dying() {
    redrive_between_the_halves_of_a_death().await;
    drainer_gone_between_the_halves().await;
    late_half_of_an_earlier_death().await;
    redrive_whose_reply_was_lost().await;
    second_death_before_the_redrive_ended().await;
}

async fn redrive(instance: &Instance) -> Value {
    let request = json!({ "command": "redrive", "shards": ["telemetry#0000", "telemetry#0001"], "limit": 10 });
    instance.drainer.handle(request, &instance.limit(Duration::from_secs(10))).await.unwrap()
}

/// The next send refuses its first entry for good.
fn refuse_for_good(harness: &Harness, send: u64) {
    let entries = [(0, EntryFault::Refuse("InvalidMessageContents".into()))];
    harness.queue_faults.set(operation::SEND, send, Fault::of(Effect::Entries(entries.into())));
}

/// (alive, dead)
fn stands(harness: &Harness) -> (usize, usize) {
    (live_rows(harness), dead_rows(harness))
}

async fn redrive_between_the_halves_of_a_death() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 1).await;
    let operator = harness.instance("east");
    own_faults(&harness, &mut east).set(operation::KILL_DELETE, 1, late_by(2));
    refuse_for_good(&harness, 1);
    let between = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stands(&harness), (1, 1));
        let answer = redrive(&operator).await;
        assert_eq!((&answer["redriven"], &answer["phantoms"]), (&json!(0), &json!(1)));
        assert_eq!(stands(&harness), (1, 1), "nothing was put back beside it");
    };
    let work = async { tokio::join!(east.drain(json!({})), between) };
    let (reply, ()) = in_virtual_time(&harness, work).await;
    assert_eq!((count(&reply.unwrap(), "dead"), stands(&harness)), (1, (0, 1)));
    assert_eq!((&redrive(&operator).await["redriven"], stands(&harness)), (&json!(1), (1, 0)));
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 1);
    assert_eq!(accepted_ids(&harness), ["m0000"]);
}

async fn drainer_gone_between_the_halves() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 1).await;
    own_faults(&harness, &mut east).set(
        operation::KILL_DELETE,
        1,
        Fault::of(Effect::FailBefore(FailureKind::TimedOut)),
    );
    refuse_for_good(&harness, 1);
    east.drain(json!({})).await.unwrap();
    assert_eq!(stands(&harness), (1, 1));
    let seen = east.drain(json!({})).await.unwrap();
    live(&harness, &mut [&mut east], STALE_WAIT_SECS).await;
    // This time the queue takes it: the dead row beside it is a phantom now.
    assert_eq!(count(&east.drain(json!({ "settled": settled(&seen) })).await.unwrap(), "committed"), 1);
    assert_eq!(stands(&harness), (0, 1));
    for _ in 0..3 {
        let answer = redrive(&east).await;
        assert_eq!((&answer["redriven"], &answer["phantoms"]), (&json!(0), &json!(1)), "its proof stands");
        east.drain(json!({})).await.unwrap();
    }
    assert_eq!(accepted_ids(&harness), ["m0000"], "never a second send");
}

async fn late_half_of_an_earlier_death() {
    // Death by exhaustion looks at a pending row, and a row put back is pending under the same token.
    let harness = Harness::with(&[("FENCEPOST_MAX_ATTEMPTS", "1"), ("FENCEPOST_MAX_AGE", "1s")]);
    let mut east = leader_with(&harness, 1).await;
    let mut second = harness.instance("east");
    let entries = [(0, EntryFault::Refuse("InternalError".into()))];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(entries.into())));
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "refused"), 1);
    live(&harness, &mut [&mut east], 3).await;
    own_faults(&harness, &mut east).set(operation::KILL_DELETE, 1, late_by(3));
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stands(&harness), (1, 1));
        assert_eq!(count(&second.drain(json!({})).await.unwrap(), "dead"), 1);
        assert_eq!(stands(&harness), (0, 1));
        assert_eq!((&redrive(&second).await["redriven"], stands(&harness)), (&json!(1), (1, 0)));
    };
    let work = async { tokio::join!(east.drain(json!({})), meanwhile) };
    let (late, ()) = in_virtual_time(&harness, work).await;
    assert_eq!((count(&late.unwrap(), "dead"), stands(&harness)), (0, (1, 0)), "the next life goes on");
    second.tick().await;
    assert_eq!(count(&second.drain(json!({})).await.unwrap(), "committed"), 1);
    assert_eq!(accepted_ids(&harness), ["m0000"]);
}

async fn redrive_whose_reply_was_lost() {
    for lost in [operation::PUT_REDRIVEN, operation::DELETE_DEAD] {
        let harness = Harness::new();
        let east = leader_with(&harness, 1).await;
        let mut operator = harness.instance("east");
        refuse_for_good(&harness, 1);
        assert_eq!(count(&east.drain(json!({})).await.unwrap(), "dead"), 1);
        own_faults(&harness, &mut operator).set(lost, 1, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
        let request = json!({ "command": "redrive", "shards": ["telemetry#0000", "telemetry#0001"], "limit": 10 });
        let limit = operator.limit(Duration::from_secs(10));
        operator.drainer.handle(request, &limit).await.expect_err("its reply was lost");
        assert_eq!(stands(&harness).0, 1, "{lost}: it lives once");
        redrive(&operator).await;
        assert_eq!(stands(&harness), (1, 0), "{lost}: done again, and done");
        assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 1);
        assert_eq!(accepted_ids(&harness), ["m0000"], "{lost}");
    }
}

async fn second_death_before_the_redrive_ended() {
    let harness = Harness::new();
    let east = leader_with(&harness, 1).await;
    let mut operator = harness.instance("east");
    for send in 1..=2 {
        refuse_for_good(&harness, send);
    }
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "dead"), 1);
    own_faults(&harness, &mut operator).set(operation::DELETE_DEAD, 1, late_by(2));
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stands(&harness), (1, 1), "put back, and its dead row not yet gone");
        assert_eq!(count(&east.drain(json!({})).await.unwrap(), "dead"), 1, "it dies again");
        assert_eq!(stands(&harness), (0, 1));
    };
    let work = async { tokio::join!(redrive(&operator), meanwhile) };
    in_virtual_time(&harness, work).await;
    assert_eq!(stands(&harness), (0, 1), "the late delete was of the earlier life");
    assert_eq!((&redrive(&operator).await["redriven"], stands(&harness)), (&json!(1), (1, 0)));
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 1);
    assert_eq!(accepted_ids(&harness), ["m0000"]);
}
