use crate::item::size_bytes;
use crate::operation;
use crate::ports::Outbox;
use crate::records::outstanding;

use super::*;

fn usage(requests: u64, read_units: u64, write_units: u64) -> Usage {
    Usage { requests, read_units, write_units }
}

#[tokio::test]
async fn a_record_of_512_bytes_costs_four_write_units_and_one_batched_read_unit() {
    let tables = MemoryTables::new();
    let outbox = MemoryOutbox::new(tables.clone());
    let row = row(1);
    outbox.put(&row).await.unwrap();
    assert_eq!(tables.usage(), usage(1, 0, 1), "a warm put is one request and no read");
    let plan = claim(&row);
    outbox.claim(std::slice::from_ref(&plan)).await[0].as_ref().unwrap();
    assert!(outbox.tombstones(&[row.id().clone()]).await.unwrap().is_empty());
    outbox.write_tombstones(&[tombstone(&row)]).await[0].as_ref().unwrap();
    outbox.commit(&[commit(&plan)]).await[0].as_ref().unwrap();
    assert_eq!(tables.usage(), usage(5, 1, 4));
    for one in [operation::PUT, operation::CLAIM, operation::WRITE_TOMBSTONES, operation::COMMIT] {
        assert_eq!(tables.usage_of(one), usage(1, 0, 1), "{one}");
    }
}

#[tokio::test]
async fn an_idle_shard_costs_one_read() {
    let tables = MemoryTables::new();
    MemoryOutbox::new(tables.clone()).page(&shard(), None, 100).await.unwrap();
    assert_eq!(tables.usage(), usage(1, 1, 0));
}

#[tokio::test]
async fn a_lost_condition_costs_as_much_as_what_stands_there() {
    let tables = MemoryTables::new();
    let outbox = MemoryOutbox::new(tables.clone());
    let large = OutboxRow { payload: vec![0; 5_000], ..row(1) };
    outbox.put(&large).await.unwrap();
    let units = u64::try_from(size_bytes(&outstanding::encode(&large)).div_ceil(1024)).unwrap();
    assert_eq!(tables.usage_of(operation::PUT).write_units, units);
    outbox.put(&row(1)).await.unwrap();
    assert_eq!(tables.usage_of(operation::PUT).write_units, 2 * units);
    outbox.claim(&[claim(&row(2))]).await[0].as_ref().unwrap();
    assert_eq!(tables.usage_of(operation::CLAIM).write_units, 1, "nothing stands there: one unit all the same");
}

#[tokio::test]
async fn many_rows_go_by_requests_of_25_and_keys_by_100() {
    let tables = MemoryTables::new();
    let outbox = MemoryOutbox::new(tables.clone());
    let rows: Vec<OutboxRow> = (0..60).map(row).collect();
    outbox.put_many(&rows).await;
    assert_eq!(tables.usage_of(operation::PUT_MANY), usage(3, 0, 60));
    let ids: Vec<MessageId> = (0..101).map(|n| row(n).id().clone()).collect();
    outbox.tombstones(&ids).await.unwrap();
    assert_eq!(tables.usage_of(operation::TOMBSTONES), usage(2, 101, 0));
    let page = outbox.page(&shard(), None, 100).await.unwrap();
    let bytes: usize =
        page.rows.iter().filter_map(|(_, slot)| slot.present()).map(|row| size_bytes(&outstanding::encode(row))).sum();
    assert_eq!(tables.usage_of(operation::PAGE), usage(1, u64::try_from(bytes.div_ceil(4096)).unwrap(), 0));
}
