//! Replies that were lost, partial or repeated by the SDK: the handlers over the real clients.

use fencepost_protocol::outbox::Status;
use fencepost_runtime::telemetry::Metric;
use fencepost_tests::harness::rule_event;
use fencepost_tests::proxy::{Fault, Match, Times};
use serde_json::json;

use super::sdk::{World, claims, commits, tombstones};
use super::{STALE_WAIT_SECS, count, is_claimed, settled};

/// Reported: the broker took the message, the completion failed, and the retry made a new message with a new id that no
/// consumer could tell from another.
/// Right: it is sent again under the same id, and each such send is counted; a FIFO queue drops it by that id; where the
/// proof of the first send was written there is no second one.
///
/// Kills: `second_send_is_not_counted`
#[tokio::test]
async fn case_23_commit_fails_after_send() {
    for (queue, dedupe, lost_proof, messages, sends, risk) in [
        // No proof is kept: the commits' two tries never arrive.
        ("out", "0s", false, 2, 2, 1.0),
        ("out.fifo", "0s", false, 1, 2, 1.0),
        // The proof itself cannot be written, so no commit is tried.
        ("out", "5d", true, 2, 2, 1.0),
        // The proof stands.
        ("out", "5d", false, 1, 1, 0.0),
    ] {
        let what = format!("{queue}, window {dedupe}, proof lost {lost_proof}");
        let mut world = World::with_queue(queue, &[], &[("FENCEPOST_DEDUPE_WINDOW", dedupe)]).await;
        let mut east = world.leader().await;
        east.ingest(rule_event("m1", "telemetry/device-1", b"21.5")).await.unwrap();
        if lost_proof {
            world.tables.proxy.place(tombstones(), Times::Always, Fault::FailBefore);
        }
        let failed = world.tables.proxy.place(commits(), Times::First(2), Fault::DropBefore);
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!((count(&reply, "sent"), count(&reply, "committed"), count(&reply, "unknown")), (1, 0, 1), "{what}");
        assert_eq!(failed.hits(), if lost_proof { 0 } else { 2 }, "{what}: no third try, and none by the SDK");
        world.tables.proxy.clear();
        let row = east.outstanding().await.remove(0);
        assert!(is_claimed(&row) && row.last_error.is_none(), "{what}: it keeps its claim: {row:?}");
        let seen = east.drain(json!({})).await.unwrap();
        assert_eq!(count(&seen, "claimed"), 0, "{what}");
        world.live(&mut east, STALE_WAIT_SECS).await;
        let again = east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
        assert_eq!((count(&again, "committed"), count(&again, "fenced")), (1, 0), "{what}");
        assert_eq!(world.ids(), vec!["m1"; messages], "{what}: the same id each time");
        assert_eq!(world.payloads(), vec![b"21.5".to_vec(); messages], "{what}");
        assert_eq!((world.sends(), east.metrics.total(Metric::DuplicateRisk)), (sends, risk), "{what}");
        assert!(east.outstanding().await.is_empty(), "{what}");
    }
}

/// Reported: a batch reply with `Failed` entries was taken for success and three messages of ten were gone; or for failure,
/// and seven came twice.
/// Right: seven are committed, three go back with the queue's own reason, one attempt and a back-off, and are delivered when
/// the queue takes them.
///
/// Kills: `sqs_failed_entries_are_accepted`
#[tokio::test]
async fn case_24_three_of_ten_entries_refused() {
    // The queue's own limit is below what we believe it to be, so it refuses the three long ones.
    let mut world = World::with_queue("out", &[("MaximumMessageSize", "1024")], &[]).await;
    let east = world.leader().await;
    let is_long = |number: usize| matches!(number, 2 | 5 | 9);
    let payload = |number: usize| if is_long(number) { vec![b'x'; 2_000 + number] } else { vec![b'y'; 10 + number] };
    for number in 0..10 {
        east.ingest(rule_event(&format!("m{number}"), "telemetry/device-1", &payload(number))).await.unwrap();
    }
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&reply, "claimed"), count(&reply, "sent"), count(&reply, "committed")), (10, 7, 7));
    assert_eq!((count(&reply, "refused"), count(&reply, "dead"), count(&reply, "unknown")), (3, 0, 0));
    assert_eq!(world.sends(), 1, "ten entries are one request");
    let left = east.outstanding().await;
    assert_eq!(left.iter().map(|row| row.id().as_str()).collect::<Vec<_>>(), ["m2", "m5", "m9"]);
    for row in &left {
        let reason = row.last_error.as_deref().unwrap_or_default();
        assert!(reason.starts_with("InvalidParameterValue: "), "the queue's own words: {reason:?}");
        assert!(!reason.contains("xxx"), "no payload in an error");
        assert_eq!((&row.status, row.attempts, row.stale), (&Status::Pending, 1, 0));
        let wait_ms = row.not_before.expect("a back-off").as_ms() - 1_700_000_000_000;
        assert!((500..=1_000).contains(&wait_ms), "{wait_ms}ms");
    }
    assert_eq!(world.messages().len(), 7);
    // Not due yet: nothing is claimed. Then the stack is given a queue that takes them.
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "claimed"), 0);
    let mut delivered = world.payloads();
    world.move_to_queue("larger");
    let mut east = world.leader().await;
    world.live(&mut east, 2).await;
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&reply, "committed"), count(&reply, "duplicate_risk")), (3, 0), "they were never sent before");
    delivered.extend(world.payloads());
    delivered.sort();
    let mut expected: Vec<_> = (0..10).map(payload).collect();
    expected.sort();
    assert_eq!(delivered, expected, "each once, with its exact bytes");
}

/// Found by us: the SDK tries a write again whose reply was lost; the second try met the first one's effect and took it for
/// somebody else's.
/// Right: an applied claim, commit, hand-back and release are own successes: nothing is fenced, in conflict or unsettled.
///
/// Kills: `a_commit_that_was_repeated_is_somebody_elses`, `dynamodb_own_hand_back_is_a_conflict`
#[tokio::test]
async fn case_51_sdk_retries_an_applied_write() {
    let lost = || [Fault::DropAfter, Fault::FailAfter];
    for fault in lost() {
        let mut world = World::start(&[]).await;
        let east = world.leader().await;
        east.ingest_many(30).await;
        let placed = world.tables.proxy.place(claims(), Times::First(2), fault.clone());
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!(placed.hits(), 2, "{fault:?}: 30 claims are two requests, and each lost its reply");
        assert_eq!((count(&reply, "claimed"), count(&reply, "committed")), (30, 30), "{fault:?}");
        assert_eq!((count(&reply, "conflicts"), count(&reply, "unknown")), (0, 0), "{fault:?}");
        assert_eq!((&reply["unsettled"], world.messages().len()), (&json!([]), 30), "{fault:?}: no self among them");
    }
    for fault in lost() {
        let mut world = World::start(&[]).await;
        let east = world.leader().await;
        east.ingest_many(30).await;
        let placed = world.tables.proxy.place(commits(), Times::First(2), fault.clone());
        let reply = east.drain(json!({})).await.unwrap();
        assert!(placed.hits() >= 1, "{fault:?}");
        assert_eq!((count(&reply, "committed"), count(&reply, "fenced")), (30, 0), "{fault:?}");
        assert_eq!(east.metrics.total(Metric::CommitsFenced), 0.0, "{fault:?}: no false alarm");
        assert_eq!(east.metrics.total(Metric::DuplicateRisk), 0.0, "{fault:?}");
        assert!(east.outstanding().await.is_empty(), "{fault:?}");
    }
    for fault in lost() {
        let mut world = World::start(&[]).await;
        let east = world.leader().await;
        east.ingest_many(10).await;
        world.queue.place(Match::any(), Times::First(1), Fault::Throttle);
        let hand_back = Match::operation("BatchExecuteStatement").containing("REMOVE");
        let placed = world.tables.proxy.place(hand_back, Times::Nth(1), fault.clone());
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!(placed.hits(), 1, "{fault:?}");
        assert_eq!((count(&reply, "handed_back"), count(&reply, "conflicts")), (10, 0), "{fault:?}");
        let rows = east.outstanding().await;
        assert!(rows.iter().all(|row| row.status == Status::Pending && row.attempts == 0), "{fault:?}: {rows:?}");
        assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 10, "{fault:?}");
    }
    for fault in lost() {
        let mut world = World::start(&[]).await;
        let mut east = world.leader().await;
        let mut west = world.instance("west").await;
        west.tick().await;
        let release = Match::operation("UpdateItem").containing("released_by");
        let placed = world.tables.proxy.place(release, Times::Nth(1), fault.clone());
        let asked = east.lease(json!({ "command": "step_down" })).await.unwrap();
        assert_eq!((placed.hits(), &asked["state"]), (1, &json!("released")), "{fault:?}");
        world.clock.advance(std::time::Duration::from_secs(1));
        assert_eq!(east.tick().await["role"], "abstaining", "{fault:?}");
        assert_eq!(west.tick().await["role"], "leader", "{fault:?}: nobody waits for a TTL");
    }
}
