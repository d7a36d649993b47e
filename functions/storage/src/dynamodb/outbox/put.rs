//! Putting new rows, each where its key is absent. Never by `BatchWriteItem`: that has no condition, and would bring a
//! claimed or committed row back to life.

use fencepost_protocol::outbox::OutboxRow;

use super::{DynamoOutbox, row_slot};
use crate::dynamodb::table::Retry;
use crate::dynamodb::write::{Condition, Outcome, Write};
use crate::ports::PutAnswer;
use crate::records::outstanding;
use crate::{StoreError, operation};

impl DynamoOutbox {
    /// One row by one `PutItem`; a taken key is answered with the row that stands there, by the same request.
    pub(super) async fn put_row(&self, operation: &'static str, row: &OutboxRow) -> Result<PutAnswer, StoreError> {
        let outcome = self.table.write_one(operation, if_absent(row), Retry::ByPolicy).await?;
        Ok(match outcome {
            Outcome::Done => PutAnswer::Stored,
            Outcome::Refused(old) => PutAnswer::Exists(row_slot(old.as_ref())),
            Outcome::Taken => PutAnswer::Exists(row_slot(None)),
        })
    }

    /// Several rows. A statement does not tell by what its key is taken, so such a row is put once more by a call of its own,
    /// which does.
    pub(super) async fn put_rows(&self, rows: &[OutboxRow]) -> Vec<Result<PutAnswer, StoreError>> {
        let writes = rows.iter().map(if_absent).collect();
        let outcomes = self.table.write_all(operation::PUT_MANY, writes, Retry::ByPolicy, self.batching).await;
        let mut answers = Vec::with_capacity(rows.len());
        for (row, outcome) in rows.iter().zip(outcomes) {
            answers.push(match outcome {
                Ok(Outcome::Done) => Ok(PutAnswer::Stored),
                Ok(Outcome::Refused(old)) => Ok(PutAnswer::Exists(row_slot(old.as_ref()))),
                Ok(Outcome::Taken) => self.put_row(operation::PUT_MANY, row).await,
                Err(error) => Err(error),
            });
        }
        answers
    }
}

fn if_absent(row: &OutboxRow) -> Write {
    Write::Put { item: outstanding::encode(row), when: Condition::Absent }
}
