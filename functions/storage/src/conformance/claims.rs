//! Claims: status, claim and attempts as read, and no stamp above the claimer's token.

use fencepost_protocol::drain::{Claim, ClaimAnswer};
use fencepost_protocol::ids::{ClaimId, Stamp};
use fencepost_protocol::limits::FENCING_TOKEN_MAX;
use fencepost_protocol::outbox::{OutboxRow, Slot, Status};

use super::expect::{Outcome, answered, damaged, equal, holds, single};
use super::sample::{World, after_claim, claim, token};
use super::{TablesCase, cases};
use crate::item::Value;
use crate::records::{Table, outstanding};

pub(super) const CASES: [TablesCase; 7] = cases![TablesCase:
    a_claim_sets_its_fields_and_no_others,
    a_claim_needs_the_row_as_it_was_read,
    a_claim_needs_a_stamp_not_above_its_token,
    a_stale_claim_is_taken_over,
    a_repeated_claim_is_known_as_own,
    a_row_that_is_gone_or_damaged_is_not_claimed,
    many_claims_are_answered_in_order,
];

async fn try_claim(world: &World, plan: &Claim) -> Outcome<ClaimAnswer> {
    single(world.outbox().claim(std::slice::from_ref(plan)).await)
}

fn refused(row: &OutboxRow) -> ClaimAnswer {
    ClaimAnswer::Refused(Slot::Present(row.clone()))
}

async fn a_claim_sets_its_fields_and_no_others(world: &World) -> Outcome {
    let full = OutboxRow {
        device_message_id: Some("d".to_owned()),
        attempts: 4,
        stale: 2,
        not_before: Some(fencepost_protocol::time::Timestamp::from_ms(7)),
        last_error: Some("busy".to_owned()),
        redriven: 3,
        ..world.row(1)?
    };
    world.store(&full).await?;
    let taken = world.take(&full, "c1", 9).await?;
    world.stands(&taken).await
}

async fn a_claim_needs_the_row_as_it_was_read(world: &World) -> Outcome {
    let pending = OutboxRow { attempts: 2, ..world.row(1)? };
    world.store(&pending).await?;
    let held = world.claimed(2, "c-old", 5).await?;
    let fresh = |row: &OutboxRow| claim(row, "c-new", 5);
    let wrong = [
        (&pending, Claim { seen_attempts: 1, ..fresh(&pending)? }),
        (&pending, Claim { seen_attempts: 3, ..fresh(&pending)? }),
        (&pending, Claim { seen_redriven: 1, ..fresh(&pending)? }),
        (&pending, Claim { seen: Status::Claimed(ClaimId::new("c-old")?), ..fresh(&pending)? }),
        (&held, Claim { seen: Status::Pending, ..fresh(&held)? }),
        (&held, Claim { seen: Status::Claimed(ClaimId::new("c-older")?), ..fresh(&held)? }),
        (&held, Claim { seen_attempts: 0, ..fresh(&held)? }),
    ];
    for (row, plan) in wrong {
        equal(&format!("{plan:?}"), &try_claim(world, &plan).await?, &refused(row))?;
        world.stands(row).await?;
    }
    Ok(())
}

async fn a_claim_needs_a_stamp_not_above_its_token(world: &World) -> Outcome {
    for (n, stamp, number, allowed) in [
        (1, 0, 1, true),
        (2, 7, 7, true),
        (3, 8, 7, false),
        (4, 10, 9, false),
        (5, 9, 10, true),
        (6, FENCING_TOKEN_MAX, FENCING_TOKEN_MAX - 1, false),
        (7, FENCING_TOKEN_MAX - 1, FENCING_TOKEN_MAX, true),
    ] {
        let row = OutboxRow { stamp: Stamp::new(stamp)?, ..world.row(n)? };
        world.store(&row).await?;
        let answer = try_claim(world, &claim(&row, "c1", number)?).await?;
        let wanted = if allowed { ClaimAnswer::Claimed } else { refused(&row) };
        equal(&format!("stamp {stamp}, token {number}"), &answer, &wanted)?;
    }
    Ok(())
}

async fn a_stale_claim_is_taken_over(world: &World) -> Outcome {
    let old = world.claimed(1, "c-old", 5).await?;
    let new = world.take(&old, "c-new", 6).await?;
    equal("stale claims", &new.stale, &1)?;
    world.stands(&new).await?;
    // The former claimer comes back with what it once read.
    let answer = try_claim(world, &claim(&world.row(1)?, "c-old", 6)?).await?;
    equal("the former claimer", &answer, &refused(&new))
}

async fn a_repeated_claim_is_known_as_own(world: &World) -> Outcome {
    let row = world.stored(1).await?;
    let plan = claim(&row, "c1", 3)?;
    for _ in 0..2 {
        equal("claim", &try_claim(world, &plan).await?, &ClaimAnswer::Claimed)?;
    }
    world.stands(&after_claim(&row, &plan)).await
}

async fn a_row_that_is_gone_or_damaged_is_not_claimed(world: &World) -> Outcome {
    let gone = claim(&world.row(1)?, "c1", 3)?;
    equal("a row that is gone", &try_claim(world, &gone).await?, &ClaimAnswer::Refused(Slot::Absent))?;
    world.is_gone(&world.row(1)?).await?;
    for (n, field) in [(2, outstanding::STATUS), (3, outstanding::ATTEMPTS), (4, outstanding::FENCING_TOKEN)] {
        world.plant_damaged(Table::Outbox, world.item(n)?, field, Value::Bool(false)).await?;
        let row = world.row(n)?;
        match try_claim(world, &claim(&row, "c1", 3)?).await? {
            ClaimAnswer::Refused(slot) => damaged("a claim", &slot, field)?,
            ClaimAnswer::Claimed => holds(false, format!("a row with a damaged {field} was claimed"))?,
        }
        damaged("the row afterwards", &world.outbox().row(&row.key).await?, field)?;
    }
    Ok(())
}

async fn many_claims_are_answered_in_order(world: &World) -> Outcome {
    let rows = world.rows(0..60)?;
    answered(world.outbox().put_many(&rows).await)?;
    let rival = world.take(&rows[26], "c-rival", 3).await?;
    let high = OutboxRow { stamp: Stamp::from(token(99)?), ..world.row(60)? };
    world.store(&high).await?;
    let absent = world.row(61)?;
    let plans: Vec<Claim> =
        rows.iter().chain([&high, &absent]).map(|row| claim(row, "c1", 3)).collect::<Outcome<_>>()?;
    let answers = answered(world.outbox().claim(&plans).await)?;
    equal("the number of answers", &answers.len(), &plans.len())?;
    for (n, (plan, answer)) in plans.iter().zip(&answers).enumerate() {
        let wanted = match n {
            26 => refused(&rival),
            60 => refused(&high),
            61 => ClaimAnswer::Refused(Slot::Absent),
            _ => ClaimAnswer::Claimed,
        };
        equal(&format!("answer {n}"), answer, &wanted)?;
        if wanted == ClaimAnswer::Claimed {
            world.stands(&after_claim(&rows[n], plan)).await?;
        }
    }
    Ok(())
}
