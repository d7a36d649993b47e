//! Dead records: back to life by an operator's act, or gone for good.
//!
//! A redrive first puts the outstanding row, then deletes the dead one; it may be cut off between the two and done again.
//! Guarantee: the dead row goes only when the outstanding one is known to be this redrive's.

use serde::{Deserialize, Serialize};

use crate::drain::Redrive;
use crate::ids::{Malformed, Position, RowKey, Shard, Stamp};
use crate::outbox::{DeadRow, DeathReason, OutboxRow, Slot, Status, Tombstone};
use crate::time::Timestamp;

/// Which dead rows an operator means; absent fields mean all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedriveFilter {
    /// Dead for this reason.
    pub reason: Option<DeathReason>,
    /// Dead before this moment.
    pub before_ms: Option<Timestamp>,
    /// With a topic that begins so.
    pub topic_prefix: Option<String>,
}

impl RedriveFilter {
    /// Does the operator mean this one?
    pub fn matches(&self, dead: &DeadRow) -> bool {
        self.reason.is_none_or(|reason| dead.reason == reason)
            && self.before_ms.is_none_or(|before| dead.died_at < before)
            && self.topic_prefix.as_deref().is_none_or(|prefix| dead.row.topic.starts_with(prefix))
    }
}

/// The fields of the `redrive` command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedriveRequest {
    /// The shards to go through, in order.
    pub shards: Vec<Shard>,
    /// Where the earlier call ended.
    #[serde(default)]
    pub cursor: Option<RedriveCursor>,
    /// Dead rows to redrive in this call, at least 1.
    pub limit: u32,
    /// Which ones.
    #[serde(default, deserialize_with = "crate::object::required")]
    pub filter: RedriveFilter,
    /// Only count.
    #[serde(default)]
    pub dry_run: bool,
}

/// How far a redrive has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RedriveCursor {
    /// In this shard; those named before it are done.
    pub shard: Shard,
    /// After this position.
    pub after: Option<Position>,
}

impl RedriveRequest {
    /// The shards that are left, the first one from its position on.
    ///
    /// # Errors
    /// [`Malformed`] where the cursor is of a shard that the request does not name, or the limit is 0.
    pub fn remaining(&self) -> Result<Vec<RedriveCursor>, Malformed> {
        if self.limit == 0 {
            return Err(Malformed::new("limit", "is 0; it must be at least 1"));
        }
        let (first, after) = match &self.cursor {
            None => (0, None),
            Some(cursor) => {
                let at = self.shards.iter().position(|shard| *shard == cursor.shard);
                let missing = || Malformed::new("cursor.shard", format!("{} is not among the shards", cursor.shard));
                (at.ok_or_else(missing)?, cursor.after.clone())
            }
        };
        let left = self.shards.iter().skip(first).cloned();
        let mut remaining: Vec<_> = left.map(|shard| RedriveCursor { shard, after: None }).collect();
        if let Some(cursor) = remaining.first_mut() {
            cursor.after = after;
        }
        Ok(remaining)
    }
}

/// The answer of the `redrive` command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RedriveAnswer {
    /// All shards were gone through.
    pub done: bool,
    /// To be passed back; `None` when done.
    pub cursor: Option<RedriveCursor>,
    /// Put back (in a dry run: would be).
    pub redriven: u64,
    /// Left dead: not meant, damaged, or contradicted by what stands at their place.
    pub skipped: u64,
    /// Dead rows whose record lives or was delivered.
    pub phantoms: u64,
}

/// What to do with a dead row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RedriveDecision {
    /// Put the row; then ask [`redriven_is_mine`] and delete the dead row.
    Redrive(Redrive),
    /// An earlier redrive put the row and was cut off: only delete the dead row on condition of this `redriven`.
    DeleteDead {
        /// As read.
        dead_redriven: u32,
    },
    /// The record lives, or the queue accepted it: listed, never redriven.
    Phantom,
    /// Left as it is, for this reason.
    Skip(&'static str),
}

/// Decides about a dead row, beside what stands at its place among the outstanding rows and its tombstone. `lease` is the
/// token of the lease row, or none.
///
/// The spec's phantom is a dead row beside a live one, or beside a tombstone of a later life. A tombstone of the same life
/// and bytes proves as much, and a redrive would be a second send of an accepted message: a phantom too.
pub fn redrive(
    dead: &DeadRow,
    live: &Slot<OutboxRow>,
    tombstone: Option<&Slot<Tombstone>>,
    lease: Stamp,
) -> RedriveDecision {
    let Some(redriven) = dead.row.redriven.checked_add(1) else {
        return RedriveDecision::Skip("its counter of redrives is at its end");
    };
    match live {
        Slot::Damaged(_) => return RedriveDecision::Skip("a damaged row stands at its place"),
        Slot::Present(row) if is_successor(row, &dead.row, redriven) => {
            return RedriveDecision::DeleteDead { dead_redriven: dead.row.redriven };
        }
        Slot::Present(_) => return RedriveDecision::Phantom,
        Slot::Absent => {}
    }
    match tombstone {
        Some(Slot::Damaged(_)) => return RedriveDecision::Skip("its tombstone is damaged"),
        Some(Slot::Present(stone)) if stone.redriven > dead.row.redriven || stone.proves(&dead.row) => {
            return RedriveDecision::Phantom;
        }
        Some(Slot::Present(_) | Slot::Absent) | None => {}
    }
    let row = OutboxRow {
        status: Status::Pending,
        stamp: dead.row.stamp.max(lease),
        attempts: 0,
        stale: 0,
        first_attempt_at: None,
        not_before: None,
        redriven,
        ..dead.row.clone()
    };
    RedriveDecision::Redrive(Redrive { row, dead_redriven: dead.row.redriven })
}

fn is_successor(live: &OutboxRow, dead: &OutboxRow, redriven: u32) -> bool {
    live.redriven == redriven && live.payload == dead.payload
}

/// After the put: is the outstanding row this redrive's, so that the dead one may go? `exists` is what stood there already;
/// `None`: stored.
pub fn redriven_is_mine(redrive: &Redrive, exists: Option<&Slot<OutboxRow>>) -> bool {
    match exists {
        None => true,
        Some(Slot::Present(row)) => is_successor(row, &redrive.row, redrive.row.redriven),
        Some(Slot::Absent | Slot::Damaged(_)) => false,
    }
}

/// Was a send of it of unknown outcome, so that a redrive may be a second send?
pub fn redrive_is_a_risk(dead: &DeadRow) -> bool {
    dead.row.stale > 0 || dead.reason == DeathReason::Exhausted && matches!(dead.row.status, Status::Claimed(_))
}

/// Delete a dead row for good, on condition of its `redriven` as read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Purge {
    /// Which.
    pub key: RowKey,
    /// As read.
    pub dead_redriven: u32,
    /// A message goes with it; `false` for a phantom, whose record lives or was delivered.
    pub ends_a_message: bool,
}

/// Plans a purge.
pub fn purge(dead: &DeadRow, live: &Slot<OutboxRow>, tombstone: Option<&Slot<Tombstone>>) -> Purge {
    let is_phantom = matches!(live, Slot::Present(_))
        || tombstone
            .and_then(Slot::present)
            .is_some_and(|stone| stone.redriven > dead.row.redriven || stone.proves(&dead.row));
    Purge { key: dead.row.key.clone(), dead_redriven: dead.row.redriven, ends_a_message: !is_phantom }
}
