//! A write that was tried more than once fails as its least certain try did, whoever tried it again.

use std::time::Duration;

use fencepost_protocol::drain::ClaimAnswer;
use fencepost_protocol::failure::FailureKind;
use serde_json::json;

use super::samples::{acquisition, claim, rows};
use crate::StoreError;
use crate::call::CallPolicy;
use crate::dynamodb::{DynamoLeaseStore, DynamoOutbox};
use crate::loopback::world::{POLICY, clients_at};
use crate::loopback::{Act, Loopback, error_reply};
use crate::ports::{LeaseStore as _, Outbox as _};

/// A batch reply with one failure for each code.
fn statements_fail(codes: &[&str]) -> Act {
    let failures: Vec<_> = codes.iter().map(|code| json!({"Error": {"Code": code, "Message": "said"}})).collect();
    Act::Reply(200, json!({"Responses": failures}).to_string())
}

/// A stub that does `acts` in turn, the last one for ever.
async fn acting(acts: Vec<Act>) -> Loopback {
    Loopback::start(None, move |number, _| acts[number.min(acts.len() - 1)].clone()).await
}

/// What claims of `count` rows come to, and how many requests there were.
async fn claims(acts: Vec<Act>, count: u64, policy: CallPolicy, batching: bool) -> (Vec<StoreError>, usize) {
    let stub = acting(acts).await;
    let outbox = DynamoOutbox::new(&clients_at(&stub.url).await, "outbox-table", policy, batching, None);
    let plans: Vec<_> = rows(count).iter().map(|row| claim(row, "mine")).collect();
    let answers = outbox.claim(&plans).await.into_iter();
    let failures = answers.map(|answer: Result<ClaimAnswer, _>| answer.expect_err("it fails")).collect();
    (failures, stub.requests().len())
}

fn kinds(failures: &[StoreError]) -> Vec<FailureKind> {
    failures.iter().map(|failure| failure.kind).collect()
}

#[tokio::test]
async fn a_statement_fails_as_its_least_certain_try() {
    use FailureKind::{Denied, Throttled, Unavailable};
    let cases = [
        (["InternalServerError", "ThrottlingError", "ThrottlingError"], Unavailable, 3),
        (["ThrottlingError", "InternalServerError", "ThrottlingError"], Unavailable, 3),
        (["ThrottlingError", "ThrottlingError", "ThrottlingError"], Throttled, 3),
        (["InternalServerError", "AccessDenied", "AccessDenied"], Unavailable, 2),
        (["ThrottlingError", "AccessDenied", "AccessDenied"], Denied, 2),
    ];
    for (codes, wanted, requests) in cases {
        let acts = codes.iter().map(|code| statements_fail(&[code])).collect();
        let (failures, seen) = claims(acts, 1, POLICY, true).await;
        assert_eq!((kinds(&failures), seen), (vec![wanted], requests), "{codes:?}");
    }
}

#[tokio::test]
async fn a_neighbours_doubt_is_its_own() {
    let acts =
        vec![statements_fail(&["ThrottlingError", "InternalServerError"]), statements_fail(&["ThrottlingError"; 2])];
    let (failures, _) = claims(acts, 2, POLICY, true).await;
    assert_eq!(kinds(&failures), vec![FailureKind::Throttled, FailureKind::Unavailable]);
    let words = &failures[1].detail;
    assert!(words.contains("may have been applied (unavailable)") && words.contains("ThrottlingError"), "{words}");
}

#[tokio::test]
async fn a_request_that_fails_after_a_doubtful_statement_is_doubtful() {
    let acts =
        vec![statements_fail(&["InternalServerError", "ThrottlingError"]), error_reply(400, "AccessDeniedException")];
    let (failures, seen) = claims(acts, 2, POLICY, true).await;
    assert_eq!((kinds(&failures), seen), (vec![FailureKind::Unavailable, FailureKind::Denied], 2));
}

#[tokio::test]
async fn a_try_inside_the_sdk_counts_for_every_statement() {
    // The first request may have been applied as a whole; the SDK sends it again, and then each statement is throttled.
    let acts = vec![error_reply(500, "InternalServerError"), statements_fail(&["ThrottlingError"; 2])];
    let (failures, _) = claims(acts, 2, POLICY, true).await;
    assert_eq!(kinds(&failures), vec![FailureKind::Unavailable; 2]);
}

#[tokio::test]
async fn a_call_fails_as_its_least_certain_try_inside_the_sdk() {
    use FailureKind::{Denied, Throttled, TimedOut, Unavailable};
    let policy = CallPolicy {
        call_timeout: Duration::from_secs(20),
        attempt_timeout: Duration::from_millis(500),
        max_attempts: 2,
    };
    let (throttled, denied) = (error_reply(400, "ThrottlingException"), error_reply(400, "AccessDeniedException"));
    let cases = [
        (error_reply(500, "InternalServerError"), throttled.clone(), Unavailable),
        (Act::Disconnect, throttled.clone(), Unavailable),
        (Act::Hang, throttled.clone(), TimedOut),
        (error_reply(500, "InternalServerError"), denied.clone(), Unavailable),
        (throttled.clone(), denied, Denied),
        (throttled.clone(), throttled, Throttled),
    ];
    for (first, then, wanted) in cases {
        for batching in [true, false] {
            let (failures, seen) = claims(vec![first.clone(), then.clone()], 1, policy, batching).await;
            assert_eq!((kinds(&failures), seen), (vec![wanted], 2), "{first:?}, {then:?}, batching {batching}");
        }
        let stub = acting(vec![first.clone(), then.clone()]).await;
        let store = DynamoLeaseStore::new(&clients_at(&stub.url).await, "lease-table", policy, None);
        let failure = store.write_lease(&acquisition("a-1")).await.expect_err("it fails");
        assert_eq!((failure.kind, stub.requests().len()), (wanted, 2), "{first:?}, {then:?}: a lease write");
    }
}
