//! Reading a shard in order: one strong query for a page.

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::Position;
use fencepost_protocol::outbox::Damage;

use super::DynamoOutbox;
use crate::StoreError;
use crate::dynamodb::table::Query;
use crate::item::Item;
use crate::ports::Page;
use crate::records;

impl DynamoOutbox {
    /// A page of `partition`. Where a whole page of the query consists of items without a position, no cursor could be given
    /// out, so the next one is read at once.
    pub(super) async fn read_page<T>(
        &self,
        operation: &'static str,
        partition: &str,
        after: Option<&Position>,
        limit: usize,
        decode: impl Fn(&Item) -> Result<T, Damage> + Copy,
    ) -> Result<Page<T>, StoreError> {
        if limit == 0 {
            return Err(StoreError::new(FailureKind::Invalid, operation, "limit is 0; ask for one row at least"));
        }
        let mut after = after.map(ToString::to_string);
        let mut strays = Vec::new();
        loop {
            let query = Query { partition, after: after.as_deref(), limit: Some(limit) };
            let found = self.table.query(operation, query).await?;
            let mut page = records::gather_page(&found.items, found.next_after.is_some(), decode);
            strays.append(&mut page.strays);
            if found.next_after.is_some() && page.next.is_none() {
                after = found.next_after;
                continue;
            }
            page.strays = strays;
            return Ok(page);
        }
    }
}
