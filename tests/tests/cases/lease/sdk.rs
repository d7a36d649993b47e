//! Cases in which the SDK itself matters: its retries, its time-outs, replies that it never got.

use std::time::{Duration, Instant};

use fencepost_runtime::clock::Clock as _;
use fencepost_runtime::telemetry::Metric;
use fencepost_tests::harness::Instance;
use fencepost_tests::proxy::{Fault, Match, Times};
use serde_json::json;

use super::lab::{events, standing};
use super::real::Real;

/// A renewal or an acquisition of the lease row, as a request.
fn lease_write() -> Match {
    Match::operation("UpdateItem").containing("lease-table").containing("\"LEASE\"")
}

fn fence_write() -> Match {
    Match::operation("UpdateItem").containing("fence#telemetry")
}

/// Reported of several lock clients: reads went on while writes were refused, so the holder saw its own name and went on for
/// ever. Right: its own deadline ends it, however often it reads its own name; nothing is claimed after it, and what comes
/// back with the writes is a new token.
///
/// Kills: `a_row_that_names_me_is_enough`
#[tokio::test]
async fn case_05_writes_fail_while_reads_succeed_and_the_own_deadline_wins() {
    let mut real = Real::start().await;
    let mut east = real.process("east", &[("FENCEPOST_RENEW_FAILURE_POLICY", "verify")]).await;
    assert_eq!(standing(&east.tick().await), ("leader", Some(1)));
    for id in ["a", "b"] {
        east.store(id).await.unwrap();
    }
    for refused in [lease_write(), fence_write()] {
        real.tables.proxy.place(refused, Times::Always, Fault::Throttle);
    }
    for elapsed_ms in (1_000..=13_000).step_by(1_000) {
        real.clock.advance(Duration::from_secs(1));
        let reply = east.tick().await;
        assert_eq!(standing(&reply), ("leader", Some(1)), "{elapsed_ms}ms after the confirmation, by a good read");
    }
    // 2.5s for one send no longer fit before the deadline, which lies 13.5s after the confirmation.
    let late = east.drain(json!({})).await.unwrap();
    assert_eq!((late["counts"]["sent"].as_u64(), real.queue.accepted().len()), (Some(0), 0));

    real.clock.advance(Duration::from_millis(500));
    let lost = east.tick().await;
    assert_eq!((standing(&lost), events(&lost)), (("standby", None), vec!["Lease Lost"]));
    assert_eq!(lost["events"][0]["detail"]["reason"], "deadline");
    let drained = east.drain(json!({})).await.unwrap();
    assert_eq!((&drained["leading"], drained["counts"]["claimed"].as_u64()), (&json!(false), Some(0)));
    assert!(real.row().await.owner.is_some(), "the row still names east");

    real.tables.proxy.clear();
    real.clock.advance(Duration::from_secs(1));
    assert_eq!(standing(&east.tick().await), ("leader", Some(2)));
    let drained = east.drain(json!({})).await.unwrap();
    assert_eq!((drained["counts"]["committed"].as_u64(), real.queue.accepted().len()), (Some(2), 2));
}

/// Reported: the write was applied, its reply was lost, the client's retry met its own write as a foreign one and the leader
/// stepped down for itself. Right: the version that stands there bears the write's own attempt id, so it is a success: one
/// renewal, the same token, no failure counted.
///
/// Kills: `an_own_lease_write_is_a_strangers`
#[tokio::test]
async fn case_06_renewal_applied_reply_lost() {
    for lost in [Fault::DropAfter, Fault::FailAfter] {
        let mut real = Real::start().await;
        let mut east = real.process("east", &[]).await;
        // The first writes of a group are no exception: fence, lease row and instance record.
        for first in [fence_write(), lease_write(), Match::operation("UpdateItem").containing("INSTANCE#east")] {
            real.tables.proxy.place(first, Times::Nth(1), lost.clone());
        }
        let acquired = east.tick().await;
        assert_eq!((standing(&acquired), events(&acquired)), (("leader", Some(1)), vec!["Lease Acquired"]), "{lost:?}");

        real.clock.advance(Duration::from_millis(4_500));
        let placed = real.tables.proxy.place(lease_write(), Times::Nth(1), lost.clone());
        let writes = real.tables.proxy.count("UpdateItem");
        let renewed = east.tick().await;
        assert_eq!((placed.hits(), standing(&renewed)), (1, ("leader", Some(1))), "{lost:?}");
        assert_eq!(
            real.tables.proxy.count("UpdateItem") - writes,
            3,
            "the renewal twice by the SDK, the instance record once"
        );
        let row = real.row().await;
        assert_eq!((row.renewal, row.token.get(), row.confirmed_at), (1, 1, real.clock.now().wall), "{lost:?}");
        assert_eq!((east.metrics.total(Metric::RenewFailures), east.metrics.total(Metric::LeaseLost)), (0.0, 0.0));
    }
}

/// The same where every reply of one tick is lost: the tick counts a failure, and the next one sees the renewal stand and
/// does not repeat it.
///
/// Kills: `a_renewal_that_stands_is_repeated`
#[tokio::test]
async fn case_06_every_reply_of_a_tick_lost() {
    let mut real = Real::start().await;
    let mut east = real.process("east", &[("FENCEPOST_RENEW_FAILURE_POLICY", "verify")]).await;
    east.tick().await;
    real.clock.advance(Duration::from_millis(4_500));
    let placed = real.tables.proxy.place(lease_write(), Times::First(3), Fault::DropAfter);
    assert_eq!(standing(&east.tick().await), ("leader", Some(1)));
    assert_eq!((placed.hits(), east.metrics.total(Metric::RenewFailures)), (3, 1.0));
    real.clock.advance(Duration::from_secs(1));
    assert_eq!(standing(&east.tick().await), ("leader", Some(1)));
    let row = real.row().await;
    assert_eq!((row.renewal, row.confirmed_at), (1, START_OF_RENEWAL));
    assert_eq!(east.metrics.total(Metric::RenewFailures), 1.0);
}

/// 4.5 seconds after the start.
const START_OF_RENEWAL: fencepost_protocol::time::Timestamp =
    fencepost_protocol::time::Timestamp::from_ms(fencepost_tests::harness::START.as_ms() + 4_500);

/// Reported: one call hung on a half-open connection until the lease was over. Right: a call has a time-out of its own, apart
/// from the lease's budget, and each try a third of it: one hung try costs nothing but itself, and a call that hangs whole
/// ends in time for the next tick.
///
/// Kills: `one_try_takes_the_whole_call`
#[tokio::test]
async fn case_08_one_hung_call_does_not_eat_the_deadline() {
    // A try long enough for a slow machine to answer within it.
    const TRY: Duration = Duration::from_millis(1_500);
    let extra = [
        ("FENCEPOST_RENEW_CALL_TIMEOUT", "4500ms"),
        ("FENCEPOST_RENEW_FAILURE_POLICY", "verify"),
        // Due at each tick, so that each tick writes.
        ("FENCEPOST_RENEW_INTERVAL", "1s"),
    ];
    let mut real = Real::start().await;
    let mut east = real.process_with_its_own_time_outs("east", &extra).await;
    assert_eq!(standing(&east.tick().await), ("leader", Some(1)));

    // One hung try: the SDK's second one makes the renewal, in the same call.
    let hung = real.tables.proxy.place(lease_write(), Times::Nth(1), Fault::BlackHole);
    let (reply, took) = next_tick(&real, &mut east).await;
    assert_eq!((standing(&reply), hung.hits(), real.row().await.renewal), (("leader", Some(1)), 1, 1));
    assert_eq!(east.metrics.total(Metric::RenewFailures), 0.0);
    assert!(took >= TRY, "{took:?}: a third of the call");

    // A call that hangs whole: over at its time-out, confirmed by a read, renewed by the next tick.
    let whole = real.tables.proxy.place(lease_write(), Times::Always, Fault::BlackHole);
    let (reply, took) = next_tick(&real, &mut east).await;
    assert_eq!(standing(&reply), ("leader", Some(1)));
    assert!((1..=3).contains(&whole.hits()), "tries of a third of the call: {}", whole.hits());
    assert!(took >= 2 * TRY, "{took:?}: the time of one call");
    assert_eq!((east.metrics.total(Metric::RenewFailures), real.row().await.renewal), (1.0, 1));
    real.tables.proxy.clear();
    let (reply, _) = next_tick(&real, &mut east).await;
    assert_eq!((standing(&reply), real.row().await.renewal), (("leader", Some(1)), 2));

    // A read that hangs does the same to a tick: it answers `unknown`, in time.
    let unread = real.tables.proxy.place(Match::operation("Query"), Times::Always, Fault::BlackHole);
    let (reply, _) = next_tick(&real, &mut east).await;
    assert_eq!(standing(&reply), ("unknown", None));
    assert!((1..=3).contains(&unread.hits()), "{}", unread.hits());
    real.tables.proxy.clear();
    let (reply, _) = next_tick(&real, &mut east).await;
    assert_eq!(standing(&reply), ("leader", Some(1)), "nothing of the deadline was lost");
    assert_eq!(real.row().await.renewal, 3);
}

/// The tick of the next second, and how long it took in real time. One that does not end by its calls' time-outs has hung.
async fn next_tick(real: &Real, east: &mut Instance) -> (serde_json::Value, Duration) {
    real.clock.advance(Duration::from_secs(1));
    let started = Instant::now();
    let reply = tokio::time::timeout(Duration::from_secs(60), east.tick()).await;
    (reply.expect("a tick ends by itself"), started.elapsed())
}
