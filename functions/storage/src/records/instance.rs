//! The instance row: what one instance remembers between ticks.
//!
//! Key: `lease` = the group's name, `record` = `INSTANCE#<name>#<stack>`. Cardinality: one per instance and stack that ever
//! ticked in the group. Mutability: rewritten whole by its own instance, each time on condition of the `generation` that
//! was read; nobody else writes it.

use std::time::Duration;

use fencepost_protocol::ids::{AttemptId, Identity, InstanceName, LeaseName, Malformed, StackId, Stamp};
use fencepost_protocol::lease::{Evidence, InstanceRecord, Liveness, LoopId, Reporting, Standing};
use fencepost_protocol::outbox::{Damage, SCHEMA};
use fencepost_protocol::time::duration_ms;

use super::fields::{self, Fields, SCHEMA_ATTRIBUTE};
use super::lease::{parse_reason, read_identity, read_token, reason_text};
use super::table::Table;
use crate::item::{Item, Key, Value};

/// The beginning of every instance row's sort key.
pub const RECORD_PREFIX: &str = "INSTANCE#";

/// Map {owner, owner_stack, fencing_token, renewal, namesake_generation, counted_to, unchanged_for_ms}.
pub const EVIDENCE: &str = "evidence";
/// List of maps {started_at_ms, name}, newest first.
pub const LOOPS: &str = "loops";
/// Raised by one at each write, from 1.
pub const GENERATION: &str = "generation";
/// Map {state, fencing_token, stepping_down}: what the world was told.
pub const REPORTED: &str = "reported";
/// The highest token under which the world was told that this instance holds the lease; absent for none.
pub const TOLD_TOKEN: &str = "told_token";
/// Map {standing, by, since_generation}: what it is being told.
pub const REPORTING: &str = "reporting";
/// The id of the write that made this version.
pub const ATTEMPT: &str = "attempt";

/// Every attribute of the row but its key. A write sets those that [`encode`] yields and removes the others.
pub const ATTRIBUTES: [&str; 8] =
    [EVIDENCE, LOOPS, GENERATION, REPORTED, TOLD_TOKEN, REPORTING, ATTEMPT, SCHEMA_ATTRIBUTE];

/// Loops that a row remembers.
const LOOPS_MAX: usize = 2;

const OWNER: &str = "owner";
const OWNER_STACK: &str = "owner_stack";
const FENCING_TOKEN: &str = "fencing_token";
const RENEWAL: &str = "renewal";
const NAMESAKE_GENERATION: &str = "namesake_generation";
const COUNTED_TO: &str = "counted_to";
const UNCHANGED_FOR_MS: &str = "unchanged_for_ms";
const STARTED_AT_MS: &str = "started_at_ms";
const NAME: &str = "name";
const STATE: &str = "state";
const STEPPING_DOWN: &str = "stepping_down";
const STANDING: &str = "standing";
const BY: &str = "by";
const SINCE_GENERATION: &str = "since_generation";

const STANDBY: &str = "standby";
const HOLDER: &str = "holder";

/// Where the row of `identity` in `lease` is.
pub fn key(lease: &LeaseName, identity: &Identity) -> Key {
    Key { partition: lease.to_string(), sort: format!("{RECORD_PREFIX}{}#{}", identity.name, identity.stack) }
}

/// Whose row a sort key names.
///
/// # Errors
/// [`Malformed`] where it is not `INSTANCE#<name>#<stack>`.
pub fn parse_sort(sort: &str) -> Result<Identity, Malformed> {
    let bad = || {
        let problem = format!("is {:?}; it must be {RECORD_PREFIX}<name>#<stack>", sort.escape_debug().to_string());
        Malformed::new(Table::Lease.sort_attribute(), problem)
    };
    let (name, stack) = sort.strip_prefix(RECORD_PREFIX).and_then(|rest| rest.split_once('#')).ok_or_else(bad)?;
    Ok(Identity { name: InstanceName::new(name).map_err(|_| bad())?, stack: StackId::new(stack).map_err(|_| bad())? })
}

/// The whole item of `record`.
pub fn encode(record: &InstanceRecord) -> Item {
    let mut item = Table::Lease.item_of(&key(&record.lease, &record.identity));
    let mut set = |name: &str, value: Value| item.insert(name.to_owned(), value);
    if let Some(evidence) = &record.evidence {
        set(EVIDENCE, evidence_value(evidence));
    }
    set(LOOPS, Value::List(record.loops.iter().map(loop_value).collect()));
    set(GENERATION, Value::number(record.generation));
    set(REPORTED, standing_value(&record.reported));
    if record.told_token != Stamp::NONE {
        set(TOLD_TOKEN, Value::number(record.told_token.get()));
    }
    if let Some(reporting) = &record.reporting {
        let parts = [
            (STANDING, standing_value(&reporting.standing)),
            (BY, loop_value(&reporting.by)),
            (SINCE_GENERATION, Value::number(reporting.since_generation)),
        ];
        set(REPORTING, Value::map(parts));
    }
    set(ATTEMPT, Value::text(record.attempt.as_str()));
    set(SCHEMA_ATTRIBUTE, Value::number(SCHEMA.into()));
    item
}

fn evidence_value(evidence: &Evidence) -> Value {
    let Liveness { owner, token, renewal, namesake_generation } = &evidence.of;
    let parts = [
        (OWNER, Value::text(owner.name.as_str())),
        (OWNER_STACK, Value::text(owner.stack.as_str())),
        (FENCING_TOKEN, Value::number(token.get())),
        (RENEWAL, Value::number(*renewal)),
        (COUNTED_TO, Value::number(evidence.counted_to.as_ms())),
        (UNCHANGED_FOR_MS, Value::number(duration_ms(evidence.unchanged_for))),
    ];
    Value::map(parts.into_iter().chain(namesake_generation.map(|number| (NAMESAKE_GENERATION, Value::number(number)))))
}

fn loop_value(id: &LoopId) -> Value {
    Value::map([(STARTED_AT_MS, Value::number(id.started_at_ms.as_ms())), (NAME, Value::text(&id.name))])
}

fn standing_value(standing: &Standing) -> Value {
    match standing {
        Standing::Standby => Value::map([(STATE, Value::text(STANDBY))]),
        Standing::Holder { token, stepping_down } => {
            let parts = [(STATE, Value::text(HOLDER)), (FENCING_TOKEN, Value::number(token.get()))];
            let reason = stepping_down.map(|reason| (STEPPING_DOWN, Value::text(reason_text(reason))));
            Value::map(parts.into_iter().chain(reason))
        }
    }
}

/// Reads an instance row.
///
/// # Errors
/// [`Damage`] with the first field that is missing, of the wrong type, out of range or impossible beside the others.
pub fn decode(item: &Item) -> Result<InstanceRecord, Damage> {
    fields::decode(item, || Table::Lease.describe("instance row", item), read)
}

fn read(fields: &Fields<'_>) -> Result<InstanceRecord, Malformed> {
    Ok(InstanceRecord {
        lease: fields.parsed(Table::Lease.partition_attribute(), LeaseName::new)?,
        identity: fields.parsed(Table::Lease.sort_attribute(), parse_sort)?,
        evidence: fields.map_opt(EVIDENCE)?.as_ref().map(read_evidence).transpose()?,
        loops: fields.maps(LOOPS, LOOPS_MAX)?.iter().map(read_loop).collect::<Result<_, _>>()?,
        generation: fields.number(GENERATION, 1..=u64::MAX)?,
        reported: read_standing(&fields.map(REPORTED)?)?,
        told_token: fields
            .has(TOLD_TOKEN)
            .then(|| read_token(fields, TOLD_TOKEN))
            .transpose()?
            .map_or(Stamp::NONE, Stamp::from),
        reporting: fields.map_opt(REPORTING)?.as_ref().map(read_reporting).transpose()?,
        attempt: fields.parsed(ATTEMPT, AttemptId::new)?,
    })
}

fn read_evidence(fields: &Fields<'_>) -> Result<Evidence, Malformed> {
    Ok(Evidence {
        of: Liveness {
            owner: read_identity(fields, OWNER, OWNER_STACK)?,
            token: read_token(fields, FENCING_TOKEN)?,
            renewal: fields.number(RENEWAL, 0..=u64::MAX)?,
            namesake_generation: fields.number_opt(NAMESAKE_GENERATION, 0..=u64::MAX)?,
        },
        counted_to: fields.moment(COUNTED_TO)?,
        unchanged_for: Duration::from_millis(fields.number(UNCHANGED_FOR_MS, 0..=u64::MAX)?),
    })
}

fn read_loop(fields: &Fields<'_>) -> Result<LoopId, Malformed> {
    Ok(LoopId { started_at_ms: fields.moment(STARTED_AT_MS)?, name: fields.text(NAME)?.to_owned() })
}

fn read_standing(fields: &Fields<'_>) -> Result<Standing, Malformed> {
    match fields.text(STATE)? {
        STANDBY if fields.has(FENCING_TOKEN) || fields.has(STEPPING_DOWN) => {
            Err(fields.malformed(STATE, format!("is {STANDBY} beside the fields of a {HOLDER}")))
        }
        STANDBY => Ok(Standing::Standby),
        HOLDER => Ok(Standing::Holder {
            token: read_token(fields, FENCING_TOKEN)?,
            stepping_down: fields.parsed_opt(STEPPING_DOWN, parse_reason)?,
        }),
        other => Err(fields.malformed(STATE, format!("is {other:?}; it must be {STANDBY} or {HOLDER}"))),
    }
}

fn read_reporting(fields: &Fields<'_>) -> Result<Reporting, Malformed> {
    Ok(Reporting {
        standing: read_standing(&fields.map(STANDING)?)?,
        by: read_loop(&fields.map(BY)?)?,
        since_generation: fields.number(SINCE_GENERATION, 0..=u64::MAX)?,
    })
}
