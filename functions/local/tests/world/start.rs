//! A world that cannot start says what to change.

use std::net::TcpListener;

use fencepost_local::world::{Ports, WorldOptions};
use fencepost_protocol::ids::InstanceName;

use crate::harness::{Directory, options, try_start};

async fn refusal(options: WorldOptions) -> String {
    try_start(options).await.unwrap_err().to_string()
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[tokio::test]
async fn a_busy_port_names_its_option() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let with = |ports: Ports| WorldOptions { ports, ..options() };
    let any = Ports::any();
    for (ports, option) in [
        (Ports { mqtt: port, ..any }, "--mqtt-port"),
        (Ports { dynamodb: port, ..any }, "--dynamodb-port"),
        (Ports { sqs: port, ..any }, "--sqs-port"),
        (Ports { control: port, ..any }, "--control-port"),
    ] {
        assert_says(&refusal(with(ports)).await, &[option, &port.to_string(), "in use"]);
    }
}

#[tokio::test]
async fn wrong_options_are_named() {
    let name = |text: &str| InstanceName::new(text).unwrap();
    let twice = WorldOptions { instances: vec![name("east"), name("east")], ..options() };
    assert_says(&refusal(twice).await, &["--instances", "east twice"]);
    let none = WorldOptions { instances: Vec::new(), ..options() };
    assert_says(&refusal(none).await, &["--instances", "1 to 16"]);
    let filter = WorldOptions { topic_filter: "telemetry/#/x".to_owned(), ..options() };
    assert_says(&refusal(filter).await, &["--topic-filter", "telemetry/#"]);
    let queue = WorldOptions { destination: "no such name".to_owned(), ..options() };
    assert_says(&refusal(queue).await, &["no such name"]);
}

#[tokio::test]
async fn wrong_settings_are_told_all_at_once() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let settings = vec![pair("FENCEPOST_LEASE_TTL", "300"), pair("FENCEPOST_PAGE_ROW", "10")];
    let text = refusal(WorldOptions { settings, ..options() }).await;
    assert_says(&text, &["FENCEPOST_LEASE_TTL", "FENCEPOST_PAGE_ROW", "FENCEPOST_PAGE_ROWS"]);
    let own = vec![pair("FENCEPOST_SHARDS", "8")];
    assert_says(&refusal(WorldOptions { settings: own, ..options() }).await, &["FENCEPOST_SHARDS", "--shards"]);
    let shards = WorldOptions { shards: 0, ..options() };
    assert_says(&refusal(shards).await, &["FENCEPOST_SHARDS"]);
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_used_is_named() {
    let directory = Directory::new("plain-file");
    std::fs::write(&directory.0, b"a file").unwrap();
    let text = refusal(WorldOptions { data: Some(directory.0.clone()), ..options() }).await;
    assert_says(&text, &["--data", directory.0.to_str().unwrap()]);
    std::fs::remove_file(&directory.0).unwrap();

    std::fs::create_dir(&directory.0).unwrap();
    std::fs::write(directory.0.join("world.json"), b"{\"schema\":1").unwrap();
    let text = refusal(WorldOptions { data: Some(directory.0.clone()), ..options() }).await;
    assert_says(&text, &["world.json", "--data"]);
}
