//! Values that fit their type and are refused all the same: out of range, or impossible beside the others.

use std::fmt::Debug;
use std::time::Duration;

use fencepost_protocol::ids::{AttemptId, FencingToken, Identity, InstanceName, StackId, Stamp};
use fencepost_protocol::lease::{AcquiredAs, InstanceRecord, LeaseRecord, Standing};

use super::*;

/// Sets `field` of `item` and wants `blamed` named for it.
fn refused<T: Debug>(
    item: &Item,
    decode: impl Fn(&Item) -> Result<T, Damage>,
    field: &str,
    value: Value,
    blamed: &str,
) {
    assert!(decode(item).is_ok(), "the item was sound before");
    let mut changed = item.clone();
    changed.insert(field.to_owned(), value.clone());
    match decode(&changed) {
        Ok(record) => panic!("{field} = {value:?} was believed: {record:?}"),
        Err(damage) => assert_eq!(damage.malformed.field, blamed, "{field} = {value:?}: {damage}"),
    }
}

fn number(digits: &str) -> Value {
    Value::Number(digits.to_owned())
}

fn identity() -> Identity {
    Identity { name: InstanceName::new("east").unwrap(), stack: StackId::new("s1").unwrap() }
}

const MOMENT_TOO_LARGE: &str = "10000000000000";
const TOKEN_TOO_LARGE: &str = "9007199254740991";

#[test]
fn lease_rows() {
    let held = lease::encode(&LeaseRecord {
        lease: LeaseName::new("telemetry").unwrap(),
        owner: Some(identity()),
        token: FencingToken::new(5).unwrap(),
        renewal: 1,
        lease_ttl: Duration::from_secs(300),
        confirmed_at: Timestamp::from_ms(1),
        acquired_as: AcquiredAs::Acquired,
        stepping_down: None,
        released: None,
        last_release: None,
        takeover_done: Stamp::new(4).unwrap(),
        takeover_try: 0,
        takeover_try_at: Timestamp::from_ms(1),
        attempt: AttemptId::new("a1").unwrap(),
    });
    let released =
        Value::map([("name", Value::text("east")), ("stack", Value::text("s1")), ("reason", Value::text("step_down"))]);
    let followed = |token| {
        let Value::Map(mut by) = released.clone() else { unreachable!("a map") };
        by.insert("fencing_token".to_owned(), number(token));
        Value::Map(by)
    };
    for (field, value, blamed) in [
        (lease::LAST_RELEASE, released.clone(), "last_release.fencing_token"),
        (lease::LAST_RELEASE, followed("0"), "last_release.fencing_token"),
        (lease::LAST_RELEASE, followed("5"), "last_release.fencing_token"),
        (lease::LAST_RELEASE, Value::map([("fencing_token", number("4"))]), "last_release.name"),
        (lease::FENCING_TOKEN, number("0"), lease::FENCING_TOKEN),
        (lease::FENCING_TOKEN, number(TOKEN_TOO_LARGE), lease::FENCING_TOKEN),
        (lease::FENCING_TOKEN, number("3"), lease::TAKEOVER_DONE),
        (lease::TAKEOVER_DONE, number("6"), lease::TAKEOVER_DONE),
        (lease::LEASE_TTL_MS, number("999"), lease::LEASE_TTL_MS),
        (lease::LEASE_TTL_MS, number("86400001"), lease::LEASE_TTL_MS),
        (lease::CONFIRMED_AT, number(MOMENT_TOO_LARGE), lease::CONFIRMED_AT),
        (lease::TAKEOVER_TRY_AT, number(MOMENT_TOO_LARGE), lease::TAKEOVER_TRY_AT),
        (lease::TAKEOVER_TRY, number("4294967296"), lease::TAKEOVER_TRY),
        (lease::RELEASED_BY, released, lease::RELEASED_AT),
        (lease::RELEASED_AT, number("1"), lease::RELEASED_BY),
        ("record", Value::text("LEASE2"), "record"),
    ] {
        refused(&held, lease::decode, field, value, blamed);
    }
}

#[test]
fn instance_rows() {
    let record = instance::encode(&InstanceRecord {
        lease: LeaseName::new("telemetry").unwrap(),
        identity: identity(),
        evidence: None,
        loops: Vec::new(),
        generation: 1,
        reported: Standing::Standby,
        told_token: Stamp::NONE,
        reporting: None,
        attempt: AttemptId::new("a1").unwrap(),
    });
    let standby = |field, value| Value::map([("state", Value::text("standby")), (field, value)]);
    let looped = Value::map([("name", Value::text("l")), ("started_at_ms", number("1"))]);
    for (field, value, blamed) in [
        (instance::GENERATION, number("0"), instance::GENERATION),
        (instance::LOOPS, Value::List(vec![looped; 3]), instance::LOOPS),
        (instance::REPORTED, standby("fencing_token", number("1")), "reported.state"),
        (instance::REPORTED, standby("stepping_down", Value::text("shutdown")), "reported.state"),
        (instance::REPORTED, Value::map([("state", Value::text("holder"))]), "reported.fencing_token"),
    ] {
        refused(&record, instance::decode, field, value, blamed);
    }
}

#[test]
fn outbox_rows() {
    let pending = outstanding::encode(&OutboxRow { status: Status::Pending, ..ordinary_row() });
    for (field, value, blamed) in [
        (outstanding::CLAIM, Value::text("c1"), outstanding::CLAIM),
        (outstanding::STATUS, Value::text("claimed"), outstanding::CLAIM),
        (outstanding::FENCING_TOKEN, number(TOKEN_TOO_LARGE), outstanding::FENCING_TOKEN),
        (outstanding::ATTEMPTS, number("4294967296"), outstanding::ATTEMPTS),
        (outstanding::STALE, number("-1"), outstanding::STALE),
        (outstanding::REDRIVEN, number("0.5"), outstanding::REDRIVEN),
        (outstanding::FIRST_ATTEMPT_AT, number(MOMENT_TOO_LARGE), outstanding::FIRST_ATTEMPT_AT),
        (outstanding::NOT_BEFORE, number(MOMENT_TOO_LARGE), outstanding::NOT_BEFORE),
        ("shard", Value::text("telemetry#9999"), "shard"),
        ("shard", Value::text("dead#telemetry#0001"), "shard"),
        ("position", Value::text("176722560000#a"), "position"),
    ] {
        refused(&pending, outstanding::decode, field, value, blamed);
    }
}
