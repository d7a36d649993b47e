//! The proxy between the real adapters, with the SDK's whole stack, and the embedded services.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::{Client, config};
use fencepost_local::queue::{QueueServer, QueueStorage};
use fencepost_local::table_server::{TableServer, TableStorage};
use fencepost_storage::dynamodb::{TableNames, create_tables};
use fencepost_storage::{ClientOptions, Clients};
use serde_json::json;

use super::{Fault, Gate, Match, Proxy, Tap, Times};

const TABLE: &str = "lease-table";

fn loopback() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// The embedded tables.
async fn tables() -> TableServer {
    let server = TableServer::start(loopback(), TableStorage::Memory).unwrap();
    let clients = Clients::load(ClientOptions::loopback(server.endpoint_url(), "eu-west-1")).await.unwrap();
    let names = TableNames { lease: TABLE.to_owned(), outbox: "outbox-table".to_owned() };
    create_tables(&clients, &names).await.unwrap();
    server
}

/// No test waits longer for anything.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a client waits for an answer that never comes. Long enough for its request to have arrived, however slow the
/// machine.
const UNANSWERED: Duration = Duration::from_secs(5);

/// A client that tries once and waits as long as it takes.
fn client(url: &str) -> Client {
    client_that_waits(url, LIMIT)
}

/// A client that tries once, for at most so long.
fn client_that_waits(url: &str, call_timeout: Duration) -> Client {
    let config = config::Builder::new()
        .behavior_version(config::BehaviorVersion::latest())
        .region(config::Region::new("eu-west-1"))
        .credentials_provider(config::Credentials::new("k", "s", None, None, "test"))
        .endpoint_url(url)
        .retry_config(config::retry::RetryConfig::disabled())
        .timeout_config(config::timeout::TimeoutConfig::builder().operation_timeout(call_timeout).build())
        .build();
    Client::from_conf(config)
}

/// Puts one item under a key of this name; the error's words, with the service's code.
async fn put(client: &Client, name: &str) -> Result<(), String> {
    let (lease, record) = (AttributeValue::S(name.to_owned()), AttributeValue::S("LEASE".to_owned()));
    let put = client.put_item().table_name(TABLE).item("lease", lease).item("record", record);
    put.send().await.map(|_| ()).map_err(|error| format!("{error:?}"))
}

async fn holds(server: &TableServer, name: &str) -> bool {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let get = client(&server.endpoint_url()).get_item().table_name(TABLE).consistent_read(true);
    let got = get.key("lease", key(name)).key("record", key("LEASE")).send().await.unwrap();
    got.item.is_some()
}

/// Waits until the item is there.
async fn until_it_holds(server: &TableServer, name: &str) {
    let limit = Instant::now() + LIMIT;
    while !holds(server, name).await {
        assert!(Instant::now() < limit, "{name} is never applied");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_applied_or_not_as_it_says() {
    let server = tables().await;
    let (short, open) = (Duration::from_millis(50), Gate::default());
    open.open();
    // The fault, whether it is applied, and a word of the error that the client sees.
    let cases = [
        (Fault::DropBefore, false, Some("DispatchFailure")),
        (Fault::DropAfter, true, Some("DispatchFailure")),
        (Fault::DelayBefore(short), true, None),
        (Fault::DelayAfter(short), true, None),
        (Fault::HoldUntil(open), true, None),
        (Fault::FailBefore, false, Some("InternalServerError")),
        (Fault::FailAfter, true, Some("InternalServerError")),
        (Fault::Throttle, false, Some("ProvisionedThroughputExceeded")),
        (Fault::Deny, false, Some("AccessDenied")),
        (Fault::BlackHole, false, Some("Timeout")),
        (Fault::BlackHoleAfter, true, Some("Timeout")),
        (Fault::edit(|reply| *reply = json!({ "Attributes": {} })), true, None),
    ];
    for (fault, applied, word) in cases {
        let kind = fault.kind();
        let proxy = Proxy::start("tables", &server.endpoint_url()).await.unwrap();
        let placed = proxy.place(Match::operation("PutItem"), Times::Nth(2), fault);
        let client = client(&proxy.endpoint_url());
        assert_eq!(put(&client, "first").await, Ok(()), "{kind}: the first is not meant");
        assert_eq!(placed.hits(), 0);
        let unanswered = word == Some("Timeout");
        let spoilt = if unanswered {
            put(&client_that_waits(&proxy.endpoint_url(), UNANSWERED), kind).await
        } else {
            put(&client, kind).await
        };
        match (spoilt, word) {
            (Ok(()), None) => {}
            (Err(error), Some(word)) => assert!(error.contains(word), "{kind}: {error}"),
            (outcome, _) => panic!("{kind}: {outcome:?}"),
        }
        assert_eq!(put(&client, "third").await, Ok(()), "{kind}: nor is the third");
        assert_eq!(holds(&server, kind).await, applied, "{kind}");
        assert_eq!((placed.hits(), proxy.count("PutItem")), (1, 3), "{kind}");
        assert_eq!(proxy.faults().into_iter().collect::<Vec<_>>(), [(kind, 1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_request_is_applied_after_its_client_has_gone() {
    let server = tables().await;
    let proxy = Proxy::start("tables", &server.endpoint_url()).await.unwrap();
    let late = Duration::from_secs(1);
    proxy.place(Match::any(), Times::First(1), Fault::ApplyLate(late));
    let started = Instant::now();
    let error = put(&client(&proxy.endpoint_url()), "late").await.unwrap_err();
    assert!(error.contains("DispatchFailure"), "{error}");
    drop(proxy);
    until_it_holds(&server, "late").await;
    assert!(started.elapsed() >= late, "not before its time: {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_its_client_gave_up_is_applied_all_the_same() {
    let server = tables().await;
    let proxy = Proxy::start("tables", &server.endpoint_url()).await.unwrap();
    let gate = Gate::default();
    let held = proxy.place(Match::any(), Times::First(1), Fault::HoldUntil(gate.clone()));
    let client = client(&proxy.endpoint_url());
    let arrived = async {
        while held.hits() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = put(&client, "slow") => panic!("it is held, and was answered: {outcome:?}"),
        outcome = tokio::time::timeout(LIMIT, arrived) => outcome.expect("it arrives"),
    }
    drop(client);
    assert!(!holds(&server, "slow").await, "the gate is shut");
    gate.open();
    until_it_holds(&server, "slow").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_match_looks_at_operation_and_body_and_clear_ends_it() {
    let server = tables().await;
    let proxy = Proxy::start("tables", &server.endpoint_url()).await.unwrap();
    proxy.place(Match::operation("PutItem").containing("\"wanted\""), Times::Always, Fault::Throttle);
    proxy.place(Match::operation("DeleteItem"), Times::Always, Fault::Deny);
    let client = client(&proxy.endpoint_url());
    assert_eq!(put(&client, "other").await, Ok(()));
    for _ in 0..2 {
        assert!(put(&client, "wanted").await.unwrap_err().contains("Throughput"));
    }
    proxy.clear();
    assert_eq!(put(&client, "wanted").await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_spoils_the_same_requests() {
    let server = tables().await;
    let mut histories = Vec::new();
    for seed in [1, 1, 2] {
        let proxy = Proxy::start("tables", &server.endpoint_url()).await.unwrap();
        proxy.set_rates(seed, &[(Fault::Throttle, 300), (Fault::FailAfter, 200)]);
        let client = client(&proxy.endpoint_url());
        for number in 0..40 {
            drop(put(&client, &format!("n{number}")).await);
        }
        let kinds: Vec<_> = proxy.journal().iter().map(|seen| seen.fault.as_ref().map(Fault::kind)).collect();
        let spoilt = kinds.iter().flatten().count();
        assert!((8..=32).contains(&spoilt), "about half of 40: {spoilt}");
        assert_eq!(u64::try_from(spoilt).unwrap(), proxy.faults().values().sum::<u64>());
        histories.push(kinds);
    }
    assert_eq!(histories[0], histories[1]);
    assert_ne!(histories[0], histories[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tap_sees_the_true_reply_of_every_proxy_in_order() {
    let server = tables().await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let tap = Arc::new(Tap::new({
        let seen = Arc::clone(&seen);
        move |exchange| {
            let fault = exchange.fault.map_or("none", Fault::kind);
            let line = format!("{} {} {} {fault}", exchange.proxy, exchange.operation, exchange.status);
            seen.lock().unwrap().push(line);
        }
    }));
    let left = Proxy::start_tapped("left", &server.endpoint_url(), Arc::clone(&tap)).await.unwrap();
    let right = Proxy::start_tapped("right", &server.endpoint_url(), Arc::clone(&tap)).await.unwrap();
    left.place(Match::any(), Times::Nth(1), Fault::FailAfter);
    right.place(Match::any(), Times::Nth(2), Fault::DropBefore);
    let (by_left, by_right) = (client(&left.endpoint_url()), client(&right.endpoint_url()));
    put(&by_left, "a").await.unwrap_err();
    put(&by_right, "b").await.unwrap();
    put(&by_right, "never").await.unwrap_err();
    put(&by_left, "c").await.unwrap();
    let expected = ["left PutItem 200 fail_after", "right PutItem 200 none", "left PutItem 200 none"];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(left.journal().is_empty(), "a tapped proxy keeps no journal");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_answers_in_its_own_form() {
    let server = QueueServer::start(loopback(), QueueStorage::Memory, Arc::new(|| 1_700_000_000_000)).unwrap();
    let url = server.create_queue("telemetry", &[]).unwrap();
    let cases = [
        (Fault::Throttle, "RequestThrottled", 0),
        (Fault::Deny, "AccessDenied", 0),
        (Fault::FailBefore, "InternalFailure", 0),
        (Fault::FailAfter, "InternalFailure", 1),
    ];
    for (fault, code, stored) in cases {
        let proxy = Proxy::start("queue", &server.endpoint_url()).await.unwrap();
        proxy.place(Match::operation("SendMessage"), Times::Nth(1), fault);
        let config = aws_sdk_sqs::config::Builder::new()
            .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
            .region(aws_sdk_sqs::config::Region::new("eu-west-1"))
            .credentials_provider(aws_sdk_sqs::config::Credentials::new("k", "s", None, None, "test"))
            .endpoint_url(proxy.endpoint_url())
            .retry_config(aws_sdk_sqs::config::retry::RetryConfig::disabled())
            .build();
        let send = aws_sdk_sqs::Client::from_conf(config).send_message().queue_url(&url).message_body("x");
        let error = send.send().await.expect_err("spoilt").into_service_error();
        assert_eq!(error.meta().code(), Some(code));
        assert_eq!(server.messages("telemetry").len(), stored, "{code}");
    }
}

#[tokio::test]
async fn an_upstream_must_be_an_address() {
    for url in ["https://127.0.0.1:1", "127.0.0.1:1", "http://dynamodb.example"] {
        let error = Proxy::start("x", url).await.unwrap_err();
        assert!(error.to_string().contains(url), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_the_service_left_unanswered_is_known_by_name() {
    let tap = Arc::new(Tap::new(|exchange| panic!("nothing was applied: {exchange:?}")));
    // A port that was free a moment ago, where nobody listens any more.
    let gone = {
        let server = tables().await;
        server.endpoint_url()
    };
    let proxy = Proxy::start_tapped("tables", &gone, Arc::clone(&tap)).await.unwrap();
    assert_eq!(tap.unseen(), [""; 0]);
    put(&client(&proxy.endpoint_url()), "lost").await.unwrap_err();
    let unseen = tap.unseen();
    assert!(unseen.len() == 1 && unseen[0].starts_with("PutItem: "), "{unseen:?}");
}
