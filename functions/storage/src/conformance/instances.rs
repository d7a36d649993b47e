//! Instance rows, and the group that is read at once.

use std::time::Duration;

use fencepost_protocol::ids::{AttemptId, LeaseName, Stamp};
use fencepost_protocol::lease::{
    Evidence, InstanceRecord, InstanceWrite, LeaseWrite, Liveness, LoopId, Reporting, Standing, StepDownReason,
};
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::Timestamp;

use super::expect::{Outcome, damaged, equal, holds};
use super::sample::{World, identity, token};
use super::{TablesCase, cases};
use crate::item::Value;
use crate::ports::WriteAnswer;
use crate::records::{Table, instance};

pub(super) const CASES: [TablesCase; 6] = cases![TablesCase:
    a_record_is_written_over_the_generation_that_was_read,
    a_repeated_write_is_known_as_own,
    every_field_comes_back_and_goes_again,
    a_group_is_read_whole_and_in_order,
    a_group_over_one_page_is_read_whole,
    a_damaged_record_is_refused_and_stays,
];

fn record(world: &World, name: &str, generation: u64, attempt: &str) -> Outcome<InstanceRecord> {
    Ok(InstanceRecord {
        lease: world.lease.clone(),
        identity: identity(name)?,
        evidence: None,
        loops: Vec::new(),
        generation,
        reported: Standing::Standby,
        told_token: Stamp::NONE,
        reporting: None,
        attempt: AttemptId::new(attempt)?,
    })
}

async fn write(
    world: &World,
    expected_generation: u64,
    record: &InstanceRecord,
) -> Outcome<WriteAnswer<InstanceRecord>> {
    Ok(world.leases().write_instance(&InstanceWrite { expected_generation, record: record.clone() }).await?)
}

async fn stands(world: &World, record: &InstanceRecord) -> Outcome {
    let group = world.leases().read_group(&world.lease).await?;
    equal("the group's instances", &group.instances, &vec![(record.identity.clone(), Slot::Present(record.clone()))])
}

async fn a_record_is_written_over_the_generation_that_was_read(world: &World) -> Outcome {
    let first = record(world, "east", 1, "a1")?;
    let second = record(world, "east", 2, "a2")?;
    let rival = record(world, "east", 2, "a3")?;
    equal("over nothing", &write(world, 1, &second).await?, &WriteAnswer::Refused(Slot::Absent))?;
    equal("creation", &write(world, 0, &first).await?, &WriteAnswer::Written)?;
    let refused = WriteAnswer::Refused(Slot::Present(first.clone()));
    equal("a second creation", &write(world, 0, &rival).await?, &refused)?;
    equal("over a generation to come", &write(world, 2, &rival).await?, &refused)?;
    equal("the next generation", &write(world, 1, &second).await?, &WriteAnswer::Written)?;
    let refused = WriteAnswer::Refused(Slot::Present(second.clone()));
    equal("a rival of that generation", &write(world, 1, &rival).await?, &refused)?;
    stands(world, &second).await
}

async fn a_repeated_write_is_known_as_own(world: &World) -> Outcome {
    let first = record(world, "east", 1, "a1")?;
    let second = record(world, "east", 2, "a2")?;
    for _ in 0..2 {
        equal("creation", &write(world, 0, &first).await?, &WriteAnswer::Written)?;
    }
    for _ in 0..2 {
        equal("the next generation", &write(world, 1, &second).await?, &WriteAnswer::Written)?;
    }
    stands(world, &second).await
}

async fn every_field_comes_back_and_goes_again(world: &World) -> Outcome {
    let loop_id = |ms, name: &str| LoopId { started_at_ms: Timestamp::from_ms(ms), name: name.to_owned() };
    let of = Liveness { owner: identity("west")?, token: token(7)?, renewal: u64::MAX, namesake_generation: Some(3) };
    let full = InstanceRecord {
        evidence: Some(Evidence { of, counted_to: Timestamp::MAX, unchanged_for: Duration::from_millis(1_501) }),
        loops: vec![loop_id(2, "größer/:#\"'"), loop_id(1, "")],
        reported: Standing::Holder { token: token(6)?, stepping_down: Some(StepDownReason::Shutdown) },
        told_token: Stamp::from(token(6)?),
        reporting: Some(Reporting { standing: Standing::Standby, by: loop_id(9, "l"), since_generation: 0 }),
        ..record(world, "east", 1, "a1")?
    };
    write(world, 0, &full).await?;
    stands(world, &full).await?;
    let bare = record(world, "east", 2, "a2")?;
    write(world, 1, &bare).await?;
    stands(world, &bare).await
}

async fn a_group_is_read_whole_and_in_order(world: &World) -> Outcome {
    let lease = world.held("a1", 1)?;
    world.leases().write_lease(&LeaseWrite { expected: None, record: lease.clone() }).await?;
    for name in ["west", "East", "east", "0"] {
        write(world, 0, &record(world, name, 1, "a")?).await?;
    }
    // A group whose name begins as this one's, and one that this one's begins with.
    for name in [format!("{}.b", world.lease), world.lease.as_str().chars().take(3).collect()] {
        let other = InstanceRecord { lease: LeaseName::new(name)?, ..record(world, "x", 1, "a")? };
        write(world, 0, &other).await?;
    }
    let group = world.leases().read_group(&world.lease).await?;
    equal("the lease row", &group.lease, &Slot::Present(lease))?;
    let names: Vec<&str> = group.instances.iter().map(|(identity, _)| identity.name.as_str()).collect();
    equal("the instances", &names, &vec!["0", "East", "east", "west"])?;
    holds(group.instances.iter().all(|(_, slot)| slot.present().is_some()), "an instance's record did not decode")
}

async fn a_group_over_one_page_is_read_whole(world: &World) -> Outcome {
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        let item = instance::encode(&record(world, name, 1, "a")?);
        let padding = Value::Bytes(vec![0; 300 * 1024]);
        world.plant_damaged(Table::Lease, item, "attribute_of_a_later_version", padding).await?;
    }
    let lease = world.held("a1", 1)?;
    world.leases().write_lease(&LeaseWrite { expected: None, record: lease.clone() }).await?;
    let group = world.leases().read_group(&world.lease).await?;
    equal("the lease row", &group.lease, &Slot::Present(lease))?;
    equal("the number of instances", &group.instances.len(), &names.len())
}

async fn a_damaged_record_is_refused_and_stays(world: &World) -> Outcome {
    let item = instance::encode(&record(world, "east", 5, "a1")?);
    world.plant_damaged(Table::Lease, item, instance::REPORTED, Value::text("holder")).await?;
    write(world, 0, &record(world, "west", 1, "a1")?).await?;
    match write(world, 4, &record(world, "east", 5, "a2")?).await? {
        WriteAnswer::Refused(slot) => damaged("a write", &slot, instance::REPORTED)?,
        WriteAnswer::Written => holds(false, "a damaged record was overwritten")?,
    }
    let group = world.leases().read_group(&world.lease).await?;
    equal("the number of instances", &group.instances.len(), &2)?;
    for (identity, slot) in &group.instances {
        match identity.name.as_str() {
            "east" => damaged("the record", slot, instance::REPORTED)?,
            _ => holds(slot.present().is_some(), "the damage of one record hid another")?,
        }
    }
    Ok(())
}
