//! Commits and hand-backs: claim and token must be mine.

use fencepost_protocol::drain::{ChangeAnswer, Commit, HandBack};
use fencepost_protocol::limits::LAST_ERROR_BYTES_MAX;
use fencepost_protocol::outbox::{OutboxRow, Slot, Status};
use fencepost_protocol::time::Timestamp;

use super::expect::{Outcome, answered, equal, holds, single};
use super::sample::{World, commit, hand_back};
use super::{TablesCase, cases};
use crate::item::Value;
use crate::records::{Table, outstanding};

pub(super) const CASES: [TablesCase; 10] = cases![TablesCase:
    a_commit_ends_the_row_once,
    a_commit_needs_claim_and_token,
    many_commits_are_answered_in_order,
    a_hand_back_frees_the_row,
    a_hand_back_sets_due_time_and_error_where_it_states_them,
    a_hand_back_that_keeps_the_claim_changes_the_counters_alone,
    a_hand_back_writes_the_stale_claims_it_states,
    a_hand_back_needs_claim_and_token,
    many_hand_backs_are_answered_in_order,
    a_damaged_row_is_fenced_and_stays,
];

async fn try_commit(world: &World, plan: &Commit) -> Outcome<ChangeAnswer> {
    single(world.outbox().commit(std::slice::from_ref(plan)).await)
}

async fn try_hand_back(world: &World, plan: &HandBack) -> Outcome<ChangeAnswer> {
    single(world.outbox().hand_back(std::slice::from_ref(plan)).await)
}

fn fenced(row: &OutboxRow) -> ChangeAnswer {
    ChangeAnswer::Fenced(Slot::Present(row.clone()))
}

async fn a_commit_ends_the_row_once(world: &World) -> Outcome {
    let row = world.claimed(1, "c1", 3).await?;
    let neighbour = world.claimed(2, "c1", 3).await?;
    let plan = commit(&row, "c1", 3)?;
    equal("the commit", &try_commit(world, &plan).await?, &ChangeAnswer::Done)?;
    world.is_gone(&row).await?;
    equal("the same commit again", &try_commit(world, &plan).await?, &ChangeAnswer::Absent)?;
    world.stands(&neighbour).await
}

async fn a_commit_needs_claim_and_token(world: &World) -> Outcome {
    let held = world.claimed(1, "c1", 3).await?;
    for (by, number) in [("c2", 3), ("c1", 2), ("c1", 4)] {
        let answer = try_commit(world, &commit(&held, by, number)?).await?;
        equal(&format!("a commit by {by} under {number}"), &answer, &fenced(&held))?;
    }
    let taken = world.take(&held, "c-next", 4).await?;
    equal("the former holder's", &try_commit(world, &commit(&held, "c1", 3)?).await?, &fenced(&taken))?;
    world.stands(&taken).await?;
    let pending = world.stored(2).await?;
    equal("of a pending row", &try_commit(world, &commit(&pending, "c1", 3)?).await?, &fenced(&pending))?;
    world.stands(&pending).await
}

async fn many_commits_are_answered_in_order(world: &World) -> Outcome {
    let mut rows = Vec::new();
    for n in 0..53 {
        rows.push(world.claimed(n, if n == 25 { "c2" } else { "c1" }, 3).await?);
    }
    try_commit(world, &commit(&rows[7], "c1", 3)?).await?;
    let plans: Vec<Commit> = rows.iter().map(|row| commit(row, "c1", 3)).collect::<Outcome<_>>()?;
    let answers = answered(world.outbox().commit(&plans).await)?;
    equal("the number of answers", &answers.len(), &plans.len())?;
    for (n, answer) in answers.iter().enumerate() {
        let wanted = match n {
            7 => ChangeAnswer::Absent,
            25 => fenced(&rows[25]),
            _ => ChangeAnswer::Done,
        };
        equal(&format!("answer {n}"), answer, &wanted)?;
    }
    equal("what is left", &world.walk(&world.shard(0)?, 100).await?, &vec![rows[25].clone()])
}

async fn a_hand_back_frees_the_row(world: &World) -> Outcome {
    let held = world.claimed(1, "c1", 3).await?;
    let plan = hand_back(&held, "c1", 3)?;
    equal("the hand-back", &try_hand_back(world, &plan).await?, &ChangeAnswer::Done)?;
    let free = OutboxRow { status: Status::Pending, attempts: 0, ..held };
    world.stands(&free).await?;
    equal("the same again, as after a lost reply", &try_hand_back(world, &plan).await?, &ChangeAnswer::Done)?;
    let due = HandBack { not_before: Some(Timestamp::from_ms(5)), ..plan.clone() };
    equal("one with another due time", &try_hand_back(world, &due).await?, &fenced(&free))?;
    let other = HandBack { attempts: 1, ..plan.clone() };
    equal("one with other attempts", &try_hand_back(world, &other).await?, &fenced(&free))?;
    equal("one of another token", &try_hand_back(world, &hand_back(&free, "c1", 4)?).await?, &fenced(&free))?;
    let keeping = HandBack { free: false, ..plan.clone() };
    equal("one that keeps the claim", &try_hand_back(world, &keeping).await?, &fenced(&free))?;
    world.stands(&free).await?;
    let taken = world.take(&free, "c2", 3).await?;
    equal("the same after a claim", &try_hand_back(world, &plan).await?, &fenced(&taken))?;
    world.stands(&taken).await
}

async fn a_hand_back_sets_due_time_and_error_where_it_states_them(world: &World) -> Outcome {
    let held = world.claimed(1, "c1", 3).await?;
    let words = "größer ' \" \\ than it takes";
    let due = Timestamp::from_ms(123);
    let plan = HandBack {
        attempts: 1,
        not_before: Some(due),
        last_error: Some(words.to_owned()),
        ..hand_back(&held, "c1", 3)?
    };
    equal("the hand-back", &try_hand_back(world, &plan).await?, &ChangeAnswer::Done)?;
    let free = OutboxRow { status: Status::Pending, not_before: Some(due), last_error: Some(words.to_owned()), ..held };
    world.stands(&free).await?;
    let again = world.take(&free, "c2", 3).await?;
    let plain = hand_back(&again, "c2", 3)?;
    equal("a hand-back without either", &try_hand_back(world, &plain).await?, &ChangeAnswer::Done)?;
    world.stands(&OutboxRow { status: Status::Pending, attempts: 1, ..again }).await?;
    let last = world.claimed(2, "c1", 3).await?;
    let long = HandBack { last_error: Some("é".repeat(500)), ..hand_back(&last, "c1", 3)? };
    equal("a long error", &try_hand_back(world, &long).await?, &ChangeAnswer::Done)?;
    let kept = Some("é".repeat(LAST_ERROR_BYTES_MAX / 2));
    world.stands(&OutboxRow { status: Status::Pending, attempts: 0, last_error: kept, ..last }).await
}

async fn a_hand_back_that_keeps_the_claim_changes_the_counters_alone(world: &World) -> Outcome {
    let held = world.claimed(1, "c1", 3).await?;
    let plan = HandBack { free: false, ..hand_back(&held, "c1", 3)? };
    for _ in 0..2 {
        equal("the hand-back", &try_hand_back(world, &plan).await?, &ChangeAnswer::Done)?;
        world.stands(&OutboxRow { attempts: 0, ..held.clone() }).await?;
    }
    equal("a commit afterwards", &try_commit(world, &commit(&held, "c1", 3)?).await?, &ChangeAnswer::Done)
}

async fn a_hand_back_writes_the_stale_claims_it_states(world: &World) -> Outcome {
    let first = world.claimed(1, "c1", 3).await?;
    let second = world.take(&first, "c2", 3).await?;
    let held = world.take(&second, "c3", 3).await?;
    equal("stale claims before", &held.stale, &2)?;
    let keeping = HandBack { stale: 4, free: false, ..hand_back(&held, "c3", 3)? };
    equal("one that keeps the claim", &try_hand_back(world, &keeping).await?, &ChangeAnswer::Done)?;
    world.stands(&OutboxRow { attempts: 2, stale: 4, ..held.clone() }).await?;
    for stale in [1, 0] {
        let row = if stale == 1 { held.clone() } else { world.claimed(2, "c3", 3).await? };
        let plan = HandBack { stale, ..hand_back(&row, "c3", 3)? };
        equal("one that frees the row", &try_hand_back(world, &plan).await?, &ChangeAnswer::Done)?;
        let free = OutboxRow { status: Status::Pending, attempts: plan.attempts, stale, ..row };
        world.stands(&free).await?;
        equal("the same again, as after a lost reply", &try_hand_back(world, &plan).await?, &ChangeAnswer::Done)?;
        let other = HandBack { stale: stale + 1, ..plan };
        equal("one with other stale claims", &try_hand_back(world, &other).await?, &fenced(&free))?;
        world.stands(&free).await?;
    }
    Ok(())
}

async fn a_hand_back_needs_claim_and_token(world: &World) -> Outcome {
    let held = world.claimed(1, "c1", 3).await?;
    for (by, number) in [("c2", 3), ("c1", 2), ("c1", 4)] {
        let answer = try_hand_back(world, &hand_back(&held, by, number)?).await?;
        equal(&format!("a hand-back by {by} under {number}"), &answer, &fenced(&held))?;
    }
    world.stands(&held).await?;
    let gone = world.row(2)?;
    equal("of a row that is gone", &try_hand_back(world, &hand_back(&gone, "c1", 3)?).await?, &ChangeAnswer::Absent)?;
    world.is_gone(&gone).await
}

async fn many_hand_backs_are_answered_in_order(world: &World) -> Outcome {
    let mut plans = Vec::new();
    let mut wanted = Vec::new();
    for n in 0..55 {
        let (row, answer) = match n % 9 {
            4 => (world.row(n)?, ChangeAnswer::Absent),
            7 => {
                let others = world.claimed(n, "c2", 3).await?;
                (others.clone(), fenced(&others))
            }
            _ => (world.claimed(n, "c1", 3).await?, ChangeAnswer::Done),
        };
        // Plans of every shape, so that none may take another's statement for its own.
        let not_before = n.is_multiple_of(2).then(|| Timestamp::from_ms(n));
        let last_error = n.is_multiple_of(3).then(|| format!("error {n}"));
        let free = !n.is_multiple_of(5);
        let stale = u32::try_from(n % 4).unwrap_or(0);
        plans.push(HandBack { stale, not_before, last_error, free, ..hand_back(&row, "c1", 3)? });
        wanted.push((row, answer));
    }
    let answers = answered(world.outbox().hand_back(&plans).await)?;
    equal("the number of answers", &answers.len(), &plans.len())?;
    for ((n, answer), ((row, wanted), plan)) in answers.iter().enumerate().zip(wanted.iter().zip(&plans)) {
        equal(&format!("answer {n}"), answer, wanted)?;
        match wanted {
            ChangeAnswer::Absent => world.is_gone(row).await?,
            ChangeAnswer::Fenced(_) => world.stands(row).await?,
            ChangeAnswer::Done => {
                let status = if plan.free { Status::Pending } else { row.status.clone() };
                let (not_before, last_error) = (plan.not_before, plan.last_error.clone());
                let stale = plan.stale;
                let left = OutboxRow { status, attempts: 0, stale, not_before, last_error, ..row.clone() };
                world.stands(&left).await?;
            }
        }
    }
    Ok(())
}

async fn a_damaged_row_is_fenced_and_stays(world: &World) -> Outcome {
    let row = world.row(1)?;
    world.plant_damaged(Table::Outbox, world.item(1)?, outstanding::STATUS, Value::text("claimed")).await?;
    let is_damaged = |answer: &ChangeAnswer| matches!(answer, ChangeAnswer::Fenced(Slot::Damaged(_)));
    let answers =
        [try_commit(world, &commit(&row, "c1", 3)?).await?, try_hand_back(world, &hand_back(&row, "c1", 3)?).await?];
    holds(answers.iter().all(is_damaged), format!("found {answers:?}"))?;
    let left = world.outbox().row(&row.key).await?;
    holds(matches!(left, Slot::Damaged(_)), format!("the row afterwards: {left:?}"))
}
