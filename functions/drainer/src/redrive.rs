//! Dead records back to pending, as an operator asked.

use fencepost_protocol::drain::{
    ChangeAnswer, RedriveAnswer, RedriveCursor, RedriveDecision, RedriveRequest, redrive, redrive_is_a_risk,
    redriven_is_mine,
};
use fencepost_protocol::ids::{RowKey, Stamp};
use fencepost_protocol::outbox::{DeadRow, Slot};
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::PutAnswer;

use crate::DrainerFunction;
use crate::measure::number;

/// Dead rows read at a time.
const PAGE_ROWS: usize = 50;
/// One record's calls must fit what is left of the time.
const RECORD_REST: std::time::Duration = std::time::Duration::from_secs(2);

impl DrainerFunction {
    pub(crate) async fn redrive(&self, request: RedriveRequest, limit: &Limit) -> Result<RedriveAnswer, FunctionError> {
        let mut answer = RedriveAnswer::default();
        let lease = match self.leases.read_lease(&self.lease).await? {
            Slot::Present(record) => record.token.into(),
            Slot::Absent => Stamp::NONE,
            Slot::Damaged(damage) => return Err(FunctionError::lease_record(&damage)),
        };
        let mut risks = 0;
        for RedriveCursor { shard, mut after } in request.remaining()? {
            loop {
                let page = self.outbox.dead_page(&shard, after.as_ref(), PAGE_ROWS).await?;
                for (position, slot) in page.rows {
                    let full = answer.redriven >= u64::from(request.limit);
                    if full || limit.remaining(self.clock.now()) < RECORD_REST {
                        answer.cursor = Some(RedriveCursor { shard, after });
                        return Ok(self.summed_up(answer, request.dry_run, risks));
                    }
                    let key = RowKey { shard: shard.clone(), position: position.clone() };
                    match slot.present().filter(|dead| request.filter.matches(dead)) {
                        Some(dead) => {
                            self.redrive_one(&key, dead, lease, request.dry_run, &mut answer, &mut risks).await?;
                        }
                        None => answer.skipped += 1,
                    }
                    after = Some(position);
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        answer.done = true;
        Ok(self.summed_up(answer, request.dry_run, risks))
    }

    async fn redrive_one(
        &self,
        key: &RowKey,
        dead: &DeadRow,
        lease: Stamp,
        dry_run: bool,
        answer: &mut RedriveAnswer,
        risks: &mut u64,
    ) -> Result<(), FunctionError> {
        let live = self.outbox.row(key).await?;
        let ids = if self.policy.keeps_tombstones() { vec![dead.row.id().clone()] } else { Vec::new() };
        let stones = if ids.is_empty() { Vec::new() } else { self.outbox.tombstones(&ids).await? };
        match redrive(dead, &live, stones.first(), lease) {
            RedriveDecision::Redrive(plan) => {
                if dry_run {
                    answer.redriven += 1;
                    return Ok(());
                }
                let put = self.outbox.put_redriven(&plan).await?;
                let exists = match &put {
                    PutAnswer::Stored => None,
                    PutAnswer::Exists(slot) => Some(slot),
                };
                if redriven_is_mine(&plan, exists) {
                    self.delete_dead(key, plan.dead_redriven).await?;
                    answer.redriven += 1;
                    *risks += u64::from(redrive_is_a_risk(dead));
                    tracing::info!(message_id = %dead.row.id(), shard = %key.shard, "redriven");
                } else {
                    answer.skipped += 1;
                }
            }
            RedriveDecision::DeleteDead { dead_redriven } => {
                if !dry_run {
                    self.delete_dead(key, dead_redriven).await?;
                }
                answer.redriven += 1;
            }
            RedriveDecision::Phantom => answer.phantoms += 1,
            RedriveDecision::Skip(reason) => {
                tracing::warn!(message_id = %dead.row.id(), shard = %key.shard, reason, "left dead");
                answer.skipped += 1;
            }
        }
        Ok(())
    }

    async fn delete_dead(&self, key: &RowKey, dead_redriven: u32) -> Result<(), FunctionError> {
        match self.outbox.delete_dead(key, dead_redriven).await? {
            ChangeAnswer::Done | ChangeAnswer::Absent => {}
            // It died once more in between: that dead row is a new one and stays.
            ChangeAnswer::Fenced(_) => tracing::info!(shard = %key.shard, "the dead row is a later one by now"),
        }
        Ok(())
    }

    fn summed_up(&self, answer: RedriveAnswer, dry_run: bool, risks: u64) -> RedriveAnswer {
        if !dry_run {
            self.metrics.emit(&[(Metric::Redriven, number(answer.redriven)), (Metric::DuplicateRisk, number(risks))]);
        }
        answer
    }
}
