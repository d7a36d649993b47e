//! What the conformance suite leaves to each adapter: faults in transit, costs, and what only the memory adapters offer.

use fencepost_protocol::drain::{Claim, Commit};
use fencepost_protocol::ids::{
    ClaimId, FencingToken, InstanceName, LeaseName, MessageId, PayloadDigest, Position, RowKey, Shard, Stamp,
};
use fencepost_protocol::outbox::{OutboxRow, Status, Tombstone};
use fencepost_protocol::time::Timestamp;

use super::*;

mod costs;
mod faults;
mod queues;
mod tables;

fn shard() -> Shard {
    Shard::new(LeaseName::new("telemetry").unwrap(), 3).unwrap()
}

fn row(n: u64) -> OutboxRow {
    let id = MessageId::new(format!("3f0c8a52-9b1d-4c7e-8f21-{n:012}")).unwrap();
    OutboxRow {
        client_id: Some("device-0042.plant-7.example".to_owned()),
        stamp: Stamp::new(1_234).unwrap(),
        ..OutboxRow::pending(
            RowKey { shard: shard(), position: Position::new(Timestamp::from_ms(1_767_225_600_000 + n), id).unwrap() },
            vec![7; 512],
            "telemetry/plant-7/line-12/sensor-0042".to_owned(),
            InstanceName::new("ap-southeast-1").unwrap(),
        )
    }
}

fn claim(row: &OutboxRow) -> Claim {
    Claim {
        key: row.key.clone(),
        seen: row.status.clone(),
        seen_attempts: row.attempts,
        seen_redriven: row.redriven,
        token: FencingToken::new(1_234).unwrap(),
        claim: ClaimId::new("f1e2d3c4-b5a6-4798-8091-a2b3c4d5e6f7").unwrap(),
        attempts: row.attempts + 1,
        stale: 0,
        first_attempt_at: Timestamp::from_ms(1_767_225_601_000),
    }
}

fn commit(claim: &Claim) -> Commit {
    Commit { key: claim.key.clone(), claim: claim.claim.clone(), token: claim.token }
}

fn tombstone(row: &OutboxRow) -> Tombstone {
    Tombstone {
        id: row.id().clone(),
        digest: PayloadDigest::of(&row.payload),
        redriven: 0,
        expires_at_secs: 1_767_657_600,
    }
}
