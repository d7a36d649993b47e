//! Models of the lease alone: ticks whose calls interleave, and what may come between them.

use crate::bounds::{Bounds, Fault, cast, either};
use crate::check::check;
use crate::ends::End;

#[test]
fn lease_two() {
    check(Bounds {
        kinds: &[Fault::LostReply, Fault::Late, Fault::Twice, Fault::Die, Fault::Crash, Fault::SlowRead],
        faults: either(1, 2),
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
        ..Bounds::new("lease_two", cast(&["a1", "b1"]), either(9, 10))
    });
}
