//! Tombstones: a later life replaces an earlier one, never the other way.

use fencepost_protocol::ids::{MessageId, PayloadDigest};
use fencepost_protocol::outbox::{Slot, Tombstone};

use super::expect::{Outcome, answered, damaged, equal, single};
use super::sample::World;
use super::{TablesCase, cases};
use crate::item::Value;
use crate::records::{Table, tombstone};

pub(super) const CASES: [TablesCase; 5] = cases![TablesCase:
    a_tombstone_comes_back_exactly,
    only_a_later_life_replaces_one,
    many_are_written_and_read,
    an_id_given_twice_is_answered_once,
    a_damaged_one_is_shown_and_stays,
];

fn stone(world: &World, n: u64, redriven: u32) -> Outcome<Tombstone> {
    let digest = PayloadDigest::of(format!("{n} {redriven}").as_bytes());
    Ok(Tombstone { id: world.id(n)?, digest, redriven, expires_at_secs: 1_767_225_600 + n + u64::from(redriven) })
}

async fn write(world: &World, stone: &Tombstone) -> Outcome {
    single(world.outbox().write_tombstones(std::slice::from_ref(stone)).await)
}

/// What is read for `ids`, in order of id.
async fn read(world: &World, ids: &[MessageId]) -> Outcome<Vec<Slot<Tombstone>>> {
    let mut found = world.outbox().tombstones(ids).await?;
    found.sort_by_key(|slot| slot.present().map(|stone| stone.id.clone()));
    Ok(found)
}

async fn stands(world: &World, stone: &Tombstone) -> Outcome {
    let found = read(world, std::slice::from_ref(&stone.id)).await?;
    equal("the tombstone", &found, &vec![Slot::Present(stone.clone())])
}

async fn a_tombstone_comes_back_exactly(world: &World) -> Outcome {
    equal("before", &read(world, &[world.id(1)?]).await?, &Vec::new())?;
    let stone = Tombstone { redriven: u32::MAX, expires_at_secs: u64::from(u32::MAX) * 2, ..stone(world, 1, 0)? };
    write(world, &stone).await?;
    stands(world, &stone).await?;
    equal("another message", &read(world, &[world.id(2)?]).await?, &Vec::new())
}

async fn only_a_later_life_replaces_one(world: &World) -> Outcome {
    let lives: Vec<Tombstone> = [0, 1, 9, 10].iter().map(|&life| stone(world, 1, life)).collect::<Outcome<_>>()?;
    for life in &lives {
        write(world, life).await?;
        stands(world, life).await?;
    }
    let last = &lives[3];
    let same_life = Tombstone { expires_at_secs: 1, ..last.clone() };
    for earlier in lives.iter().chain([&same_life]) {
        write(world, earlier).await?;
        stands(world, last).await?;
    }
    Ok(())
}

async fn many_are_written_and_read(world: &World) -> Outcome {
    let earlier: Vec<Tombstone> = (0..130).step_by(7).map(|n| stone(world, n, 1)).collect::<Outcome<_>>()?;
    answered(world.outbox().write_tombstones(&earlier).await)?;
    let stones: Vec<Tombstone> =
        (0..130).map(|n| stone(world, n, if n % 2 == 0 { 0 } else { 2 })).collect::<Outcome<_>>()?;
    let answers = answered(world.outbox().write_tombstones(&stones).await)?;
    equal("the number of answers", &answers.len(), &stones.len())?;
    let mut wanted = Vec::new();
    for (n, written) in (0..).zip(stones) {
        let survives = n % 7 == 0 && n % 2 == 0;
        wanted.push(Slot::Present(if survives { stone(world, n, 1)? } else { written }));
    }
    wanted.sort_by_key(|slot| slot.present().map(|stone| stone.id.clone()));
    let ids: Vec<MessageId> = (0..200).map(|n| world.id(n)).collect::<Outcome<_>>()?;
    equal("all of them", &read(world, &ids).await?, &wanted)
}

async fn an_id_given_twice_is_answered_once(world: &World) -> Outcome {
    let stone = stone(world, 1, 0)?;
    write(world, &stone).await?;
    let ids = [world.id(1)?, world.id(2)?, world.id(1)?, world.id(2)?];
    equal("the answer", &read(world, &ids).await?, &vec![Slot::Present(stone)])
}

async fn a_damaged_one_is_shown_and_stays(world: &World) -> Outcome {
    let item = tombstone::encode(&stone(world, 1, 0)?);
    world.plant_damaged(Table::Outbox, item, tombstone::REDRIVEN, Value::text("0")).await?;
    for _ in 0..2 {
        let found = read(world, &[world.id(1)?]).await?;
        equal("the number of answers", &found.len(), &1)?;
        damaged("the tombstone", &found[0], tombstone::REDRIVEN)?;
        write(world, &stone(world, 1, 1)?).await?;
    }
    Ok(())
}
