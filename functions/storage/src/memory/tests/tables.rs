use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::outbox::Slot;

use crate::item::{Item, Value};
use crate::ports::Outbox;
use crate::records::{Table, outstanding, tombstone as codec};

use super::*;

#[tokio::test]
async fn items_are_planted_dumped_and_removed_as_they_are() {
    let tables = MemoryTables::new();
    let mut item = outstanding::encode(&row(1));
    item.insert("odd".to_owned(), Value::Other("a set"));
    tables.plant(Table::Outbox, item.clone()).unwrap();
    assert_eq!(tables.dump(Table::Outbox), vec![item.clone()]);
    assert!(tables.dump(Table::Lease).is_empty());
    let key = outstanding::key(&row(1).key);
    assert_eq!(tables.remove(Table::Outbox, &key), Some(item));
    assert_eq!(tables.remove(Table::Outbox, &key), None);
    tables.plant(Table::Outbox, outstanding::encode(&row(2))).unwrap();
    tables.clear(Table::Outbox);
    assert!(tables.dump(Table::Outbox).is_empty());
    assert_eq!(tables.usage(), Usage::default(), "none of it is a call");
}

#[test]
fn what_no_table_holds_is_not_planted() {
    let tables = MemoryTables::new();
    let keyless = Item::from([("shard".to_owned(), Value::text("s")), ("position".to_owned(), Value::number(1))]);
    let failure = tables.plant(Table::Outbox, keyless).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Invalid);
    assert!(failure.detail.contains("position"), "{failure}");
    let large = OutboxRow { payload: vec![0; 400 * 1024], ..row(1) };
    assert_eq!(tables.plant(Table::Outbox, outstanding::encode(&large)).unwrap_err().kind, FailureKind::Invalid);
}

#[tokio::test]
async fn expiry_takes_what_carries_the_attribute_and_only_that() {
    let tables = MemoryTables::new();
    let outbox = MemoryOutbox::new(tables.clone());
    outbox.put(&row(1)).await.unwrap();
    let mut wrong = outstanding::encode(&row(2));
    wrong.insert(codec::EXPIRES_AT.to_owned(), Value::number(5));
    tables.plant(Table::Outbox, wrong).unwrap();
    outbox.write_tombstones(&[Tombstone { expires_at_secs: 10, ..tombstone(&row(1)) }]).await[0].as_ref().unwrap();
    assert_eq!(tables.expire(5), 0, "due after its second, not in it");
    assert_eq!(tables.expire(10), 1, "the row that should never have carried it");
    assert_eq!(outbox.row(&row(2).key).await, Ok(Slot::Absent));
    assert_eq!(tables.expire(11), 1, "the tombstone");
    assert_eq!(outbox.row(&row(1).key).await, Ok(Slot::Present(row(1))));
}

#[tokio::test]
async fn a_page_of_nothing_is_an_invalid_request() {
    let failure = MemoryOutbox::new(MemoryTables::new()).page(&shard(), None, 0).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Invalid);
    assert!(failure.detail.contains("limit"), "{failure}");
}
