//! What an endpoint acknowledged is there after a `kill -9` of its process.
//!
//! The servers run in a process of their own: this test binary, started again with the ignored test below.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail the test by panicking")]

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use fencepost_local::broker::Broker;
use fencepost_local::queue::{QueueServer, QueueStorage};
use fencepost_local::table_server::{TableServer, TableStorage};
use tokio::sync::watch;

/// Names the data directory to the process that is started.
const DIRECTORY: &str = "ENDPOINTS_TEST_DIRECTORY";
const TABLE: &str = "outbox";
const QUEUE: &str = "telemetry";
/// How many messages at least are acknowledged between a start and a kill.
const EACH_ROUND: usize = 20;

#[test]
#[ignore = "not a test: the servers' process, which the other test starts and kills"]
fn endpoints() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let port = |name: &str| std::env::var(name).ok().and_then(|port| port.parse().ok()).unwrap_or(0);
    let addr = |name: &str| SocketAddr::from(([127, 0, 0, 1], port(name)));
    let now_ms = Arc::new(|| u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap());
    let tables =
        TableServer::start(addr("DYNAMODB_PORT"), TableStorage::File(directory.join("tables.sqlite"))).unwrap();
    let queue =
        QueueServer::start(addr("SQS_PORT"), QueueStorage::File(directory.join("queue.sqlite")), now_ms).unwrap();
    let (broker, mut published) = Broker::start(addr("MQTT_PORT")).unwrap();
    println!("\ntables {}", tables.endpoint_url());
    println!("queue {}", queue.endpoint_url());
    println!("broker {}", broker.addr());
    while let Some(published) = published.blocking_recv() {
        println!("published {} {} {} bytes", published.client_id, published.topic, published.payload.len());
    }
}

struct Endpoints {
    process: Child,
    /// Kept open for as long as the process runs: a print into a closed pipe would end it before its time.
    _lines: Lines<BufReader<ChildStdout>>,
    tables: aws_sdk_dynamodb::Client,
    queue: aws_sdk_sqs::Client,
}

impl Endpoints {
    fn start(directory: &Path) -> Endpoints {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "endpoints", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut url_after = |prefix: &str| {
            lines.by_ref().find_map(|line| line.unwrap().strip_prefix(prefix).map(str::to_owned)).unwrap()
        };
        let (tables_url, queue_url) = (url_after("tables "), url_after("queue "));
        let credentials = || Credentials::new("test", "test", None, None, "test");
        let tables = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .endpoint_url(tables_url)
            .region(Region::new("us-east-1"))
            .credentials_provider(credentials())
            .build();
        let queue = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .endpoint_url(queue_url)
            .region(Region::new("us-east-1"))
            .credentials_provider(credentials())
            .build();
        let (tables, queue) = (aws_sdk_dynamodb::Client::from_conf(tables), aws_sdk_sqs::Client::from_conf(queue));
        Endpoints { process, _lines: lines, tables, queue }
    }

    async fn create(&self) {
        let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build().unwrap();
        let attribute = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::N);
        let create = self.tables.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
        create.key_schema(key).attribute_definitions(attribute.build().unwrap()).send().await.unwrap();
        self.queue.create_queue().queue_name(QUEUE).send().await.unwrap();
    }

    /// Kills the process in mid-flow; the writer then fails at its next request.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Endpoints {
    /// A failed test leaves no process behind.
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Puts rows and sends messages, on from those `written`, until a request fails. `written` tells how many rows and
/// messages were acknowledged.
async fn write_until_killed(
    tables: aws_sdk_dynamodb::Client,
    queue: aws_sdk_sqs::Client,
    written: watch::Sender<(usize, usize)>,
) {
    let (mut put, mut sent) = *written.borrow();
    loop {
        let row = tables.put_item().table_name(TABLE).item("id", AttributeValue::N(put.to_string()));
        if row.send().await.is_err() {
            return;
        }
        put += 1;
        written.send_replace((put, sent));
        let entry = SendMessageBatchRequestEntry::builder().id("a").message_body(sent.to_string()).build().unwrap();
        let batch =
            queue.send_message_batch().queue_url(format!("http://127.0.0.1/000000000000/{QUEUE}")).entries(entry);
        if batch.send().await.is_ok_and(|reply| reply.failed().is_empty()) {
            sent += 1;
        } else {
            return;
        }
        written.send_replace((put, sent));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let directory = std::env::temp_dir().join(format!("fencepost-kill-{}", uuid::Uuid::new_v4()));
    let mut written = (0, 0);
    for round in 0..3 {
        let mut endpoints = Endpoints::start(&directory);
        if round == 0 {
            endpoints.create().await;
        }
        let (sender, mut receiver) = watch::channel(written);
        let writer = tokio::spawn(write_until_killed(endpoints.tables.clone(), endpoints.queue.clone(), sender));
        let (_, sent_before) = written;
        receiver.wait_for(|&(_, sent)| sent >= sent_before + EACH_ROUND).await.unwrap();
        endpoints.kill();
        writer.await.unwrap();
        written = *receiver.borrow();
    }

    let mut endpoints = Endpoints::start(&directory);
    for id in 0..written.0 {
        let get = endpoints.tables.get_item().table_name(TABLE).key("id", AttributeValue::N(id.to_string()));
        assert!(get.send().await.unwrap().item.is_some(), "row {id} of {written:?} is lost");
    }
    let mut bodies = std::collections::BTreeSet::new();
    let url = format!("http://127.0.0.1/000000000000/{QUEUE}");
    loop {
        let receive = endpoints.queue.receive_message().queue_url(&url).max_number_of_messages(10);
        let received = receive.send().await.unwrap();
        if received.messages().is_empty() {
            break;
        }
        bodies.extend(received.messages().iter().map(|message| message.body().unwrap().parse::<usize>().unwrap()));
    }
    assert!((0..written.1).all(|body| bodies.contains(&body)), "{written:?}: {bodies:?}");
    endpoints.kill();
    std::fs::remove_dir_all(&directory).unwrap();
}
