//! Models of the drain: claims, sends and commits, with leases that change under them.

use crate::bounds::{Bounds, Drains, Fault, cast, either};
use crate::check::check;
use crate::ends::End;

/// Two instances and one message. The lease passes at once where its table is lost, so a holder meets its successor at every
/// point of its call; claimers come back whose claim was settled.
#[test]
fn drain_two() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::LoseTable, Fault::LostReply, Fault::Die],
        faults: 3,
        drains: Some(Drains { calls: either(3, 4), frozen: true, redeliveries: 1, ..Drains::PLAIN }),
        ends: &[
            End::Committed,
            End::Fenced,
            End::StaleReclaim,
            End::NotPermitted,
            End::DuplicateRisk,
            End::HandedBack,
            End::Kept,
            End::Proven,
        ],
        ..Bounds::new("drain_two", cast(&["a1", "b1"]), 0)
    });
}

/// One instance whose calls end anywhere, lose replies and are refused, and a broker that delivers a message again.
#[test]
fn drain_faults() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::LostReply, Fault::Late, Fault::Twice, Fault::Throttle, Fault::Unreadable, Fault::Die],
        faults: either(2, 3),
        drains: Some(Drains { calls: 3, at_once: 2, redeliveries: 1, ..Drains::PLAIN }),
        ends: &[
            End::Committed,
            End::ClaimFound,
            End::ClaimConflict,
            End::CommitFound,
            End::Proven,
            End::StaleReclaim,
            End::HandedBack,
            End::Kept,
            End::Duplicate,
        ],
        ..Bounds::new("drain_faults", cast(&["a1"]), 0)
    });
}

/// Time passes between any two calls, with clocks that step and processes that stand still: nothing is decided too late.
#[test]
fn drain_deadline() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::Freeze, Fault::ClockStep],
        faults: either(1, 2),
        drains: Some(Drains { calls: 2, ..Drains::PLAIN }),
        ends: &[End::Committed, End::TooLate, End::NotPermitted, End::HandedBack],
        ..Bounds::new("drain_deadline", cast(&["a1"]), either(5, 6))
    });
}

/// Three messages of one key, two calls at once: none overtakes another.
#[test]
fn drain_ordered() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::Refuse, Fault::Throttle, Fault::LostReply, Fault::Die],
        faults: either(1, 2),
        drains: Some(Drains { messages: 3, ordered: true, calls: 3, at_once: 2, ..Drains::PLAIN }),
        ends: &[End::Committed, End::KeyBlocked, End::HandedBack, End::StaleReclaim],
        ..Bounds::new("drain_ordered", cast(&["a1"]), 0)
    });
}

/// A record dies and is redriven, with each half of both delayed, lost or done again.
#[test]
fn redrive_race() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::Refuse, Fault::LostReply, Fault::Late, Fault::Die],
        faults: either(2, 3),
        drains: Some(Drains { calls: 3, at_once: 2, redrives: 2, ..Drains::PLAIN }),
        ends: &[End::Died, End::Redriven, End::Phantom, End::LateRedrive, End::Committed],
        ..Bounds::new("redrive_race", cast(&["a1"]), 0)
    });
}

/// Real takeovers: a holder crashes, or stands still, with a call under way, and its successor drains what it left.
#[test]
fn lease_and_drain() {
    check(Bounds {
        whole_ticks: true,
        steady: &[1],
        wall_ahead_s: &[0, 600],
        kinds: &[Fault::Die],
        faults: 1,
        drains: Some(Drains { calls: 2, frozen: true, ..Drains::PLAIN }),
        ends: &[End::Takeover, End::Fenced, End::StaleReclaim, End::Committed, End::OwnDeadline],
        ..Bounds::new("lease_and_drain", cast(&["a1", "b1"]), either(6, 7))
    });
}

/// A planned handover with rows in flight: the drainer claims nothing more, the tick waits for what is claimed.
#[test]
fn drain_step_down() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::LostReply, Fault::Die],
        faults: 1,
        commands: 1,
        drains: Some(Drains { calls: 2, ..Drains::PLAIN }),
        ends: &[End::Released, End::ReleasedAtOnce, End::NotPermitted, End::HandedBack, End::Abstention],
        ..Bounds::new("drain_step_down", cast(&["a1"]), either(3, 4))
    });
}
