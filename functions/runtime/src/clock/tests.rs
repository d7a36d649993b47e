use std::sync::Arc;

use futures::FutureExt as _;

use super::*;

#[test]
fn the_system_clock_shows_this_century_and_does_not_run_backwards() {
    let clock = SystemClock::new();
    let first = clock.now();
    let second = clock.now();
    assert!(first.wall > Timestamp::from_ms(1_700_000_000_000), "{first:?}");
    assert!(second.monotonic >= first.monotonic);
}

#[test]
fn a_sleeper_wakes_when_its_time_has_come_and_not_before() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_ms(1_000)));
    let mut sleep = clock.sleep(Duration::from_secs(5));
    assert!((&mut sleep).now_or_never().is_none());
    clock.advance(Duration::from_millis(4_999));
    assert!((&mut sleep).now_or_never().is_none(), "a millisecond early");
    clock.thaw_after(Duration::from_secs(60));
    assert!((&mut sleep).now_or_never().is_none(), "a freeze is no time for the monotonic clock");
    clock.advance(Duration::from_millis(1));
    assert!((&mut sleep).now_or_never().is_some());
}

#[test]
fn a_freeze_and_a_step_move_the_wall_clock_only() {
    let clock = ManualClock::new(Timestamp::from_ms(10_000));
    clock.advance(Duration::from_secs(1));
    clock.thaw_after(Duration::from_secs(9));
    assert_eq!(clock.now(), Reading { wall: Timestamp::from_ms(20_000), monotonic: Duration::from_secs(1) });
    clock.step_wall_to(Timestamp::from_ms(5));
    assert_eq!(clock.now(), Reading { wall: Timestamp::from_ms(5), monotonic: Duration::from_secs(1) });
}

#[test]
fn a_skipping_clock_passes_over_sleeps() {
    let clock = ManualClock::skipping(Timestamp::from_ms(0));
    assert!(clock.sleep(Duration::from_secs(270)).now_or_never().is_some());
    assert_eq!(clock.now().wall, Timestamp::from_ms(270_000));
}
