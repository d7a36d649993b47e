//! Many-row calls: every statement is answered for itself, in order, whatever happens to its neighbours.

use fencepost_protocol::drain::{ChangeAnswer, ClaimAnswer};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::PayloadDigest;
use fencepost_protocol::outbox::{OutboxRow, Slot, Tombstone};
use serde_json::{Value, json};

use super::samples::{claim, claim_id, commit, row, rows};
use crate::dynamodb::DynamoOutbox;
use crate::loopback::world::{POLICY, World};
use crate::loopback::{Act, Loopback};
use crate::ports::{Outbox as _, PutAnswer};

/// An outbox behind a server that changes the reply to the first batch.
async fn edited_first(world: &World, edit: fn(&mut Value)) -> (Loopback, DynamoOutbox) {
    let script = move |number: usize, _: &_| if number == 0 { Act::ForwardThenEdit(edit) } else { Act::Forward };
    let (front, clients) = world.behind(script).await;
    (front, DynamoOutbox::new(&clients, &world.names.outbox, POLICY, true, None))
}

async fn stored(world: &World, count: u64) -> Vec<OutboxRow> {
    let rows = rows(count);
    for answer in world.outbox(true).put_many(&rows).await {
        assert_eq!(answer, Ok(PutAnswer::Stored));
    }
    rows
}

fn statement_count(front: &Loopback, number: usize) -> usize {
    front.requests()[number].json()["Statements"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn outcomes_stay_in_order_across_requests() {
    for batching in [true, false] {
        let world = World::start().await;
        let rows = stored(&world, 60).await;
        let outbox = world.outbox(batching);
        // Every third row is somebody else's, every fifth is gone.
        for (number, row) in rows.iter().enumerate() {
            if number % 3 == 0 {
                outbox.claim(&[claim(row, "other")]).await;
            } else if number % 5 == 0 {
                outbox.claim(&[claim(row, "gone")]).await;
                outbox.commit(&[commit(row, "gone")]).await;
            }
        }
        let claims: Vec<_> = rows.iter().map(|row| claim(row, "mine")).collect();
        for (number, answer) in outbox.claim(&claims).await.into_iter().enumerate() {
            match answer.expect("answered") {
                ClaimAnswer::Claimed => assert!(number % 3 != 0 && number % 5 != 0, "{number}"),
                ClaimAnswer::Refused(Slot::Absent) => assert!(number % 3 != 0 && number % 5 == 0, "{number}"),
                ClaimAnswer::Refused(Slot::Present(found)) => {
                    assert_eq!((number % 3, found.claim()), (0, Some(&claim_id("other"))), "{number}");
                    assert_eq!(found.key, rows[number].key, "the row that won, not a neighbour");
                }
                ClaimAnswer::Refused(Slot::Damaged(damage)) => panic!("{damage}"),
            }
        }
        let commits: Vec<_> = rows.iter().map(|row| commit(row, "mine")).collect();
        for (number, answer) in outbox.commit(&commits).await.into_iter().enumerate() {
            match answer.expect("answered") {
                ChangeAnswer::Done => assert!(number % 3 != 0 && number % 5 != 0, "{number}"),
                ChangeAnswer::Absent => assert!(number % 3 != 0 && number % 5 == 0, "{number}"),
                ChangeAnswer::Fenced(_) => assert_eq!(number % 3, 0, "{number}"),
            }
        }
    }
}

#[tokio::test]
async fn one_key_twice_in_a_call_is_answered_twice() {
    for batching in [true, false] {
        let world = World::start().await;
        let outbox = world.outbox(batching);
        let row = row(1, b"payload");
        let answers = outbox.put_many(&[row.clone(), row.clone()]).await;
        assert_eq!(answers, vec![Ok(PutAnswer::Stored), Ok(PutAnswer::Exists(Slot::Present(row)))]);
    }
}

#[tokio::test]
async fn a_throttled_statement_is_tried_again_without_its_neighbours() {
    let world = World::start().await;
    let rows = stored(&world, 3).await;
    let (front, outbox) = edited_first(&world, |reply| {
        reply["Responses"][1] = json!({"Error": {"Code": "ThrottlingError", "Message": "slow down"}});
    })
    .await;
    let claims: Vec<_> = rows.iter().map(|row| claim(row, "mine")).collect();
    assert_eq!(outbox.claim(&claims).await, vec![Ok(ClaimAnswer::Claimed); 3]);
    assert_eq!((front.requests().len(), statement_count(&front, 1)), (2, 1));
}

#[tokio::test]
async fn a_statement_that_failed_inside_and_was_applied_is_own_success() {
    let world = World::start().await;
    let rows = stored(&world, 2).await;
    // The database carried it out; only the reply says that it failed.
    let (front, outbox) = edited_first(&world, |reply| {
        reply["Responses"][0] = json!({"Error": {"Code": "InternalServerError", "Message": "who knows"}});
    })
    .await;
    let claims: Vec<_> = rows.iter().map(|row| claim(row, "mine")).collect();
    assert_eq!(outbox.claim(&claims).await, vec![Ok(ClaimAnswer::Claimed); 2]);
    assert_eq!(front.requests().len(), 2);
}

#[tokio::test]
async fn a_statement_that_stays_throttled_fails_alone() {
    let world = World::start().await;
    let rows = stored(&world, 2).await;
    let script = |_: usize, _: &_| {
        Act::ForwardThenEdit(|reply| {
            let last = reply["Responses"].as_array().map_or(0, |responses| responses.len() - 1);
            reply["Responses"][last] = json!({"Error": {"Code": "ProvisionedThroughputExceeded", "Message": "no"}});
        })
    };
    let (front, clients) = world.behind(script).await;
    let outbox = DynamoOutbox::new(&clients, &world.names.outbox, POLICY, true, None);
    let answers = outbox.claim(&[claim(&rows[0], "mine"), claim(&rows[1], "mine")]).await;
    assert_eq!(answers[0], Ok(ClaimAnswer::Claimed));
    assert_eq!(answers[1].as_ref().expect_err("throttled").kind, FailureKind::Throttled);
    assert_eq!(front.requests().len(), 3, "as often as the policy allows");
}

#[tokio::test]
async fn a_commit_that_failed_inside_is_told_and_not_tried_again() {
    let world = World::start().await;
    let rows = stored(&world, 2).await;
    world.outbox(true).claim(&[claim(&rows[0], "mine"), claim(&rows[1], "mine")]).await;
    let (front, outbox) = edited_first(&world, |reply| {
        reply["Responses"][0] = json!({"Error": {"Code": "InternalServerError", "Message": "who knows"}});
    })
    .await;
    let answers = outbox.commit(&[commit(&rows[0], "mine"), commit(&rows[1], "mine")]).await;
    assert_eq!(answers[0].as_ref().expect_err("unknown").kind, FailureKind::Unavailable);
    assert_eq!(answers[1], Ok(ChangeAnswer::Done));
    assert_eq!(front.requests().len(), 1);
}

#[tokio::test]
async fn missing_outcomes_are_unknown() {
    let world = World::start().await;
    let rows = stored(&world, 3).await;
    world.outbox(true).claim(&rows.iter().map(|row| claim(row, "mine")).collect::<Vec<_>>()).await;
    let (_front, outbox) = edited_first(&world, |reply| {
        reply["Responses"].as_array_mut().expect("a list").truncate(1);
    })
    .await;
    let answers = outbox.commit(&rows.iter().map(|row| commit(row, "mine")).collect::<Vec<_>>()).await;
    assert_eq!(answers[0], Ok(ChangeAnswer::Done));
    for answer in &answers[1..] {
        assert_eq!(answer.as_ref().expect_err("unknown").kind, FailureKind::Unavailable);
    }
}

#[tokio::test]
async fn kinds_of_statement_failure() {
    let cases = [
        ("TransactionConflict", FailureKind::Throttled),
        ("RequestLimitExceeded", FailureKind::Throttled),
        ("ReplicatedWriteConflict", FailureKind::Unavailable),
        ("SomethingNew", FailureKind::Unavailable),
        ("AccessDenied", FailureKind::Denied),
        ("ValidationError", FailureKind::Invalid),
        ("ItemCollectionSizeLimitExceeded", FailureKind::Invalid),
        ("ResourceNotFound", FailureKind::Invalid),
    ];
    let row = row(1, b"payload");
    for (code, kind) in cases {
        let body = json!({"Responses": [{"Error": {"Code": code, "Message": "said by the stub"}}]}).to_string();
        let stub = Loopback::start(None, move |_, _| Act::Reply(200, body.clone())).await;
        let clients = crate::loopback::world::clients_at(&stub.url).await;
        let outbox = DynamoOutbox::new(&clients, "outbox-table", POLICY, true, None);
        let answer = outbox.commit(&[commit(&row, "mine")]).await.remove(0);
        assert_eq!(answer.expect_err("failed").kind, kind, "{code}");
    }
}

#[tokio::test]
async fn tombstones_that_were_left_unprocessed_are_asked_for_again() {
    let world = World::start().await;
    let proofs: Vec<Tombstone> = rows(2)
        .iter()
        .map(|row| Tombstone {
            id: row.id().clone(),
            digest: PayloadDigest::of(&row.payload),
            redriven: 0,
            expires_at_secs: 1_800_000_000,
        })
        .collect();
    assert_eq!(world.outbox(true).write_tombstones(&proofs).await, vec![Ok(()), Ok(())]);
    let (front, outbox) = edited_first(&world, |reply| {
        let left = reply["Responses"]["outbox-table"].as_array_mut().expect("a list").remove(0);
        let key = json!({"shard": left["shard"], "position": left["position"]});
        reply["UnprocessedKeys"] = json!({"outbox-table": {"Keys": [key], "ConsistentRead": true}});
    })
    .await;
    let ids: Vec<_> = proofs.iter().map(|proof| proof.id.clone()).collect();
    let found = outbox.tombstones(&ids).await.expect("found");
    assert_eq!(found, proofs.into_iter().map(Slot::Present).collect::<Vec<_>>());
    assert_eq!(front.requests().len(), 2);
}

#[tokio::test]
async fn tombstones_that_stay_unprocessed_are_no_proof_of_absence() {
    let stub = Loopback::start(None, |_, request| {
        let left = request.json()["RequestItems"].clone();
        Act::Reply(200, json!({"Responses": {}, "UnprocessedKeys": left}).to_string())
    })
    .await;
    let clients = crate::loopback::world::clients_at(&stub.url).await;
    let outbox = DynamoOutbox::new(&clients, "outbox-table", POLICY, true, None);
    let failure = outbox.tombstones(&[row(1, b"x").id().clone()]).await.expect_err("not whole");
    assert_eq!(failure.kind, FailureKind::Throttled);
}
