//! The world of one case: its adapters, its lease group, and rows to work with.

use std::time::Duration;

use fencepost_protocol::drain::{Burial, Claim, ClaimAnswer, Commit, HandBack};
use fencepost_protocol::ids::{
    AttemptId, ClaimId, FencingToken, Identity, InstanceName, LeaseName, MessageId, Position, RowKey, Shard, StackId,
    Stamp,
};
use fencepost_protocol::lease::{AcquiredAs, LeaseRecord};
use fencepost_protocol::outbox::{DeadRow, DeathReason, OutboxRow, Slot, Status};
use fencepost_protocol::time::Timestamp;

use super::TablesSubject;
use super::expect::{Outcome, equal, holds, single};
use crate::item::{Item, Key, Value};
use crate::ports::{LeaseStore, Outbox, PutAnswer};
use crate::records::{Table, outstanding};

/// The moment of row 0; row n was received n ms later.
pub(super) const START_MS: u64 = 1_767_225_600_000;

/// One case's adapters and its lease group.
pub(super) struct World {
    subject: TablesSubject,
    pub(super) lease: LeaseName,
}

impl World {
    pub(super) fn new(subject: TablesSubject, lease: LeaseName) -> Self {
        Self { subject, lease }
    }

    pub(super) fn leases(&self) -> &dyn LeaseStore {
        self.subject.lease_store.as_ref()
    }

    pub(super) fn outbox(&self) -> &dyn Outbox {
        self.subject.outbox.as_ref()
    }

    /// Puts an item past the adapters.
    pub(super) async fn plant(&self, table: Table, item: Item) -> Outcome {
        Ok((self.subject.plant)(table, item).await?)
    }

    /// Plants `item` with one attribute changed to `value`.
    pub(super) async fn plant_damaged(&self, table: Table, mut item: Item, field: &str, value: Value) -> Outcome {
        item.insert(field.to_owned(), value);
        self.plant(table, item).await
    }

    pub(super) fn shard(&self, index: u16) -> Outcome<Shard> {
        Ok(Shard::new(self.lease.clone(), index)?)
    }

    /// The case's own message id `n`.
    pub(super) fn id(&self, n: u64) -> Outcome<MessageId> {
        Ok(MessageId::new(format!("{}-{n}", self.lease))?)
    }

    /// Pending row `n` of shard 0.
    pub(super) fn row(&self, n: u64) -> Outcome<OutboxRow> {
        let position = Position::new(Timestamp::from_ms(START_MS + n), self.id(n)?)?;
        Ok(OutboxRow {
            client_id: Some("device-1".to_owned()),
            ..OutboxRow::pending(
                RowKey { shard: self.shard(0)?, position },
                format!("payload {n}").into_bytes(),
                "telemetry/line/1".to_owned(),
                InstanceName::new("east")?,
            )
        })
    }

    pub(super) fn rows(&self, numbers: std::ops::Range<u64>) -> Outcome<Vec<OutboxRow>> {
        numbers.map(|n| self.row(n)).collect()
    }

    /// Row `n`, put.
    pub(super) async fn stored(&self, n: u64) -> Outcome<OutboxRow> {
        let row = self.row(n)?;
        self.store(&row).await?;
        Ok(row)
    }

    pub(super) async fn store(&self, row: &OutboxRow) -> Outcome {
        equal("put of a new row", &self.outbox().put(row).await?, &PutAnswer::Stored)
    }

    /// Row `n`, put and claimed; as it stands then.
    pub(super) async fn claimed(&self, n: u64, by: &str, token: u64) -> Outcome<OutboxRow> {
        let row = self.stored(n).await?;
        self.take(&row, by, token).await
    }

    /// Claims `row`, which stands as given; as it stands then.
    pub(super) async fn take(&self, row: &OutboxRow, by: &str, token: u64) -> Outcome<OutboxRow> {
        let plan = claim(row, by, token)?;
        let answer = single(self.outbox().claim(std::slice::from_ref(&plan)).await)?;
        equal("claim", &answer, &ClaimAnswer::Claimed)?;
        Ok(after_claim(row, &plan))
    }

    /// Fails unless `row` stands exactly so.
    pub(super) async fn stands(&self, row: &OutboxRow) -> Outcome {
        equal("the row that stands", &self.outbox().row(&row.key).await?, &Slot::Present(row.clone()))
    }

    /// Fails unless nothing stands at `row`'s place.
    pub(super) async fn is_gone(&self, row: &OutboxRow) -> Outcome {
        equal("the place of the row", &self.outbox().row(&row.key).await?, &Slot::Absent)
    }

    /// Every outstanding row of a shard, by pages of `limit`.
    pub(super) async fn walk(&self, shard: &Shard, limit: usize) -> Outcome<Vec<OutboxRow>> {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let page = self.outbox().page(shard, after.as_ref(), limit).await?;
            holds(page.rows.len() <= limit, format!("a page of {limit} has {} rows", page.rows.len()))?;
            holds(page.strays.is_empty(), format!("strays: {:?}", page.strays))?;
            for (position, slot) in page.rows {
                let Slot::Present(row) = slot else { return holds(false, format!("{slot:?}")).map(|()| rows) };
                equal("a row's position", &position, &row.key.position)?;
                rows.push(row);
            }
            match advance(after.as_ref(), page.next)? {
                None => return Ok(rows),
                next => after = next,
            }
        }
    }

    /// An item of the outbox that has a key and nothing that fits.
    pub(super) fn wreck(&self, key: &Key) -> Item {
        Table::Outbox.item_of(key)
    }

    /// Row `n`'s item.
    pub(super) fn item(&self, n: u64) -> Outcome<Item> {
        Ok(outstanding::encode(&self.row(n)?))
    }

    /// A lease row held by `east` under `token`.
    pub(super) fn held(&self, attempt: &str, token: u64) -> Outcome<LeaseRecord> {
        Ok(LeaseRecord {
            lease: self.lease.clone(),
            owner: Some(identity("east")?),
            token: FencingToken::new(token)?,
            renewal: 0,
            lease_ttl: Duration::from_secs(300),
            confirmed_at: Timestamp::from_ms(START_MS),
            acquired_as: AcquiredAs::Acquired,
            stepping_down: None,
            released: None,
            last_release: None,
            takeover_done: Stamp::NONE,
            takeover_try: 0,
            takeover_try_at: Timestamp::from_ms(START_MS),
            attempt: AttemptId::new(attempt)?,
        })
    }
}

/// The cursor of the next page, which must lie after that of this page: else a walk would never end.
pub(super) fn advance(after: Option<&Position>, next: Option<Position>) -> Outcome<Option<Position>> {
    let stuck = next.as_ref().is_some_and(|next| after.is_some_and(|after| next <= after));
    holds(!stuck, format!("the cursor does not move on: after {after:?} comes {next:?}"))?;
    Ok(next)
}

/// Instance `name` of a stack whose id has every character that one may have.
pub(super) fn identity(name: &str) -> Outcome<Identity> {
    Ok(Identity { name: InstanceName::new(name)?, stack: StackId::new("arn:aws/stack_1.a-b:9")? })
}

pub(super) fn token(number: u64) -> Outcome<FencingToken> {
    Ok(FencingToken::new(number)?)
}

/// A claim of `row` as it stands: attempts one higher, and stale one higher where it is another's.
pub(super) fn claim(row: &OutboxRow, by: &str, number: u64) -> Outcome<Claim> {
    Ok(Claim {
        key: row.key.clone(),
        seen: row.status.clone(),
        seen_attempts: row.attempts,
        seen_redriven: row.redriven,
        token: token(number)?,
        claim: ClaimId::new(by)?,
        attempts: row.attempts + 1,
        stale: row.stale + u32::from(row.status != Status::Pending),
        first_attempt_at: row.first_attempt_at.unwrap_or(Timestamp::from_ms(START_MS + 777)),
    })
}

/// `row` after `plan` was carried out.
pub(super) fn after_claim(row: &OutboxRow, plan: &Claim) -> OutboxRow {
    OutboxRow {
        status: Status::Claimed(plan.claim.clone()),
        stamp: plan.token.into(),
        attempts: plan.attempts,
        stale: plan.stale,
        first_attempt_at: Some(plan.first_attempt_at),
        ..row.clone()
    }
}

/// A hand-back that frees `row`, attempts one lower, stale as it stands.
pub(super) fn hand_back(row: &OutboxRow, by: &str, number: u64) -> Outcome<HandBack> {
    Ok(HandBack {
        key: row.key.clone(),
        claim: ClaimId::new(by)?,
        token: token(number)?,
        attempts: row.attempts.saturating_sub(1),
        stale: row.stale,
        free: true,
        not_before: None,
        last_error: None,
    })
}

pub(super) fn commit(row: &OutboxRow, by: &str, number: u64) -> Outcome<Commit> {
    Ok(Commit { key: row.key.clone(), claim: ClaimId::new(by)?, token: token(number)? })
}

/// The burial of `row` as it stands.
pub(super) fn burial(row: &OutboxRow) -> Burial {
    let dead =
        DeadRow { row: row.clone(), reason: DeathReason::Exhausted, died_at: Timestamp::from_ms(START_MS + 999) };
    Burial { dead, seen: row.status.clone(), seen_stamp: row.stamp }
}
