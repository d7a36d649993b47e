//! Order of each device's messages on a FIFO destination.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::outbox::Status;
use fencepost_storage::memory::{Effect, EntryFault, Fault, RowFault};
use fencepost_storage::operation;
use fencepost_tests::harness::{Harness, Instance, START, rule_event};
use serde_json::{Value, json};

use super::{accepted_ids, answered_after, count, in_virtual_time, leader, live, own_faults, settled};

const FIFO: (&str, &str) = ("FENCEPOST_QUEUE_URL", "http://127.0.0.1/queue.fifo");

/// Message `number` of `device`, received that many milliseconds after the start.
async fn publish(east: &Instance, device: &str, number: u64) {
    let mut event = rule_event(&format!("{device}-{number:03}"), &format!("telemetry/{device}"), b"21.5");
    event["received_at"] = json!(START.as_ms() + number);
    east.ingest(event).await.unwrap();
}

/// What the queue holds of each device, in the order of acceptance.
fn sent_by_device(harness: &Harness) -> BTreeMap<String, Vec<String>> {
    let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in accepted_ids(harness) {
        let device = id.split('-').next().expect("an id names its device").to_owned();
        sent.entry(device).or_default().push(id);
    }
    sent
}

fn ids_of(device: &str, numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("{device}-{number:03}")).collect()
}

/// Found by us: while the head of a key waited out its back-off of twenty minutes, the records behind it were claimed and
/// handed back at each pass until their attempts were used up, or went out before it.
/// Right: while it waits they are not claimed at all, over pages and calls, and lose no attempt; other keys flow; after the
/// back-off the whole key goes out in its order.
///
/// Kills: `waiting_head_blocks_nothing`
#[tokio::test]
async fn case_48_key_whose_head_is_in_back_off() {
    // The wait after the first refusal lies between 20 and 40 minutes. Three rows a page: the key spans several.
    let harness = Harness::with(&[
        FIFO,
        ("FENCEPOST_BACKOFF_BASE", "40m"),
        ("FENCEPOST_BACKOFF_MAX", "40m"),
        ("FENCEPOST_PAGE_ROWS", "3"),
    ]);
    let mut east = leader(&harness).await;
    for number in 0..8 {
        publish(&east, "d1", number).await;
    }
    let refused = [(0, EntryFault::Refuse("InternalError".into()))];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(refused.into())));
    assert_eq!(count(&drain_all(&east).await, "refused"), 1);
    for minute in 0..20 {
        publish(&east, "d2", minute).await;
        publish(&east, "d1", 8 + minute).await;
        live(&harness, &mut [&mut east], 60).await;
        let reply = drain_all(&east).await;
        assert_eq!(count(&reply, "committed"), 1, "minute {minute}: the other key flows");
        assert_eq!(count(&reply, "claimed"), 1, "minute {minute}: nothing of the waiting key is claimed");
        let held: Vec<_> = east.outstanding().await.into_iter().filter(|row| row.id().as_str() != "d1-000").collect();
        assert_eq!(held.len(), usize::try_from(8 + minute).unwrap());
        for row in held {
            assert_eq!((&row.status, row.attempts, row.stale), (&Status::Pending, 0, 0), "minute {minute}: {row:?}");
        }
    }
    live(&harness, &mut [&mut east], 20 * 60).await;
    assert_eq!(count(&drain_all(&east).await, "committed"), 28);
    let sent = sent_by_device(&harness);
    assert_eq!((&sent["d1"], &sent["d2"]), (&ids_of("d1", 0..28), &ids_of("d2", 0..20)));
    assert!(east.outstanding().await.is_empty());
}

/// Calls until the pass is done, the cursor passed back each time, counts added up.
async fn drain_all(east: &Instance) -> Value {
    let mut reply = east.drain(json!({})).await.unwrap();
    for _ in 0..50 {
        if reply["done"] == true {
            return reply;
        }
        let next = east.drain(json!({ "cursor": reply["cursor"] })).await.unwrap();
        for (name, number) in reply["counts"].as_object().cloned().into_iter().flatten() {
            let sum = number.as_u64().unwrap() + count(&next, &name);
            reply["counts"][&name] = json!(sum);
        }
        for name in ["done", "cursor"] {
            reply[name] = next[name].clone();
        }
    }
    panic!("the pass has no end: {reply}")
}

/// Found by us: the schedule and the stream drained one key at once; the second call sent a later record while the first one
/// still held the head.
/// Right: at every pace of both, and where only a part of a page's claims is won, the queue gets each key in its order and
/// each record once.
///
/// Kills: `a_head_in_flight_blocks_nothing`, `sends_behind_a_lost_claim`
#[tokio::test(start_paused = true)]
async fn case_57_two_drainers_one_key() {
    let ms = Duration::from_millis;
    for claims in [ms(0), ms(400), ms(900)] {
        for sends in [ms(0), ms(700)] {
            for start in [ms(0), ms(200), ms(500), ms(1_200)] {
                race(claims, sends, start, None).await;
            }
        }
    }
    for lost in [RowFault::Before(FailureKind::Throttled), RowFault::After(FailureKind::TimedOut)] {
        for row in [0, 1, 3] {
            race(ms(0), ms(700), ms(200), Some((row, lost))).await;
        }
    }
}

/// Two calls of one instance, the second `start` after the first, over two keys of five records; their claims are answered
/// late by `claims`, the first sends by `sends`, and of the first page one claim may get `lost`.
async fn race(claims: Duration, sends: Duration, start: Duration, lost: Option<(usize, RowFault)>) {
    let what = format!("claims {claims:?}, sends {sends:?}, start {start:?}, lost {lost:?}");
    let harness = Harness::with(&[FIFO, ("FENCEPOST_PAGE_ROWS", "4")]);
    let mut first = leader(&harness).await;
    let mut second = harness.instance("east");
    for number in 0..5 {
        publish(&first, "d1", number).await;
        publish(&first, "d2", number).await;
    }
    let (faults_of_first, faults_of_second) = (own_faults(&harness, &mut first), own_faults(&harness, &mut second));
    for call in 1..=2 {
        faults_of_first.set(operation::CLAIM, call, answered_after(claims));
        faults_of_second.set(operation::CLAIM, call, answered_after(claims / 2));
    }
    if let Some((row, lost)) = lost {
        faults_of_first.set(operation::CLAIM, 1, Fault::of(Effect::Rows([(row, lost)].into())));
    }
    for call in 1..=6 {
        harness.queue_faults.set(operation::SEND, call, answered_after(if call % 2 == 1 { sends } else { sends / 3 }));
    }
    let later = async {
        tokio::time::sleep(start).await;
        second.drain(json!({})).await.unwrap()
    };
    in_virtual_time(&harness, async {
        let (reply, _) = tokio::join!(first.drain(json!({})), later);
        reply.unwrap();
        for _ in 0..12 {
            first.tick().await;
            let seen = first.drain(json!({})).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            if seen["unsettled"] != json!([]) {
                for _ in 0..4 {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    first.tick().await;
                }
                first.drain(json!({ "settled": settled(&seen) })).await.unwrap();
            }
        }
    })
    .await;
    assert!(first.outstanding().await.is_empty(), "{what}");
    let sent = sent_by_device(&harness);
    for device in ["d1", "d2"] {
        assert_eq!(sent[device], ids_of(device, 0..5), "{what}");
    }
}
