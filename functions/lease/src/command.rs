//! Everything that is asked for outside the loop.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::FencingToken;
use fencepost_protocol::lease::{
    Command, LeaseOutcome, LeaseRecord, Purpose, SourceMode, StepDownReason, decide, is_mine_until,
};
use fencepost_protocol::outbox::Slot;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::lambda::Limit;
use fencepost_storage::StoreError;

use crate::LeaseFunction;
use crate::reply::{LeaseReply, MarkReply, SourceReply, StatusReply, StepDownReply, StepDownState, WriteReply};

/// How often a command whose condition was lost reads and decides again: a tick may write at the same moment.
const TRIES: usize = 5;

/// What a command came to: the purpose that was written, if any, and the row as it stands.
struct Settled {
    purpose: Option<Purpose>,
    record: Option<LeaseRecord>,
}

impl LeaseFunction {
    pub(crate) async fn step_down(&self, reason: StepDownReason) -> Result<StepDownReply, FunctionError> {
        let settled = self.settle(Command::StepDown(reason)).await?;
        let record = settled.record.as_ref();
        let mine = record.is_some_and(|record| record.is_owned_by(&self.rules.me));
        let released_by_me =
            record.and_then(|record| record.released.as_ref()).is_some_and(|released| released.by == self.rules.me);
        let state = match settled.purpose {
            Some(Purpose::Release(_)) => StepDownState::Released,
            Some(_) => StepDownState::Marked,
            None if mine => StepDownState::AlreadyMarked,
            None if released_by_me => StepDownState::Released,
            None => StepDownState::NotHolder,
        };
        tracing::info!(?state, ?reason, "step-down asked for");
        let timing = &self.rules.timing;
        let handover = timing.handover_max(false);
        Ok(StepDownReply {
            state,
            token: record.filter(|_| mine || state == StepDownState::Released).map(|record| record.token),
            holder: record.and_then(|record| record.owner.clone()),
            handover_bound_seconds: ceil_seconds(handover),
            // A standby that sees the release acquires at its next tick; one TTL covers a standby between two loops.
            successor_bound_seconds: ceil_seconds(handover + timing.lease_ttl),
        })
    }

    /// Steps down for good and waits for the release, until it came or the function's time is nearly over.
    pub(crate) async fn release(&self, limit: &Limit) -> Result<StepDownReply, FunctionError> {
        loop {
            let reply = self.step_down(StepDownReason::Shutdown).await?;
            let pause = self.rules.timing.tick_interval;
            let waiting = matches!(reply.state, StepDownState::Marked | StepDownState::AlreadyMarked);
            if !waiting || limit.remaining(self.clock.now()) < pause * 2 {
                return Ok(reply);
            }
            self.clock.sleep(pause).await;
        }
    }

    pub(crate) async fn resume(&self) -> Result<WriteReply, FunctionError> {
        let settled = self.settle(Command::Resume).await?;
        Ok(WriteReply { state: if settled.purpose.is_some() { "resumed" } else { "nothing_to_resume" } })
    }

    pub(crate) async fn takeover_finished(
        &self,
        token: FencingToken,
        try_number: u32,
        succeeded: bool,
    ) -> Result<WriteReply, FunctionError> {
        let settled = self.settle(Command::TakeoverFinished { token, try_number, succeeded }).await?;
        let state = if settled.purpose.is_some() { "written" } else { "outdated" };
        tracing::info!(token = token.get(), try_number, succeeded, state, "takeover finished");
        Ok(WriteReply { state })
    }

    /// Switches a gated source. On only while this very instance leads: connected after the lease.
    pub(crate) async fn switch_source(&self, asked: bool) -> Result<SourceReply, FunctionError> {
        let Some(source) = self.source.as_ref().filter(|_| self.rules.source == SourceMode::Gated) else {
            return Ok(SourceReply { enabled: true, changed: false });
        };
        let enabled = asked && self.leads().await?;
        let changed = source.is_enabled().await? != enabled;
        if changed {
            source.set_enabled(enabled).await?;
            tracing::info!(enabled, "source switched");
        }
        Ok(SourceReply { enabled, changed })
    }

    async fn leads(&self) -> Result<bool, FunctionError> {
        let before = self.clock.now();
        let record = present(self.leases.read_lease(&self.rules.lease).await?)?;
        let now = before.later_of(self.clock.now());
        Ok(record
            .is_some_and(|record| record.stepping_down.is_none() && is_mine_until(&self.rules, &record, now).is_some()))
    }

    pub(crate) async fn status(&self) -> Result<StatusReply, FunctionError> {
        let before = self.clock.now();
        let record = present(self.leases.read_lease(&self.rules.lease).await?)?;
        let now = before.later_of(self.clock.now());
        let leading = record.as_ref().is_some_and(|record| is_mine_until(&self.rules, record, now).is_some());
        Ok(StatusReply { lease: record.map(lease_reply), me: self.rules.me.clone(), leading })
    }

    /// Reads, decides and writes one command; anew when another write came in between.
    async fn settle(&self, command: Command) -> Result<Settled, FunctionError> {
        for _ in 0..TRIES {
            let before = self.clock.now();
            let records = self.leases.read_group(&self.rules.lease).await?;
            let mut input = self.input(command.clone(), records, before);
            self.complete(&self.rules, &mut input).await;
            let record = present(input.records.lease.clone())?;
            let decision = decide(&self.rules, &input);
            let (outcome, error) = self.write(&decision).await;
            match (outcome, decision.write, error) {
                (LeaseOutcome::Written, Some((purpose, write)), _) => {
                    return Ok(Settled { purpose: Some(purpose), record: Some(write.record) });
                }
                (LeaseOutcome::Refused(_) | LeaseOutcome::FenceRefused, _, _) => {}
                (_, _, Some(error)) => return Err(error.into()),
                _ => return Ok(Settled { purpose: None, record }),
            }
        }
        let detail = format!("another write came in between {TRIES} times; ask again");
        Err(StoreError::new(FailureKind::Unavailable, "lease write", detail).into())
    }
}

/// The record, or the error that names the damaged field.
fn present(slot: Slot<LeaseRecord>) -> Result<Option<LeaseRecord>, FunctionError> {
    match slot {
        Slot::Absent => Ok(None),
        Slot::Present(record) => Ok(Some(record)),
        Slot::Damaged(damage) => Err(FunctionError::lease_record(&damage)),
    }
}

fn lease_reply(record: LeaseRecord) -> LeaseReply {
    LeaseReply {
        stepping_down: record.stepping_down.map(|mark| MarkReply { since_ms: mark.since, reason: mark.reason }),
        released_by: record.released.map(|released| released.by),
        owner: record.owner,
        token: record.token,
        renewal: record.renewal,
        confirmed_at_ms: record.confirmed_at,
        takeover_done: record.takeover_done,
        takeover_try: record.takeover_try,
    }
}

fn ceil_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
