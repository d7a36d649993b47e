//! The edge that all functions share: what a process needs before and around a handler.
//!
//! | module | what it holds |
//! |---|---|
//! | [`clock`] | the two clocks of a host behind one trait, and one for tests |
//! | [`ids`] | fresh attempt and claim ids, and the dice for a back-off |
//! | [`settings`] | environment variables, parsed once into one checked [`settings::Settings`] |
//! | [`input`] | a request, read so that a refusal names the field by its path |
//! | [`failure`] | what a function answers when it fails: a stable error type and a sentence |
//! | [`telemetry`] | log lines, and metrics in CloudWatch's embedded format |
//! | [`wiring`] | adapters and edge, built from the settings |
//! | [`lambda`] | the loop around a handler: init phase, time limit, panics |
//!
//! Guarantees: this is the only crate that reads a clock or the environment; a wrong configuration is told whole, by name,
//! and never half used; a payload never reaches a log line; a handler stops before its function's own time limit, and
//! nothing of it lives on after its answer.
//!
//! What must stay out: decisions (`fencepost-protocol`), calls to AWS (`fencepost-storage`), anything about one function only.

pub mod clock;
pub mod failure;
pub mod ids;
pub mod input;
pub mod lambda;
pub mod settings;
pub mod telemetry;
pub mod wiring;
