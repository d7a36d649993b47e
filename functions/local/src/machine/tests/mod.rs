//! Every kind of state, field and rule on a small machine of its own, in virtual time.

mod errors;
mod expressions;
mod mutations;
mod refusals;
mod states;
mod timestamps;
mod world;
