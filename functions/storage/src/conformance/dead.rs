//! Dying, dead rows, and the way back.

use fencepost_protocol::drain::{Burial, ChangeAnswer, Redrive};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::{ClaimId, Stamp};
use fencepost_protocol::outbox::{DeadRow, DeathReason, OutboxRow, Slot, Status};

use super::expect::{Outcome, damaged, equal, fails, holds};
use super::sample::{World, advance, burial, token};
use super::{TablesCase, cases};
use crate::item::Value;
use crate::ports::PutAnswer;
use crate::records::{Table, dead, outstanding};

pub(super) const CASES: [TablesCase; 10] = cases![TablesCase:
    a_burial_moves_the_row_once,
    a_burial_needs_the_row_as_it_was_seen,
    a_late_burial_does_not_end_the_next_life,
    a_claimed_row_is_buried_as_it_stood,
    a_dead_row_of_a_later_life_is_never_lowered,
    a_damaged_dead_row_stops_the_burial,
    dead_pages_are_in_order_and_exclusive,
    damaged_dead_rows_are_shown_in_their_places,
    a_dead_row_is_deleted_in_its_own_life_only,
    a_record_comes_back_from_the_dead,
];

/// The dead rows of shard 0, by pages of `limit`.
async fn walk(world: &World, limit: usize) -> Outcome<Vec<Slot<DeadRow>>> {
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let page = world.outbox().dead_page(&world.shard(0)?, after.as_ref(), limit).await?;
        holds(page.rows.len() <= limit, format!("a page of {limit} has {} rows", page.rows.len()))?;
        rows.extend(page.rows.into_iter().map(|(_, slot)| slot));
        match advance(after.as_ref(), page.next)? {
            None => return Ok(rows),
            next => after = next,
        }
    }
}

async fn dead_are(world: &World, wanted: &[&DeadRow]) -> Outcome {
    let wanted: Vec<_> = wanted.iter().map(|&dead| Slot::Present(dead.clone())).collect();
    equal("the dead", &walk(world, 10).await?, &wanted)
}

async fn a_burial_moves_the_row_once(world: &World) -> Outcome {
    let row = OutboxRow { payload: vec![0, 255], last_error: Some("e".to_owned()), ..world.row(1)? };
    world.store(&row).await?;
    let neighbour = world.stored(2).await?;
    dead_are(world, &[]).await?;
    let plan = burial(&row);
    equal("the burial", &world.outbox().kill(&plan).await?, &ChangeAnswer::Done)?;
    world.is_gone(&row).await?;
    dead_are(world, &[&plan.dead]).await?;
    equal("the same burial again", &world.outbox().kill(&plan).await?, &ChangeAnswer::Absent)?;
    dead_are(world, &[&plan.dead]).await?;
    equal("the living", &world.walk(&world.shard(0)?, 10).await?, &vec![neighbour])
}

async fn a_burial_needs_the_row_as_it_was_seen(world: &World) -> Outcome {
    let held = world.claimed(1, "c1", 3).await?;
    let plan = burial(&held);
    let wrong = [
        Burial { seen: Status::Pending, ..plan.clone() },
        Burial { seen: Status::Claimed(ClaimId::new("c0")?), ..plan.clone() },
        Burial { seen_stamp: Stamp::from(token(2)?), ..plan.clone() },
        Burial { seen_stamp: Stamp::from(token(4)?), ..plan.clone() },
    ];
    for plan in wrong {
        let fenced = ChangeAnswer::Fenced(Slot::Present(held.clone()));
        equal(&format!("seen {:?}, {}", plan.seen, plan.seen_stamp), &world.outbox().kill(&plan).await?, &fenced)?;
        world.stands(&held).await?;
    }
    let pending = world.stored(2).await?;
    let plan = Burial { seen: held.status.clone(), ..burial(&pending) };
    let fenced = ChangeAnswer::Fenced(Slot::Present(pending.clone()));
    equal("a row that was handed back", &world.outbox().kill(&plan).await?, &fenced)?;
    world.stands(&pending).await
}

async fn a_late_burial_does_not_end_the_next_life(world: &World) -> Outcome {
    let first = world.stored(1).await?;
    let plan = burial(&first);
    equal("the burial", &world.outbox().kill(&plan).await?, &ChangeAnswer::Done)?;
    // Pending as it was, under the same stamp: only the life tells the two apart.
    let second = OutboxRow { redriven: 1, ..first.clone() };
    let redrive = Redrive { row: second.clone(), dead_redriven: 0 };
    equal("the redrive", &world.outbox().put_redriven(&redrive).await?, &PutAnswer::Stored)?;
    let fenced = ChangeAnswer::Fenced(Slot::Present(second.clone()));
    equal("late, beside the dead row", &world.outbox().kill(&plan).await?, &fenced)?;
    world.stands(&second).await?;
    equal("its dead row", &world.outbox().delete_dead(&first.key, 0).await?, &ChangeAnswer::Done)?;
    equal("late, after the dead row", &world.outbox().kill(&plan).await?, &fenced)?;
    world.stands(&second).await?;
    equal("the burial of its own life", &world.outbox().kill(&burial(&second)).await?, &ChangeAnswer::Done)?;
    dead_are(world, &[&burial(&second).dead]).await
}

async fn a_claimed_row_is_buried_as_it_stood(world: &World) -> Outcome {
    let mut plans = Vec::new();
    for (n, reason) in [(1, DeathReason::Exhausted), (2, DeathReason::Oversize), (3, DeathReason::Refused)] {
        let mut plan = burial(&world.claimed(n, "c1", 3).await?);
        plan.dead.reason = reason;
        equal("the burial", &world.outbox().kill(&plan).await?, &ChangeAnswer::Done)?;
        plans.push(plan.dead);
    }
    dead_are(world, &plans.iter().collect::<Vec<_>>()).await
}

async fn a_dead_row_of_a_later_life_is_never_lowered(world: &World) -> Outcome {
    let life = |redriven| -> Outcome<OutboxRow> { Ok(OutboxRow { redriven, ..world.row(1)? }) };
    for (redriven, left) in [(1, 1), (2, 2), (10, 10), (9, 10), (0, 10), (10, 10)] {
        let row = life(redriven)?;
        world.store(&row).await?;
        equal(&format!("life {redriven}"), &world.outbox().kill(&burial(&row)).await?, &ChangeAnswer::Done)?;
        world.is_gone(&row).await?;
        dead_are(world, &[&burial(&life(left)?).dead]).await?;
    }
    Ok(())
}

async fn a_damaged_dead_row_stops_the_burial(world: &World) -> Outcome {
    let row = world.stored(1).await?;
    let plan = burial(&row);
    world.plant_damaged(Table::Outbox, dead::encode(&plan.dead), outstanding::REDRIVEN, Value::text("0")).await?;
    fails("the burial", &world.outbox().kill(&plan).await, FailureKind::Invalid)?;
    world.stands(&row).await?;
    let left = walk(world, 10).await?;
    equal("the number of dead", &left.len(), &1)?;
    damaged("the dead row", &left[0], outstanding::REDRIVEN)
}

async fn dead_pages_are_in_order_and_exclusive(world: &World) -> Outcome {
    let mut wanted = Vec::new();
    for n in [5, 1, 3, 4, 2] {
        let plan = burial(&world.stored(n).await?);
        world.outbox().kill(&plan).await?;
        wanted.push(plan.dead);
    }
    wanted.sort_by_key(|dead| dead.row.key.clone());
    let wanted: Vec<_> = wanted.into_iter().map(Slot::Present).collect();
    for limit in [1, 2, 5, 9] {
        equal(&format!("by pages of {limit}"), &walk(world, limit).await?, &wanted)?;
    }
    let cursor = world.row(3)?.key.position;
    let page = world.outbox().dead_page(&world.shard(0)?, Some(&cursor), 9).await?;
    equal("after row 3", &page.rows.len(), &2)?;
    let other = world.outbox().dead_page(&world.shard(1)?, None, 9).await?;
    holds(other.rows.is_empty() && other.next.is_none(), "another shard has dead rows")
}

async fn damaged_dead_rows_are_shown_in_their_places(world: &World) -> Outcome {
    for n in [1, 3] {
        world.outbox().kill(&burial(&world.stored(n).await?)).await?;
    }
    let item = dead::encode(&burial(&world.row(2)?).dead);
    world.plant_damaged(Table::Outbox, item, dead::REASON, Value::text("bored")).await?;
    let found = walk(world, 2).await?;
    equal("the number of dead", &found.len(), &3)?;
    damaged("the second", &found[1], dead::REASON)?;
    holds(found[0].present().is_some() && found[2].present().is_some(), "damage hid a neighbour")
}

async fn a_dead_row_is_deleted_in_its_own_life_only(world: &World) -> Outcome {
    let row = OutboxRow { redriven: 2, ..world.row(1)? };
    world.store(&row).await?;
    let plan = burial(&row);
    world.outbox().kill(&plan).await?;
    for other in [0, 1, 3] {
        let answer = world.outbox().delete_dead(&row.key, other).await?;
        equal(&format!("in life {other}"), &answer, &ChangeAnswer::Fenced(Slot::Absent))?;
    }
    dead_are(world, &[&plan.dead]).await?;
    equal("in its own", &world.outbox().delete_dead(&row.key, 2).await?, &ChangeAnswer::Done)?;
    equal("again", &world.outbox().delete_dead(&row.key, 2).await?, &ChangeAnswer::Absent)?;
    dead_are(world, &[]).await
}

async fn a_record_comes_back_from_the_dead(world: &World) -> Outcome {
    let held = world.claimed(1, "c1", 3).await?;
    let plan = burial(&held);
    world.outbox().kill(&plan).await?;
    let row = OutboxRow { redriven: 1, attempts: 0, status: Status::Pending, first_attempt_at: None, ..held };
    let redrive = Redrive { row: row.clone(), dead_redriven: 0 };
    equal("the redrive", &world.outbox().put_redriven(&redrive).await?, &PutAnswer::Stored)?;
    let again = world.outbox().put_redriven(&redrive).await?;
    equal("the same again", &again, &PutAnswer::Exists(Slot::Present(row.clone())))?;
    dead_are(world, &[&plan.dead]).await?;
    equal("its dead row", &world.outbox().delete_dead(&row.key, 0).await?, &ChangeAnswer::Done)?;
    dead_are(world, &[]).await?;
    world.stands(&row).await
}
