//! The lease: clocks, renewals, restarts, handover, damage, tokens, settings. One test for each case that users of such systems
//! reported, at the outermost layer where it can be true.

mod clocks;
mod damage;
mod handover;
mod holder;
mod lab;
mod loops;
mod names;
mod pauses;
mod real;
mod sdk;
mod settings;
mod takeovers;
