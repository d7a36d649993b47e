//! The shipped workflows around the drain, in virtual time: several instances, schedules, streams, kills.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::outbox::OutboxRow;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::operation;
use fencepost_tests::simulation::{Act, CallFault, Machine, Message, Options, Outage, World};

use super::is_claimed;

/// `stale_claim_duration` of the profile `fast`.
const STALE_WAIT: Duration = Duration::from_secs(20);
/// From one start of the drain's schedule to the next.
const SCHEDULE: Duration = Duration::from_secs(60);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn kill(instance: &str) -> Act {
    Act::Kill { instance: instance.to_owned() }
}

/// How often each message was accepted.
fn copies(world: &World) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for id in world.delivered() {
        *copies.entry(id).or_default() += 1;
    }
    copies
}

/// Reported: workers that were killed in mid-send had their messages handed back by a clean-up that could not know whether
/// they were sent, or kept for ever.
/// Right: through the shipped workflow the claim stands untouched for the whole stale wait and is taken by the execution that
/// waited it out: one schedule, the wait and a call later at most. What was sent twice bears one id and is counted.
///
/// Kills: `killed_claims_are_never_settled`
#[test]
fn case_22_killed_in_mid_send_and_recovered_by_the_workflow() {
    for crash in [CallFault::CrashAfter, CallFault::CrashBefore] {
        let mut world = World::new(Options::new(22).without_stream());
        world.run_for(secs(10));
        let leader = world.leader().expect("somebody leads").instance;
        world.fault_next(&leader, operation::SEND, crash.clone());
        let ids = world.publish_many("device-1", 3);
        assert!(world.run_until_that(SCHEDULE + secs(20), |world| world.rows().iter().any(is_claimed)), "{crash:?}");
        let claimed_at = world.now();
        let held: Vec<OutboxRow> = world.rows();
        assert!(held.iter().all(|row| is_claimed(row) && (row.attempts, row.stale) == (1, 0)), "{crash:?}: {held:?}");
        world.run_for(STALE_WAIT - secs(1));
        assert_eq!(world.rows(), held, "{crash:?}: nobody touched it within the wait");
        let most = SCHEDULE + STALE_WAIT + secs(15);
        assert!(world.run_until_that(most, |world| world.rows().is_empty()), "{crash:?}: {}", world.history().text());
        assert!(world.now() - claimed_at >= STALE_WAIT, "{crash:?}");
        let twice = if crash == CallFault::CrashAfter { 2 } else { 1 };
        let expected: BTreeMap<String, usize> = ids.into_iter().map(|id| (id, twice)).collect();
        assert_eq!(copies(&world), expected, "{crash:?}: under the same ids");
        assert!(world.metric_sum(Metric::DuplicateRisk) >= 3.0, "{crash:?}: each possible second send is counted");
        assert_eq!((world.dead().len(), world.broken()), (0, Vec::new()), "{crash:?}");
    }
}

/// Reported: the queue was down for five minutes; with a retry each second every record used up its attempts and died.
/// Right: through schedule and stream, while messages go on arriving, an outage of any kind burns no attempt; nothing is dead,
/// and what arrived in it is delivered when the queue is back.
///
/// Kills: `an_outage_burns_the_first_attempts`
#[test]
fn case_30_queue_down_five_minutes_under_traffic() {
    for failure in [FailureKind::Throttled, FailureKind::Unavailable] {
        let mut world = World::new(Options::new(30).setting("MAX_ATTEMPTS", "2").setting("MAX_AGE", "1m"));
        world.run_for(secs(20));
        let outage = Outage::Queue;
        world.act(Act::Begin { outage, instance: None, failure });
        for second in 0..300 {
            if second % 5 == 0 {
                world.publish(&Message::new("device-1", format!("reading {second}")));
            }
            world.run_for(secs(1));
        }
        assert!(world.delivered().is_empty(), "{failure:?}: it was down");
        let rows = world.rows();
        assert_eq!((rows.len(), world.dead().len()), (60, 0), "{failure:?}");
        // An attempt that is under way is counted by its claim.
        let burnt = rows.iter().filter(|row| row.attempts > u32::from(is_claimed(row)));
        assert_eq!(burnt.count(), 0, "{failure:?}: {rows:?}");
        world.act(Act::End { outage, instance: None });
        assert!(world.run_until_that(secs(240), |world| world.rows().is_empty()), "{failure:?}");
        assert_eq!((copies(&world).len(), world.delivered().len()), (60, 60), "{failure:?}: each once");
        assert_eq!((world.dead().len(), world.broken()), (0, Vec::new()), "{failure:?}");
    }
}

/// Found by us: a takeover went on for as long as messages arrived, since each pass found new ones; it never reported its end.
/// Right: it drains what lay below its cut under older tokens, by one forward pass and one settled pass; new traffic and the
/// successor's own claims belong to the scheduled drain. It ends while the traffic goes on.
///
/// Kills: `takeover_without_a_cut`
#[test]
fn case_43_takeover_under_steady_traffic_ends() {
    // Calls of up to 0.6 s and two rows a page: new rows arrive faster than a pass could read them.
    let options = Options::new(43).setting("PAGE_ROWS", "2").latency_up_to_ms(300).without_stream();
    let mut world = World::new(options);
    world.run_for(secs(10));
    let holder = world.leader().expect("somebody leads").instance;
    let successor = if holder == "east" { "west" } else { "east" };
    // The holder dies with two claims in hand; what is stored until somebody leads bears its token, too.
    let through = |device: &str, number: usize| Message::new(device, format!("{device} {number}")).through(successor);
    let mut orphans: Vec<String> = (0..2).map(|number| world.publish(&through("device-1", number))).collect();
    world.run_for(secs(3));
    world.fault_next(&holder, operation::SEND, CallFault::CrashBefore);
    world.act(Act::StartMachine { instance: holder.clone(), machine: Machine::Drain });
    assert!(world.run_until_that(secs(10), |world| world.rows().iter().filter(|row| is_claimed(row)).count() == 2));
    world.act(kill(&holder));
    orphans.extend((2..20).map(|number| world.publish(&through("device-1", number))));
    let seized = |world: &World| world.leader().is_some_and(|leader| leader.instance == successor);
    assert!(world.run_until_that(secs(30), seized), "{}", world.history().text());
    let (seized_at, token) = (world.now(), world.token());
    assert_eq!(world.rows().len(), 20);
    for eighth in 0..120 * 8 {
        world.publish_at(seized_at + Duration::from_millis(125) * eighth, through("device-1", 1_000));
    }
    let done = |world: &World| world.lease().present().is_some_and(|record| record.takeover_done.get() == token);
    let most = secs(90);
    assert!(world.run_until_that(most, done), "not done {most:?} after the seizure: {}", world.history().text());
    let took = world.now() - seized_at;
    assert!(took >= STALE_WAIT, "it waited for the claims of the dead: {took:?}");
    let left: Vec<String> = world.rows().iter().map(|row| row.id().to_string()).collect();
    assert!(left.len() > 100, "the new traffic is not its business, and goes on: {} rows stand", left.len());
    let forgotten: Vec<_> = orphans.iter().filter(|id| left.contains(id)).collect();
    assert!(forgotten.is_empty(), "orphans that it left: {forgotten:?}");
    // It reports its end and is over.
    world.run_for(secs(5));
    assert_eq!(world.running(successor, Machine::Takeover), 0);
    let completed = world.events().into_iter().filter(|event| event.detail_type == "Takeover Completed");
    assert_eq!(completed.filter(|event| event.detail["token"] == token).count(), 1);
    assert_eq!(world.broken(), Vec::new());
}
