//! Ending an outstanding row: the commit, and the second half of a burial. Each is tried once, for the caller must know
//! which try it was: an absent row after a first try was ended by somebody else, after a lost reply by us.

use fencepost_protocol::drain::{Burial, ChangeAnswer, Commit};
use fencepost_protocol::outbox::Slot;

use super::claim::{mine, status_tests};
use super::{DynamoOutbox, row_slot};
use crate::dynamodb::table::Retry;
use crate::dynamodb::write::{Condition, Outcome, Test, Write};
use crate::item::Value;
use crate::records::outstanding;
use crate::{StoreError, operation};

impl DynamoOutbox {
    pub(super) async fn delete_committed(&self, commits: &[Commit]) -> Vec<Result<ChangeAnswer, StoreError>> {
        let delete = |commit: &Commit| Write::Delete {
            key: outstanding::key(&commit.key),
            when: mine(&commit.claim, commit.token),
        };
        let writes = commits.iter().map(delete).collect();
        let outcomes = self.table.write_all(operation::COMMIT, writes, Retry::Never, self.batching).await;
        outcomes.into_iter().map(|outcome| outcome.map(change_answer)).collect()
    }

    pub(super) async fn delete_killed(&self, burial: &Burial) -> Result<ChangeAnswer, StoreError> {
        let mut tests = status_tests(&burial.seen);
        tests.push(Test::equal(outstanding::FENCING_TOKEN, Value::number(burial.seen_stamp.get())));
        // A late delete must not end the next life of the record: put back, it may look the same otherwise.
        tests.push(Test::equal(outstanding::REDRIVEN, Value::number(burial.dead.row.redriven.into())));
        let key = outstanding::key(&burial.dead.row.key);
        let delete = Write::Delete { key, when: Condition::Holds(tests) };
        self.table.write_one(operation::KILL_DELETE, delete, Retry::Never).await.map(change_answer)
    }
}

fn change_answer(outcome: Outcome) -> ChangeAnswer {
    match outcome {
        Outcome::Done => ChangeAnswer::Done,
        Outcome::Taken => ChangeAnswer::Absent,
        Outcome::Refused(old) => match row_slot(old.as_ref()) {
            Slot::Absent => ChangeAnswer::Absent,
            other => ChangeAnswer::Fenced(other),
        },
    }
}
