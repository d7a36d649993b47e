//! The endpoint as the Rust SDK sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName,
    SendMessageBatchRequestEntry,
};

use super::*;

const QUEUE: &str = "telemetry";

/// A clock that a test sets.
#[derive(Clone)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn new() -> Clock {
        Clock(Arc::new(AtomicU64::new(1_700_000_000_000)))
    }

    fn advance(&self, by_ms: u64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }

    fn now_ms(&self) -> NowMs {
        let clock = Arc::clone(&self.0);
        Arc::new(move || clock.load(Ordering::SeqCst))
    }
}

fn start(storage: QueueStorage, clock: &Clock) -> QueueServer {
    QueueServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), storage, clock.now_ms()).unwrap()
}

fn client(server: &QueueServer) -> Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(server.endpoint_url())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().operation_timeout(Duration::from_secs(5)).build())
        .build();
    Client::from_conf(config)
}

async fn running() -> (QueueServer, Client, Clock, String) {
    let clock = Clock::new();
    let server = start(QueueStorage::Memory, &clock);
    let client = client(&server);
    let url = client.create_queue().queue_name(QUEUE).send().await.unwrap().queue_url.unwrap();
    assert_eq!(url, server.queue_url(QUEUE));
    (server, client, clock, url)
}

fn text(value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
}

fn entry(id: &str, body: &str) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder().id(id).message_body(body).build().unwrap()
}

#[tokio::test]
async fn a_message_arrives_as_it_was_sent() {
    let (server, client, clock, url) = running().await;
    let bytes = MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new([0, 255])).build().unwrap();
    let sent = client
        .send_message()
        .queue_url(&url)
        .message_body("{\"celsius\": 21.5}")
        .message_attributes("topic", text("telemetry/d1"))
        .message_attributes("bytes", bytes)
        .message_group_id("d1")
        .send()
        .await
        .unwrap();
    assert_eq!(sent.md5_of_message_body.as_deref(), Some("2d7b830b483febf23d12b56deef8dbfa"));

    let received = client
        .receive_message()
        .queue_url(&url)
        .max_number_of_messages(10)
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .send()
        .await
        .unwrap();
    let message = &received.messages()[0];
    assert_eq!(message.body(), Some("{\"celsius\": 21.5}"));
    assert_eq!(message.message_id(), sent.message_id());
    assert_eq!(message.md5_of_body(), sent.md5_of_message_body());
    assert_eq!(message.md5_of_message_attributes(), sent.md5_of_message_attributes());
    let attributes = message.message_attributes().unwrap();
    assert_eq!(attributes["topic"], text("telemetry/d1"));
    assert_eq!(attributes["bytes"].binary_value(), Some(&Blob::new([0, 255])));
    let system = message.attributes().unwrap();
    assert_eq!(system[&MessageSystemAttributeName::ApproximateReceiveCount], "1");
    assert_eq!(system[&MessageSystemAttributeName::MessageGroupId], "d1");
    assert_eq!(system[&MessageSystemAttributeName::SentTimestamp], "1700000000000");

    let seen = server.messages(QUEUE);
    assert_eq!(seen[0].body, "{\"celsius\": 21.5}");
    clock.advance(30_000);
    let receipt = message.receipt_handle().unwrap();
    client.delete_message().queue_url(&url).receipt_handle(receipt).send().await.unwrap();
    assert_eq!(server.messages(QUEUE), []);
    server.stop().await;
}

#[test]
fn attribute_checksums_are_those_of_other_implementations() {
    let number = MessageAttribute {
        data_type: "Number".to_owned(),
        content: AttributeContent::Text("1493147359900".to_owned()),
    };
    let attributes = MessageAttributes::from([("timestamp".to_owned(), number)]);
    assert_eq!(submission::md5_of_attributes(&attributes).unwrap(), "235c5c510d26fb653d073faed50ae77c");
    assert_eq!(submission::md5_of_attributes(&MessageAttributes::new()), None);
}

#[tokio::test]
async fn only_the_attributes_that_were_asked_for_are_returned() {
    let (server, client, clock, url) = running().await;
    let send = client.send_message().queue_url(&url).message_body("a");
    send.message_attributes("a.b", text("1")).message_attributes("c", text("2")).send().await.unwrap();
    for (wanted, expected) in [(vec!["a.*"], 1), (vec!["c", "a.b"], 2), (vec![".*"], 2), (vec!["x"], 0)] {
        let names = Some(wanted.into_iter().map(str::to_owned).collect());
        let receive = client.receive_message().queue_url(&url).set_message_attribute_names(names);
        let received = receive.send().await.unwrap();
        let message = &received.messages()[0];
        assert_eq!(message.message_attributes().map_or(0, |attributes| attributes.len()), expected);
        assert_eq!(message.md5_of_message_attributes().is_some(), expected > 0);
        assert!(message.attributes().is_none());
        clock.advance(30_000);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_batch_is_accepted_entry_by_entry() {
    let (server, client, _clock, url) = running().await;
    let batch = client.send_message_batch().queue_url(&url);
    let sent = batch.entries(entry("good", "a")).entries(entry("bad", "\u{1}")).send().await.unwrap();
    assert_eq!(sent.successful()[0].id(), "good");
    let failed = &sent.failed()[0];
    assert_eq!((failed.id(), failed.code(), failed.sender_fault()), ("bad", "InvalidMessageContents", true));

    let received = client.receive_message().queue_url(&url).send().await.unwrap();
    let receipt = received.messages()[0].receipt_handle().unwrap();
    let delete = |id: &str, receipt: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(receipt).build().unwrap()
    };
    let batch = client.delete_message_batch().queue_url(&url);
    let deleted = batch.entries(delete("1", receipt)).entries(delete("2", "nonsense")).send().await.unwrap();
    assert_eq!(deleted.successful()[0].id(), "1");
    assert_eq!(deleted.failed()[0].code(), "ReceiptHandleIsInvalid");
    assert_eq!(server.messages(QUEUE), []);
    server.stop().await;
}

#[tokio::test]
async fn a_batch_that_breaks_a_rule_is_refused_as_a_whole() {
    let (server, client, _clock, url) = running().await;
    let refused = |entries: Vec<SendMessageBatchRequestEntry>| {
        let batch = client.send_message_batch().queue_url(&url).set_entries(Some(entries));
        async move { batch.send().await.unwrap_err().into_service_error() }
    };
    assert!(refused(Vec::new()).await.is_empty_batch_request());
    assert!(
        refused((0..11).map(|n| entry(&n.to_string(), "a")).collect()).await.is_too_many_entries_in_batch_request()
    );
    assert!(refused(vec![entry("a", "a"), entry("a", "b")]).await.is_batch_entry_ids_not_distinct());
    assert!(refused(vec![entry("a b", "a")]).await.is_invalid_batch_entry_id());
    let half = "a".repeat(524_288);
    assert!(refused(vec![entry("a", &half), entry("b", &half), entry("c", "a")]).await.is_batch_request_too_long());
    assert_eq!(server.messages(QUEUE), []);
    let batch = client.send_message_batch().queue_url(&url);
    let sent = batch.entries(entry("a", &half)).entries(entry("b", &half)).send().await.unwrap();
    assert_eq!(sent.successful().len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn errors_are_those_that_the_sdk_decodes() {
    let (server, client, _clock, url) = running().await;
    let nowhere = server.queue_url("nowhere");
    let error = client.send_message().queue_url(&nowhere).message_body("a").send().await.unwrap_err();
    assert!(error.into_service_error().is_queue_does_not_exist());
    let error = client.send_message().queue_url(&url).message_body("\u{0}").send().await.unwrap_err();
    assert!(error.into_service_error().is_invalid_message_contents());
    let error = client.delete_message().queue_url(&url).receipt_handle("x").send().await.unwrap_err();
    assert!(error.into_service_error().is_receipt_handle_is_invalid());
    let error = client.list_queue_tags().queue_url(&url).send().await.unwrap_err().into_service_error();
    assert_eq!(error.code(), Some("InvalidAction"));
    assert!(error.message().unwrap().contains("ListQueueTags"));
    let error = client.receive_message().queue_url(&url).max_number_of_messages(11).send().await.unwrap_err();
    assert_eq!(error.into_service_error().code(), Some("InvalidParameterValue"));
    let error = client.create_queue().queue_name(QUEUE).attributes(QueueAttributeName::DelaySeconds, "9").send();
    assert!(error.await.unwrap_err().into_service_error().is_queue_name_exists());
    server.stop().await;
}

#[tokio::test]
async fn queues_are_listed_found_described_and_purged() {
    let (server, client, clock, url) = running().await;
    server.create_queue("orders.fifo", &[]).unwrap();
    let listed = client.list_queues().queue_name_prefix("or").send().await.unwrap();
    assert_eq!(listed.queue_urls(), [server.queue_url("orders.fifo")]);
    let page = client.list_queues().max_results(1).send().await.unwrap();
    let rest = client.list_queues().max_results(1).next_token(page.next_token().unwrap()).send().await.unwrap();
    assert_eq!(rest.queue_urls(), std::slice::from_ref(&url));
    assert!(rest.next_token().is_none());
    let found = client.get_queue_url().queue_name(QUEUE).send().await.unwrap();
    assert_eq!(found.queue_url(), Some(url.as_str()));

    for body in ["a", "b"] {
        client.send_message().queue_url(&url).message_body(body).send().await.unwrap();
    }
    client.receive_message().queue_url(&url).send().await.unwrap();
    let attributes = client.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::All);
    let attributes = attributes.send().await.unwrap().attributes.unwrap();
    assert_eq!(attributes[&QueueAttributeName::ApproximateNumberOfMessages], "1");
    assert_eq!(attributes[&QueueAttributeName::ApproximateNumberOfMessagesNotVisible], "1");
    assert_eq!(attributes[&QueueAttributeName::VisibilityTimeout], "30");
    assert!(!attributes.contains_key(&QueueAttributeName::FifoQueue));
    let fifo = client.get_queue_attributes().queue_url(server.queue_url("orders.fifo"));
    let fifo = fifo.attribute_names(QueueAttributeName::FifoQueue).send().await.unwrap().attributes.unwrap();
    assert_eq!(fifo[&QueueAttributeName::FifoQueue], "true");

    client.purge_queue().queue_url(&url).send().await.unwrap();
    assert_eq!(server.messages(QUEUE), []);
    clock.advance(1_000);
    let again = client.purge_queue().queue_url(&url).send().await.unwrap_err();
    assert!(again.into_service_error().is_purge_queue_in_progress());
    server.stop().await;
}

#[tokio::test]
async fn a_fifo_queue_keeps_order_and_removes_duplicates() {
    let (server, client, _clock, _) = running().await;
    let url = server.create_queue("orders.fifo", &[]).unwrap();
    let send = |body: &str, group: &str, deduplication: &str| {
        let send = client.send_message().queue_url(&url).message_body(body);
        send.message_group_id(group).message_deduplication_id(deduplication).send()
    };
    let first = send("a1", "a", "1").await.unwrap();
    let duplicate = send("a1", "a", "1").await.unwrap();
    assert_eq!(first.sequence_number(), duplicate.sequence_number());
    send("a2", "a", "2").await.unwrap();
    send("b1", "b", "3").await.unwrap();
    let receive = || client.receive_message().queue_url(&url);
    let received = receive().message_system_attribute_names(MessageSystemAttributeName::All).send().await.unwrap();
    let message = &received.messages()[0];
    let system = message.attributes().unwrap();
    assert_eq!(system[&MessageSystemAttributeName::MessageDeduplicationId], "1");
    assert_eq!(system[&MessageSystemAttributeName::SequenceNumber], first.sequence_number().unwrap());
    let other = receive().max_number_of_messages(10).send().await.unwrap();
    assert_eq!(other.messages().len(), 1, "group a is locked");
    assert_eq!(other.messages()[0].body(), Some("b1"));
    let visible = client.change_message_visibility().queue_url(&url).visibility_timeout(0);
    visible.receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
    let again = receive().max_number_of_messages(10).send().await.unwrap();
    let bodies: Vec<_> = again.messages().iter().filter_map(|message| message.body()).collect();
    assert_eq!(bodies, ["a1", "a2"]);
    server.stop().await;
}

#[tokio::test]
async fn a_long_poll_ends_with_the_first_message() {
    let (server, client, clock, url) = running().await;
    let waiting = tokio::spawn({
        let receive = client.receive_message().queue_url(&url).wait_time_seconds(4);
        async move { receive.send().await.unwrap() }
    });
    client.send_message().queue_url(&url).message_body("a").send().await.unwrap();
    assert_eq!(waiting.await.unwrap().messages().len(), 1);

    // A message that becomes visible again by time alone ends a wait, too.
    let waiting = tokio::spawn({
        let receive = client.receive_message().queue_url(&url).wait_time_seconds(4);
        async move { receive.send().await.unwrap() }
    });
    clock.advance(30_000);
    assert_eq!(waiting.await.unwrap().messages().len(), 1);

    let nothing = client.receive_message().queue_url(&url).wait_time_seconds(1).send().await.unwrap();
    assert_eq!(nothing.messages().len(), 0);
    server.stop().await;
}

#[tokio::test]
async fn faults_are_told_apart_and_only_the_black_hole_applies() {
    let (server, client, _clock, url) = running().await;
    let send = |body: &str| client.send_message().queue_url(&url).message_body(body).send();
    server.set_fault(QueueFault::Unavailable);
    let error = send("a").await.unwrap_err();
    assert_eq!(error.raw_response().unwrap().status().as_u16(), 500);
    server.set_fault(QueueFault::Throttle);
    assert!(send("a").await.unwrap_err().into_service_error().is_request_throttled());
    assert_eq!(server.messages(QUEUE), []);

    server.set_fault(QueueFault::BlackHole);
    let applied = async {
        while server.messages(QUEUE).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        reply = send("swallowed") => panic!("no reply may come: {reply:?}"),
        () = applied => {}
    }
    assert_eq!(server.messages(QUEUE)[0].body, "swallowed");
    server.set_fault(QueueFault::None);
    send("b").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_file_survives_a_restart_with_what_was_in_flight() {
    let directory = std::env::temp_dir().join(format!("fencepost-queue-{}", uuid::Uuid::new_v4()));
    let storage = QueueStorage::File(directory.join("data").join("queue.sqlite"));
    let clock = Clock::new();
    let server = start(storage.clone(), &clock);
    let url = server.create_queue(QUEUE, &[]).unwrap();
    let first = client(&server);
    for body in ["in flight", "waiting"] {
        first.send_message().queue_url(&url).message_body(body).send().await.unwrap();
    }
    let received = first.receive_message().queue_url(&url).send().await.unwrap();
    let receipt = received.messages()[0].receipt_handle().unwrap();
    let busy = QueueServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), storage.clone(), clock.now_ms());
    assert!(matches!(busy, Err(StartError::DataInUse { .. })));
    let before = server.messages(QUEUE);
    server.stop().await;

    let server = start(storage, &clock);
    assert_eq!(server.messages(QUEUE), before);
    let url = server.queue_url(QUEUE);
    let second = client(&server);
    let received = second.receive_message().queue_url(&url).max_number_of_messages(10).send().await.unwrap();
    assert_eq!(received.messages().len(), 1);
    assert_eq!(received.messages()[0].body(), Some("waiting"));
    second.delete_message().queue_url(&url).receipt_handle(receipt).send().await.unwrap();
    assert_eq!(server.messages(QUEUE).len(), 1);
    server.stop().await;
    std::fs::remove_dir_all(&directory).unwrap();
}
