//! The lease row.
//!
//! Key: `lease` = the group's name, `record` = `LEASE`. Cardinality: one per lease group, kept for ever (a release keeps it,
//! so that tokens only grow). Mutability: rewritten whole by every acquisition, renewal, step-down mark and release, each
//! on condition of the `attempt` that was read.
//!
//! `last_release` came after the first version of this schema: a row without it followed no release that could be told.

use std::time::Duration;

use fencepost_protocol::ids::{AttemptId, FencingToken, Identity, InstanceName, LeaseName, Malformed, StackId};
use fencepost_protocol::lease::{AcquiredAs, LastRelease, LeaseRecord, Released, StepDownReason, SteppingDown};
use fencepost_protocol::outbox::{Damage, SCHEMA};
use fencepost_protocol::time::duration_ms;

use super::fields::{self, Fields, SCHEMA_ATTRIBUTE};
use super::table::Table;
use crate::item::{Item, Key, Value};

/// The sort key of the lease row.
pub const RECORD: &str = "LEASE";

/// The holder's name; absent when released.
pub const OWNER: &str = "owner";
/// The holder's stack; absent when released.
pub const OWNER_STACK: &str = "owner_stack";
/// The token of the present or last holder.
pub const FENCING_TOKEN: &str = "fencing_token";
/// Renewals since the acquisition.
pub const RENEWAL: &str = "renewal";
/// The holder's TTL in milliseconds.
pub const LEASE_TTL_MS: &str = "lease_ttl_ms";
/// The owner's clock from before the accepted write, in milliseconds.
pub const CONFIRMED_AT: &str = "confirmed_at";
/// How the holder came by the lease.
pub const ACQUIRED_AS: &str = "acquired_as";
/// Map {since, reason}: a step-down in progress.
pub const STEPPING_DOWN: &str = "stepping_down";
/// Map {name, stack, reason}: who released the lease.
pub const RELEASED_BY: &str = "released_by";
/// When, on the releaser's clock, in milliseconds.
pub const RELEASED_AT: &str = "released_at";
/// Map {name, stack, reason, fencing_token}: the release that the present holder's acquisition followed.
pub const LAST_RELEASE: &str = "last_release";
/// The highest token whose takeover was finished; 0 for none.
pub const TAKEOVER_DONE: &str = "takeover_done";
/// Which try of the token's takeover is due or running.
pub const TAKEOVER_TRY: &str = "takeover_try";
/// When that try became due, on the owner's clock, in milliseconds.
pub const TAKEOVER_TRY_AT: &str = "takeover_try_at";
/// The id of the write that made this version.
pub const ATTEMPT: &str = "attempt";

/// Every attribute of the row but its key. A write sets those that [`encode`] yields and removes the others.
pub const ATTRIBUTES: [&str; 16] = [
    OWNER,
    OWNER_STACK,
    FENCING_TOKEN,
    RENEWAL,
    LEASE_TTL_MS,
    CONFIRMED_AT,
    ACQUIRED_AS,
    STEPPING_DOWN,
    RELEASED_BY,
    RELEASED_AT,
    LAST_RELEASE,
    TAKEOVER_DONE,
    TAKEOVER_TRY,
    TAKEOVER_TRY_AT,
    ATTEMPT,
    SCHEMA_ATTRIBUTE,
];

const SINCE: &str = "since";
const REASON: &str = "reason";
const NAME: &str = "name";
const STACK: &str = "stack";

/// Where the lease row of `lease` is.
pub fn key(lease: &LeaseName) -> Key {
    Key { partition: lease.to_string(), sort: RECORD.to_owned() }
}

/// The whole item of `record`.
pub fn encode(record: &LeaseRecord) -> Item {
    let mut item = Table::Lease.item_of(&key(&record.lease));
    let mut set = |name: &str, value: Value| item.insert(name.to_owned(), value);
    if let Some(owner) = &record.owner {
        set(OWNER, Value::text(owner.name.as_str()));
        set(OWNER_STACK, Value::text(owner.stack.as_str()));
    }
    set(FENCING_TOKEN, Value::number(record.token.get()));
    set(RENEWAL, Value::number(record.renewal));
    set(LEASE_TTL_MS, Value::number(duration_ms(record.lease_ttl)));
    set(CONFIRMED_AT, Value::number(record.confirmed_at.as_ms()));
    set(ACQUIRED_AS, Value::text(acquired_as_text(record.acquired_as)));
    if let Some(mark) = &record.stepping_down {
        let since = (SINCE, Value::number(mark.since.as_ms()));
        set(STEPPING_DOWN, Value::map([since, (REASON, Value::text(reason_text(mark.reason)))]));
    }
    if let Some(released) = &record.released {
        set(RELEASED_BY, Value::map(release_fields(&released.by, released.reason)));
        set(RELEASED_AT, Value::number(released.at.as_ms()));
    }
    if let Some(last) = &record.last_release {
        let token = (FENCING_TOKEN, Value::number(last.token.get()));
        set(LAST_RELEASE, Value::map(release_fields(&last.by, last.reason).into_iter().chain([token])));
    }
    set(TAKEOVER_DONE, Value::number(record.takeover_done.get()));
    set(TAKEOVER_TRY, Value::number(record.takeover_try.into()));
    set(TAKEOVER_TRY_AT, Value::number(record.takeover_try_at.as_ms()));
    set(ATTEMPT, Value::text(record.attempt.as_str()));
    set(SCHEMA_ATTRIBUTE, Value::number(SCHEMA.into()));
    item
}

fn release_fields(by: &Identity, reason: StepDownReason) -> [(&'static str, Value); 3] {
    let (name, stack) = (Value::text(by.name.as_str()), Value::text(by.stack.as_str()));
    [(NAME, name), (STACK, stack), (REASON, Value::text(reason_text(reason)))]
}

/// Reads a lease row.
///
/// # Errors
/// [`Damage`] with the first field that is missing, of the wrong type, out of range or impossible beside the others.
pub fn decode(item: &Item) -> Result<LeaseRecord, Damage> {
    fields::decode(item, || Table::Lease.describe("lease row", item), read)
}

fn read(fields: &Fields<'_>) -> Result<LeaseRecord, Malformed> {
    if fields.text(Table::Lease.sort_attribute())? != RECORD {
        return Err(fields.malformed(Table::Lease.sort_attribute(), format!("must be {RECORD}")));
    }
    let record = LeaseRecord {
        lease: fields.parsed(Table::Lease.partition_attribute(), LeaseName::new)?,
        owner: read_owner(fields)?,
        token: read_token(fields, FENCING_TOKEN)?,
        renewal: fields.number(RENEWAL, 0..=u64::MAX)?,
        lease_ttl: Duration::from_millis(fields.number(LEASE_TTL_MS, 1..=u64::MAX)?),
        confirmed_at: fields.moment(CONFIRMED_AT)?,
        acquired_as: fields.parsed(ACQUIRED_AS, parse_acquired_as)?,
        stepping_down: read_stepping_down(fields)?,
        released: read_released(fields)?,
        last_release: read_last_release(fields)?,
        takeover_done: fields.stamp(TAKEOVER_DONE)?,
        takeover_try: fields.count(TAKEOVER_TRY)?,
        takeover_try_at: fields.moment(TAKEOVER_TRY_AT)?,
        attempt: fields.parsed(ATTEMPT, AttemptId::new)?,
    };
    record.check()?;
    Ok(record)
}

fn read_owner(fields: &Fields<'_>) -> Result<Option<Identity>, Malformed> {
    if !fields.has(OWNER) && !fields.has(OWNER_STACK) {
        return Ok(None);
    }
    Ok(Some(read_identity(fields, OWNER, OWNER_STACK)?))
}

fn read_stepping_down(fields: &Fields<'_>) -> Result<Option<SteppingDown>, Malformed> {
    let Some(mark) = fields.map_opt(STEPPING_DOWN)? else { return Ok(None) };
    Ok(Some(SteppingDown { since: mark.moment(SINCE)?, reason: mark.parsed(REASON, parse_reason)? }))
}

fn read_released(fields: &Fields<'_>) -> Result<Option<Released>, Malformed> {
    if !fields.has(RELEASED_BY) && !fields.has(RELEASED_AT) {
        return Ok(None);
    }
    let by = fields.map(RELEASED_BY)?;
    Ok(Some(Released {
        by: read_identity(&by, NAME, STACK)?,
        at: fields.moment(RELEASED_AT)?,
        reason: by.parsed(REASON, parse_reason)?,
    }))
}

fn read_last_release(fields: &Fields<'_>) -> Result<Option<LastRelease>, Malformed> {
    let Some(last) = fields.map_opt(LAST_RELEASE)? else { return Ok(None) };
    Ok(Some(LastRelease {
        by: read_identity(&last, NAME, STACK)?,
        token: read_token(&last, FENCING_TOKEN)?,
        reason: last.parsed(REASON, parse_reason)?,
    }))
}

/// An identity in two text fields.
pub(super) fn read_identity(fields: &Fields<'_>, name: &str, stack: &str) -> Result<Identity, Malformed> {
    Ok(Identity { name: fields.parsed(name, InstanceName::new)?, stack: fields.parsed(stack, StackId::new)? })
}

/// A token, never 0.
pub(super) fn read_token(fields: &Fields<'_>, field: &str) -> Result<FencingToken, Malformed> {
    let number = fields.number(field, 0..=u64::MAX)?;
    FencingToken::new(number).map_err(|refused| fields.malformed(field, refused.problem))
}

/// The stored name of a step-down's reason.
pub(super) const fn reason_text(reason: StepDownReason) -> &'static str {
    match reason {
        StepDownReason::StepDown => "step_down",
        StepDownReason::Shutdown => "shutdown",
    }
}

/// Reads the stored name of a step-down's reason.
pub(super) fn parse_reason(text: &str) -> Result<StepDownReason, Malformed> {
    match text {
        "step_down" => Ok(StepDownReason::StepDown),
        "shutdown" => Ok(StepDownReason::Shutdown),
        other => Err(Malformed::new(REASON, format!("is {other:?}; it must be step_down or shutdown"))),
    }
}

const fn acquired_as_text(acquired_as: AcquiredAs) -> &'static str {
    match acquired_as {
        AcquiredAs::Acquired => "acquired",
        AcquiredAs::Seized => "seized",
        AcquiredAs::Reclaimed => "reclaimed",
    }
}

fn parse_acquired_as(text: &str) -> Result<AcquiredAs, Malformed> {
    match text {
        "acquired" => Ok(AcquiredAs::Acquired),
        "seized" => Ok(AcquiredAs::Seized),
        "reclaimed" => Ok(AcquiredAs::Reclaimed),
        other => Err(Malformed::new(ACQUIRED_AS, format!("is {other:?}; it must be acquired, seized or reclaimed"))),
    }
}
