//! What a workflow begins with: which shards there are, and whether this instance leads. An instance that does not lead
//! measures how old the backlog is, so that an alarm rings also where nobody drains.

use fencepost_protocol::drain::{DrainPlan, DrainRequest, ShardGroup, permit, plan, shard_groups};
use fencepost_protocol::ids::Shard;
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::telemetry::Metric;
use futures::stream::{self, StreamExt as _};
use serde::Serialize;

use crate::DrainerFunction;

/// Shards whose heads are read side by side.
const HEADS_AT_ONCE: usize = 16;

/// Groups that a workflow gets at most: an inline map runs 40 side by side, and a later one would start late.
const GROUPS_MAX: usize = 40;

/// The answer to `plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanReply {
    /// The plan.
    #[serde(flatten)]
    pub plan: DrainPlan,
    /// This function's own time limit, rounded up: the workflow begins no call that could end after its own.
    pub drainer_limit_seconds: u64,
}

/// The answer to `shards`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GroupsReply {
    groups: Vec<ShardGroup>,
}

impl DrainerFunction {
    pub(crate) fn groups(&self) -> GroupsReply {
        let shards = usize::from(self.shard_counts.iter().copied().max().unwrap_or(0));
        let size = self.shards_per_group.max(shards.div_ceil(GROUPS_MAX));
        GroupsReply { groups: shard_groups(&self.lease, &self.shard_counts, size) }
    }

    pub(crate) async fn plan(&self) -> Result<PlanReply, FunctionError> {
        let lease = self.leases.read_lease(&self.lease).await?;
        let now = self.clock.now();
        if let Slot::Damaged(damage) = &lease {
            return Err(FunctionError::lease_record(damage));
        }
        let (terms, _) = DrainRequest::scheduled(Vec::new()).start(self.me.clone(), self.policy)?;
        let leading = permit(Ok(&lease), &terms, now);
        let groups = self.groups().groups;
        match &leading {
            Ok(permit) => tracing::debug!(token = permit.token().get(), "draining"),
            Err(reason) => {
                tracing::debug!(%reason, "not draining");
                self.measure_backlog(groups.iter().flat_map(|group| group.shards.clone()).collect()).await;
            }
        }
        let token = leading.ok().map(|permit| permit.token());
        let limit = self.policy.timing.drainer_limit;
        Ok(PlanReply {
            plan: plan(token, groups, self.policy.timing.stale_claim_duration, now.wall),
            drainer_limit_seconds: limit.as_secs() + u64::from(limit.subsec_nanos() > 0),
        })
    }

    /// Reads the head of every shard. A head that cannot be read leaves the metric out: missing data rings its alarm.
    async fn measure_backlog(&self, shards: Vec<Shard>) {
        let mut heads = stream::iter(shards)
            .map(|shard| async move { self.outbox.page(&shard, None, 1).await })
            .buffer_unordered(HEADS_AT_ONCE);
        let mut oldest: Option<Timestamp> = None;
        while let Some(head) = heads.next().await {
            match head {
                Ok(page) => {
                    let received = page.rows.first().map(|(position, _)| position.received_at());
                    oldest = [oldest, received].into_iter().flatten().min();
                }
                Err(error) => {
                    tracing::warn!(kind = error.kind.as_str(), %error, "the backlog cannot be measured");
                    return;
                }
            }
        }
        let age = oldest.map_or(0.0, |received| self.clock.now().wall.since(received).as_secs_f64());
        self.metrics.emit(&[(Metric::OldestOutstandingAge, age)]);
    }
}
