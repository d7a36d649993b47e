//! What the traffic costs, counted: requests and capacity units, as the service states them.

use std::sync::Arc;

use fencepost_protocol::drain::{ChangeAnswer, ClaimAnswer};
use fencepost_protocol::ids::{MessageId, PayloadDigest, Shard};
use fencepost_protocol::outbox::{Slot, Tombstone};

use super::samples::{claim, commit, lease_name, row, rows};
use crate::dynamodb::{DynamoLeaseStore, DynamoOutbox};
use crate::loopback::world::{Count, Counter, POLICY, World};
use crate::operation;
use crate::ports::{LeaseStore as _, Outbox as _, PutAnswer};

const ONE_UNIT: Count = Count { requests: 1, failures: 0, units: 1.0 };

fn counted(world: &World, batching: bool) -> (DynamoOutbox, Counter) {
    let counter = Counter::default();
    let observer = Arc::new(counter.clone());
    (DynamoOutbox::new(&world.clients, &world.names.outbox, POLICY, batching, Some(observer)), counter)
}

#[tokio::test]
async fn a_warm_put_is_one_request_and_no_read() {
    let world = World::start().await;
    let (front, clients) = world.behind(|_, _| crate::loopback::Act::Forward).await;
    let outbox = DynamoOutbox::new(&clients, &world.names.outbox, POLICY, true, None);
    let row = row(1, &[7; 512]);
    assert_eq!(outbox.put(&row).await, Ok(PutAnswer::Stored));
    assert!(matches!(outbox.put(&row).await, Ok(PutAnswer::Exists(_))), "a duplicate costs no read either");
    let seen: Vec<String> = front.requests().into_iter().map(|request| request.operation).collect();
    assert_eq!(seen, vec!["PutItem", "PutItem"]);
}

#[tokio::test]
async fn a_record_of_512_bytes_costs_four_write_units_and_one_read_unit() {
    for batching in [true, false] {
        let world = World::start().await;
        let (outbox, counter) = counted(&world, batching);
        let row = row(1, &[7; 512]);
        assert_eq!(outbox.put(&row).await, Ok(PutAnswer::Stored));
        assert_eq!(
            outbox.claim(&[claim(&row, "11111111-2222-4333-8444-555555555555")]).await,
            vec![Ok(ClaimAnswer::Claimed)]
        );
        let proof = Tombstone {
            id: row.id().clone(),
            digest: PayloadDigest::of(&row.payload),
            redriven: 0,
            expires_at_secs: 1_800_000_000,
        };
        assert_eq!(outbox.tombstones(&[row.id().clone()]).await, Ok(vec![]));
        assert_eq!(outbox.write_tombstones(std::slice::from_ref(&proof)).await, vec![Ok(())]);
        let committed = outbox.commit(&[commit(&row, "11111111-2222-4333-8444-555555555555")]).await;
        assert_eq!(committed, vec![Ok(ChangeAnswer::Done)]);

        for write in [operation::PUT, operation::CLAIM, operation::WRITE_TOMBSTONES, operation::COMMIT] {
            assert_eq!(counter.of(write), ONE_UNIT, "{write}, batching {batching}");
        }
        assert_eq!(counter.of(operation::TOMBSTONES), ONE_UNIT, "one batched read unit");
        assert_eq!(counter.all().len(), 5, "and nothing else: {:?}", counter.all());
    }
}

#[tokio::test]
async fn every_read_asks_for_strong_consistency() {
    let world = World::start().await;
    let (front, clients) = world.behind(|_, _| crate::loopback::Act::Forward).await;
    let outbox = DynamoOutbox::new(&clients, &world.names.outbox, POLICY, true, None);
    let leases = DynamoLeaseStore::new(&clients, &world.names.lease, POLICY, None);
    let row = row(1, b"x");
    assert_eq!(leases.read_lease(&lease_name()).await, Ok(Slot::Absent));
    assert_eq!(leases.read_group(&lease_name()).await.expect("read").lease, Slot::Absent);
    assert_eq!(outbox.row(&row.key).await, Ok(Slot::Absent));
    assert_eq!(outbox.read_fence(&lease_name()).await, Ok(Slot::Absent));
    assert_eq!(outbox.page(&row.key.shard, None, 10).await.expect("read").rows, vec![]);
    assert_eq!(outbox.dead_page(&row.key.shard, None, 10).await.expect("read").rows, vec![]);
    assert_eq!(outbox.tombstones(&[row.id().clone()]).await, Ok(vec![]));
    let requests = front.requests();
    assert_eq!(requests.len(), 7, "one request each");
    for request in requests {
        let body = request.json();
        let strong = match request.operation.as_str() {
            "BatchGetItem" => &body["RequestItems"][&world.names.outbox]["ConsistentRead"],
            _ => &body["ConsistentRead"],
        };
        assert_eq!(strong, &true, "{}", request.operation);
    }
}

#[tokio::test]
async fn an_idle_look_at_a_shard_is_one_request() {
    let world = World::start().await;
    let (outbox, counter) = counted(&world, true);
    let page = outbox.page(&Shard::new(lease_name(), 3).expect("a shard"), None, 100).await.expect("a page");
    assert_eq!((page.rows.len(), page.next), (0, None));
    assert_eq!(counter.of(operation::PAGE).requests, 1);
}

#[tokio::test]
async fn a_hundred_rows_travel_in_four_requests_each_way() {
    let world = World::start().await;
    let (outbox, counter) = counted(&world, true);
    let rows = rows(100);
    assert_eq!(outbox.put_many(&rows).await, vec![Ok(PutAnswer::Stored); 100]);
    let claims: Vec<_> = rows.iter().map(|row| claim(row, "c-1")).collect();
    assert_eq!(outbox.claim(&claims).await, vec![Ok(ClaimAnswer::Claimed); 100]);
    let commits: Vec<_> = rows.iter().map(|row| commit(row, "c-1")).collect();
    assert_eq!(outbox.commit(&commits).await, vec![Ok(ChangeAnswer::Done); 100]);
    let ids: Vec<MessageId> = rows.iter().map(|row| row.id().clone()).collect();
    assert_eq!(outbox.tombstones(&ids).await, Ok(vec![]));
    for name in [operation::PUT_MANY, operation::CLAIM, operation::COMMIT] {
        assert_eq!(counter.of(name), Count { requests: 4, failures: 0, units: 100.0 }, "{name}");
    }
    assert_eq!(counter.of(operation::TOMBSTONES).requests, 1, "a hundred keys are one request");
}
