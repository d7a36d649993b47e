//! placeholder: written by its owner
mod record;
pub use record::*;
