//! The reads that a decision asks for.

use fencepost_protocol::ids::{FencingToken, Shard};
use fencepost_protocol::lease::{Input, Rules, needs};
use fencepost_protocol::outbox::Slot;
use fencepost_storage::StoreError;
use futures::stream::{self, StreamExt as _};

use crate::LeaseFunction;

/// Shards looked at side by side.
const HEADS_AT_ONCE: usize = 16;

impl LeaseFunction {
    /// Reads what [`needs`] asks for. What cannot be read stays unknown; the decision then takes the cautious branch.
    pub(crate) async fn complete(&self, rules: &Rules, input: &mut Input) {
        let needs = needs(rules, input);
        if needs.fence {
            input.fence = logged(self.outbox.read_fence(&rules.lease).await);
        }
        if needs.heads
            && let Slot::Present(record) = &input.records.lease
        {
            input.in_flight = logged(self.any_in_flight(record.token).await);
        }
        if needs.source
            && let Some(source) = &self.source
        {
            input.source_enabled = logged(source.is_enabled().await);
        }
    }

    /// Is any row on the first page of any shard claimed under `token`? A courtesy to claims in flight, no guarantee.
    async fn any_in_flight(&self, token: FencingToken) -> Result<bool, StoreError> {
        let shards = (0..self.shards).filter_map(|index| Shard::new(self.rules.lease.clone(), index).ok());
        let mut heads = stream::iter(shards)
            .map(|shard| async move { self.outbox.page(&shard, None, self.head_rows).await })
            .buffer_unordered(HEADS_AT_ONCE);
        while let Some(page) = heads.next().await {
            let claimed =
                |row: &fencepost_protocol::outbox::OutboxRow| row.claim().is_some() && row.stamp.get() == token.get();
            if page?.rows.iter().any(|(_, slot)| slot.present().is_some_and(claimed)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The value, or nothing and a line in the log.
pub(crate) fn logged<T>(result: Result<T, StoreError>) -> Option<T> {
    result
        .inspect_err(
            |error| tracing::warn!(operation = error.operation, kind = error.kind.as_str(), %error, "read failed"),
        )
        .ok()
}
