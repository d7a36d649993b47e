//! The plan of a run: which shards are drained together, until when, and how long a claim must outlive.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{FencingToken, LeaseName, Shard};
use crate::limits;
use crate::time::Timestamp;
use crate::timing::DRAIN_PASS_LENGTH;

/// The answer of the `plan` command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DrainPlan {
    /// Does this instance lead?
    pub leading: bool,
    /// Under which token.
    pub token: Option<FencingToken>,
    /// The shards, in groups; none where it does not lead.
    pub groups: Vec<ShardGroup>,
    /// How long to wait before claims count as settled.
    pub stale_wait_seconds: u64,
    /// When to begin no further call.
    pub until_ms: Timestamp,
}

/// Shards that one call drains.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardGroup {
    /// The shards.
    pub shards: Vec<Shard>,
}

/// Plans a run: `leading` is the permit's token, if there is one.
pub fn plan(
    leading: Option<FencingToken>,
    groups: Vec<ShardGroup>,
    stale_claim: Duration,
    now: Timestamp,
) -> DrainPlan {
    let stale_wait_seconds = stale_claim.as_secs() + u64::from(stale_claim.subsec_nanos() > 0);
    DrainPlan {
        leading: leading.is_some(),
        token: leading,
        groups: if leading.is_some() { groups } else { Vec::new() },
        stale_wait_seconds,
        until_ms: now.plus(DRAIN_PASS_LENGTH),
    }
}

/// The shards of a lease in groups of at most `group_size`, as equal as they can be. `counts` are the present shard count and,
/// after a change, the earlier one: old and new ranges are both drained.
pub fn shard_groups(lease: &LeaseName, counts: &[u16], group_size: usize) -> Vec<ShardGroup> {
    let count = counts.iter().copied().max().unwrap_or(0).min(limits::SHARDS_MAX);
    let shards: Vec<Shard> = (0..count).filter_map(|index| Shard::new(lease.clone(), index).ok()).collect();
    let groups = shards.len().div_ceil(group_size.max(1));
    if groups == 0 {
        return Vec::new();
    }
    shards.chunks(shards.len().div_ceil(groups)).map(|shards| ShardGroup { shards: shards.to_vec() }).collect()
}
