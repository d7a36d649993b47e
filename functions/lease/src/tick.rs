//! One step of the loop.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::lease::{
    AcquiredAs, Carried, Command, Conclusion, Decision, GroupRecords, Input, LeaseOutcome, LoopId, Purpose, Standing,
    TransitionKind, Verified, conclude, decide, must_verify, unreadable,
};
use fencepost_protocol::time::Reading;
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::{StoreError, WriteAnswer};

use crate::LeaseFunction;
use crate::reply::TickReply;

impl LeaseFunction {
    pub(crate) async fn tick(&self, me_loop: LoopId, carried: Carried, delivered: bool, limit: &Limit) -> TickReply {
        let before = self.clock.now();
        let (conclusion, measured) = match self.leases.read_group(&self.rules.lease).await {
            Ok(records) => {
                let input = self.input(Command::Tick { me_loop, delivered }, records, before);
                self.decide_and_write(input, &carried, limit).await
            }
            Err(error) => {
                tracing::error!(kind = error.kind.as_str(), %error, "the lease table cannot be read");
                (unreadable(&self.rules, &carried, before.later_of(self.clock.now())), Measured::default())
            }
        };
        let now = self.clock.now().wall;
        self.report(&conclusion, &measured);
        TickReply::of(&self.rules, &conclusion, now)
    }

    pub(crate) fn input(&self, command: Command, records: GroupRecords, before: Reading) -> Input {
        Input {
            command,
            records,
            before,
            after: self.clock.now(),
            fence: None,
            in_flight: None,
            source_enabled: None,
            attempt: self.ids.attempt(),
        }
    }

    async fn decide_and_write(&self, mut input: Input, carried: &Carried, limit: &Limit) -> (Conclusion, Measured) {
        self.complete(&self.rules, &mut input).await;
        let decision = decide(&self.rules, &input);
        let started = self.clock.now();
        let (outcome, _) = self.write(&decision).await;
        let measured = Measured::of(&decision, &outcome, self.clock.now().monotonic.saturating_sub(started.monotonic));
        let now = || input.before.later_of(self.clock.now());
        let verified = if must_verify(&self.rules, &decision, &input, &outcome, now()) {
            Some(self.verify(limit).await)
        } else {
            None
        };
        let mut conclusion = conclude(&self.rules, &input, carried, &decision, &outcome, verified.as_ref(), now());
        self.write_instance(&mut conclusion, limit).await;
        (conclusion, measured)
    }

    /// The one more read that a failed renewal asks for. Without time for it the lease counts as unreadable: a tick that is
    /// cut off by the platform would demote nobody.
    async fn verify(&self, limit: &Limit) -> Verified {
        if !self.has_time_for_a_call(limit) {
            tracing::error!("no time is left to confirm the lease");
            return Err(FailureKind::TimedOut);
        }
        self.leases.read_lease(&self.rules.lease).await.map_err(|error| {
            tracing::error!(kind = error.kind.as_str(), %error, "the lease cannot be confirmed");
            error.kind
        })
    }

    fn has_time_for_a_call(&self, limit: &Limit) -> bool {
        limit.remaining(self.clock.now()) >= self.rules.timing.renew_call_timeout
    }

    /// Raises the fence, then writes the lease row. The error of a failed call comes along for those who raise it.
    pub(crate) async fn write(&self, decision: &Decision) -> (LeaseOutcome, Option<StoreError>) {
        if let Some(raise) = &decision.fence {
            match self.outbox.raise_fence(raise).await {
                Ok(WriteAnswer::Written) => {}
                Ok(WriteAnswer::Refused(_)) => return (LeaseOutcome::FenceRefused, None),
                Err(error) => {
                    tracing::error!(kind = error.kind.as_str(), %error, "the fence was not raised");
                    return (LeaseOutcome::FenceFailed(error.kind), Some(error));
                }
            }
        }
        let Some((purpose, write)) = &decision.write else {
            return (LeaseOutcome::NothingToWrite, None);
        };
        match self.leases.write_lease(write).await {
            Ok(WriteAnswer::Written) => (LeaseOutcome::Written, None),
            Ok(WriteAnswer::Refused(slot)) => {
                tracing::info!(?purpose, "another version of the lease row stood there");
                (LeaseOutcome::Refused(slot), None)
            }
            Err(error) => {
                tracing::error!(?purpose, kind = error.kind.as_str(), %error, "the lease was not written");
                (LeaseOutcome::Failed(error.kind), Some(error))
            }
        }
    }

    /// Writes the instance record. Where that is not certain, this tick's evidence and telling are void.
    async fn write_instance(&self, conclusion: &mut Conclusion, limit: &Limit) {
        let Some(write) = &conclusion.instance_write else { return };
        if !self.has_time_for_a_call(limit) {
            tracing::error!("no time is left to write the instance record");
            conclusion.evidence_lost();
            conclusion.instance_write_lost();
            return;
        }
        match self.leases.write_instance(write).await {
            Ok(WriteAnswer::Written) => return,
            Ok(WriteAnswer::Refused(_)) => tracing::debug!("another tick wrote the instance record first"),
            Err(error) => {
                tracing::error!(kind = error.kind.as_str(), %error, "the instance record was not written");
                conclusion.evidence_lost();
            }
        }
        conclusion.instance_write_lost();
    }

    fn report(&self, conclusion: &Conclusion, measured: &Measured) {
        let (held, token) = match conclusion.standing {
            Standing::Holder { token, .. } => (true, token.get()),
            Standing::Standby => (false, 0),
        };
        let mut values = vec![
            (Metric::LeaseHeld, flag(held)),
            (Metric::GroupHasHolder, flag(conclusion.group_has_holder)),
            (Metric::RenewFailures, flag(conclusion.renewal_failed)),
        ];
        if held {
            // Exact up to 2^53, which is above the largest token.
            values.push((Metric::FencingToken, number(token)));
        }
        values.extend(measured.values.iter().copied());
        for transition in &conclusion.transitions {
            let token = transition.token.get();
            tracing::info!(token, reason = ?transition.reason, transition = transition.kind.event_name(), "lease transition");
            match transition.kind {
                TransitionKind::Acquired | TransitionKind::Seized => {
                    values.extend([(Metric::LeaseAcquired, 1.0), (Metric::LeaseTransfers, 1.0)]);
                }
                TransitionKind::Reclaimed => values.push((Metric::LeaseAcquired, 1.0)),
                TransitionKind::Lost | TransitionKind::Released => values.push((Metric::LeaseLost, 1.0)),
                TransitionKind::StepDownRequested | TransitionKind::DuplicateInstance => {}
            }
        }
        if let Some(damage) = &conclusion.refused {
            tracing::error!(field = damage.malformed.field, %damage, "a record does not decode and was left alone");
        }
        self.metrics.emit(&values);
    }
}

/// What a tick's writes measured.
#[derive(Debug, Default)]
struct Measured {
    values: Vec<(Metric, f64)>,
}

impl Measured {
    fn of(decision: &Decision, outcome: &LeaseOutcome, took: Duration) -> Self {
        let mut values = Vec::new();
        if *outcome == LeaseOutcome::Written {
            match &decision.write {
                Some((Purpose::Renew, _)) => values.push((Metric::RenewLatency, milliseconds(took))),
                Some((Purpose::Acquire(AcquiredAs::Seized), _)) => {
                    if let Some(maturity) = &decision.maturity {
                        values.push((Metric::TakeoverDuration, milliseconds(maturity.evidence.unchanged_for)));
                    }
                }
                _ => {}
            }
        }
        Self { values }
    }
}

fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a fencing token is below 2^53, which a double holds exactly")]
fn number(token: u64) -> f64 {
    token as f64
}
