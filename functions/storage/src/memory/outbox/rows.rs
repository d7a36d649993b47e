//! What each call does to one row, and under which condition.

use fencepost_protocol::drain::{Burial, ChangeAnswer, Claim, ClaimAnswer, Commit, HandBack};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::{ClaimId, FencingToken, RowKey};
use fencepost_protocol::outbox::{DeadRow, OutboxRow, Slot, Status, Tombstone};

use crate::item::{Item, Value};
use crate::memory::tables::{State, Written, number_of, text_is};
use crate::ports::PutAnswer;
use crate::records::{Table, dead, outstanding, slot, tombstone};
use crate::{StoreError, operation};

/// Puts `row` where nothing stands.
pub(super) fn put(state: &mut State, name: &'static str, row: &OutboxRow) -> Result<PutAnswer, StoreError> {
    let key = outstanding::key(&row.key);
    match state.write(name, Table::Outbox, &key, |standing| standing.is_none(), |_| Some(outstanding::encode(row)))? {
        Written::Applied => Ok(PutAnswer::Stored),
        Written::Refused(standing) => Ok(PutAnswer::Exists(slot(standing.as_ref(), outstanding::decode))),
    }
}

/// Condition: status, claim, attempts and life as seen, stamp not above the claimer's token.
pub(super) fn claim(state: &mut State, claim: &Claim) -> Result<ClaimAnswer, StoreError> {
    let condition = |standing: Option<&Item>| {
        standing.is_some_and(|item| {
            has_status(item, &claim.seen)
                && number_of(item, outstanding::ATTEMPTS) == Some(claim.seen_attempts.into())
                && number_of(item, outstanding::REDRIVEN) == Some(claim.seen_redriven.into())
                && number_of(item, outstanding::FENCING_TOKEN).is_some_and(|stamp| stamp <= claim.token.get())
        })
    };
    let change = |item: &mut Item| {
        set(item, outstanding::STATUS, Value::text(outstanding::CLAIMED));
        set(item, outstanding::CLAIM, Value::text(claim.claim.as_str()));
        set(item, outstanding::FENCING_TOKEN, Value::number(claim.token.get()));
        set(item, outstanding::ATTEMPTS, Value::number(claim.attempts.into()));
        set(item, outstanding::STALE, Value::number(claim.stale.into()));
        set(item, outstanding::FIRST_ATTEMPT_AT, Value::number(claim.first_attempt_at.as_ms()));
    };
    match update(state, operation::CLAIM, &claim.key, condition, change)? {
        Written::Applied => Ok(ClaimAnswer::Claimed),
        Written::Refused(standing) => {
            let standing = slot(standing.as_ref(), outstanding::decode);
            let mine = standing.present().is_some_and(|row| row.claim() == Some(&claim.claim));
            Ok(if mine { ClaimAnswer::Claimed } else { ClaimAnswer::Refused(standing) })
        }
    }
}

/// Condition: claim and token mine.
pub(super) fn hand_back(state: &mut State, back: &HandBack) -> Result<ChangeAnswer, StoreError> {
    let change = |item: &mut Item| {
        set(item, outstanding::ATTEMPTS, Value::number(back.attempts.into()));
        set(item, outstanding::STALE, Value::number(back.stale.into()));
        if back.free {
            set(item, outstanding::STATUS, Value::text(outstanding::PENDING));
            item.remove(outstanding::CLAIM);
        }
        if let Some(moment) = back.not_before {
            set(item, outstanding::NOT_BEFORE, Value::number(moment.as_ms()));
        }
        if let Some(text) = &back.last_error {
            set(item, outstanding::LAST_ERROR, Value::text(outstanding::clip_error(text)));
        }
    };
    let mine = |standing: Option<&Item>| is_held(standing, &back.claim, back.token);
    let answer = change_answer(update(state, operation::HAND_BACK, &back.key, mine, change)?);
    match &answer {
        ChangeAnswer::Fenced(Slot::Present(row)) if is_left_by(back, row) => Ok(ChangeAnswer::Done),
        _ => Ok(answer),
    }
}

/// Does the row stand as this hand-back leaves it? Then an earlier try was applied, and its reply lost.
fn is_left_by(back: &HandBack, row: &OutboxRow) -> bool {
    let due = back.not_before.or(row.not_before);
    back.free
        && (&row.status, row.attempts, row.stale) == (&Status::Pending, back.attempts, back.stale)
        && (row.stamp, row.not_before) == (back.token.into(), due)
}

/// Condition: claim and token mine.
pub(super) fn commit(state: &mut State, commit: &Commit) -> Result<ChangeAnswer, StoreError> {
    let mine = |standing: Option<&Item>| is_held(standing, &commit.claim, commit.token);
    let key = outstanding::key(&commit.key);
    Ok(change_answer(state.write(operation::COMMIT, Table::Outbox, &key, mine, |_| None)?))
}

/// Condition: none there, or one of an earlier life. A lost condition is success: a later proof stands.
pub(super) fn write_tombstone(state: &mut State, new: &Tombstone) -> Result<(), StoreError> {
    let earlier =
        |standing: Option<&Item>| standing.is_none_or(|item| is_below(item, tombstone::REDRIVEN, new.redriven));
    let write = |_: Option<&Item>| Some(tombstone::encode(new));
    state.write(operation::WRITE_TOMBSTONES, Table::Outbox, &tombstone::key(&new.id), earlier, write)?;
    Ok(())
}

/// Puts the dead row. Condition: none there, or one of the same or an earlier life.
///
/// # Errors
/// `Invalid` where what stands there does not decode.
pub(super) fn bury(state: &mut State, body: &DeadRow) -> Result<(), StoreError> {
    let not_later = |standing: Option<&Item>| {
        standing.is_none_or(|item| {
            number_of(item, outstanding::REDRIVEN).is_some_and(|redriven| redriven <= body.row.redriven.into())
        })
    };
    let write = |_: Option<&Item>| Some(dead::encode(body));
    match state.write(operation::KILL, Table::Outbox, &dead::key(&body.row.key), not_later, write)? {
        Written::Applied => Ok(()),
        Written::Refused(standing) => match slot(standing.as_ref(), dead::decode) {
            Slot::Damaged(damage) => Err(StoreError::new(FailureKind::Invalid, operation::KILL, damage.to_string())),
            Slot::Absent | Slot::Present(_) => Ok(()),
        },
    }
}

/// Deletes the outstanding row of a burial. Condition: status, claim and stamp as seen, and the very life that died: a late
/// delete must not end the next one.
pub(super) fn end_buried(state: &mut State, burial: &Burial) -> Result<ChangeAnswer, StoreError> {
    let as_seen = |standing: Option<&Item>| {
        standing.is_some_and(|item| {
            has_status(item, &burial.seen)
                && number_of(item, outstanding::FENCING_TOKEN) == Some(burial.seen_stamp.get())
                && number_of(item, outstanding::REDRIVEN) == Some(burial.dead.row.redriven.into())
        })
    };
    let key = outstanding::key(&burial.dead.row.key);
    Ok(change_answer(state.write(operation::KILL_DELETE, Table::Outbox, &key, as_seen, |_| None)?))
}

/// Condition: the dead row is of this life.
pub(super) fn delete_dead(state: &mut State, key: &RowKey, redriven: u32) -> Result<ChangeAnswer, StoreError> {
    let same_life = |standing: Option<&Item>| {
        standing.is_some_and(|item| number_of(item, outstanding::REDRIVEN) == Some(redriven.into()))
    };
    match state.write(operation::DELETE_DEAD, Table::Outbox, &dead::key(key), same_life, |_| None)? {
        Written::Applied => Ok(ChangeAnswer::Done),
        Written::Refused(None) => Ok(ChangeAnswer::Absent),
        Written::Refused(Some(_)) => Ok(ChangeAnswer::Fenced(Slot::Absent)),
    }
}

fn update(
    state: &mut State,
    name: &'static str,
    key: &RowKey,
    condition: impl FnOnce(Option<&Item>) -> bool,
    change: impl FnOnce(&mut Item),
) -> Result<Written, StoreError> {
    state.write(name, Table::Outbox, &outstanding::key(key), condition, |standing| {
        let mut item = standing?.clone();
        change(&mut item);
        Some(item)
    })
}

fn change_answer(written: Written) -> ChangeAnswer {
    match written {
        Written::Applied => ChangeAnswer::Done,
        Written::Refused(None) => ChangeAnswer::Absent,
        Written::Refused(Some(item)) => ChangeAnswer::Fenced(slot(Some(&item), outstanding::decode)),
    }
}

fn set(item: &mut Item, name: &str, value: Value) {
    item.insert(name.to_owned(), value);
}

fn has_status(item: &Item, wanted: &Status) -> bool {
    let (status, claim) = outstanding::status_parts(wanted);
    text_is(item, outstanding::STATUS, status)
        && claim.is_none_or(|claim| text_is(item, outstanding::CLAIM, claim.as_str()))
}

fn is_held(standing: Option<&Item>, claim: &ClaimId, token: FencingToken) -> bool {
    standing.is_some_and(|item| {
        text_is(item, outstanding::CLAIM, claim.as_str())
            && number_of(item, outstanding::FENCING_TOKEN) == Some(token.get())
    })
}

fn is_below(item: &Item, name: &str, bound: u32) -> bool {
    number_of(item, name).is_some_and(|number| number < bound.into())
}
