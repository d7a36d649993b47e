//! placeholder
pub mod machine;
