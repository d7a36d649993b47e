//! Tests of the drain. What they share is here; the world in [`world`] plays whole histories against the invariants.

mod answer;
mod choosing;
mod committing;
mod confirming;
mod counting;
mod permits;
mod redriving;
mod sending;
mod world;

use std::time::Duration;

use super::*;
use crate::body::BodyFormat;
use crate::ids::{AttemptId, ClaimId, FencingToken, Identity, InstanceName, LeaseName, MessageId, Position, RowKey};
use crate::ids::{Shard, StackId, Stamp};
use crate::lease::{AcquiredAs, LeaseRecord};
use crate::outbox::{Damage, OutboxRow, Slot, Status};
use crate::time::{Reading, Timestamp};
use crate::timing::{Profile, Timing, TimingOverrides};

/// The wall clock at which most tests begin.
const START_MS: u64 = 1_767_225_600_000;

fn policy(ordered: bool) -> DrainPolicy {
    let timing = Timing::build(Profile::Durable, &TimingOverrides::default()).unwrap();
    DrainPolicy::new(timing, ordered, BodyFormat::Raw)
}

fn identity(name: &str) -> Identity {
    Identity { name: InstanceName::new(name).unwrap(), stack: StackId::new("stack-1").unwrap() }
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

fn stamp(number: u64) -> Stamp {
    Stamp::new(number).unwrap()
}

fn claim_id(name: &str) -> ClaimId {
    ClaimId::new(name).unwrap()
}

fn shard(index: u16) -> Shard {
    Shard::new(LeaseName::new("telemetry").unwrap(), index).unwrap()
}

fn at(ms_after_start: u64) -> Timestamp {
    Timestamp::from_ms(START_MS + ms_after_start)
}

/// Both clocks, `ms` after the start.
fn reading(ms: u64) -> Reading {
    Reading { wall: at(ms), monotonic: Duration::from_millis(ms) }
}

/// A lease held by east under `number`, confirmed at the start.
fn lease(number: u64) -> LeaseRecord {
    LeaseRecord {
        lease: LeaseName::new("telemetry").unwrap(),
        owner: Some(identity("east")),
        token: token(number),
        renewal: 3,
        lease_ttl: Duration::from_secs(300),
        confirmed_at: at(0),
        acquired_as: AcquiredAs::Acquired,
        stepping_down: None,
        released: None,
        last_release: None,
        takeover_done: Stamp::NONE,
        takeover_try: 0,
        takeover_try_at: at(0),
        attempt: AttemptId::new("a-1").unwrap(),
    }
}

fn request(mode: Mode) -> DrainRequest {
    DrainRequest { mode, ..DrainRequest::scheduled(vec![shard(0)]) }
}

/// A scheduled call of east over shard 0.
fn start(ordered: bool) -> (CallTerms, ShardState) {
    begin(request(Mode::Scheduled), ordered)
}

fn begin(request: DrainRequest, ordered: bool) -> (CallTerms, ShardState) {
    let (terms, mut shards) = request.start(identity("east"), policy(ordered)).unwrap();
    (terms, shards.remove(0))
}

fn permit_of(terms: &CallTerms, number: u64) -> Permit {
    permit(Ok(&Slot::Present(lease(number))), terms, reading(0)).unwrap()
}

/// A pending row received `ms` before the start by device `client`.
fn row(client: &str, ms_before: u64, id: &str) -> OutboxRow {
    let position = Position::new(Timestamp::from_ms(START_MS - ms_before), MessageId::new(id).unwrap()).unwrap();
    OutboxRow {
        client_id: Some(client.to_owned()),
        ..OutboxRow::pending(
            RowKey { shard: shard(0), position },
            id.as_bytes().to_vec(),
            "telemetry/x".to_owned(),
            InstanceName::new("east").unwrap(),
        )
    }
}

fn claimed_by(row: OutboxRow, claim: &str, number: u64) -> OutboxRow {
    OutboxRow { status: Status::Claimed(claim_id(claim)), stamp: stamp(number), attempts: 1, ..row }
}

fn slots(rows: &[OutboxRow]) -> Vec<(Position, Slot<OutboxRow>)> {
    rows.iter().map(|row| (row.key.position.clone(), Slot::Present(row.clone()))).collect()
}

fn damage(record: &str) -> Damage {
    let malformed = crate::ids::Malformed::new("schema", "is 9; this code reads up to 1");
    Damage { record: record.to_owned(), malformed, newer_schema: true }
}

/// Ids of the rows that a choice claims.
fn chosen(choice: &Choice) -> Vec<&str> {
    choice.claims.iter().map(|claim| claim.key.position.id().as_str()).collect()
}

/// Rows as east has claimed them under token 7.
fn mine(rows: &[OutboxRow]) -> Vec<ClaimedRow> {
    let claimed = |row: &OutboxRow| ClaimedRow {
        row: claimed_by(row.clone(), "mine", 7),
        claim: claim_id("mine"),
        token: token(7),
        resend: false,
    };
    rows.iter().map(claimed).collect()
}

fn notes(ordered: bool) -> Notes {
    Notes::new(BlockedKeys::none(ordered))
}

fn ids(rows: &[ClaimedRow]) -> Vec<&str> {
    rows.iter().map(|claimed| claimed.row.id().as_str()).collect()
}

fn handed(rows: &[HandBack]) -> Vec<&str> {
    rows.iter().map(|back| back.key.position.id().as_str()).collect()
}
