//! Outages: of the queue, of permissions, of everybody who should drain.

use std::time::Duration;

use fencepost_local::queue::QueueFault;
use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::failure::ErrorType;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, EntryFault, Fault};
use fencepost_storage::operation;
use fencepost_tests::harness::{Harness, Instance, rule_event};
use fencepost_tests::proxy;
use fencepost_tests::proxy::{Match, Times};
use serde_json::{Value, json};

use super::sdk::World;
use super::{STALE_WAIT_SECS, accepted_ids, count, dead_rows, leader_with, live, settled};

/// One pass each second, as a retry that never tires; claims whose wait is over are passed back.
struct Passes {
    waiting: Option<(Value, u64)>,
}

impl Passes {
    async fn pass(&mut self, east: &Instance, second: u64) -> Value {
        let due = self.waiting.take_if(|(_, since)| second - *since >= STALE_WAIT_SECS);
        let request = due.map_or(json!({}), |(claims, _)| json!({ "settled": claims }));
        let reply = east.drain(request).await.unwrap();
        if self.waiting.is_none() && reply["unsettled"] != json!([]) {
            self.waiting = Some((settled(&reply), second));
        }
        reply
    }
}

/// Reported: the queue was down for five minutes; with a retry each second every record used up its attempts and died.
/// Right: a request that failed as a whole burns no attempt of any record, whether it was throttled or answered by errors that
/// leave its outcome open. Nothing is dead, and afterwards everything is delivered once.
///
/// Kills: `a_queue_that_is_down_burns_attempts`
#[tokio::test]
async fn case_30_queue_down_five_minutes() {
    for kind in [FailureKind::Throttled, FailureKind::Denied, FailureKind::Unavailable, FailureKind::TimedOut] {
        let harness = Harness::new();
        let mut east = leader_with(&harness, 20).await;
        every_send(&harness, &Fault::of(Effect::FailBefore(kind)));
        let mut passes = Passes { waiting: None };
        for second in 1..=300 {
            live(&harness, &mut [&mut east], 1).await;
            let reply = passes.pass(&east, second).await;
            assert_eq!((count(&reply, "dead"), count(&reply, "sent")), (0, 0), "{kind:?} at {second}s");
        }
        let rows = east.outstanding().await;
        assert_eq!((rows.len(), dead_rows(&harness)), (20, 0), "{kind:?}");
        assert!(rows.iter().all(|row| row.attempts == 0), "{kind:?}: {rows:?}");
        every_send(&harness, &Fault::default());
        for second in 301..=302 + STALE_WAIT_SECS {
            live(&harness, &mut [&mut east], 1).await;
            passes.pass(&east, second).await;
        }
        assert!(east.outstanding().await.is_empty(), "{kind:?}");
        assert_eq!(accepted_ids(&harness).len(), 20, "{kind:?}: each once");
    }
    // The queue's own answers, through the SDK: one request a pass, and none by the SDK itself.
    for fault in [QueueFault::Throttle, QueueFault::Unavailable] {
        let mut world = World::start(&[]).await;
        let mut east = world.leader().await;
        let payloads = east.ingest_many(5).await;
        world.queue_server.set_fault(fault);
        let mut passes = Passes { waiting: None };
        let mut tried = 0;
        for second in 1..=45 {
            world.live(&mut east, 1).await;
            let reply = passes.pass(&east, second).await;
            assert_eq!((count(&reply, "dead"), count(&reply, "sent")), (0, 0), "{fault:?} at {second}s");
            tried += usize::try_from(count(&reply, "send_failures")).unwrap();
        }
        assert_eq!(world.sends(), tried, "{fault:?}");
        assert!(tried >= 2, "{fault:?}: {tried} tries");
        let rows = east.outstanding().await;
        assert!(rows.len() == 5 && rows.iter().all(|row| row.attempts == 0), "{fault:?}: {rows:?}");
        world.queue_server.set_fault(QueueFault::None);
        for second in 46..=47 + STALE_WAIT_SECS {
            world.live(&mut east, 1).await;
            passes.pass(&east, second).await;
        }
        assert_eq!(world.payloads(), payloads, "{fault:?}: each once");
        assert!(east.outstanding().await.is_empty(), "{fault:?}");
    }
}

/// Reported: the drainer was switched off by mistake; nothing alarmed, because what should have measured the backlog was what
/// did not run.
/// Right: every instance, leader or not, measures the age of the oldest record, and it rises second by second; what cannot
/// be read is not reported, and the alarm takes missing data for breaching.
///
/// Kills: `standby_measures_no_backlog`, `age_alarm_ignores_missing_data`
#[tokio::test]
async fn case_33_backlog_nobody_drains() {
    let harness = Harness::new();
    let mut east = leader_with(&harness, 3).await;
    let west = harness.instance("west");
    let plan = json!({ "command": "plan" });
    // East's schedule is gone: nobody ticks, nobody drains. Both still plan.
    for minute in 1..=10 {
        harness.clock.advance(Duration::from_secs(60));
        for instance in [&east, &west] {
            let reply = instance.drainer.handle(plan.clone(), &instance.limit(Duration::from_secs(10))).await.unwrap();
            assert_eq!(reply["leading"], false);
            let ages = instance.metrics.values(Metric::OldestOutstandingAge);
            assert_eq!(ages, (1..=minute).map(|minute| f64::from(minute) * 60.0).collect::<Vec<_>>());
        }
    }
    // A backlog that cannot be read is told by nobody.
    let blind = harness.instance("blind");
    harness.faults.set(operation::PAGE, 1, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    blind.drainer.handle(plan, &blind.limit(Duration::from_secs(10))).await.unwrap();
    assert!(blind.metrics.values(Metric::OldestOutstandingAge).is_empty());
    let stack = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/stacks/observability.yaml");
    let stack = std::fs::read_to_string(stack).unwrap();
    let alarm: Vec<_> =
        stack.lines().skip_while(|line| !line.starts_with("  OldestOutstandingAgeAlarm:")).skip(1).collect();
    let alarm: Vec<_> = alarm.into_iter().take_while(|line| line.starts_with("   ")).map(str::trim).collect();
    for wanted in
        ["MetricName: OldestOutstandingAge", "ComparisonOperator: GreaterThanThreshold", "TreatMissingData: breaching"]
    {
        assert!(alarm.contains(&wanted), "{wanted} is not in the alarm: {alarm:?}");
    }
    // As soon as somebody leads again the age falls to nothing.
    live(&harness, &mut [&mut east], 1).await;
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 3);
    east.drain(json!({})).await.unwrap();
    assert_eq!(east.metrics.values(Metric::OldestOutstandingAge).last(), Some(&0.0));
}

/// Reported: a policy was changed, every send was denied, and a night later all records were dead.
/// Right: a denial is named as one, by its own error type where a function fails and as the reason of the stop where a drain
/// ends; no record loses an attempt or dies; after the repair everything is delivered once.
///
/// Kills: `denied_send_keeps_its_claims`, `denied_is_unavailable`
#[tokio::test]
async fn case_35_access_denied() {
    let denied = |world: &World, operation: &str| {
        world.tables.proxy.place(Match::operation(operation), Times::Always, proxy::Fault::Deny);
    };
    let mut world = World::start(&[("FENCEPOST_STAMP_CACHE", "60s")]).await;
    let mut east = world.leader().await;
    let payloads = east.ingest_many(4).await;
    // Ingest: the event is not acknowledged, and the error has a name that no retry is made of.
    denied(&world, "PutItem");
    let refused = east.ingest(rule_event("late", "telemetry/device-1", b"x")).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::AccessDenied);
    assert!(!refused.error_type.is_transient());
    assert!(refused.message.contains("AccessDenied"), "{}", refused.message);
    // The lease.
    world.tables.proxy.clear();
    denied(&world, "GetItem");
    assert_eq!(east.drain(json!({})).await.unwrap_err().error_type, ErrorType::AccessDenied);
    // Claims.
    world.tables.proxy.clear();
    denied(&world, "BatchExecuteStatement");
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((&reply["stopped_by"], count(&reply, "claimed"), count(&reply, "sent")), (&json!("store"), 0, 0));
    // Sends, for a night: a pass every ten minutes, nine hours long.
    world.tables.proxy.clear();
    let sends = world.queue.place(Match::operation("SendMessageBatch"), Times::Always, proxy::Fault::Deny);
    for _ in 0..54 {
        world.clock.advance(Duration::from_secs(600));
        assert_eq!(east.tick().await["role"], "leader");
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!((&reply["stopped_by"], count(&reply, "handed_back")), (&json!("queue"), 4));
        assert_eq!((count(&reply, "dead"), count(&reply, "refused"), count(&reply, "unknown")), (0, 0, 0));
    }
    assert_eq!(sends.hits(), 54, "one request a pass, and none by the SDK");
    assert_eq!(east.metrics.total(Metric::SendFailures), 54.0, "and each is measured");
    let rows = east.outstanding().await;
    assert!(rows.iter().all(|row| row.attempts == 0 && row.last_error.is_none()), "{rows:?}");
    world.queue.clear();
    world.live(&mut east, 1).await;
    assert_eq!(count(&east.drain(json!({})).await.unwrap(), "committed"), 4);
    assert_eq!(world.payloads(), payloads);
}

/// Found by us: the first attempt was a day ago, because the queue had been down for a day; the first ordinary refusal after
/// the outage then killed records that had never been offered to it.
/// Right: an outage longer than the age limit kills nothing, nor does what follows it: death by exhaustion needs attempts and
/// age, and an outage gives none of the first.
///
/// Kills: `exhausted_by_age_alone`
#[tokio::test]
async fn case_49_outage_longer_than_the_age_limit() {
    for kind in [FailureKind::Throttled, FailureKind::Denied, FailureKind::Unavailable, FailureKind::TimedOut] {
        let harness = Harness::with(&[("FENCEPOST_MAX_ATTEMPTS", "3"), ("FENCEPOST_MAX_AGE", "10m")]);
        let mut east = leader_with(&harness, 6).await;
        every_send(&harness, &Fault::of(Effect::FailBefore(kind)));
        let mut passes = Passes { waiting: None };
        for second in (5..=1_800).step_by(5) {
            live(&harness, &mut [&mut east], 5).await;
            passes.pass(&east, second).await;
        }
        let rows = east.outstanding().await;
        assert_eq!((rows.len(), dead_rows(&harness)), (6, 0), "{kind:?}: three times the age limit");
        assert!(rows.iter().all(|row| row.attempts == 0 && row.first_attempt_at.is_some()), "{kind:?}: {rows:?}");
        // The queue is back, and refuses each entry twice for a reason that passes.
        let refusals = (0..6).map(|index| (index, EntryFault::Refuse("InternalError".into()))).collect();
        every_send(&harness, &Fault::of(Effect::Entries(refusals)));
        let mut refused = 0;
        for second in (1_805..=1_900).step_by(5) {
            live(&harness, &mut [&mut east], 5).await;
            refused += count(&passes.pass(&east, second).await, "refused");
            if refused >= 12 {
                every_send(&harness, &Fault::default());
            }
        }
        assert_eq!((refused, dead_rows(&harness)), (12, 0), "{kind:?}: two attempts of three");
        assert!(east.outstanding().await.is_empty(), "{kind:?}");
        let mut delivered = harness.delivered();
        delivered.dedup();
        assert_eq!((delivered.len(), harness.queue.accepted().len()), (6, 6), "{kind:?}: each once");
    }
}

/// What every send meets from now on.
fn every_send(harness: &Harness, fault: &Fault) {
    for call in 1..=2_000 {
        harness.queue_faults.set(operation::SEND, call, fault.clone());
    }
}
