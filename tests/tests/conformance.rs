//! The suite that every adapter passes, over one machine's world: the SQS adapter against the local queue server, the
//! DynamoDB adapters against the local table server, each through the real SDK client.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::types::MessageSystemAttributeName;
use fencepost_local::queue::{QueueFault, QueueServer, QueueStorage};
use fencepost_local::table_server::{TableServer, TableStorage};
use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::failure::FailureKind;
use fencepost_storage::conformance::{QueueSubject, Received, TablesSubject, run_queue, run_tables};
use fencepost_storage::dynamodb::{DynamoLeaseStore, DynamoOutbox, TableNames, create_tables};
use fencepost_storage::item::{Item, Value};
use fencepost_storage::records::Table;
use fencepost_storage::sqs::SqsQueue;
use fencepost_storage::{CallPolicy, ClientOptions, Clients, Queue as _, StoreError};

const REGION: &str = "eu-west-1";
const ANY_PORT: std::net::SocketAddr =
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since_epoch.as_millis()).expect("a moment of this age")
}

fn queue_server() -> QueueServer {
    QueueServer::start(ANY_PORT, QueueStorage::Memory, Arc::new(now_ms)).expect("a queue server")
}

async fn clients_at(url: String) -> Clients {
    Clients::load(ClientOptions::loopback(url, REGION)).await.expect("a configuration")
}

/// The consumer's end: a plain SQS client.
fn consumer(server: &QueueServer) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(server.endpoint_url())
        .credentials_provider(Credentials::new("loopback", "loopback", None, None, "fixed"))
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}

/// Receives and deletes until the queue gives out nothing more.
async fn take_all(client: &aws_sdk_sqs::Client, queue_url: &str) -> Vec<Received> {
    let mut taken = Vec::new();
    loop {
        let request = client.receive_message().queue_url(queue_url).max_number_of_messages(10).wait_time_seconds(0);
        let received = request
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await
            .expect("received");
        let messages = received.messages.unwrap_or_default();
        if messages.is_empty() {
            return taken;
        }
        for message in messages {
            let delete = client.delete_message().queue_url(queue_url);
            delete.receipt_handle(message.receipt_handle.expect("a receipt")).send().await.expect("deleted");
            let text = |value: aws_sdk_sqs::types::MessageAttributeValue| value.string_value.expect("a text");
            let mut system = message.attributes.unwrap_or_default();
            let attributes = message.message_attributes.unwrap_or_default();
            taken.push(Received {
                body: message.body.expect("a body"),
                attributes: attributes.into_iter().map(|(name, value)| (name, text(value))).collect(),
                group_id: system.remove(&MessageSystemAttributeName::MessageGroupId),
                deduplication_id: system.remove(&MessageSystemAttributeName::MessageDeduplicationId),
            });
        }
    }
}

async fn queue_passes(name: &str) {
    let server = queue_server();
    let queue_url = server.create_queue(name, &[]).expect("a queue");
    let clients = clients_at(server.endpoint_url()).await;
    let client = consumer(&server);
    let subject = QueueSubject {
        queue: Arc::new(SqsQueue::new(&clients, &queue_url, Duration::from_secs(10), None)),
        take: Arc::new(move || {
            let (client, queue_url) = (client.clone(), queue_url.clone());
            Box::pin(async move { Ok::<_, StoreError>(take_all(&client, &queue_url).await) })
        }),
        fifo: name.ends_with(".fifo"),
    };
    let report = run_queue(&subject).await;
    assert!(report.all_passed().is_ok(), "{report}");
    server.stop().await;
}

#[tokio::test]
async fn a_standard_queue_passes() {
    queue_passes("out").await;
}

#[tokio::test]
async fn a_fifo_queue_passes() {
    queue_passes("out.fifo").await;
}

#[tokio::test]
async fn a_queue_that_fails_is_told_by_kind_and_asked_once() {
    let server = queue_server();
    let queue_url = server.create_queue("out", &[]).expect("a queue");
    let clients = clients_at(server.endpoint_url()).await;
    // Only the queue that never answers is given up early.
    let queue = |timeout| SqsQueue::new(&clients, queue_url.clone(), timeout, None);
    let (patient, hasty) = (queue(Duration::from_secs(20)), queue(Duration::from_secs(2)));
    let entry = |id: &str| QueueEntry {
        entry_id: id.to_owned(),
        body: id.to_owned(),
        attributes: Vec::new(),
        group_id: None,
        deduplication_id: None,
    };
    let cases = [
        (QueueFault::Unavailable, &patient, FailureKind::Unavailable, 0),
        (QueueFault::Throttle, &patient, FailureKind::Throttled, 0),
        // Swallowed: applied once, and the sender cannot know. A second message here would be a hidden second try.
        (QueueFault::BlackHole, &hasty, FailureKind::TimedOut, 1),
    ];
    for (fault, queue, kind, stored) in cases {
        server.set_fault(fault);
        let failure = queue.send(&[entry("e0")]).await.expect_err("it fails");
        assert_eq!(failure.kind, kind, "{fault:?}: {failure}");
        assert_eq!(server.messages("out").len(), stored, "{fault:?}");
    }
    server.set_fault(QueueFault::None);
    let reply = patient.send(&[entry("e1")]).await.expect("mended");
    assert_eq!(reply.accepted, vec!["e1"]);
    server.stop().await;
}

#[tokio::test]
async fn the_local_tables_pass() {
    let server = TableServer::start(ANY_PORT, TableStorage::Memory).expect("a table server");
    let clients = clients_at(server.endpoint_url()).await;
    let names = TableNames { lease: "fencepost-lease".to_owned(), outbox: "fencepost-outbox".to_owned() };
    create_tables(&clients, &names).await.expect("the tables");
    let policy =
        CallPolicy { call_timeout: Duration::from_secs(20), attempt_timeout: Duration::from_secs(10), max_attempts: 3 };
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(server.endpoint_url())
        .credentials_provider(Credentials::new("loopback", "loopback", None, None, "fixed"))
        .build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    let subject = TablesSubject {
        lease_store: Arc::new(DynamoLeaseStore::new(&clients, &names.lease, policy, None)),
        outbox: Arc::new(DynamoOutbox::new(&clients, &names.outbox, policy, true, None)),
        plant: Arc::new(move |table, item| {
            let name = if table == Table::Lease { names.lease.clone() } else { names.outbox.clone() };
            let put = client.put_item().table_name(name).set_item(Some(attributes(item)));
            Box::pin(async move {
                put.send().await.expect("planted");
                Ok(())
            })
        }),
    };
    let report = run_tables(&subject, "local").await;
    assert!(report.all_passed().is_ok(), "{report}");
    server.stop().await;
}

fn attributes(item: Item) -> std::collections::HashMap<String, aws_sdk_dynamodb::types::AttributeValue> {
    item.into_iter().map(|(name, value)| (name, attribute(value))).collect()
}

fn attribute(value: Value) -> aws_sdk_dynamodb::types::AttributeValue {
    use aws_sdk_dynamodb::primitives::Blob;
    use aws_sdk_dynamodb::types::AttributeValue;
    match value {
        Value::Text(text) => AttributeValue::S(text),
        Value::Number(digits) => AttributeValue::N(digits),
        Value::Bytes(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::Bool(truth) => AttributeValue::Bool(truth),
        Value::List(values) => AttributeValue::L(values.into_iter().map(attribute).collect()),
        Value::Map(item) => AttributeValue::M(attributes(item)),
        Value::Other(_) => AttributeValue::Null(true),
    }
}
