//! A write that was applied and whose reply was lost: the SDK tries again inside, and the second try must know the first.

use std::time::Duration;

use fencepost_protocol::drain::{ChangeAnswer, ClaimAnswer};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::lease::FenceRaise;
use fencepost_protocol::outbox::{Fence, Slot};

use super::samples::{acquisition, attempt, claim, commit, hand_back, lease_name, row, rows, token};
use crate::call::CallPolicy;
use crate::dynamodb::{DynamoLeaseStore, DynamoOutbox};
use crate::loopback::world::{POLICY, World};
use crate::loopback::{Act, Loopback};
use crate::ports::{LeaseStore as _, Outbox as _, PutAnswer, WriteAnswer};

/// An outbox behind a server that loses the reply to the first request in the way of `lose`.
async fn outbox_behind(world: &World, batching: bool, lose: Act) -> (Loopback, DynamoOutbox) {
    let script = move |number: usize, _: &_| if number == 0 { lose.clone() } else { Act::Forward };
    let (front, clients) = world.behind(script).await;
    (front, DynamoOutbox::new(&clients, &world.names.outbox, POLICY, batching, None))
}

/// The ways in which a reply is lost after the write was applied.
fn ways_to_lose() -> [Act; 2] {
    let failed = r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"after all"}"#;
    [Act::ForwardThenDisconnect, Act::ForwardThenReply(500, failed.to_owned())]
}

#[tokio::test]
async fn a_lease_write_recognises_itself() {
    for lose in ways_to_lose() {
        let world = World::start().await;
        let script = move |number: usize, _: &_| if number == 0 { lose.clone() } else { Act::Forward };
        let (front, clients) = world.behind(script).await;
        let store = DynamoLeaseStore::new(&clients, &world.names.lease, POLICY, None);
        let write = acquisition("a-1");
        assert_eq!(store.write_lease(&write).await, Ok(WriteAnswer::Written));
        assert_eq!(front.count("UpdateItem"), 2, "the SDK tried again");
        assert_eq!(world.lease_store().read_lease(&lease_name()).await, Ok(Slot::Present(write.record)));
    }
}

#[tokio::test]
async fn a_lease_write_whose_reply_never_comes_recognises_itself_in_time() {
    let world = World::start().await;
    let script = |number: usize, _: &_| if number == 0 { Act::ForwardThenHang } else { Act::Forward };
    let (front, clients) = world.behind(script).await;
    let policy = CallPolicy::in_thirds(Duration::from_millis(2_400));
    let store = DynamoLeaseStore::new(&clients, &world.names.lease, policy, None);
    assert_eq!(store.write_lease(&acquisition("a-1")).await, Ok(WriteAnswer::Written));
    assert_eq!(front.count("UpdateItem"), 2, "the second try found the first one's row");
}

#[tokio::test]
async fn another_lease_write_is_not_taken_for_ones_own() {
    let world = World::start().await;
    let winner = acquisition("a-1");
    assert_eq!(world.lease_store().write_lease(&winner).await, Ok(WriteAnswer::Written));
    let answer = world.lease_store().write_lease(&acquisition("a-2")).await;
    assert_eq!(answer, Ok(WriteAnswer::Refused(Slot::Present(winner.record))));
}

#[tokio::test]
async fn a_fence_raise_recognises_itself() {
    let world = World::start().await;
    let (front, outbox) = outbox_behind(&world, true, Act::ForwardThenDisconnect).await;
    let fence = Fence { highest: token(7), attempt: attempt("f-1") };
    let raise = FenceRaise { lease: lease_name(), expected: None, fence: fence.clone() };
    assert_eq!(outbox.raise_fence(&raise).await, Ok(WriteAnswer::Written));
    assert_eq!(front.count("UpdateItem"), 2);
    assert_eq!(outbox.read_fence(&lease_name()).await, Ok(Slot::Present(fence)));
}

#[tokio::test]
async fn a_put_finds_its_own_row() {
    for lose in ways_to_lose() {
        let world = World::start().await;
        let (front, outbox) = outbox_behind(&world, true, lose).await;
        let row = row(1, b"exact bytes");
        assert_eq!(outbox.put(&row).await, Ok(PutAnswer::Exists(Slot::Present(row.clone()))));
        assert_eq!(front.count("PutItem"), 2, "and no read");
    }
}

#[tokio::test]
async fn claims_recognise_themselves_in_both_forms() {
    for (batching, lose) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let world = World::start().await;
        let rows = rows(3);
        world.outbox(true).put_many(&rows).await;
        let (front, outbox) = outbox_behind(&world, batching, ways_to_lose()[lose].clone()).await;
        let claims: Vec<_> = rows.iter().map(|row| claim(row, "c-1")).collect();
        let answers = outbox.claim(&claims).await;
        assert_eq!(answers, vec![Ok(ClaimAnswer::Claimed); 3], "batching {batching}");
        assert_eq!(front.requests().len(), if batching { 2 } else { 4 });
    }
}

#[tokio::test]
async fn a_hand_back_recognises_itself() {
    for batching in [true, false] {
        let world = World::start().await;
        let row = row(1, b"payload");
        world.outbox(true).put(&row).await.expect("stored");
        world.outbox(true).claim(&[claim(&row, "c-1")]).await;
        let (_front, outbox) = outbox_behind(&world, batching, Act::ForwardThenDisconnect).await;
        assert_eq!(outbox.hand_back(&[hand_back(&row, "c-1")]).await, vec![Ok(ChangeAnswer::Done)]);
    }
}

#[tokio::test]
async fn a_commit_is_never_tried_again_inside() {
    for (batching, lose) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let world = World::start().await;
        let row = row(1, b"payload");
        world.outbox(true).put(&row).await.expect("stored");
        world.outbox(true).claim(&[claim(&row, "c-1")]).await;
        let (front, outbox) = outbox_behind(&world, batching, ways_to_lose()[lose].clone()).await;
        let first = outbox.commit(&[commit(&row, "c-1")]).await;
        let failure = first[0].as_ref().expect_err("the reply was lost");
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(front.requests().len(), 1, "one request and no more");
        let second = outbox.commit(&[commit(&row, "c-1")]).await;
        assert_eq!(second, vec![Ok(ChangeAnswer::Absent)], "the first one was applied");
    }
}
