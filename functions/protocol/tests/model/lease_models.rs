//! Models of the lease alone: ticks whose calls interleave, and what may come between them.

use std::time::Duration;

use fencepost_protocol::timing::RenewFailurePolicy;

use crate::bounds::{Bounds, Fault, cast, either, instance, timing};
use crate::check::check;
use crate::ends::End;

/// Every interleaving of two instances' calls, with a reply lost, a write late or twice, or a process that ends.
#[test]
fn lease_two() {
    check(Bounds {
        steady: either(&[1], &[]),
        kinds: &[Fault::LostReply, Fault::Late, Fault::Twice, Fault::Die],
        faults: 1,
        ends: &[
            End::Takeover,
            End::OwnDeadline,
            End::Reacquired,
            End::TakenUp,
            End::KeptByReading,
            End::RefusedWrite,
            End::LateWriteRefused,
            End::FenceRefused,
        ],
        ..Bounds::new("lease_two", cast(&["a1", "b1"]), either(7, 6))
    });
}

/// Two ticks of one instance at once, as loops overlap and schedules fire twice.
#[test]
fn lease_two_loops() {
    check(Bounds {
        ticks_at_once: 2,
        pace: 2,
        kinds: &[Fault::LostReply, Fault::Late, Fault::Twice, Fault::Unreadable, Fault::ForgetEvidence],
        faults: either(1, 2),
        ends: &[End::RefusedWrite, End::FenceRefused, End::EvidenceDiscarded, End::EvidenceForgotten, End::TakenUp],
        ..Bounds::new("lease_two_loops", cast(&["a1"]), either(2, 3))
    });
}

/// Three instances, one of which demotes itself at its first failed renewal.
#[test]
fn lease_three() {
    let mut cast = cast(&["a1", "b1", "c1"]);
    cast[0] = instance("a1", RenewFailurePolicy::Demote);
    check(Bounds {
        whole_ticks: true,
        steady: either(&[1], &[]),
        kinds: &[Fault::LostReply, Fault::Crash, Fault::Unreadable],
        faults: 1,
        ends: &[End::Takeover, End::OwnDeadline, End::Reacquired, End::DemotedByFailure, End::DemotedUnread],
        ..Bounds::new("lease_three", cast, either(7, 6))
    });
}

/// Hosts of one instance disagree by the whole margin, instances by minutes: the margins of both sides are needed.
#[test]
fn lease_clocks_apart() {
    check(Bounds {
        whole_ticks: true,
        steady: either(&[1], &[]),
        pace: 2,
        two_hosts: true,
        wall_ahead_s: &[0, 600],
        kinds: &[Fault::SlowRead],
        faults: 1,
        ends: &[End::Takeover, End::OwnDeadline, End::Reacquired],
        ..Bounds::new("lease_clocks_apart", cast(&["a1", "b1"]), either(6, 7))
    });
}

/// Wall clocks that step in either direction, and processes that stand still.
#[test]
fn lease_clock_steps() {
    check(Bounds {
        whole_ticks: true,
        wall_ahead_s: &[0, -600],
        kinds: &[Fault::ClockStep, Fault::Freeze, Fault::Unreadable],
        faults: either(1, 2),
        ends: &[End::Takeover, End::OwnDeadline, End::Reacquired, End::DemotedUnread],
        ..Bounds::new("lease_clock_steps", cast(&["a1", "b1"]), either(7, 8))
    });
}

/// The lease table is lost or damaged, and a write of the time before arrives late.
#[test]
fn lease_lost_table() {
    check(Bounds {
        kinds: &[Fault::LoseTable, Fault::Damage, Fault::LostReply, Fault::Late],
        faults: either(2, 3),
        ends: &[End::AboveTheFence, End::DamageRefused, End::FenceRefused],
        ..Bounds::new("lease_lost_table", cast(&["a1", "b1"]), either(1, 2))
    });
}

/// Step-downs that are marked, finished, taken back, abandoned, or arrive late.
#[test]
fn lease_step_down() {
    check(Bounds {
        whole_ticks: true,
        steady: &[1],
        kinds: either(&[Fault::Late, Fault::Crash], &[Fault::LostReply, Fault::Late, Fault::Crash]),
        faults: 1,
        commands: 2,
        ends: &[
            End::Released,
            End::ReleasedAtOnce,
            End::FollowedAtOnce,
            End::Abstention,
            End::Resumed,
            End::MarkTakenBack,
            End::LateRelease,
            End::TakeoverByPatience,
        ],
        ..Bounds::new("lease_step_down", cast(&["a1", "b1"]), 6)
    });
}

/// Two stacks bear one name: one holds, the other waits while the first one's loop ticks, and seizes when it does not.
#[test]
fn lease_namesake() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::Crash, Fault::LostReply],
        faults: 1,
        ends: &[End::NamesakeWaits, End::NamesakeSeized],
        ..Bounds::new("lease_namesake", cast(&["a1", "a2"]), 8)
    });
}

/// P6: with one instance that ticks in every second, whatever the other does, nobody waits longer than the bound, also where
/// one tick reads slowly or keeps nothing of its look.
#[test]
fn takeover_bound() {
    let bounds = takeover("takeover_bound", either(14, 16), Duration::ZERO);
    check(Bounds { faults: either(1, 2), disturbed_looks: either(None, Some(1)), ..bounds });
}

/// P6 counts ticks that look and keep what they saw, with calls that take no time. Of those that do not it has room for one; a
/// second one costs its own length.
#[test]
fn takeover_twice_disturbed() {
    let tick = timing(RenewFailurePolicy::Verify).tick_interval;
    check(Bounds { faults: 2, ..takeover("takeover_twice_disturbed", 16, tick) });
}

/// A crash beside a standby that ticks in every second, to be taken over within the bound and `beyond`.
fn takeover(name: &'static str, seconds: u64, beyond: Duration) -> Bounds {
    let timing = timing(RenewFailurePolicy::Verify);
    let holder_leads = timing.lease_ttl - timing.clock_margin;
    Bounds {
        whole_ticks: true,
        steady: &[1],
        wall_ahead_s: &[600, 0],
        kinds: &[Fault::Crash, Fault::SlowRead, Fault::ForgetEvidence],
        vacancy_max: Some(timing.warm_takeover_bound(Duration::ZERO) - holder_leads + beyond),
        ends: &[End::Takeover, End::EvidenceForgotten],
        ..Bounds::new(name, cast(&["a1", "b1"]), seconds)
    }
}

/// P7: with both ticking in every second, a step-down with rows in flight is over within the grace and two ticks.
#[test]
fn handover_bound() {
    let timing = timing(RenewFailurePolicy::Verify);
    check(Bounds {
        whole_ticks: true,
        steady: &[0, 1],
        commands: 2,
        vacancy_max: Some(timing.handover_bound(false, Duration::ZERO)),
        ends: &[End::Released, End::ReleasedAtOnce, End::Abstention],
        ..Bounds::new("handover_bound", cast(&["a1", "b1"]), either(10, 14))
    });
}
