//! The takeover workflow of an acquisition: due until it is done, whoever lost what.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_storage::memory::{Effect, Fault};
use fencepost_storage::operation;
use fencepost_tests::simulation::{Act, CallFault, Machine, Options, World, calls};

use super::lab::{Lab, events, standing};

/// When each takeover execution was started, in whole seconds, and its name.
fn started(world: &World) -> Vec<(u64, String)> {
    let history = world.history();
    let starts = history.containing("takeover ").filter(|line| line.what.ends_with(" starts"));
    starts.map(|line| (line.at.as_secs(), line.what.split(' ').nth(1).unwrap().to_owned())).collect()
}

/// From one tick of profile `durable` to the next.
const TICK_SECS: u64 = 5;

fn takeover_done(world: &World) -> u64 {
    world.lease().present().map_or(0, |record| record.takeover_done.get())
}

/// Found in our own design: the takeover followed from "I just acquired", so an acquisition whose reply was lost, or whose
/// process died at once, never had one, and what the former holder left behind waited for ever. Right: it follows from the
/// row, at every tick, until it is done.
///
/// Kills: `a_takeover_is_due_at_the_first_renewal_only`
#[tokio::test(start_paused = true)]
async fn case_42_an_acquisition_whose_reply_was_lost_gets_its_takeover() {
    let lost = || Fault::of(Effect::FailAfter(FailureKind::TimedOut));
    // A process that dies when the call has been applied: its answer never comes.
    let died = || Fault { delay_after: Duration::from_secs(3_600), ..Fault::default() };
    for operation in [operation::RAISE_FENCE, operation::WRITE_LEASE, operation::WRITE_INSTANCE] {
        for dies in [false, true] {
            let lab = Lab::new(&[]);
            let mut east = lab.process("east");
            east.faults.set(operation, 1, if dies { died() } else { lost() });
            let first = tokio::time::timeout(Duration::from_secs(1), east.tick()).await;
            assert_eq!(first.is_err(), dies, "{operation}");
            // The next tick is another process's.
            lab.advance(Duration::from_secs(1));
            let mut next = lab.process("east");
            let reply = next.tick().await;
            // Where only the fence was raised, its token is burnt.
            let token = if operation == operation::RAISE_FENCE { 2 } else { 1 };
            assert_eq!(standing(&reply), ("leader", Some(token)), "{operation}, dies: {dies}");
            assert_eq!(reply["takeover"]["name"], format!("telemetry-{token}-0"), "{operation}, dies: {dies}");
            // And so on until it is done, also past renewals; the acquisition is told once, by whoever finds it untold.
            let mut told: Vec<String> = events(&reply).into_iter().map(str::to_owned).collect();
            for _ in 0..30 {
                let later = lab.pass(1, &mut [&mut next]).await.remove(0);
                assert_eq!(later["takeover"]["name"], format!("telemetry-{token}-0"));
                told.extend(events(&later).into_iter().map(str::to_owned));
            }
            assert_eq!(told, ["Lease Acquired"], "{operation}, dies: {dies}");
        }
    }
}

/// The same through the shipped machines; and a takeover that failed is tried again under a new name, for an execution's name
/// is used once.
///
/// Kills: `a_failed_takeover_keeps_its_name`
#[test]
fn case_42_a_failed_takeover_is_tried_again_under_a_new_name() {
    let mut world = World::new(Options::new(42).regions(["east"]));
    // All three tries of the first acquisition are applied or meet their own, and no reply arrives.
    for number in 1..=3 {
        world.fault("east", operation::WRITE_LEASE, number, CallFault::TimeoutAfter);
    }
    // The first takeover cannot invoke its drainer, retries included.
    world.fault_next_times("east", calls::INVOKE_DRAINER, 9, &CallFault::CrashBefore);
    assert!(
        world.run_until_that(Duration::from_secs(150), |world| takeover_done(world) == 1),
        "{}",
        world.history().text()
    );
    let names: Vec<String> = started(&world).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["telemetry-1-0", "telemetry-1-1"], "{}", world.history().text());
    let seconds: Vec<u64> = started(&world).into_iter().map(|(second, _)| second).collect();
    assert!(seconds[1] - seconds[0] >= 60, "a minute's pause before the second try: {seconds:?}");
    let completed: Vec<_> =
        world.events().into_iter().filter(|event| event.detail_type == "Takeover Completed").collect();
    assert_eq!(completed.len(), 1);
    assert_eq!((&completed[0].detail["token"], &completed[0].detail["try"]), (&1.into(), &1.into()));
}

/// Found in our own design: somebody stopped the takeover by hand, it never reported, and nothing tried it again; or it was
/// tried again at each tick. Right: due for longer than the workflow's time-out (15 minutes) the tick raises the try, and try n
/// starts n minutes later.
///
/// Kills: `a_silent_takeover_is_waited_for`, `every_pause_of_a_takeover_is_a_minute`
#[test]
fn case_61_a_takeover_stopped_by_hand_is_tried_again_with_a_growing_pause() {
    let options = Options::new(61).regions(["east"]).setting("PROFILE", "durable").without_stream();
    let mut world = World::new(options);
    let stop = |world: &mut World, try_number: usize, most: Duration| {
        let name = format!("telemetry-1-{try_number}");
        assert!(
            world.run_until_that(most, |world| started(world).iter().any(|(_, started)| *started == name)),
            "{name}: {:?}",
            started(world)
        );
        assert_eq!(world.running("east", Machine::Takeover), 1, "{name} runs");
        world.act(Act::StopMachine { instance: "east".to_owned(), machine: Machine::Takeover });
        world.run_for(Duration::from_millis(50));
        assert_eq!(world.running("east", Machine::Takeover), 0, "{name} is stopped");
    };
    // Its first call hangs, so that there is something to stop; the scheduled drains meanwhile are slow as well.
    for number in 1..=200 {
        world.fault("east", calls::INVOKE_DRAINER, number, CallFault::Slow { ms: 10_000 });
    }
    stop(&mut world, 0, Duration::from_secs(10));
    stop(&mut world, 1, Duration::from_secs(17 * 60));
    stop(&mut world, 2, Duration::from_secs(18 * 60));
    assert!(world.run_until_that(Duration::from_secs(20 * 60), |world| takeover_done(world) == 1));
    let starts = started(&world);
    let names: Vec<&str> = starts.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["telemetry-1-0", "telemetry-1-1", "telemetry-1-2", "telemetry-1-3"]);
    for (number, pair) in (1..).zip(starts.windows(2)) {
        let pause = pair[1].0 - pair[0].0;
        // The workflow's time-out, counted from when the try before it was due, and then this try's own pause. Each of the
        // two starts a tick late at most, in whole seconds.
        let expected = 15 * 60 + number * 60;
        assert!(
            pause.abs_diff(expected) <= TICK_SECS + 1,
            "try {number}: {pause}s after the one before, not {expected}s"
        );
    }
    assert_eq!(world.token(), 1);
}
