//! placeholder: written by its owner
mod plan;
pub use plan::*;
