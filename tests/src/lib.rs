//! What the integration tests share: [`harness`], the shipped handlers over the memory stores with a clock that tests move.
//! [`simulation`] runs them with the state machines in virtual time, under faults.
//! [`crash`] runs the compiled functions as processes that it kills and freezes.
//! [`proxy`] spoils the traffic between the real SDK clients and the embedded services.
//! [`chance`] is the one source of what any of them leaves to chance.
//! The checks of the repository itself (tests/repository) use nothing of it.

#![expect(clippy::expect_used, clippy::panic, reason = "a harness that cannot be built is a failed test")]

pub mod chance;
pub mod crash;
pub mod harness;
pub mod proxy;
pub mod simulation;
