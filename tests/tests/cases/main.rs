//! The numbered cases: what users of such systems reported, and what was found in our own design. One test for each, named
//! after its number, with the right answer in numbers.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod lease;
mod outbox;
