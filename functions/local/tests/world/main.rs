//! One machine's world as its owner and its publishers see it: real MQTT in, the real queue out.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of a test fail the test by panicking"
)]

mod control;
mod delivery;
mod failover;
mod harness;
mod restart;
mod start;
mod status;
mod stop;
