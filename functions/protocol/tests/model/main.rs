//! The model.
fn main() {}
