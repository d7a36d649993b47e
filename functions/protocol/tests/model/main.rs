//! Every interleaving of lease, claim and commit within bounds, on the protocol's own decisions.
//!
//! The decisions are those that ship: [`fencepost_protocol::lease::decide`], [`fencepost_protocol::lease::conclude`], [`fencepost_protocol::drain::choose`], [`fencepost_protocol::drain::confirm`] and the
//! rest are called here as the handlers call them. The model adds a small store that applies the conditions which the
//! protocol's writes state, a queue, moving time, and whatever may go wrong between them: replies that are lost, writes that
//! arrive late or twice, processes that end, freeze or start anew, clocks that disagree, a lease table that is lost.
//!
//! What must hold is judged by [`fencepost_protocol::invariants::Audit`], the judge of the simulator and of the operator's audit, and by three
//! rules that only a world with all clocks in view can state ([`rules`]): no seizure before the former holder's own deadline,
//! no holder past its deadline, no acquisition by whoever abstains. What a run must have come across (a takeover, a fenced
//! commit, …) is noted by the steps themselves ([`ends`]); a model that misses one of its ends fails.
//!
//! Left out, because it decides nothing about who leads or what is sent: the telling of transitions, loops, the source.
//!
//! `tests/run model` runs all of it; `MODEL_BOUNDS=soak` takes larger bounds.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::result_large_err,
    reason = "a test: it fails by panicking, prints its figures, times itself, and answers with the row that won"
)]

mod bounds;
mod check;
mod drain_models;
mod draining;
mod ends;
mod lease_models;
mod redriving;
mod rules;
mod steps;
mod store;
mod ticking;
mod world;
