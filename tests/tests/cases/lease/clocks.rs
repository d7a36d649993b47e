//! Clocks that are wrong, observers that are slow or cold, and TTLs that change: a takeover is never early, and never late for
//! a clock's sake.

use std::time::Duration;

use fencepost_tests::simulation::{Act, Options, World};
use serde_json::json;

use super::lab::{Lab, Process, standing};

/// TTL + margin of profile `fast`: for how long a holder must be seen to stand still.
const NEEDED_MS: u64 = 14_500;

/// A world in which east leads since about the beginning and west stands by, with clocks that are wrong by so much.
fn led_by_east(east_ms: i64, west_ms: i64) -> World {
    let mut world = World::new(Options::new(1));
    world.act(Act::Kill { instance: "west".to_owned() });
    for (instance, by_ms) in [("east", east_ms), ("west", west_ms)] {
        world.act(Act::StepClock { instance: instance.to_owned(), by_ms });
    }
    world.run_for(Duration::from_secs(3));
    world.act(Act::Start { instance: "west".to_owned() });
    world.run_until(Duration::from_secs(40));
    assert_eq!(world.leader().unwrap().instance, "east");
    world
}

/// Reported of every lock that stores an expiry time: a host whose clock was ten minutes ahead stole leases, one that was
/// behind never took any. Right: takeover time is the same whoever's clock is wrong, by however much.
///
/// Kills: `seized_by_the_observers_clock`
#[test]
fn case_01_clocks_ten_minutes_apart_leave_the_takeover_time_unchanged() {
    const WRONG_MS: i64 = 600_000;
    let mut took_ms = Vec::new();
    for (east_ms, west_ms) in
        [(0, 0), (WRONG_MS, 0), (-WRONG_MS, 0), (0, WRONG_MS), (0, -WRONG_MS), (WRONG_MS, -WRONG_MS)]
    {
        let mut world = led_by_east(east_ms, west_ms);
        // Right after a renewal, so that all runs begin alike.
        let renewals = world.lease().present().unwrap().renewal;
        assert!(world.run_until_that(Duration::from_secs(8), |world| {
            world.lease().present().is_some_and(|record| record.renewal > renewals)
        }));
        let killed_at = world.now();
        world.act(Act::Kill { instance: "east".to_owned() });
        assert!(
            world.run_until_that(Duration::from_secs(17), |world| world.token() == 2),
            "east {east_ms}ms, west {west_ms}ms off: not by TTL + margin + two ticks"
        );
        assert_eq!(world.leader().unwrap().instance, "west");
        let took = u64::try_from((world.now() - killed_at).as_millis()).unwrap();
        assert!(took + 100 >= NEEDED_MS, "east {east_ms}ms, west {west_ms}ms off: after {took}ms");
        took_ms.push(took);
        world.finish().assert_sound(&world);
    }
    let (first, last) = (took_ms.iter().min().unwrap(), took_ms.iter().max().unwrap());
    assert!(last - first <= 1_100, "all within one tick: {took_ms:?}");
}

/// Reported: an observer that runs from a timer began anew with each invocation, so a dead leader was replaced late or never.
/// Right: evidence is kept; every tick in a cold process seizes within about one TTL, and one that begins only after the
/// holder died within two.
///
/// Kills: `evidence_is_not_kept`
#[tokio::test]
async fn case_02_every_tick_in_a_cold_process_seizes_within_one_ttl() {
    // West has been watching, each time in a new process.
    let lab = Lab::new(&[]);
    let mut east = lab.process("east");
    for _ in 0..20 {
        lab.pass(1, &mut [&mut east]).await;
        assert_eq!(standing(&lab.process("west").tick().await), ("standby", None));
    }
    // Then its holder is gone, with a renewal of this very moment.
    while lab.row().await.confirmed_at.as_ms() != fencepost_tests::harness::START.as_ms() + lab.elapsed_ms() {
        assert!(lab.elapsed_ms() < 60_000, "a minute, and no renewal at a whole second");
        lab.pass(1, &mut [&mut east]).await;
    }
    assert_eq!(
        seized_after_ms(&lab, async || lab.process("west").tick().await).await,
        16_000,
        "one tick to see it, 14.5s"
    );

    // West begins only when east has been dead for nearly a TTL.
    let lab = Lab::new(&[]);
    lab.process("east").tick().await;
    lab.advance_ms(13_900);
    let from_its_first_tick = seized_after_ms(&lab, async || lab.process("west").tick().await).await;
    assert_eq!(from_its_first_tick, 16_000);
    assert!(13_900 + from_its_first_tick < 2 * 14_000 + 4_000, "never over two TTLs, a margin and the ticks");
}

/// Ticks once a second until the lease is held; how long that took, in milliseconds.
async fn seized_after_ms(lab: &Lab, mut tick: impl AsyncFnMut() -> serde_json::Value) -> u64 {
    let from = lab.elapsed_ms();
    for _ in 0..60 {
        lab.advance_ms(1_000);
        if tick().await["role"] == "leader" {
            return lab.elapsed_ms() - from;
        }
    }
    panic!("not within a minute");
}

/// A dead holder since time 0, and a standby that has just had its first look.
async fn watching() -> (Lab, Process) {
    let lab = Lab::new(&[]);
    lab.process("east").tick().await;
    let mut west = lab.process("west");
    assert_eq!(standing(&west.tick().await), ("standby", None));
    (lab, west)
}

/// Found in our own design: evidence that counted the time of a slow read, or a clock's step, seized a living holder. Right:
/// never early by a slow read, a clock set back or a second loop; one larger step forward gains a loop that ticks alone half a
/// tick at most, and no second commit follows from it (commits are fenced by the row, not by time).
///
/// Kills: `a_slow_first_look_counts`
#[tokio::test]
async fn case_44_evidence_is_never_early() {
    // A slow read as the first look: nothing before its answer counts.
    let lab = Lab::new(&[]);
    lab.process("east").tick().await;
    let mut west = lab.process("west");
    west.next_answer_takes(Duration::from_secs(9));
    west.tick().await;
    assert_eq!(seized_after_ms(&lab, async || west.tick().await).await, 15_000, "from the answer on");

    // In the middle: its own time counts only with the next look, and no more than a tick and a half of it.
    let (lab, mut west) = watching().await;
    lab.pass(4, &mut [&mut west]).await;
    west.next_answer_takes(Duration::from_secs(9));
    west.tick().await;
    assert_eq!(lab.elapsed_ms(), 13_000);
    let more_ms = seized_after_ms(&lab, async || west.tick().await).await;
    assert_eq!(more_ms, 9_000 + 1_000, "4s before it, 1.5s for the gap, and a second for each look after it");

    // A holder that renews while the answer is on its way is alive, whatever the old answer says.
    let lab = Lab::new(&[]);
    let (mut east, mut west) = (lab.process("east"), lab.process("west"));
    for _ in 0..60 {
        lab.pass(1, &mut [&mut east]).await;
        west.next_answer_takes(Duration::from_millis(900));
        assert_eq!(standing(&west.tick().await).1, None);
    }

    // A clock set back begins anew.
    let (lab, mut west) = watching().await;
    lab.pass(10, &mut [&mut west]).await;
    west.step_clock(-3_600_000);
    assert_eq!(seized_after_ms(&lab, async || west.tick().await).await, 16_000, "one look to begin, then 14.5s");

    // One step forward, however large, gains half a tick.
    for forward_ms in [1_000, 3_600_000, 86_400_000] {
        let (lab, mut west) = watching().await;
        lab.pass(5, &mut [&mut west]).await;
        west.step_clock(forward_ms);
        seized_after_ms(&lab, async || west.tick().await).await;
        assert_eq!(lab.elapsed_ms(), 14_000, "15s less the half tick, at a whole tick");
    }
}

/// Two loops tick at once, on hosts whose clocks agree within the margin only: no moment counts twice.
///
/// Kills: `evidence_moves_back`
#[tokio::test]
async fn case_44_two_loops_on_hosts_within_the_margin() {
    for (first_ms, second_ms) in [(0, 0), (-450, 0), (0, -450), (250, -240)] {
        // The second loop ticks at the same moment, or half a second later.
        for apart_ms in [0, 500] {
            let lab = Lab::new(&[]);
            lab.process("east").tick().await;
            let (mut first, mut second) = (lab.process("west"), lab.process("west"));
            first.step_clock(first_ms);
            second.step_clock(second_ms);
            first.tick().await;
            let mut led = false;
            while !led {
                assert!(
                    lab.elapsed_ms() < 60_000,
                    "nobody leads after a minute: {first_ms}ms, {second_ms}ms, {apart_ms}ms"
                );
                lab.advance_ms(1_000 - apart_ms);
                let one = first.tick().await;
                lab.advance_ms(apart_ms);
                let other = second.tick().await;
                led = one["role"] == "leader" || other["role"] == "leader";
            }
            let took = lab.elapsed_ms();
            assert!(
                (NEEDED_MS - 500..=16_500).contains(&took),
                "clocks {first_ms}ms and {second_ms}ms off, {apart_ms}ms apart: after {took}ms"
            );
        }
    }
}

/// One step forward while both loops of an instance tick, as they always do: the look after it counts a tick and a half whatever
/// really passed since the other loop's look, and no look after that one gains anything. So a seizure comes early by a tick and
/// a half at most. That is more than the two margins between an observer's wait and a holder's own deadline: one that stopped
/// renewing and does not read the row again may believe in its lease for so much longer than it has it (what it commits then is
/// fenced by the row). One that renews is never seized from.
///
/// Kills: `a_look_counts_four_ticks`
#[tokio::test]
async fn case_44_one_step_forward_under_two_loops() {
    for (profile, earliest_ms, own_deadline_ms) in [("fast", 13_000, 13_500), ("durable", 295_000, 299_500)] {
        for (forward_ms, apart_per_cent) in [(3_600_000, 0), (3_600_000, 10), (3_600_000, 50), (86_400_000, 0)] {
            let told = format!("{profile}, {forward_ms}ms forward, loops apart by {apart_per_cent}% of a tick");
            let lab = Lab::new(&[("FENCEPOST_PROFILE", profile)]);
            let mut east = lab.process("east");
            east.tick().await;
            let timing = fencepost_tests::harness::settings("east", &[("FENCEPOST_PROFILE", profile)]).timing;
            let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
            let (tick_ms, margin_ms) = (ms(timing.tick_interval), ms(timing.clock_margin));
            let needed_ms = ms(timing.lease_ttl) + margin_ms;
            assert_eq!(own_deadline_ms, ms(timing.lease_ttl) - margin_ms);
            let apart_ms = tick_ms * apart_per_cent / 100;
            let (mut first, mut second) = (lab.process("west"), lab.process("west"));
            first.tick().await;
            let (mut ticks, mut seized_ms) = (0, None);
            while seized_ms.is_none() {
                assert!(lab.elapsed_ms() < 2 * needed_ms, "{told}: nobody seizes it");
                lab.advance_ms(tick_ms - apart_ms);
                let one = first.tick().await["role"] == "leader";
                ticks += 1;
                if ticks == 3 {
                    first.step_clock(forward_ms);
                    second.step_clock(forward_ms);
                }
                lab.advance_ms(apart_ms);
                let other = !one && second.tick().await["role"] == "leader";
                let led = leads(&east).await;
                assert_eq!(
                    led,
                    !(one || other) && lab.elapsed_ms() < own_deadline_ms,
                    "{told}: who reads the row knows"
                );
                seized_ms = (one || other).then(|| lab.elapsed_ms());
            }
            let (seized_ms, most_early_ms) = (seized_ms.unwrap(), tick_ms * 3 / 2);
            // A loop looks at whole ticks only, so what is gained may be lost again.
            assert!(
                (needed_ms - most_early_ms..=needed_ms + tick_ms).contains(&seized_ms),
                "{told}: after {seized_ms}ms, where {needed_ms}ms are to be waited"
            );
            if apart_per_cent == 0 {
                assert_eq!(
                    seized_ms, earliest_ms,
                    "{told}: all of it is gained where nothing passed between the looks"
                );
            }
            assert!(own_deadline_ms <= seized_ms + most_early_ms - 2 * margin_ms, "{told}: after {seized_ms}ms");
        }
    }

    // A holder that renews is alive, whatever the step.
    let lab = Lab::new(&[]);
    let (mut east, mut first, mut second) = (lab.process("east"), lab.process("west"), lab.process("west"));
    for second_of_run in 0..60 {
        lab.pass(1, &mut [&mut east, &mut first]).await;
        if second_of_run == 20 {
            first.step_clock(3_600_000);
            second.step_clock(3_600_000);
        }
        assert_eq!(standing(&second.tick().await), ("standby", None));
        assert_eq!(lab.row().await.token.get(), 1);
    }
}

/// Does this process lead, by its own word?
async fn leads(process: &Process) -> bool {
    process.lease(json!({ "command": "status" })).await.unwrap()["leading"].as_bool().unwrap()
}

/// Found in our own design: a TTL that was changed on a living holder left the row saying one time and the functions another,
/// and two instances led. Right: a holder believes in the shorter of the row's and its own, an observer waits for the longer;
/// the next tick writes the new one at once.
///
/// Kills: `deadline_by_the_own_ttl_alone`
#[tokio::test]
async fn case_45_a_changed_ttl_on_a_living_holder_makes_no_second_leader() {
    const TTLS: [(&str, u64); 2] = [("15s", 15_000), ("300s", 300_000)];
    for (row, row_ms) in TTLS {
        for (holder, holder_ms) in TTLS {
            for (observer, observer_ms) in TTLS {
                let lab = Lab::new(&[]);
                let told = format!("row {row}, holder {holder}, observer {observer}");
                lab.process_with("east", &[("FENCEPOST_LEASE_TTL", row)]).tick().await;
                // Deployed: east's functions have the new setting, and no tick has written it.
                let east = lab.process_with("east", &[("FENCEPOST_LEASE_TTL", holder)]);
                let mut west = lab.process_with("west", &[("FENCEPOST_LEASE_TTL", observer)]);
                west.tick().await;
                let (mut last_led_ms, mut seized_ms) = (0, None);
                while seized_ms.is_none() {
                    assert!(lab.elapsed_ms() < 2 * 300_000, "{told}: nobody seizes it within two of the longest TTLs");
                    lab.advance_ms(500);
                    if leads(&east).await {
                        last_led_ms = lab.elapsed_ms();
                    }
                    let is_whole_second = lab.elapsed_ms().is_multiple_of(1_000);
                    if is_whole_second && west.tick().await["role"] == "leader" {
                        assert!(!leads(&east).await, "{told}: two lead");
                        seized_ms = Some(lab.elapsed_ms());
                    }
                }
                assert_eq!(last_led_ms + 500, row_ms.min(holder_ms) - 500, "{told}: the shorter less the margin");
                assert_eq!(seized_ms, Some(row_ms.max(observer_ms) + 1_000), "{told}: the longer and the margin");
            }
        }
    }

    // A tick of the new functions writes the new TTL at once, not when the next renewal is due.
    let lab = Lab::new(&[]);
    lab.process_with("east", &[("FENCEPOST_LEASE_TTL", "15s")]).tick().await;
    let mut updated = lab.process_with("east", &[("FENCEPOST_LEASE_TTL", "300s")]);
    lab.advance_ms(100);
    assert_eq!(standing(&updated.tick().await), ("leader", Some(1)));
    assert_eq!(lab.row().await.lease_ttl, Duration::from_secs(300));
}
