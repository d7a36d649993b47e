//! One drain call: shards side by side, each page by page, until they are done, something says stop, or time runs out.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use fencepost_protocol::drain::{
    CallTerms, DrainAnswer, DrainRequest, Mode, NotPermitted, Permit, ShardState, Stop, permit, permit_again,
};
use fencepost_protocol::ids::Shard;
use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::Reading;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::lambda::Limit;
use fencepost_storage::StoreError;
use futures::stream::{FuturesUnordered, StreamExt as _};

use crate::DrainerFunction;
use crate::measure::Measures;

/// Pages in flight at a time, each of another shard: while one waits for the queue, the others claim and commit.
const PAGES_AT_ONCE: usize = 4;
/// A lease read longer ago than this is read again before a page.
const LEASE_READ_AGE_MAX: Duration = Duration::from_secs(1);
/// What a page needs beyond its claim budget and its sends: its commits and its hand-backs. The rule for `drainer_limit`
/// leaves 2s beside those two, of which the runtime keeps one for itself.
const PAGE_REST: Duration = Duration::from_millis(500);
/// How soon a pass is repeated where no stream wakes the drainer.
const AGAIN_WITHOUT_STREAM_SECS: u64 = 2;

/// Who asked for a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A workflow, for a whole group of shards.
    Workflow,
    /// The stream, for the shards that it named.
    Stream,
}

/// A shard on its way through a call.
struct Lane {
    shard: ShardState,
    leave: Leave,
    measures: Measures,
}

/// A permit and when its lease was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leave {
    pub(crate) permit: Permit,
    pub(crate) read_at: Reading,
}

impl DrainerFunction {
    pub(crate) async fn drain(
        &self,
        request: DrainRequest,
        limit: &Limit,
        caller: Caller,
    ) -> Result<DrainAnswer, FunctionError> {
        let started = self.clock.now();
        let whole_backlog = caller == Caller::Workflow
            && request.mode == Mode::Scheduled
            && request.cursor.is_none()
            && request.alone.is_none();
        let (terms, shards) = request.start(self.me.clone(), self.policy)?;
        let leave = match self.leave(&terms).await? {
            Ok(leave) => leave,
            Err(reason) => {
                tracing::debug!(%reason, "not draining");
                return Ok(DrainAnswer::refused());
            }
        };
        let lanes = shards.into_iter().map(|shard| Lane { shard, leave, measures: Measures::default() }).collect();
        let (shards, measures) = self.drain_lanes(&terms, lanes, limit).await;
        let shard_count = whole_backlog.then_some(shards.len());
        let mut answer = DrainAnswer::of(terms, shards, self.clock.now().wall);
        if !self.has_stream && answer.done && answer.leading {
            let soon = answer.again_after_seconds.unwrap_or(AGAIN_WITHOUT_STREAM_SECS);
            answer.again_after_seconds = Some(soon.min(AGAIN_WITHOUT_STREAM_SECS));
        }
        if let Some(stop) = &answer.stopped_by {
            tracing::info!(token = leave.permit.token().get(), stop, "drain stopped");
        }
        let took = self.clock.now().monotonic.saturating_sub(started.monotonic);
        self.metrics.emit(&measures.values(&answer, shard_count, took));
        if let Some(event) = measures.records_dead(&self.lease, &self.me, self.clock.now().wall) {
            self.report(&event, limit).await;
        }
        Ok(answer)
    }

    /// A page of each shard in turn, a few at a time: no shard waits for another's end.
    async fn drain_lanes(
        &self,
        terms: &CallTerms,
        mut waiting: VecDeque<Lane>,
        limit: &Limit,
    ) -> (Vec<ShardState>, Measures) {
        let mut running = FuturesUnordered::new();
        let (mut shards, mut measures) = (Vec::with_capacity(waiting.len()), Measures::default());
        loop {
            while running.len() < PAGES_AT_ONCE
                && let Some(lane) = waiting.pop_front()
            {
                if lane.shard.goes_on() && self.has_time_for_a_page(limit) {
                    running.push(self.next_page(terms, lane, limit));
                } else {
                    shards.push(lane.shard);
                    measures.merge(lane.measures);
                }
            }
            match running.next().await {
                Some(lane) => waiting.push_back(lane),
                None => return (shards, measures),
            }
        }
    }

    /// Drains the shards that a stream named, and as long as time allows what such a pass left behind: no further record
    /// of the stream may come to wake this function for them.
    pub(crate) async fn wake(&self, shards: Vec<Shard>, limit: &Limit) -> Result<(), FunctionError> {
        let mut request = DrainRequest::scheduled(shards.clone());
        let mut own_claims = BTreeSet::new();
        loop {
            let mut answer = self.drain(request, limit, Caller::Stream).await?;
            own_claims.extend(std::mem::take(&mut answer.own_claims));
            let again = answer.wake_again_after(self.policy.ordered, &own_claims);
            request = DrainRequest { cursor: answer.cursor, ..DrainRequest::scheduled(shards.clone()) };
            if answer.done {
                let Some(pause) = again else { return Ok(()) };
                if limit.remaining(self.clock.now()) < pause + self.page_time() {
                    return Ok(());
                }
                self.clock.sleep(pause).await;
            }
            if !self.has_time_for_a_page(limit) {
                return Ok(());
            }
        }
    }

    /// Reads the lease and asks for a permit. What cannot be read or does not decode is an error for the workflow to retry.
    async fn leave(&self, terms: &CallTerms) -> Result<Result<Leave, NotPermitted>, FunctionError> {
        let lease = self.leases.read_lease(&self.lease).await?;
        if let Slot::Damaged(damage) = &lease {
            return Err(FunctionError::lease_record(damage));
        }
        let now = self.clock.now();
        Ok(permit(Ok(&lease), terms, now).map(|permit| Leave { permit, read_at: now }))
    }

    async fn next_page(&self, terms: &CallTerms, mut lane: Lane, limit: &Limit) -> Lane {
        if let Err(reason) = self.refresh(terms, &mut lane.leave).await {
            lane.shard.stop = Some(Stop::NotPermitted(reason));
            return lane;
        }
        let Lane { shard, leave, measures } = &mut lane;
        match self.outbox.page(&shard.shard, shard.after.as_ref(), terms.policy.page_rows).await {
            Ok(page) => self.drain_page(terms, shard, leave, page, limit, measures).await,
            Err(error) => {
                tracing::warn!(shard = %shard.shard, kind = error.kind.as_str(), %error, "the shard cannot be read");
                shard.stop = Some(Stop::Store(error.kind));
            }
        }
        lane
    }

    /// Reads the lease again where the last look is too old. Work of one call stays under one token.
    async fn refresh(&self, terms: &CallTerms, leave: &mut Leave) -> Result<(), NotPermitted> {
        if self.clock.now().monotonic.saturating_sub(leave.read_at.monotonic) < LEASE_READ_AGE_MAX {
            return Ok(());
        }
        let lease = self.leases.read_lease(&self.lease).await;
        let now = self.clock.now();
        let permit = permit_again(lease_kind(&lease), &leave.permit, terms, now)?;
        *leave = Leave { permit, read_at: now };
        Ok(())
    }

    pub(crate) fn has_time_for_a_page(&self, limit: &Limit) -> bool {
        limit.remaining(self.clock.now()) >= self.page_time()
    }

    fn page_time(&self) -> Duration {
        self.policy.timing.claim_budget + self.policy.timing.send_timeout + PAGE_REST
    }
}

/// A lease read as the protocol takes it.
pub(crate) fn lease_kind(
    read: &Result<Slot<LeaseRecord>, StoreError>,
) -> Result<&Slot<LeaseRecord>, fencepost_protocol::failure::FailureKind> {
    read.as_ref().map_err(|error| error.kind)
}
