//! The fence: raised from exactly the value that was read.

use fencepost_protocol::ids::AttemptId;
use fencepost_protocol::lease::FenceRaise;
use fencepost_protocol::limits::FENCING_TOKEN_MAX;
use fencepost_protocol::outbox::{Fence, Slot};

use super::expect::{Outcome, damaged, equal, holds};
use super::sample::{World, token};
use super::{TablesCase, cases};
use crate::item::Value;
use crate::ports::WriteAnswer;
use crate::records::{Table, fence};

pub(super) const CASES: [TablesCase; 4] = cases![TablesCase:
    a_fence_is_raised_from_nothing_and_from_what_was_read,
    a_fence_is_not_raised_from_anything_else,
    a_repeated_raise_is_known_as_own,
    a_damaged_fence_is_refused_and_stays,
];

fn at(highest: u64, attempt: &str) -> Outcome<Fence> {
    Ok(Fence { highest: token(highest)?, attempt: AttemptId::new(attempt)? })
}

async fn raise(world: &World, expected: Option<&Fence>, fence: &Fence) -> Outcome<WriteAnswer<Fence>> {
    let raise = FenceRaise { lease: world.lease.clone(), expected: expected.cloned(), fence: fence.clone() };
    Ok(world.outbox().raise_fence(&raise).await?)
}

async fn stands(world: &World, fence: &Fence) -> Outcome {
    equal("the fence", &world.outbox().read_fence(&world.lease).await?, &Slot::Present(fence.clone()))
}

async fn a_fence_is_raised_from_nothing_and_from_what_was_read(world: &World) -> Outcome {
    equal("the fence", &world.outbox().read_fence(&world.lease).await?, &Slot::Absent)?;
    let (low, high) = (at(1, "a1")?, at(FENCING_TOKEN_MAX, "a2")?);
    equal("from nothing", &raise(world, None, &low).await?, &WriteAnswer::Written)?;
    stands(world, &low).await?;
    equal("from what was read", &raise(world, Some(&low), &high).await?, &WriteAnswer::Written)?;
    stands(world, &high).await
}

async fn a_fence_is_not_raised_from_anything_else(world: &World) -> Outcome {
    let (standing, next) = (at(5, "a1")?, at(6, "a2")?);
    equal(
        "from a fence that is gone",
        &raise(world, Some(&standing), &next).await?,
        &WriteAnswer::Refused(Slot::Absent),
    )?;
    raise(world, None, &standing).await?;
    let refused = WriteAnswer::Refused(Slot::Present(standing.clone()));
    equal("from nothing", &raise(world, None, &next).await?, &refused)?;
    equal("from another value", &raise(world, Some(&at(4, "a1")?), &next).await?, &refused)?;
    equal("from another write", &raise(world, Some(&at(5, "a0")?), &next).await?, &refused)?;
    stands(world, &standing).await
}

async fn a_repeated_raise_is_known_as_own(world: &World) -> Outcome {
    let (low, high) = (at(1, "a1")?, at(2, "a2")?);
    for _ in 0..2 {
        equal("from nothing", &raise(world, None, &low).await?, &WriteAnswer::Written)?;
    }
    for _ in 0..2 {
        equal("from what was read", &raise(world, Some(&low), &high).await?, &WriteAnswer::Written)?;
    }
    stands(world, &high).await
}

async fn a_damaged_fence_is_refused_and_stays(world: &World) -> Outcome {
    let item = fence::encode(&world.lease, &at(5, "a1")?);
    world.plant_damaged(Table::Outbox, item, fence::FENCING_TOKEN, Value::Bool(true)).await?;
    damaged("the fence", &world.outbox().read_fence(&world.lease).await?, fence::FENCING_TOKEN)?;
    let seen = at(5, "a1")?;
    for expected in [None, Some(&seen)] {
        match raise(world, expected, &at(6, "a2")?).await? {
            WriteAnswer::Refused(slot) => damaged("a raise", &slot, fence::FENCING_TOKEN)?,
            WriteAnswer::Written => holds(false, "a damaged fence was overwritten")?,
        }
    }
    damaged("the fence afterwards", &world.outbox().read_fence(&world.lease).await?, fence::FENCING_TOKEN)
}
