//! What the integration tests share: [`harness`], the shipped handlers over the memory stores with a clock that tests move.
//! The checks of the repository itself (tests/repository) use nothing of it.

#![expect(clippy::expect_used, reason = "a harness that cannot be built is a failed test")]

pub mod harness;
