//! Claims: who may take a row that another call holds, and when.

use std::time::Duration;

use fencepost_protocol::outbox::Status;
use fencepost_runtime::settings::{Function, Settings};
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, EntryFault, Fault};
use fencepost_storage::operation;
use fencepost_tests::harness::{Harness, START, rule_event};
use serde_json::json;

use super::{
    STALE_WAIT_SECS, accepted_ids, answered_after, count, in_virtual_time, is_claimed, late_by, leader_with, live,
    own_faults, settled,
};

/// Reported: a sweeper put messages back that a healthy worker was just sending, and they went out twice.
/// Right: a claim in flight belongs to its claimer. Other calls of the same instance and other instances leave it alone and
/// report it; only its own id, listed after the wait, makes it free.
///
/// Kills: `take_claim_in_flight`
#[tokio::test(start_paused = true)]
async fn case_18_claim_in_flight_is_untouched() {
    let harness = Harness::new();
    let east = leader_with(&harness, 3).await;
    let (second, west) = (harness.instance("east"), harness.instance("west"));
    harness.queue_faults.set(operation::SEND, 1, answered_after(Duration::from_secs(2)));
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let held = east.outstanding().await;
        assert!(held.len() == 3 && held.iter().all(is_claimed), "{held:?}");
        let seen = second.drain(json!({})).await.unwrap();
        assert_eq!((count(&seen, "claimed"), count(&seen, "handed_back"), count(&seen, "conflicts")), (0, 0, 0));
        let unsettled = seen["unsettled"].as_array().unwrap();
        assert_eq!((unsettled.len(), &unsettled[0]["token"]), (1, &json!(1)), "one claim id for the page");
        // An id that outlived its wait long ago frees nothing else.
        let mut other = settled(&seen);
        other[0]["claim"] = json!("claim-of-another-page");
        assert_eq!(count(&second.drain(json!({ "settled": other })).await.unwrap(), "claimed"), 0);
        assert_eq!(west.drain(json!({})).await.unwrap()["leading"], false);
        assert_eq!(east.outstanding().await, held, "nobody changed a row");
    };
    let (sent, ()) = in_virtual_time(&harness, async { tokio::join!(east.drain(json!({})), meanwhile) }).await;
    assert_eq!(count(&sent.unwrap(), "committed"), 3);
    assert_eq!(accepted_ids(&harness), ["m0000", "m0001", "m0002"], "each once");
    for instance in [&east, &second, &west] {
        assert_eq!(instance.metrics.total(Metric::DuplicateRisk), 0.0);
        assert_eq!(instance.metrics.total(Metric::StaleClaims), 0.0);
    }
}

/// Reported: a backlog of a day was drained twice, because "stale" was measured from the record's own age.
/// Right: stale is a claim that outlived a wait of the workflow; neither the age of a record nor the time since its first
/// attempt makes a claim stale.
///
/// Kills: `stale_by_age`
#[tokio::test(start_paused = true)]
async fn case_19_day_old_record_claimed_now_is_not_stale() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 0).await;
    let second = harness.instance("east");
    let day = Duration::from_secs(86_400);
    let mut event = rule_event("old", "telemetry/device-1", b"21.5");
    event["received_at"] = json!(START.minus(day).as_ms());
    east.ingest(event).await.unwrap();
    // Tried once, refused, and a day passes: the record is two days old, its first attempt one.
    let refused = [(0, EntryFault::Refuse("InternalError".into()))];
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::Entries(refused.into())));
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "refused"), 1);
    harness.clock.advance(day);
    assert_eq!(east.tick().await["role"], "leader");
    harness.queue_faults.set(operation::SEND, 2, answered_after(Duration::from_secs(2)));
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let row = east.outstanding().await.remove(0);
        assert!(is_claimed(&row) && (row.attempts, row.stale) == (2, 0), "{row:?}");
        let seen = second.drain(json!({})).await.unwrap();
        assert_eq!((count(&seen, "claimed"), count(&seen, "stale_claims")), (0, 0));
        assert_eq!(seen["unsettled"].as_array().unwrap().len(), 1);
    };
    let (sent, ()) = in_virtual_time(&harness, async { tokio::join!(east.drain(json!({})), meanwhile) }).await;
    let sent = sent.unwrap();
    assert_eq!((count(&sent, "committed"), count(&sent, "duplicate_risk")), (1, 0));
    assert_eq!(accepted_ids(&harness), ["old"]);
    assert_eq!(east.metrics.total(Metric::StaleClaims), 0.0);
}

/// Reported: a re-claim after 30 s while a send may take 60 s: every slow send went out twice.
/// Right: a stale window that a living drainer can outlast is refused at deployment, with the inequality and both sides; the
/// smallest that passes is the function's own time limit and five seconds.
///
/// Kills: `stale_window_unchecked`
#[test]
fn case_20_stale_window_within_the_send_time_is_refused() {
    let parse = |stale: &str, limit: &str| {
        let pairs = [
            ("FENCEPOST_LEASE", "telemetry"),
            ("FENCEPOST_INSTANCE", "east"),
            ("FENCEPOST_STACK", "east"),
            ("FENCEPOST_LEASE_TABLE", "lease"),
            ("FENCEPOST_OUTBOX_TABLE", "outbox"),
            ("FENCEPOST_QUEUE_URL", "http://127.0.0.1/queue"),
            ("FENCEPOST_PROFILE", "fast"),
            ("FENCEPOST_STALE_CLAIM_DURATION", stale),
            ("FENCEPOST_DRAINER_LIMIT", limit),
        ];
        Settings::parse(&Function::ALL, pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    };
    for (stale, limit, words) in [
        ("1s", "10s", "is 1s; it must be at least drainer_limit + 5s = 10s + 5s = 15s"),
        ("2.5s", "10s", "is 2.5s; it must be at least drainer_limit + 5s = 10s + 5s = 15s"),
        ("14.999s", "10s", "it must be at least drainer_limit + 5s = 10s + 5s = 15s"),
        ("20s", "16s", "is 20s; it must be at least drainer_limit + 5s = 16s + 5s = 21s"),
    ] {
        let faults = parse(stale, limit).expect_err(stale).to_string();
        assert!(faults.contains(words), "{stale}, {limit}: {faults}");
        assert!(faults.contains("STALE_CLAIM_DURATION"), "the setting is named: {faults}");
    }
    for (stale, limit) in [("15s", "10s"), ("21s", "16s")] {
        let settings = parse(stale, limit).unwrap_or_else(|faults| panic!("{stale}, {limit}: {faults}"));
        let (claims, page) = (settings.timing.stale_claim_duration, settings.timing.drainer_limit);
        assert!(claims >= page + Duration::from_secs(5));
    }
}

/// Reported: a batch took longer than its claim; attempts were counted at completion, so the record that always timed out was
/// never counted, and the lost completion showed nowhere.
/// Right: the attempt is counted by the claim; whoever completes late is fenced, which is counted, and so is the second send.
///
/// Kills: `attempts_not_counted_by_the_claim`
#[tokio::test(start_paused = true)]
async fn case_21_batch_outlives_its_claim() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 3).await;
    let mut second = harness.instance("east");
    // After its send the first call hangs (a frozen function) until another one has taken over its claim.
    let faults = own_faults(&harness, &mut east);
    faults.set(operation::WRITE_TOMBSTONES, 1, late_by(40));
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let rows = second.outstanding().await;
        assert!(rows.iter().all(|row| is_claimed(row) && (row.attempts, row.stale) == (1, 0)), "{rows:?}");
        let seen = second.drain(json!({})).await.unwrap();
        for _ in 0..STALE_WAIT_SECS {
            tokio::time::sleep(Duration::from_secs(1)).await;
            second.tick().await;
        }
        harness.queue_faults.set(operation::SEND, 2, answered_after(Duration::from_secs(1)));
        let look = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let rows = second.outstanding().await;
            assert!(rows.iter().all(|row| is_claimed(row) && (row.attempts, row.stale) == (2, 1)), "{rows:?}");
        };
        let (reply, ()) = tokio::join!(second.drain(json!({ "settled": settled(&seen) })), look);
        reply.unwrap()
    };
    let (late, winner) = in_virtual_time(&harness, async { tokio::join!(east.drain(json!({})), meanwhile) }).await;
    assert_eq!((count(&winner, "committed"), count(&winner, "stale_claims")), (3, 3));
    assert_eq!(count(&winner, "duplicate_risk"), 3, "each second send is counted");
    let late = late.unwrap();
    assert_eq!((count(&late, "sent"), count(&late, "committed"), count(&late, "fenced")), (3, 0, 3));
    assert_eq!(east.metrics.total(Metric::CommitsFenced), 3.0, "the lost completion is visible");
    let ids = accepted_ids(&harness);
    assert_eq!((ids.len(), &ids[..3]), (6, &ids[3..]), "sent again under the same ids");
    assert!(second.outstanding().await.is_empty());
}

/// Reported: workers that were killed in mid-send had their messages handed back by a clean-up that could not know whether
/// they were sent, or kept for ever.
/// Right: the claim ages. Nobody hands it back, however often one looks; it is taken exactly when it outlived the wait, and
/// the possible second send bears the same id and is counted.
///
/// Kills: `a_send_that_nobody_saw_end_is_handed_back`
#[tokio::test(start_paused = true)]
async fn case_22_function_killed_in_mid_send() {
    let slow = Duration::from_secs(2);
    for (fault, sends) in [(answered_after(slow), 6), (Fault { delay_before: slow, ..Fault::default() }, 3)] {
        let harness = Harness::new();
        let mut east = leader_with(&harness, 3).await;
        harness.queue_faults.set(operation::SEND, 1, fault);
        tokio::select! {
            _ = east.drain(json!({})) => unreachable!("the send takes two seconds"),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        let held = east.outstanding().await;
        assert!(held.iter().all(|row| is_claimed(row) && (row.attempts, row.stale) == (1, 0)), "{held:?}");
        let mut seen = json!(null);
        for _ in 0..STALE_WAIT_SECS * 6 {
            live(&harness, &mut [&mut east], 1).await;
            seen = east.drain(json!({})).await.unwrap();
            assert_eq!((count(&seen, "claimed"), count(&seen, "handed_back")), (0, 0));
        }
        assert_eq!(east.outstanding().await, held, "it only ages");
        let reply = east.drain(json!({ "settled": settled(&seen) })).await.unwrap();
        assert_eq!((count(&reply, "committed"), count(&reply, "stale_claims")), (3, 3));
        assert_eq!(east.metrics.total(Metric::DuplicateRisk), 3.0);
        let ids = accepted_ids(&harness);
        assert_eq!(ids.len(), sends);
        assert_eq!(ids[sends - 3..], ["m0000", "m0001", "m0002"], "under the same ids");
    }
    // A drainer that lives and does not know what became of its send lets the claim age too; only its attempt is restored.
    let harness = Harness::new();
    let east = leader_with(&harness, 2).await;
    let kind = fencepost_protocol::failure::FailureKind::TimedOut;
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::FailAfter(kind)));
    let unknown = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&unknown, "unknown"), count(&unknown, "handed_back")), (2, 0));
    let rows = east.outstanding().await;
    assert!(rows.iter().all(|row| row.status != Status::Pending && row.attempts == 0), "{rows:?}");
}
