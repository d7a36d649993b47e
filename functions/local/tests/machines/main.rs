//! The shipped state machines, each run whole: the very files under `statemachines/`, functions that answer as a test says, and
//! virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod drain;
mod lease_cycle;
mod redrive;
mod shipped;
mod step_down;
mod takeover;
mod world;
