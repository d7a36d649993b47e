//! The drain: claim, confirm, send, commit. Every decision of a drainer, as pure functions and plans.
//!
//! The steps in the order in which a handler takes them; each needs what the one before it returned:
//!
//! 1. [`permit`]: may this process drain now?
//! 2. [`choose`]: which rows of a page; [`Choice::settle_exhausted`]; [`tokens_above`] where a row bears one
//! 3. [`after_claims`]: which of them are mine
//! 4. [`confirm`]: the lease read again, the tombstones: what to commit unsent, send, hand back
//! 5. [`Sending`]: waves of batches, each asked for by [`may_send`]
//! 6. [`tombstones`], [`commits`], [`commit_outcome`]
//! 7. [`Settlement`]: the rest of each batch; [`ShardState::absorb`], [`DrainAnswer::of`]
//!
//! Guarantees: nothing is decided after the deadline; a row is sent only after its claim was answered and the lease was read
//! again; a row leaves only by a commit on its own claim and token, or by a burial; what was certainly not sent is handed
//! back without losing an attempt; what may have been sent keeps its claim.
//!
//! What must stay out: calls, clocks, ids made here, and the payload in any text.

mod choose;
mod claim;
mod commit;
mod confirm;
mod counts;
mod notes;
mod order;
mod outcome;
mod permit;
mod plan;
mod policy;
mod redrive;
mod run;
mod send;
mod state;

pub use choose::*;
pub use claim::*;
pub use commit::*;
pub use confirm::*;
pub use counts::*;
pub use notes::*;
pub use order::*;
pub use outcome::*;
pub use permit::*;
pub use plan::*;
pub use policy::*;
pub use redrive::*;
pub use run::*;
pub use send::*;
pub use state::*;

#[cfg(test)]
mod tests;
