//! Dead rows: the first half of a burial, and the end of a dead row.

use fencepost_protocol::drain::ChangeAnswer;
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::RowKey;
use fencepost_protocol::outbox::{DeadRow, Slot};

use super::DynamoOutbox;
use crate::dynamodb::table::Retry;
use crate::dynamodb::write::{Condition, Outcome, Test, Write};
use crate::item::Value;
use crate::records::{dead, outstanding};
use crate::{StoreError, operation, records};

impl DynamoOutbox {
    /// Puts the dead row where none stands. One of an earlier life is replaced, on condition of exactly what was read; one of a
    /// later life stays, and so does the very row itself from an earlier try. One that does not decode is not touched.
    pub(super) async fn put_dead(&self, row: &DeadRow) -> Result<(), StoreError> {
        let item = dead::encode(row);
        let put = Write::Put { item: item.clone(), when: Condition::Absent };
        let old = match self.table.write_one(operation::KILL, put, Retry::ByPolicy).await? {
            Outcome::Done => return Ok(()),
            Outcome::Refused(old) => old,
            Outcome::Taken => None,
        };
        let standing = match records::slot(old.as_ref(), dead::decode) {
            Slot::Present(standing) => standing,
            Slot::Damaged(damage) => {
                let detail = format!("a dead row that must not be overwritten: {damage}");
                return Err(StoreError::new(FailureKind::Invalid, operation::KILL, detail));
            }
            Slot::Absent => return Err(changed_meanwhile()),
        };
        if standing == *row || standing.row.redriven > row.row.redriven {
            return Ok(());
        }
        let tests = vec![
            Test::equal(outstanding::REDRIVEN, Value::number(standing.row.redriven.into())),
            Test::equal(dead::DIED_AT, Value::number(standing.died_at.as_ms())),
        ];
        let replace = Write::Put { item, when: Condition::Holds(tests) };
        match self.table.write_one(operation::KILL, replace, Retry::ByPolicy).await? {
            Outcome::Done => Ok(()),
            // Refused by the very row: an earlier try was applied.
            Outcome::Refused(Some(now)) if dead::decode(&now).as_ref() == Ok(row) => Ok(()),
            Outcome::Refused(_) | Outcome::Taken => Err(changed_meanwhile()),
        }
    }

    pub(super) async fn delete_dead_row(&self, key: &RowKey, dead_redriven: u32) -> Result<ChangeAnswer, StoreError> {
        let tests = vec![Test::equal(outstanding::REDRIVEN, Value::number(dead_redriven.into()))];
        let delete = Write::Delete { key: dead::key(key), when: Condition::Holds(tests) };
        let outcome = self.table.write_one(operation::DELETE_DEAD, delete, Retry::ByPolicy).await?;
        Ok(match outcome {
            Outcome::Done => ChangeAnswer::Done,
            Outcome::Refused(None) | Outcome::Taken => ChangeAnswer::Absent,
            Outcome::Refused(Some(_)) => ChangeAnswer::Fenced(Slot::Absent),
        })
    }
}

fn changed_meanwhile() -> StoreError {
    let detail = "the dead row changed between two requests; nothing was deleted, try again";
    StoreError::new(FailureKind::Unavailable, operation::KILL, detail)
}
