//! The fence item: read strongly, raised on condition of exactly what was read.

use fencepost_protocol::ids::LeaseName;
use fencepost_protocol::lease::FenceRaise;
use fencepost_protocol::outbox::{Fence, Slot};

use super::DynamoOutbox;
use crate::dynamodb::lease_store::{replace, write_answer};
use crate::dynamodb::table::Retry;
use crate::dynamodb::write::{Condition, Test};
use crate::item::Value;
use crate::ports::WriteAnswer;
use crate::records::fence;
use crate::{StoreError, operation, records};

impl DynamoOutbox {
    pub(super) async fn get_fence(&self, lease: &LeaseName) -> Result<Slot<Fence>, StoreError> {
        let item = self.table.get(operation::READ_FENCE, fence::key(lease)).await?;
        Ok(records::slot(item.as_ref(), fence::decode))
    }

    pub(super) async fn update_fence(&self, raise: &FenceRaise) -> Result<WriteAnswer<Fence>, StoreError> {
        let when = match &raise.expected {
            None => Condition::Absent,
            Some(read) => Condition::Holds(vec![
                Test::equal(fence::FENCING_TOKEN, Value::number(read.highest.get())),
                Test::equal(fence::ATTEMPT, Value::text(read.attempt.as_str())),
            ]),
        };
        let item = fence::encode(&raise.lease, &raise.fence);
        let update = replace(fence::key(&raise.lease), item, &fence::ATTRIBUTES, when);
        let outcome = self.table.write_one(operation::RAISE_FENCE, update, Retry::ByPolicy).await?;
        Ok(write_answer(outcome, &raise.fence.attempt, fence::decode, |old| &old.attempt))
    }
}
