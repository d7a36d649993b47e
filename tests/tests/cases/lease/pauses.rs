//! Holders that stand still: paused past their TTL, frozen by the platform.

use std::time::Duration;

use fencepost_runtime::telemetry::Metric;
use fencepost_storage::operation;
use fencepost_tests::simulation::{Act, CallFault, Options, World};

fn freeze(instance: &str) -> Act {
    Act::Freeze { instance: instance.to_owned() }
}

fn thaw(instance: &str) -> Act {
    Act::Thaw { instance: instance.to_owned() }
}

/// A world in which east leads and west stands by; messages come only through east.
fn led_by_east(seed: u64) -> World {
    let mut world = World::new(Options::new(seed).without_stream());
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
/// finished it. Right: it is refused before it commits, by the token and the claim of the row; it takes itself for a standby
/// at its first tick; nothing is committed twice and nothing is lost.
///
/// Kills: `commit_without_claim_and_token`
#[test]
fn case_03_a_holder_paused_past_its_ttl_is_refused_before_it_commits() {
    const MESSAGES: usize = 5;
    let mut world = led_by_east(3);
    // It has sent, and is paused before its tombstones and its commit.
    stopped_at(&mut world, MESSAGES, operation::WRITE_TOMBSTONES);
    assert!(world.run_until_that(Duration::from_secs(2), |world| world.queue().len() == MESSAGES));
    world.act(freeze("east"));
    let frozen_at = world.now();
    assert!(world.run_until_that(Duration::from_secs(17), |world| world.token() == 2), "west takes over");
    assert!(world.run_until_that(Duration::from_secs(60), |world| world.rows().is_empty()), "and drains the orphans");
    assert!(world.now() - frozen_at >= Duration::from_secs(20), "after the stale wait, not before");
    assert_eq!(world.metric("west", Metric::Committed).sum, 5.0);
    assert_eq!(world.metric("west", Metric::DuplicateRisk).sum, 5.0, "each second send is known of");
    let before = world.metric("east", Metric::Committed).sum;

    world.act(thaw("east"));
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.metric("east", Metric::Committed).sum, before, "it commits nothing");
    assert_eq!(world.metric("east", Metric::CommitsFenced).sum, 5.0, "refused, and counted");
    assert_eq!(world.metric("east", Metric::LeaseHeld).last, 0.0);
    let lost = world.events().into_iter().filter(|event| event.instance == "east" && event.detail_type == "Lease Lost");
    let reasons: Vec<_> = lost.map(|event| event.detail["reason"].clone()).collect();
    assert_eq!(reasons, ["superseded"]);
    assert_eq!((world.leader().unwrap().instance.as_str(), world.token()), ("west", 2));
    world.finish().assert_sound(&world);
}

/// Reported of functions that the platform freezes between or inside invocations: the monotonic clock stands still meanwhile,
/// so a thawed leader believes that its lease is young. Right: its wall clock counts as well, so it steps down first: thawed
/// past its deadline but before any standby may seize, it starts no send and hands back what it had claimed.
///
/// Kills: `trust_the_monotonic_clock`
#[test]
fn case_04_a_frozen_holder_steps_down_first() {
    const MESSAGES: usize = 5;
    let mut world = led_by_east(4);
    // It has claimed, and is frozen on its way to the read that would confirm the lease.
    stopped_at(&mut world, MESSAGES, operation::READ_LEASE);
    world.act(freeze("east"));
    let confirmed_ms = world.lease().present().unwrap().confirmed_at.as_ms() - 1_700_000_000_000;
    // The deadline is 13.5s after the confirmation, the first seizure 14.5s after it.
    world.run_until(Duration::from_millis(confirmed_ms + 13_700));
    assert_eq!((world.leader().unwrap().instance.as_str(), world.token()), ("east", 1), "the row still names east");
    world.act(thaw("east"));
    assert!(world.run_until_that(Duration::from_secs(3), |world| {
        world.rows().iter().all(|row| row.claim().is_none()) || world.token() > 1
    }));
    assert_eq!(world.queue().len(), 0, "nothing was sent under token 1");
    assert!(world.run_until_that(Duration::from_secs(3), |world| world.token() == 2), "a new token, by whomever");
    assert_eq!(world.metric("east", Metric::LeaseLost).sum, 1.0);
    let verdict = world.finish();
    verdict.assert_sound(&world);
    assert_eq!(verdict.delivered, MESSAGES, "each once");
}
