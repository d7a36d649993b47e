//! Pages of outstanding rows: order, cursor, size, damage.

use fencepost_protocol::ids::{LeaseName, Position, RowKey, Shard};
use fencepost_protocol::outbox::{OutboxRow, Slot};
use fencepost_protocol::time::Timestamp;

use super::expect::{Outcome, answered, damaged, equal, holds};
use super::sample::{START_MS, World, advance, burial};
use super::{TablesCase, cases};
use crate::item::{Key, Value};
use crate::records::{Table, outstanding};

pub(super) const CASES: [TablesCase; 6] = cases![TablesCase:
    an_empty_shard_is_an_empty_page,
    rows_come_in_order_of_position,
    a_cursor_is_exclusive,
    a_shard_shows_its_own_rows_only,
    large_rows_are_split_over_pages,
    damaged_rows_are_shown_in_their_places,
];

async fn an_empty_shard_is_an_empty_page(world: &World) -> Outcome {
    let page = world.outbox().page(&world.shard(0)?, None, 10).await?;
    holds(page.rows.is_empty() && page.next.is_none() && page.strays.is_empty(), format!("found {page:?}"))
}

async fn rows_come_in_order_of_position(world: &World) -> Outcome {
    let at = |ms: u64, id: &str| -> Outcome<OutboxRow> {
        let id = fencepost_protocol::ids::MessageId::new(id)?;
        let position = Position::new(Timestamp::from_ms(ms), id)?;
        Ok(OutboxRow { key: RowKey { shard: world.shard(0)?, position }, ..world.row(0)? })
    };
    let in_order = [
        at(0, "z")?,
        at(9, "a")?,
        at(10, "-")?,
        at(10, ".")?,
        at(10, "0")?,
        at(10, "A")?,
        at(10, "_")?,
        at(10, "a")?,
        at(10, "aa")?,
        at(10, "b")?,
        at(START_MS, "0")?,
        at(9_999_999_999_999, "0")?,
    ];
    for index in [7, 2, 11, 0, 9, 5, 1, 10, 3, 8, 4, 6] {
        world.store(&in_order[index]).await?;
    }
    for limit in [1, 3, 4, 12, 100] {
        equal(&format!("by pages of {limit}"), &world.walk(&world.shard(0)?, limit).await?, &in_order.to_vec())?;
    }
    Ok(())
}

async fn a_cursor_is_exclusive(world: &World) -> Outcome {
    let mut rows = Vec::new();
    for n in [1, 3, 5] {
        rows.push(world.stored(n).await?);
    }
    for (after, left) in [(0, 3), (1, 2), (2, 2), (3, 1), (4, 1), (5, 0), (6, 0)] {
        let cursor = world.row(after)?.key.position;
        let page = world.outbox().page(&world.shard(0)?, Some(&cursor), 100).await?;
        let found: Vec<&Position> = page.rows.iter().map(|(position, _)| position).collect();
        let wanted: Vec<&Position> = rows[rows.len() - left..].iter().map(|row| &row.key.position).collect();
        equal(&format!("after row {after}"), &found, &wanted)?;
    }
    Ok(())
}

async fn a_shard_shows_its_own_rows_only(world: &World) -> Outcome {
    let own = world.stored(1).await?;
    let dead = world.stored(2).await?;
    world.outbox().kill(&burial(&dead)).await?;
    let longer = LeaseName::new(format!("{}.x", world.lease))?;
    for shard in [world.shard(1)?, world.shard(10)?, Shard::new(longer, 0)?] {
        let position = own.key.position.clone();
        world.store(&OutboxRow { key: RowKey { shard, position }, ..own.clone() }).await?;
    }
    equal("the shard", &world.walk(&world.shard(0)?, 10).await?, &vec![own])
}

async fn large_rows_are_split_over_pages(world: &World) -> Outcome {
    let mut rows = world.rows(0..12)?;
    for row in &mut rows {
        row.payload = vec![u8::try_from(row.id().as_str().len()).unwrap_or(0); 128 * 1024];
    }
    answered(world.outbox().put_many(&rows).await)?;
    let first = world.outbox().page(&world.shard(0)?, None, 100).await?;
    holds(first.rows.len() < rows.len() && !first.rows.is_empty(), format!("{} rows at once", first.rows.len()))?;
    let last = first.rows.last().map(|(position, _)| position.clone());
    equal("the cursor", &first.next, &last)?;
    equal("all pages", &world.walk(&world.shard(0)?, 100).await?, &rows)
}

async fn damaged_rows_are_shown_in_their_places(world: &World) -> Outcome {
    world.stored(1).await?;
    world.plant_damaged(Table::Outbox, world.item(2)?, outstanding::ATTEMPTS, Value::text("1")).await?;
    world.stored(3).await?;
    for sort in ["!", "00", "no position"] {
        let key = Key { partition: world.shard(0)?.to_string(), sort: sort.to_owned() };
        world.plant(Table::Outbox, world.wreck(&key)).await?;
    }
    damaged("the row by itself", &world.outbox().row(&world.row(2)?.key).await?, outstanding::ATTEMPTS)?;
    for limit in [1, 2, 100] {
        let mut found = Vec::new();
        let mut strays = Vec::new();
        let mut after = None;
        loop {
            let page = world.outbox().page(&world.shard(0)?, after.as_ref(), limit).await?;
            strays.extend(page.strays.into_iter().map(|damage| damage.record));
            found.extend(page.rows);
            match advance(after.as_ref(), page.next)? {
                None => break,
                next => after = next,
            }
        }
        let positions: Vec<Position> = found.iter().map(|(position, _)| position.clone()).collect();
        let wanted: Vec<Position> = world.rows(1..4)?.into_iter().map(|row| row.key.position).collect();
        equal(&format!("by pages of {limit}"), &positions, &wanted)?;
        damaged("the row in its place", &found[1].1, outstanding::ATTEMPTS)?;
        holds(matches!((&found[0].1, &found[2].1), (Slot::Present(_), Slot::Present(_))), "damage hid a neighbour")?;
        strays.sort();
        strays.dedup();
        equal(&format!("different strays by pages of {limit}"), &strays.len(), &3)?;
    }
    Ok(())
}
