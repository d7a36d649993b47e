//! The lease row: one condition, the attempt that was read.

use std::time::Duration;

use fencepost_protocol::ids::{AttemptId, Stamp};
use fencepost_protocol::lease::{
    AcquiredAs, LastRelease, LeaseRecord, LeaseWrite, Released, StepDownReason, SteppingDown,
};
use fencepost_protocol::limits::FENCING_TOKEN_MAX;
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::Timestamp;

use super::expect::{Outcome, damaged, equal, holds};
use super::sample::{World, identity, token};
use super::{TablesCase, cases};
use crate::item::Value;
use crate::ports::WriteAnswer;
use crate::records::{SCHEMA_ATTRIBUTE, Table, lease};

pub(super) const CASES: [TablesCase; 9] = cases![TablesCase:
    nothing_stands_at_first,
    a_row_is_created_where_none_stands,
    a_version_is_written_over_the_one_that_was_read,
    a_write_over_no_row_is_refused,
    a_repeated_write_is_known_as_own,
    what_a_new_version_lacks_is_removed,
    every_field_comes_back,
    a_damaged_row_is_refused_and_stays,
    a_row_of_a_newer_schema_is_told_apart,
];

async fn write(
    world: &World,
    expected: Option<&LeaseRecord>,
    record: &LeaseRecord,
) -> Outcome<WriteAnswer<LeaseRecord>> {
    let expected = expected.map(|row| row.attempt.clone());
    Ok(world.leases().write_lease(&LeaseWrite { expected, record: record.clone() }).await?)
}

async fn stands(world: &World, record: &LeaseRecord) -> Outcome {
    let wanted = Slot::Present(record.clone());
    equal("the row by itself", &world.leases().read_lease(&world.lease).await?, &wanted)?;
    equal("the row in its group", &world.leases().read_group(&world.lease).await?.lease, &wanted)
}

async fn nothing_stands_at_first(world: &World) -> Outcome {
    equal("the row", &world.leases().read_lease(&world.lease).await?, &Slot::Absent)?;
    let group = world.leases().read_group(&world.lease).await?;
    equal("the group's row", &group.lease, &Slot::Absent)?;
    holds(group.instances.is_empty(), format!("instances: {:?}", group.instances))
}

async fn a_row_is_created_where_none_stands(world: &World) -> Outcome {
    let first = world.held("a1", 1)?;
    equal("the first write", &write(world, None, &first).await?, &WriteAnswer::Written)?;
    stands(world, &first).await?;
    let second = world.held("a2", 2)?;
    let refused = WriteAnswer::Refused(Slot::Present(first.clone()));
    equal("a second creation", &write(world, None, &second).await?, &refused)?;
    stands(world, &first).await
}

async fn a_version_is_written_over_the_one_that_was_read(world: &World) -> Outcome {
    let first = world.held("a1", 1)?;
    let second = LeaseRecord { renewal: 1, ..world.held("a2", 1)? };
    write(world, None, &first).await?;
    equal("a renewal", &write(world, Some(&first), &second).await?, &WriteAnswer::Written)?;
    let late = LeaseRecord { renewal: 1, ..world.held("a3", 1)? };
    let refused = WriteAnswer::Refused(Slot::Present(second.clone()));
    equal("a write over an older version", &write(world, Some(&first), &late).await?, &refused)?;
    stands(world, &second).await
}

async fn a_write_over_no_row_is_refused(world: &World) -> Outcome {
    let (never, next) = (world.held("a1", 1)?, world.held("a2", 2)?);
    let answer = write(world, Some(&never), &next).await?;
    equal("a write over a row that is gone", &answer, &WriteAnswer::Refused(Slot::Absent))?;
    equal("the row", &world.leases().read_lease(&world.lease).await?, &Slot::Absent)
}

async fn a_repeated_write_is_known_as_own(world: &World) -> Outcome {
    let first = world.held("a1", 1)?;
    let second = LeaseRecord { renewal: 1, ..world.held("a2", 1)? };
    for _ in 0..2 {
        equal("creation", &write(world, None, &first).await?, &WriteAnswer::Written)?;
    }
    for _ in 0..2 {
        equal("renewal", &write(world, Some(&first), &second).await?, &WriteAnswer::Written)?;
    }
    stands(world, &second).await
}

async fn what_a_new_version_lacks_is_removed(world: &World) -> Outcome {
    let at = Timestamp::from_ms(5);
    let mark = SteppingDown { since: at, reason: StepDownReason::StepDown };
    let held = LeaseRecord { stepping_down: Some(mark), ..world.held("a1", 3)? };
    let released = Released { by: identity("east")?, at, reason: StepDownReason::StepDown };
    let free = LeaseRecord { owner: None, released: Some(released), ..world.held("a2", 3)? };
    let last = LastRelease { by: identity("east")?, token: token(3)?, reason: StepDownReason::StepDown };
    let again = LeaseRecord { last_release: Some(last), ..world.held("a3", 4)? };
    let seized = world.held("a4", 5)?;
    write(world, None, &held).await?;
    write(world, Some(&held), &free).await?;
    stands(world, &free).await?;
    write(world, Some(&free), &again).await?;
    stands(world, &again).await?;
    write(world, Some(&again), &seized).await?;
    stands(world, &seized).await
}

async fn every_field_comes_back(world: &World) -> Outcome {
    let far = Timestamp::MAX;
    let full = LeaseRecord {
        owner: Some(identity("us-west_2.b")?),
        token: token(FENCING_TOKEN_MAX)?,
        renewal: u64::MAX,
        lease_ttl: Duration::from_millis(86_400_000),
        confirmed_at: far,
        acquired_as: AcquiredAs::Reclaimed,
        stepping_down: Some(SteppingDown { since: Timestamp::from_ms(0), reason: StepDownReason::Shutdown }),
        last_release: Some(LastRelease {
            by: identity("eu-central_1.a")?,
            token: token(FENCING_TOKEN_MAX - 1)?,
            reason: StepDownReason::Shutdown,
        }),
        takeover_done: Stamp::new(FENCING_TOKEN_MAX)?,
        takeover_try: u32::MAX,
        takeover_try_at: far,
        attempt: AttemptId::new("A-z_0.9".repeat(9))?,
        ..world.held("unused", 1)?
    };
    write(world, None, &full).await?;
    stands(world, &full).await
}

async fn a_damaged_row_is_refused_and_stays(world: &World) -> Outcome {
    let item = lease::encode(&world.held("a1", 1)?);
    world.plant_damaged(Table::Lease, item, lease::FENCING_TOKEN, Value::text("seven")).await?;
    damaged("the row by itself", &world.leases().read_lease(&world.lease).await?, lease::FENCING_TOKEN)?;
    damaged("the group's row", &world.leases().read_group(&world.lease).await?.lease, lease::FENCING_TOKEN)?;
    let older = world.held("a0", 1)?;
    for expected in [None, Some(&older)] {
        match write(world, expected, &world.held("a2", 2)?).await? {
            WriteAnswer::Refused(slot) => damaged("a write", &slot, lease::FENCING_TOKEN)?,
            WriteAnswer::Written => holds(false, "a damaged row was overwritten")?,
        }
    }
    damaged("the row afterwards", &world.leases().read_lease(&world.lease).await?, lease::FENCING_TOKEN)
}

async fn a_row_of_a_newer_schema_is_told_apart(world: &World) -> Outcome {
    let item = lease::encode(&world.held("a1", 1)?);
    world.plant_damaged(Table::Lease, item, SCHEMA_ATTRIBUTE, Value::number(99)).await?;
    let slot = world.leases().read_lease(&world.lease).await?;
    damaged("the row", &slot, SCHEMA_ATTRIBUTE)?;
    holds(matches!(&slot, Slot::Damaged(damage) if damage.newer_schema), "it is not marked as newer")
}
