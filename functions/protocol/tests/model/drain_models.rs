//! Models of the drain: claims, sends and commits, with leases that change under them.

use crate::bounds::{Bounds, Drains, Fault, cast, either};
use crate::check::check;
use crate::ends::End;

#[test]
fn drain_two() {
    check(Bounds {
        whole_ticks: true,
        kinds: &[Fault::LoseTable, Fault::LostReply, Fault::Die],
        faults: either(2, 3),
        drains: Some(Drains { calls: 3, frozen: true, ..Drains::PLAIN }),
        ends: &[End::Committed, End::Fenced, End::StaleReclaim, End::NotPermitted],
        ..Bounds::new("drain_two", cast(&["a1", "b1"]), 2)
    });
}
