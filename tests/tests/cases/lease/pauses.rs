//! Holders that stand still: paused past their TTL, frozen by the platform.

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, Fault, MemoryQueue, QueueKind, Script};
use fencepost_storage::operation;
use fencepost_tests::simulation::{Act, CallFault, Machine, Options, Outage, START, World};
use serde_json::{Value, json};

use super::lab::{Lab, Process, standing};

fn freeze(instance: &str) -> Act {
    Act::Freeze { instance: instance.to_owned() }
}

fn thaw(instance: &str) -> Act {
    Act::Thaw { instance: instance.to_owned() }
}

/// A world in which east leads and west stands by; messages come only through east.
fn led_by_east(options: Options) -> World {
    let mut world = World::new(options.without_stream());
    world.act(Act::Kill { instance: "west".to_owned() });
    world.run_for(Duration::from_secs(3));
    world.act(Act::Start { instance: "west".to_owned() });
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.leader().unwrap().instance, "east");
    world
}

/// Publishes messages and lets time pass until east's scheduled drain holds all of them under its claim and has stopped at
/// its next request of `operation`, which takes 300 ms.
fn stopped_at(world: &mut World, messages: usize, operation: &'static str) {
    world.publish_many("device-1", messages);
    assert!(world.run_until_that(Duration::from_secs(5), |world| world.rows().len() == messages));
    let is_claimed = |world: &World| world.rows().iter().all(|row| row.claim().is_some());
    world.fault_next_times("east", operation, 3, &CallFault::Slow { ms: 300 });
    assert!(world.run_until_that(Duration::from_secs(70), is_claimed), "the scheduled drain claims them");
}

/// Reported (the classic of lock services): a leader paused for longer than its lease came back in the middle of its work and
/// finished it. Right: it is refused before it commits, by the token and the claim of the row; nothing is committed twice and
/// nothing is lost.
///
/// Kills: `memory_commit_of_anybodys_claim`
#[tokio::test(start_paused = true)]
async fn case_03_a_holder_paused_past_its_ttl_is_refused_before_it_commits() {
    let mut lab = Lab::new(&[]);
    // East's request is the first; the second, west's, is swallowed, so that its claims stay.
    let faults = Script::default();
    faults.set(operation::SEND, 2, Fault::of(Effect::FailBefore(FailureKind::TimedOut)));
    lab.queue = MemoryQueue::new(QueueKind::Standard).with_faults(Arc::new(faults));
    let (mut east, mut west) = (lab.process("east"), lab.process("west"));
    lab.pass(3, &mut [&mut east, &mut west]).await;
    for id in ["a", "b", "c"] {
        east.store(id).await.unwrap();
    }
    // It has sent, and is paused before its tombstones and its commit.
    let pause = Fault { delay_before: Duration::from_secs(60), ..Fault::default() };
    east.faults.set(operation::WRITE_TOMBSTONES, 1, pause);
    let successor = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lab.queue.accepted().len(), 3);
        assert_eq!(standing(&lab.pass(16, &mut [&mut west]).await[0]), ("leader", Some(2)));
        let seen = west.drain(json!({})).await.unwrap();
        assert_eq!((&seen["counts"]["claimed"], seen["unsettled"].as_array().unwrap().len()), (&json!(0), 1));
        // The workflow's wait, after which no drainer can be alive on the platform; this one is.
        let drained = drain_settled(&lab, &mut west, &seen).await;
        let counts = [&drained["counts"]["stale_claims"], &drained["counts"]["unknown"]];
        assert_eq!(counts, [&json!(3), &json!(3)], "west has claimed them");
    };
    let (resumed, ()) = tokio::join!(east.drain(json!({})), successor);
    let resumed = resumed.unwrap();
    assert_eq!((&resumed["counts"]["sent"], &resumed["counts"]["committed"]), (&json!(3), &json!(0)));
    assert_eq!(resumed["counts"]["fenced"], 3, "refused, and counted");
    assert_eq!(east.metrics.total(Metric::CommitsFenced), 3.0);
    let rows = lab.outstanding().await;
    assert!(rows.len() == 3 && rows.iter().all(|row| row.stamp.get() == 2 && row.claim().is_some()), "{rows:?}");
    let reply = east.tick().await;
    assert_eq!((standing(&reply), &reply["events"][0]["detail"]["reason"]), (("standby", None), &json!("superseded")));

    // What it had found out before its commit is kept: by its tombstones the successor commits without a second send.
    let seen = west.drain(json!({})).await.unwrap();
    let drained = drain_settled(&lab, &mut west, &seen).await;
    assert_eq!((&drained["counts"]["committed"], &drained["counts"]["sent"]), (&json!(3), &json!(0)));
    assert_eq!((lab.queue.accepted().len(), lab.outstanding().await.len()), (3, 0));
}

/// Waits as the workflow does, and drains with the claims that were seen before.
async fn drain_settled(lab: &Lab, holder: &mut Process, seen: &Value) -> Value {
    lab.pass(20, &mut [&mut *holder]).await;
    let claim = |one: &Value| json!({ "shard": one["shard"], "position": one["position"], "claim": one["claim"] });
    let settled: Vec<Value> = seen["unsettled"].as_array().unwrap().iter().map(claim).collect();
    holder.drain(json!({ "settled": settled })).await.unwrap()
}

/// The same with everything around it: loops, machines, the platform's time limit. The paused instance commits nothing, takes
/// itself for a standby, and each message is committed once.
///
/// Kills: `a_standby_waits_two_ttls`
#[test]
fn case_03_the_whole_instance_paused_past_its_ttl() {
    const MESSAGES: usize = 5;
    let mut world = led_by_east(Options::new(3));
    stopped_at(&mut world, MESSAGES, operation::WRITE_TOMBSTONES);
    assert!(world.run_until_that(Duration::from_secs(2), |world| world.queue().len() == MESSAGES));
    world.act(freeze("east"));
    let frozen_at = world.now();
    assert!(world.run_until_that(Duration::from_secs(17), |world| world.token() == 2), "west takes over");
    assert!(world.run_until_that(Duration::from_secs(60), |world| world.rows().is_empty()), "and drains the orphans");
    assert!(world.now() - frozen_at >= Duration::from_secs(20), "after the stale wait, not before");
    assert_eq!(world.metric("west", Metric::Committed).sum, 5.0);
    assert_eq!(world.metric("west", Metric::DuplicateRisk).sum, 5.0, "each second send is known of");

    world.act(thaw("east"));
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.metric("east", Metric::Committed).sum, 0.0, "it commits nothing");
    assert_eq!(world.metric("east", Metric::LeaseHeld).last, 0.0);
    let lost = world.events().into_iter().filter(|event| event.instance == "east" && event.detail_type == "Lease Lost");
    let reasons: Vec<_> = lost.map(|event| event.detail["reason"].clone()).collect();
    assert_eq!(reasons, ["superseded"]);
    assert_eq!((world.leader().unwrap().instance.as_str(), world.token()), ("west", 2));
    world.finish().assert_sound(&world);
}

/// Reported of functions that the platform freezes between or inside invocations: the monotonic clock stands still meanwhile,
/// so a thawed leader believes that its lease is young. Right: its wall clock counts as well, so it steps down first: thawed
/// past its deadline but before any standby may seize, it starts no further send and hands back what it had claimed.
///
/// Kills: `trust_the_monotonic_clock`
#[test]
fn case_04_a_frozen_holder_steps_down_first() {
    const MESSAGES: usize = 5;
    let mut world = led_by_east(Options::new(4).fifo());
    world.publish_many("device-1", MESSAGES);
    let renewals = world.lease().present().unwrap().renewal;
    assert!(world.run_until_that(Duration::from_secs(8), |world| {
        world.lease().present().is_some_and(|record| record.renewal > renewals)
    }));
    // The last renewal for now: the deadline is 13.5s after it, the first seizure 14.5s after it.
    let confirmed = Duration::from_millis(world.lease().present().unwrap().confirmed_at.as_ms() - START.as_ms());
    let (outage, instance) = (Outage::LeaseWrites, Some("east".to_owned()));
    world.act(Act::Begin { outage, instance: instance.clone(), failure: FailureKind::Unavailable });
    world.run_until(confirmed + Duration::from_secs(7));
    // It claims all, has confirmed the lease, and is frozen in the first send: of one device, one message at a time. The time
    // limit of a drain call is 10s.
    world.fault_next("east", operation::SEND, CallFault::Slow { ms: 600 });
    world.act(Act::StartMachine { instance: "east".to_owned(), machine: Machine::Drain });
    let is_claimed =
        |world: &World| world.rows().len() == MESSAGES && world.rows().iter().all(|row| row.claim().is_some());
    assert!(world.run_until_that(Duration::from_secs(3), is_claimed));
    world.act(freeze("east"));
    assert!(world.now() < confirmed + Duration::from_millis(8_500));
    world.run_until(confirmed + Duration::from_millis(13_700));
    assert_eq!((world.leader().unwrap().instance.as_str(), world.token()), ("east", 1), "the row still names east");
    world.act(thaw("east"));
    let is_handed_back = |world: &World| {
        let rows = world.rows();
        rows.len() == MESSAGES - 1 && rows.iter().all(|row| row.claim().is_none() && row.attempts == 0)
    };
    assert!(world.run_until_that(Duration::from_millis(800), is_handed_back), "{}", world.history().text());
    assert_eq!(world.queue().len(), 1, "what was on its way; nothing was begun under token 1 after the deadline");
    world.act(Act::End { outage, instance });
    assert!(world.run_until_that(Duration::from_secs(3), |world| world.token() > 1), "a new token, by whomever");
    let verdict = world.finish();
    verdict.assert_sound(&world);
    assert_eq!(verdict.delivered, MESSAGES, "each once");
}
