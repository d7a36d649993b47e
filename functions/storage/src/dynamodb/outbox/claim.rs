//! Claiming rows, and handing them back.

use fencepost_protocol::drain::{ChangeAnswer, Claim, ClaimAnswer, HandBack};
use fencepost_protocol::ids::{FencingToken, Stamp};
use fencepost_protocol::outbox::{OutboxRow, Slot, Status};

use super::{DynamoOutbox, row_slot};
use crate::dynamodb::table::Retry;
use crate::dynamodb::write::{Condition, Outcome, Test, Write};
use crate::item::Value;
use crate::records::outstanding::{self, status_parts};
use crate::{StoreError, operation};

impl DynamoOutbox {
    pub(super) async fn claim_rows(&self, claims: &[Claim]) -> Vec<Result<ClaimAnswer, StoreError>> {
        let writes = claims.iter().map(claim_write).collect();
        let outcomes = self.table.write_all(operation::CLAIM, writes, Retry::ByPolicy, self.batching).await;
        let answers = claims.iter().zip(outcomes);
        answers.map(|(claim, outcome)| outcome.map(|outcome| claim_answer(claim, outcome))).collect()
    }

    pub(super) async fn hand_rows_back(&self, rows: &[HandBack]) -> Vec<Result<ChangeAnswer, StoreError>> {
        let writes = rows.iter().map(hand_back_write).collect();
        let outcomes = self.table.write_all(operation::HAND_BACK, writes, Retry::ByPolicy, self.batching).await;
        let answers = rows.iter().zip(outcomes);
        answers.map(|(row, outcome)| outcome.map(|outcome| hand_back_answer(row, outcome))).collect()
    }
}

/// The row's status is the given one.
pub(super) fn status_tests(status: &Status) -> Vec<Test> {
    let (name, claim) = status_parts(status);
    let mut tests = vec![Test::equal(outstanding::STATUS, Value::text(name))];
    if let Some(claim) = claim {
        tests.push(Test::equal(outstanding::CLAIM, Value::text(claim.as_str())));
    }
    tests
}

/// The row is claimed by this claim under this token.
pub(super) fn mine(claim: &fencepost_protocol::ids::ClaimId, token: FencingToken) -> Condition {
    let mut tests = status_tests(&Status::Claimed(claim.clone()));
    tests.push(Test::equal(outstanding::FENCING_TOKEN, Value::number(token.get())));
    Condition::Holds(tests)
}

fn claim_write(claim: &Claim) -> Write {
    let mut tests = status_tests(&claim.seen);
    tests.push(Test::equal(outstanding::ATTEMPTS, Value::number(claim.seen_attempts.into())));
    tests.push(Test::equal(outstanding::REDRIVEN, Value::number(claim.seen_redriven.into())));
    tests.push(Test::at_most(outstanding::FENCING_TOKEN, Value::number(claim.token.get())));
    Write::Update {
        key: outstanding::key(&claim.key),
        set: vec![
            (outstanding::STATUS, Value::text(outstanding::CLAIMED)),
            (outstanding::CLAIM, Value::text(claim.claim.as_str())),
            (outstanding::FENCING_TOKEN, Value::number(claim.token.get())),
            (outstanding::ATTEMPTS, Value::number(claim.attempts.into())),
            (outstanding::STALE, Value::number(claim.stale.into())),
            (outstanding::FIRST_ATTEMPT_AT, Value::number(claim.first_attempt_at.as_ms())),
        ],
        remove: Vec::new(),
        when: Condition::Holds(tests),
    }
}

fn claim_answer(claim: &Claim, outcome: Outcome) -> ClaimAnswer {
    let old = match outcome {
        Outcome::Done => return ClaimAnswer::Claimed,
        Outcome::Refused(old) => row_slot(old.as_ref()),
        Outcome::Taken => Slot::Absent,
    };
    match old {
        Slot::Present(row) if row.claim() == Some(&claim.claim) => ClaimAnswer::Claimed,
        other => ClaimAnswer::Refused(other),
    }
}

fn hand_back_write(row: &HandBack) -> Write {
    let mut set = vec![
        (outstanding::ATTEMPTS, Value::number(row.attempts.into())),
        (outstanding::STALE, Value::number(row.stale.into())),
    ];
    let mut remove = Vec::new();
    if row.free {
        set.push((outstanding::STATUS, Value::text(outstanding::PENDING)));
        remove.push(outstanding::CLAIM);
    }
    if let Some(not_before) = row.not_before {
        set.push((outstanding::NOT_BEFORE, Value::number(not_before.as_ms())));
    }
    if let Some(last_error) = &row.last_error {
        set.push((outstanding::LAST_ERROR, Value::text(outstanding::clip_error(last_error))));
    }
    Write::Update { key: outstanding::key(&row.key), set, remove, when: mine(&row.claim, row.token) }
}

fn hand_back_answer(plan: &HandBack, outcome: Outcome) -> ChangeAnswer {
    let old = match outcome {
        Outcome::Done => return ChangeAnswer::Done,
        Outcome::Refused(old) => row_slot(old.as_ref()),
        Outcome::Taken => Slot::Absent,
    };
    match old {
        Slot::Absent => ChangeAnswer::Absent,
        Slot::Present(row) if stands_as_left(plan, &row) => ChangeAnswer::Done,
        other => ChangeAnswer::Fenced(other),
    }
}

/// Is the row what this hand-back leaves behind? Then an earlier try of it was applied and its reply was lost.
fn stands_as_left(plan: &HandBack, row: &OutboxRow) -> bool {
    plan.free
        && row.status == Status::Pending
        && row.stamp == Stamp::from(plan.token)
        && row.attempts == plan.attempts
        && row.stale == plan.stale
        && plan.not_before.is_none_or(|moment| row.not_before == Some(moment))
}
