//! Schedules and loops: late, twice, missing, dead at once; and quiet days.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::settings::Function;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::operation;
use fencepost_tests::simulation::{Act, CallFault, Machine, Options, Outage, START, World, calls};
use serde_json::json;

/// One tick and its call.
const TICK_MAX: Duration = Duration::from_millis(1_150);

fn renewals(world: &World) -> u64 {
    world.lease().present().map_or(0, |record| record.renewal)
}

/// Lets time pass until `moment` of the run; the longest time without a tick of the instance.
fn longest_pause(world: &mut World, instance: &str, moment: Duration) -> Duration {
    let (mut ticks, mut since, mut longest) = (world.ticks(instance), world.now(), Duration::ZERO);
    while world.now() < moment {
        world.run_for(Duration::from_millis(50));
        if world.ticks(instance) > ticks {
            (ticks, since) = (world.ticks(instance), world.now());
        }
        longest = longest.max(world.now() - since);
    }
    longest
}

/// Reported: a leader that renewed on every look wrote thousands of times an hour, and one whose token moved at each renewal
/// fenced itself. Right: ten TTLs of quiet leave the token as it is, with one renewal an interval.
///
/// Kills: `renew_at_every_tick`
#[test]
fn case_09_ten_ttls_of_quiet_keep_the_token_and_renew_once_an_interval() {
    let mut world = World::new(Options::new(9));
    world.run_for(Duration::from_secs(5));
    let (leader, from) = (world.leader().unwrap(), renewals(&world));
    world.run_for(Duration::from_secs(140));
    assert_eq!((world.leader().unwrap(), world.token()), (leader, 1));
    // Every 5s ± 0.3s, early by a tick at most, whichever of the two loops comes first.
    let made = renewals(&world) - from;
    assert!((26..=36).contains(&made), "{made} renewals in 140s");
    let moved = [Metric::LeaseTransfers, Metric::LeaseLost].map(|metric| world.metric_sum(metric));
    assert_eq!(moved, [1.0, 0.0], "the first acquisition, and nothing lost");
    world.finish().assert_sound(&world);
}

/// Reported: a schedule is at least once; two executions started together fought over the lease. Right: one renewal for each
/// interval, and no new token.
///
/// Kills: `a_second_loop_renews_as_well`
#[test]
fn case_16_a_schedule_that_fires_twice_renews_once() {
    let mut world = World::new(Options::new(16).regions(["east"]));
    for number in 1..=4 {
        world.fault("east", calls::SCHEDULE_LEASE_CYCLE, number, CallFault::Twice);
    }
    world.run_for(Duration::from_secs(180));
    assert!(world.running("east", Machine::LeaseCycle) >= 2);
    assert!(world.ticks("east") >= 2 * 170, "two loops tick: {}", world.ticks("east"));
    assert_eq!((world.token(), world.metric_sum(Metric::LeaseAcquired)), (1, 1.0));
    let made = renewals(&world);
    assert!((32..=46).contains(&made), "{made} renewals in 180s");
    world.finish().assert_sound(&world);
}

/// Found in our own design: a schedule that fires at 00:01 and next at 02:59 left minutes without a tick, enough to lose the
/// lease. Right: a loop outlasts late and missing schedules; there is no gap above one tick.
///
/// Kills: `a_loop_lasts_a_minute`
#[test]
fn case_41_a_late_schedule_leaves_no_gap_in_ticks() {
    let mut world = World::new(Options::new(41).regions(["east"]).without_schedules());
    let start = || Act::StartMachine { instance: "east".to_owned(), machine: Machine::LeaseCycle };
    for second in [1, 179, 440] {
        world.at(Duration::from_secs(second), start());
    }
    world.run_until(Duration::from_secs(2));
    let longest = longest_pause(&mut world, "east", Duration::from_secs(600));
    assert!(longest <= TICK_MAX, "{longest:?} without a tick");
    assert_eq!((world.token(), world.metric_sum(Metric::LeaseLost)), (1, 0.0));

    // Three schedules in a row do not come at all.
    let mut world = World::new(Options::new(41).regions(["east"]));
    for number in 2..=4 {
        world.fault("east", calls::SCHEDULE_LEASE_CYCLE, number, CallFault::Missing);
    }
    world.run_until(Duration::from_secs(2));
    let longest = longest_pause(&mut world, "east", Duration::from_secs(400));
    assert!(longest <= TICK_MAX, "{longest:?} without a tick");
    assert_eq!(world.metric_sum(Metric::LeaseLost), 0.0);
}

/// Found in our own design: an older loop that ends as soon as it sees a newer one leaves nobody ticking where the newer one
/// dies at once. Right: it ends only where two newer ones tick.
///
/// Kills: `a_loop_ends_at_one_newer_loop`
#[test]
fn case_58_a_newer_loop_that_dies_at_once_stops_no_ticks() {
    let mut world = World::new(Options::new(58).regions(["east"]));
    world.run_until(Duration::from_secs(2));
    for second in [10, 70, 130, 190] {
        let pause = longest_pause(&mut world, "east", Duration::from_secs(second));
        assert!(pause <= TICK_MAX, "{pause:?} before {second}s");
        // Beside the loops of the schedule a newer one that has exactly one tick in its life.
        let born = json!({ "started_at_ms": START.as_ms() + second * 1_000, "name": "stillborn" });
        let tick = json!({ "command": "tick", "loop": born, "carried": null });
        assert_eq!(world.invoke("east", Function::Lease, tick).unwrap()["end"], false);
    }
    let pause = longest_pause(&mut world, "east", Duration::from_secs(270));
    assert!(pause <= TICK_MAX, "{pause:?} without a tick");
    assert_eq!((world.token(), world.metric_sum(Metric::LeaseLost)), (1, 0.0));
}

/// Found in our own design: the alarm "nobody leads" watched the leader's own metric, and rang for ever in each region that
/// only stood by. Right: a standby says whether somebody leads, as far as it can tell; the alarm rings when nobody does.
///
/// Kills: `a_standby_sees_no_holder`
#[test]
fn case_54_a_quiet_standby_says_that_somebody_leads() {
    let mut world = World::new(Options::new(54));
    world.run_for(Duration::from_secs(5));
    let leader = world.leader().unwrap().instance;
    let standby = if leader == "east" { "west" } else { "east" };
    let before = world.metric(standby, Metric::GroupHasHolder);
    world.run_for(Duration::from_secs(300));
    let after = world.metric(standby, Metric::GroupHasHolder);
    let ticks = after.count - before.count;
    assert!(ticks >= 290, "{ticks} ticks");
    assert!(
        (after.sum - before.sum - f64::from(u32::try_from(ticks).unwrap())).abs() < 0.5,
        "1 at each tick: {after:?}"
    );
    assert_eq!(world.metric(standby, Metric::LeaseHeld).sum, 0.0, "and never that it leads");

    // Nobody leads: the holder is dead and the standby cannot write.
    let writes = || Outage::LeaseWrites;
    world.act(Act::Kill { instance: leader });
    let instance = || Some(standby.to_owned());
    world.act(Act::Begin { outage: writes(), instance: instance(), failure: FailureKind::Denied });
    world.run_for(Duration::from_secs(17));
    assert_eq!(world.metric(standby, Metric::GroupHasHolder).last, 0.0, "TTL + margin and two ticks later");
    let silent = world.metric(standby, Metric::GroupHasHolder);
    world.run_for(Duration::from_secs(60));
    let still = world.metric(standby, Metric::GroupHasHolder);
    assert!(still.count > silent.count && still.sum == silent.sum, "0 at each tick: {silent:?}, {still:?}");
    world.act(Act::End { outage: writes(), instance: instance() });
    // Evidence could not be kept meanwhile, so it begins anew.
    world.run_for(Duration::from_secs(17));
    assert_eq!(world.leader().unwrap().instance, standby);
    assert_eq!(world.metric(standby, Metric::GroupHasHolder).last, 1.0);
    assert!(world.calls(standby, operation::WRITE_LEASE) > 0);
}
