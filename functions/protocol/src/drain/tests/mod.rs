//! Tests of the drain.
