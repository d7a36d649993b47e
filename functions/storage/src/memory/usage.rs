//! What calls cost, counted as DynamoDB bills them.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use fencepost_protocol::limits::WRITE_UNIT_BYTES;

use crate::item::{Item, size_bytes};

/// Bytes that one unit of a strongly consistent read pays for.
const READ_UNIT_BYTES: usize = 4096;

/// Requests and units of one operation, or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// HTTP requests that it took.
    pub requests: u64,
    /// Read units, all strongly consistent.
    pub read_units: u64,
    /// Write units, those of failed conditions included.
    pub write_units: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.read_units += other.read_units;
        self.write_units += other.write_units;
    }
}

/// Usage by operation.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    by_operation: BTreeMap<&'static str, Usage>,
}

impl Meter {
    pub(super) fn requests(&mut self, operation: &'static str, requests: usize) {
        self.by_operation.entry(operation).or_default().requests += count(requests);
    }

    /// A read of `bytes` at once: one item, or all items of a query.
    pub(super) fn read(&mut self, operation: &'static str, bytes: usize) {
        self.by_operation.entry(operation).or_default().read_units += count(bytes.div_ceil(READ_UNIT_BYTES).max(1));
    }

    /// A write of one item: the larger of before and after counts, and one unit at least.
    pub(super) fn write(&mut self, operation: &'static str, before: Option<&Item>, after: Option<&Item>) {
        let bytes = [before, after].into_iter().flatten().map(size_bytes).max().unwrap_or(0);
        self.by_operation.entry(operation).or_default().write_units += count(bytes.div_ceil(WRITE_UNIT_BYTES).max(1));
    }

    pub(super) fn of(&self, operation: &str) -> Usage {
        self.by_operation.get(operation).copied().unwrap_or_default()
    }

    pub(super) fn total(&self) -> Usage {
        self.by_operation.values().fold(Usage::default(), |mut total, usage| {
            total += *usage;
            total
        })
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
