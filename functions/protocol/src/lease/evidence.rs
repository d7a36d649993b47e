//! How an observer learns that a holder is dead without comparing clocks: by counting, on its own clock alone, for how long
//! the holder's liveness tuple did not change.
//!
//! The count is kept in the instance record, so a cold start loses none of it. Each look adds at most one and a half ticks,
//! so a clock that jumps forward brings a seizure forward by what that look did not really wait of them: half a tick for a
//! loop that ticks alone, the whole tick and a half where another loop looked just before. A clock that jumps back begins anew.

use std::time::Duration;

use super::{Evidence, GroupRecords, LeaseRecord, Liveness, Rules};
use crate::ids::Identity;
use crate::time::{Reading, Timestamp};

/// What a look at another's lease showed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Maturity {
    /// The evidence to keep.
    pub evidence: Evidence,
    /// For how long the holder must stand still: max(row's TTL, mine) + `clock_margin`.
    pub needed: Duration,
    /// Is it long enough to seize?
    pub mature: bool,
}

/// Counts one look at `record`, which `owner` (not me) holds, on top of what was counted before.
///
/// `before` and `after` are this host's clocks around the read.
pub fn observe(
    rules: &Rules,
    records: &GroupRecords,
    record: &LeaseRecord,
    owner: &Identity,
    previous: Option<&Evidence>,
    before: Reading,
    after: Reading,
) -> Maturity {
    let seen = Liveness {
        owner: owner.clone(),
        token: record.token,
        renewal: record.renewal,
        namesake_generation: namesake_generation(rules, records, owner),
    };
    let evidence = match previous {
        Some(known) if known.of == seen && !is_behind(rules, before.wall, known.counted_to) => Evidence {
            of: seen,
            unchanged_for: known.unchanged_for
                + before.wall.since(known.counted_to).min(rules.timing.tick_interval.mul_f64(1.5)),
            counted_to: known.counted_to.max(before.wall),
        },
        // Counted from the clock *after* the read: the holder may have written up to the moment of the reply.
        _ => Evidence { of: seen, counted_to: after.wall, unchanged_for: Duration::ZERO },
    };
    let needed = record.lease_ttl.max(rules.timing.lease_ttl) + rules.timing.clock_margin;
    let mature = evidence.unchanged_for >= needed;
    Maturity { evidence, needed, mature }
}

/// Was the clock set back? Hosts of one instance may disagree by the margin; further back is a step.
fn is_behind(rules: &Rules, now: Timestamp, counted_to: Timestamp) -> bool {
    now.plus(rules.timing.clock_margin) < counted_to
}

/// The generation of the instance record of a holder that bears my own name under another stack.
fn namesake_generation(rules: &Rules, records: &GroupRecords, owner: &Identity) -> Option<u64> {
    if owner.name != rules.me.name {
        return None;
    }
    records
        .instances
        .iter()
        .find(|(identity, _)| identity == owner)
        .and_then(|(_, slot)| slot.present())
        .map(|r| r.generation)
}
