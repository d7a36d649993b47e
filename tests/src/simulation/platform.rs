//! The state machines of the shipped files, parsed once for all runs.

use std::sync::{Arc, OnceLock};

use fencepost_local::machine::Definition;
use fencepost_local::shipped::{Machine, Machines};

/// A machine's definition.
pub(crate) fn definition(machine: Machine) -> Arc<Definition> {
    static MACHINES: OnceLock<Machines> = OnceLock::new();
    MACHINES.get_or_init(|| Machines::parse().expect("the shipped machines are understood")).of(machine)
}
