//! Records to write.

use std::time::Duration;

use fencepost_protocol::drain::{Claim, Commit, HandBack};
use fencepost_protocol::ids::{
    AttemptId, ClaimId, FencingToken, Identity, InstanceName, LeaseName, MessageId, Position, RowKey, Shard, StackId,
    Stamp,
};
use fencepost_protocol::lease::{AcquiredAs, LeaseRecord, LeaseWrite};
use fencepost_protocol::outbox::OutboxRow;
use fencepost_protocol::time::Timestamp;

pub(super) fn lease_name() -> LeaseName {
    LeaseName::new("telemetry").expect("a lease name")
}

pub(super) fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("a token")
}

pub(super) fn attempt(name: &str) -> AttemptId {
    AttemptId::new(name).expect("an attempt id")
}

pub(super) fn claim_id(name: &str) -> ClaimId {
    ClaimId::new(name).expect("a claim id")
}

/// An acquisition of a lease that nobody held.
pub(super) fn acquisition(attempt_name: &str) -> LeaseWrite {
    let identity =
        Identity { name: InstanceName::new("east").expect("a name"), stack: StackId::new("stack-1").expect("a stack") };
    let record = LeaseRecord {
        lease: lease_name(),
        owner: Some(identity),
        token: token(1),
        renewal: 0,
        lease_ttl: Duration::from_secs(300),
        confirmed_at: Timestamp::from_ms(1_700_000_000_000),
        acquired_as: AcquiredAs::Acquired,
        stepping_down: None,
        released: None,
        last_release: None,
        takeover_done: Stamp::NONE,
        takeover_try: 0,
        takeover_try_at: Timestamp::from_ms(1_700_000_000_000),
        attempt: attempt(attempt_name),
    };
    LeaseWrite { expected: None, record }
}

/// The pending row number `number` of shard 0.
pub(super) fn row(number: u64, payload: &[u8]) -> OutboxRow {
    let id = MessageId::new(format!("8d1f1c6e-7c1b-4b1e-9d57-{number:012}")).expect("an id");
    let position = Position::new(Timestamp::from_ms(1_700_000_000_000 + number), id).expect("a position");
    OutboxRow {
        client_id: Some("device-0001".to_owned()),
        stamp: Stamp::from(token(1)),
        ..OutboxRow::pending(
            RowKey { shard: Shard::new(lease_name(), 0).expect("a shard"), position },
            payload.to_vec(),
            "telemetry/device-0001/temperature".to_owned(),
            InstanceName::new("eu-west-1").expect("a name"),
        )
    }
}

/// `count` pending rows.
pub(super) fn rows(count: u64) -> Vec<OutboxRow> {
    (0..count).map(|number| row(number, b"payload")).collect()
}

/// A claim of a pending row under token 1.
pub(super) fn claim(row: &OutboxRow, claim: &str) -> Claim {
    Claim {
        key: row.key.clone(),
        seen: row.status.clone(),
        seen_attempts: row.attempts,
        seen_redriven: row.redriven,
        token: token(1),
        claim: claim_id(claim),
        attempts: row.attempts + 1,
        stale: row.stale,
        first_attempt_at: Timestamp::from_ms(1_700_000_100_000),
    }
}

/// The commit of a row claimed so.
pub(super) fn commit(row: &OutboxRow, claim: &str) -> Commit {
    Commit { key: row.key.clone(), claim: claim_id(claim), token: token(1) }
}

/// A hand-back of a row claimed so, attempts restored.
pub(super) fn hand_back(row: &OutboxRow, claim: &str) -> HandBack {
    HandBack {
        key: row.key.clone(),
        claim: claim_id(claim),
        token: token(1),
        attempts: row.attempts,
        stale: row.stale,
        free: true,
        not_before: None,
        last_error: None,
    }
}
