//! Fresh identifiers and chance.
//!
//! Every lease write and every page of claims bears an id that no other write ever bears; a write whose reply was lost is
//! recognised by it. [`RandomIds`] draws them (version 4 UUIDs); [`SeededIds`] counts them, so that a test runs the same way
//! twice.

use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_protocol::ids::{AttemptId, ClaimId};
use uuid::Uuid;

/// Where fresh ids come from.
pub trait Ids: Send + Sync {
    /// An id for one lease, fence or instance write.
    fn attempt(&self) -> AttemptId;
    /// An id for one page of claims.
    fn claim(&self) -> ClaimId;
    /// A uniformly random number: where in its range a back-off falls.
    fn roll(&self) -> u64;
}

/// Ids by chance: 122 random bits each.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn attempt(&self) -> AttemptId {
        attempt_id(Uuid::new_v4().to_string())
    }

    fn claim(&self) -> ClaimId {
        claim_id(Uuid::new_v4().to_string())
    }

    fn roll(&self) -> u64 {
        // The version stands in byte 6 and the variant in byte 8; the bytes taken here are random throughout.
        let [first, _, _, _, _, _, _, _, _, a, b, c, d, e, f, g] = Uuid::new_v4().into_bytes();
        u64::from_be_bytes([first, a, b, c, d, e, f, g])
    }
}

/// Ids by count: the same seed gives the same ids and rolls in the same order. Two generators with different seeds never
/// give the same id.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    count: AtomicU64,
}

impl SeededIds {
    /// A generator of its own for each `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

impl Ids for SeededIds {
    fn attempt(&self) -> AttemptId {
        attempt_id(format!("attempt-{}-{}", self.seed, self.next()))
    }

    fn claim(&self) -> ClaimId {
        claim_id(format!("claim-{}-{}", self.seed, self.next()))
    }

    fn roll(&self) -> u64 {
        mix(self.seed.rotate_left(32) ^ self.next())
    }
}

/// One step of the SplitMix64 generator: neighbouring inputs give unrelated outputs.
fn mix(input: u64) -> u64 {
    let a = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

#[expect(
    clippy::expect_used,
    reason = "ids made here have at most 49 letters, digits and '-'; a test proves the longest"
)]
fn attempt_id(text: String) -> AttemptId {
    AttemptId::new(text).expect("a generated id is well formed")
}

#[expect(
    clippy::expect_used,
    reason = "ids made here have at most 49 letters, digits and '-'; a test proves the longest"
)]
fn claim_id(text: String) -> ClaimId {
    ClaimId::new(text).expect("a generated id is well formed")
}

#[cfg(test)]
mod tests;
