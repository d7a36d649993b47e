//! Every way in which a call fails, through the SDK: which kind it becomes, and how often it was tried.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;

use super::samples::{acquisition, lease_name, row};
use crate::StoreError;
use crate::call::CallPolicy;
use crate::dynamodb::{DynamoLeaseStore, DynamoOutbox};
use crate::loopback::world::{World, clients_at};
use crate::loopback::{Act, Loopback, error_reply};
use crate::ports::{LeaseStore as _, Outbox as _};

const POLICY: CallPolicy =
    CallPolicy { call_timeout: Duration::from_secs(10), attempt_timeout: Duration::from_secs(5), max_attempts: 2 };
const SHORT: CallPolicy = CallPolicy {
    call_timeout: Duration::from_millis(300),
    attempt_timeout: Duration::from_millis(100),
    max_attempts: 3,
};

/// A lease write against a stub that always does `act`: the failure, and how many requests there were.
async fn failure_of(act: Act, policy: CallPolicy) -> (StoreError, usize) {
    let stub = Loopback::start(None, move |_, _| act.clone()).await;
    let clients = clients_at(&stub.url).await;
    let store = DynamoLeaseStore::new(&clients, "lease-table", policy, None);
    let failure = store.write_lease(&acquisition("a-1")).await.expect_err("it fails");
    (failure, stub.requests().len())
}

#[tokio::test]
async fn each_code_has_its_kind_and_only_what_passes_is_tried_again() {
    use FailureKind::{Denied, Invalid, Throttled, Unavailable};
    let cases = [
        (400, "ThrottlingException", Throttled, 2),
        (400, "ProvisionedThroughputExceededException", Throttled, 2),
        (400, "RequestLimitExceeded", Throttled, 2),
        (400, "ReplicatedWriteConflictException", Unavailable, 2),
        (500, "InternalServerError", Unavailable, 2),
        (503, "ServiceUnavailable", Unavailable, 2),
        (400, "AccessDeniedException", Denied, 1),
        (400, "ExpiredTokenException", Denied, 1),
        (400, "UnrecognizedClientException", Denied, 1),
        (400, "MissingAuthenticationTokenException", Denied, 1),
        (400, "ValidationException", Invalid, 1),
        (400, "ItemCollectionSizeLimitExceededException", Invalid, 1),
        (400, "SomethingNew", Invalid, 1),
        (403, "SomethingNew", Denied, 1),
    ];
    for (status, code, kind, requests) in cases {
        let (failure, tried) = failure_of(error_reply(status, code), POLICY).await;
        assert_eq!((failure.kind, tried), (kind, requests), "{code}: {failure}");
        assert!(failure.detail.contains(code), "{failure}");
    }
}

#[tokio::test]
async fn a_missing_table_names_itself_and_its_setting() {
    let world = World::start().await;
    let store = DynamoLeaseStore::new(&world.clients, "no-such-table", POLICY, None);
    let failure = store.read_lease(&lease_name()).await.expect_err("no table");
    assert_eq!(failure.kind, FailureKind::Invalid);
    for words in ["no-such-table", "FENCEPOST_LEASE_TABLE"] {
        assert!(failure.detail.contains(words), "{failure}");
    }
    let outbox = DynamoOutbox::new(&world.clients, "no-such-table", POLICY, true, None);
    let failure = outbox.put_many(&[row(1, b"x")]).await.remove(0).expect_err("no table");
    assert_eq!(failure.kind, FailureKind::Invalid);
    assert!(failure.detail.contains("FENCEPOST_OUTBOX_TABLE"), "{failure}");
}

#[tokio::test]
async fn a_service_that_hangs_is_timed_out_within_the_calls_time() {
    let started = std::time::Instant::now();
    let (failure, tried) = failure_of(Act::Hang, SHORT).await;
    assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
    assert!(tried >= 2, "each try has a time of its own; there were {tried}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_batch_that_hangs_leaves_every_row_unknown() {
    let stub = Loopback::start(None, |_, _| Act::Hang).await;
    let clients = clients_at(&stub.url).await;
    for batching in [true, false] {
        let outbox = DynamoOutbox::new(&clients, "outbox-table", SHORT, batching, None);
        for answer in outbox.put_many(&[row(1, b"x"), row(2, b"y")]).await {
            assert_eq!(answer.expect_err("no answer").kind, FailureKind::TimedOut);
        }
    }
}

#[tokio::test]
async fn a_broken_connection_and_an_unreadable_reply_are_unavailable() {
    let (failure, tried) = failure_of(Act::Disconnect, POLICY).await;
    assert_eq!((failure.kind, tried), (FailureKind::Unavailable, 2), "{failure}");
    let (failure, _) = failure_of(Act::Reply(200, "<html>a proxy's page</html>".to_owned()), POLICY).await;
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure}");
    let (failure, _) = failure_of(Act::Reply(502, "<html>bad gateway</html>".to_owned()), POLICY).await;
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure}");
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let clients = clients_at(&url).await;
    let store = DynamoLeaseStore::new(&clients, "lease-table", POLICY, None);
    let failure = store.read_group(&lease_name()).await.expect_err("nobody listens");
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure}");
}

#[tokio::test]
async fn missing_credentials_are_a_denial() {
    let failure = credential_failure().await;
    assert_eq!(failure.kind, FailureKind::Denied, "{failure}");
    assert!(failure.detail.contains("credentials"), "{failure}");
}

/// A call by a client whose provider of credentials has none.
async fn credential_failure() -> StoreError {
    let stub = Loopback::start(None, |_, _| Act::Hang).await;
    let clients = clients_at(&stub.url).await.without_credentials();
    let store = DynamoLeaseStore::new(&clients, "lease-table", POLICY, None);
    let failure = store.read_lease(&lease_name()).await.expect_err("nothing to sign with");
    assert_eq!(stub.requests().len(), 0, "nothing was sent");
    failure
}

#[tokio::test]
async fn an_item_that_is_too_large_is_invalid_and_leaves_its_neighbours() {
    for batching in [true, false] {
        let world = World::start().await;
        let outbox = world.outbox(batching);
        let answers = outbox.put_many(&[row(1, b"x"), row(2, &vec![7; 420_000]), row(3, b"y")]).await;
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
        assert_eq!(answers[1].as_ref().expect_err("too large").kind, FailureKind::Invalid);
    }
}
