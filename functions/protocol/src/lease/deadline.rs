//! When a holder must stop believing in itself, and when it should renew.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{LeaseRecord, Rules};
use crate::time::{Timestamp, duration_ms};
use crate::timing::Timing;

/// The deadline of the holder of `record`, where `rules.me` is that holder and is still before it at `now`; else `None`.
pub fn is_mine_until(rules: &Rules, record: &LeaseRecord, now: Timestamp) -> Option<Timestamp> {
    if !record.is_owned_by(&rules.me) || was_set_back(&rules.timing, record.confirmed_at, now) {
        return None;
    }
    let deadline = deadline(&rules.timing, record.confirmed_at, record.lease_ttl);
    (now < deadline).then_some(deadline)
}

/// The deadline that follows from a confirmation at `confirmed_at` under a row that states `row_ttl`: `confirmed_at` +
/// min(row's TTL, mine) − `clock_margin`.
pub(crate) fn deadline(timing: &Timing, confirmed_at: Timestamp, row_ttl: Duration) -> Timestamp {
    confirmed_at.plus(row_ttl.min(timing.lease_ttl)).minus(timing.clock_margin)
}

/// Does `confirmed_at` lie ahead of `now` by more than the margin? Then this instance's clock was set back: the time left
/// cannot be known, so none is left.
pub(crate) fn was_set_back(timing: &Timing, confirmed_at: Timestamp, now: Timestamp) -> bool {
    confirmed_at > now.plus(timing.clock_margin)
}

/// When the holder of `record` should renew: `confirmed_at` + `renew_interval`, moved by up to half the jitter either way.
///
/// The jitter comes from the row's attempt id, so that every tick of one version agrees and no two instances beat together.
pub fn renew_due_at(rules: &Rules, record: &LeaseRecord) -> Timestamp {
    let hash = Sha256::digest(record.attempt.as_str().as_bytes());
    let roll = u64::from(u16::from_be_bytes([hash[0], hash[1]]));
    let jitter_ms = duration_ms(rules.timing.jitter) * roll / u64::from(u16::MAX);
    record
        .confirmed_at
        .plus(rules.timing.renew_interval)
        .minus(rules.timing.jitter / 2)
        .plus(Duration::from_millis(jitter_ms))
}

/// Renewals in a row that must have failed by `now`, given that one has just failed: no counter is stored, the age of the
/// last confirmation tells.
pub(super) fn failures(rules: &Rules, confirmed_at: Timestamp, now: Timestamp) -> u32 {
    let timing = &rules.timing;
    let age = now.since(confirmed_at) + timing.tick_interval + timing.jitter / 2;
    let interval_ms = duration_ms(timing.renew_interval).max(1);
    u32::try_from(duration_ms(age) / interval_ms).unwrap_or(u32::MAX)
}
