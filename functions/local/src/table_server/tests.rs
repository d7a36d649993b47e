//! What the emulator must be able to do, asked through the real SDK client.

use std::path::PathBuf;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BatchStatementErrorCodeEnum, BatchStatementRequest, BillingMode,
    KeySchemaElement, KeyType, ReturnValuesOnConditionCheckFailure, ScalarAttributeType, StreamSpecification,
    StreamViewType, TimeToLiveSpecification,
};

use super::*;

const TABLE: &str = "outbox";

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn client(server: &TableServer) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(server.endpoint_url())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .build();
    Client::from_conf(config)
}

async fn create_table(client: &Client) {
    let key = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let attribute = |name: &str| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build().unwrap()
    };
    client
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("shard"))
        .attribute_definitions(attribute("position"))
        .key_schema(key("shard", KeyType::Hash))
        .key_schema(key("position", KeyType::Range))
        .stream_specification(
            StreamSpecification::builder()
                .stream_enabled(true)
                .stream_view_type(StreamViewType::KeysOnly)
                .build()
                .unwrap(),
        )
        .send()
        .await
        .unwrap();
}

fn string(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

async fn put(client: &Client, position: &str, status: &str) {
    client
        .put_item()
        .table_name(TABLE)
        .item("shard", string("telemetry#0001"))
        .item("position", string(position))
        .item("status", string(status))
        .item("fencing_token", AttributeValue::N("7".to_owned()))
        .item("payload", AttributeValue::B(Blob::new([0x00, 0xFF])))
        .condition_expression("attribute_not_exists(#shard)")
        .expression_attribute_names("#shard", "shard")
        .send()
        .await
        .unwrap();
}

fn statement(text: &str, parameters: &[AttributeValue]) -> BatchStatementRequest {
    BatchStatementRequest::builder()
        .statement(text)
        .set_parameters(Some(parameters.to_vec()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .unwrap()
}

const CLAIM: &str = "UPDATE \"outbox\" SET \"status\" = ? SET \"claim\" = ? \
                     WHERE \"shard\" = ? AND \"position\" = ? AND \"status\" = ? AND \"fencing_token\" <= ?";

fn claim(position: &str) -> BatchStatementRequest {
    let number = AttributeValue::N("7".to_owned());
    statement(
        CLAIM,
        &[string("claimed"), string("claim-1"), string("telemetry#0001"), string(position), string("pending"), number],
    )
}

#[tokio::test]
async fn batch_statements_are_conditional_one_by_one_and_return_the_old_item() {
    let server = TableServer::start(any_port(), TableStorage::Memory).unwrap();
    let client = client(&server);
    create_table(&client).await;
    put(&client, "1", "pending").await;
    put(&client, "2", "claimed").await;
    put(&client, "4", "pending").await;

    let insert =
        statement("INSERT INTO \"outbox\" VALUE {'shard': ?, 'position': ?}", &[string("telemetry#0001"), string("4")]);
    let execute = |statements| client.batch_execute_statement().set_statements(Some(statements)).send();
    let reply = execute(vec![claim("1"), claim("2"), claim("3"), insert.clone()]).await.unwrap();
    let outcomes = reply.responses();
    assert_eq!(outcomes.len(), 4);
    assert!(outcomes[0].error().is_none(), "{:?}", outcomes[0]);

    let refused = outcomes[1].error().unwrap();
    assert_eq!(refused.code(), Some(&BatchStatementErrorCodeEnum::ConditionalCheckFailed));
    assert_eq!(refused.item().unwrap()["status"], string("claimed"));
    assert_eq!(refused.item().unwrap()["payload"], AttributeValue::B(Blob::new([0x00, 0xFF])));

    let missing = outcomes[2].error().unwrap();
    assert_eq!(missing.code(), Some(&BatchStatementErrorCodeEnum::ConditionalCheckFailed));
    assert!(missing.item().is_none());

    let duplicate = outcomes[3].error().unwrap();
    assert_eq!(duplicate.code(), Some(&BatchStatementErrorCodeEnum::DuplicateItem));

    let delete = statement(
        "DELETE FROM \"outbox\" WHERE \"shard\" = ? AND \"position\" = ? AND \"claim\" = ?",
        &[string("telemetry#0001"), string("1"), string("another")],
    );
    let reply = client.batch_execute_statement().statements(delete).send().await.unwrap();
    let refused = reply.responses()[0].error().unwrap();
    assert_eq!(refused.code(), Some(&BatchStatementErrorCodeEnum::ConditionalCheckFailed));
    assert_eq!(refused.item().unwrap()["claim"], string("claim-1"));

    // One item twice in a request is refused as a whole, as on AWS.
    let twice = execute(vec![insert.clone(), insert]).await.unwrap_err();
    assert!(twice.to_string().contains("service error"), "{twice}");
    server.stop().await;
}

#[tokio::test]
async fn the_stream_tells_keys_and_kind_of_every_change_in_order() {
    let server = TableServer::start(any_port(), TableStorage::Memory).unwrap();
    let client = client(&server);
    create_table(&client).await;
    put(&client, "0", "pending").await;
    let mut reader = server.stream_reader(TABLE).unwrap();
    put(&client, "1", "pending").await;
    client.batch_execute_statement().statements(claim("1")).send().await.unwrap();
    let delete = client.delete_item().table_name(TABLE);
    delete.key("shard", string("telemetry#0001")).key("position", string("1")).send().await.unwrap();

    let first = reader.poll(2).unwrap();
    let rest = reader.poll(100).unwrap();
    let names: Vec<_> = first.iter().chain(&rest).map(|record| record["eventName"].clone()).collect();
    assert_eq!(names, ["INSERT", "MODIFY", "REMOVE"]);
    assert_eq!(first[0]["dynamodb"]["Keys"]["shard"]["S"], "telemetry#0001");
    assert_eq!(first[0]["dynamodb"]["Keys"]["position"]["S"], "1");
    assert!(first[0]["dynamodb"].get("NewImage").is_none(), "the stream carries keys only");
    assert_eq!(reader.poll(100).unwrap(), Vec::<serde_json::Value>::new());
    server.stop().await;
}

#[tokio::test]
async fn a_table_without_a_stream_is_named() {
    let server = TableServer::start(any_port(), TableStorage::Memory).unwrap();
    let error = server.stream_reader("nowhere").unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    server.stop().await;
}

#[test]
fn a_write_with_a_stream_reads_no_earlier_record() {
    let name = format!("file:plan-{}?mode=memory&cache=shared", uuid::Uuid::new_v4());
    let _database = Database::new(&name).unwrap();
    add_stream_index(&name).unwrap();
    let connection = Connection::open(&name).unwrap();
    let plan = |query: &str| -> String {
        connection.query_row(&format!("EXPLAIN QUERY PLAN {query}"), [], |row| row.get(3)).unwrap()
    };
    let newest = plan(
        "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = 'a'",
    );
    assert!(newest.contains("fencepost_stream_order"), "{newest}");
    let after = plan(
        "SELECT event_name FROM _stream_records WHERE table_name = 'a' AND shard_id = 'b' \
         AND CAST(sequence_number AS INTEGER) > 1 ORDER BY CAST(sequence_number AS INTEGER) ASC LIMIT 5",
    );
    assert!(after.contains("fencepost_stream_order"), "{after}");
}

#[tokio::test]
async fn expired_items_go_when_asked_for() {
    let server = TableServer::start(any_port(), TableStorage::Memory).unwrap();
    let client = client(&server);
    create_table(&client).await;
    let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name("expires_at").build().unwrap();
    client.update_time_to_live().table_name(TABLE).time_to_live_specification(ttl).send().await.unwrap();
    put(&client, "1", "pending").await;
    let tombstone = client.put_item().table_name(TABLE).item("shard", string("sent#1")).item("position", string("-"));
    tombstone.item("expires_at", AttributeValue::N("1700000000".to_owned())).send().await.unwrap();
    assert_eq!(server.expire().unwrap(), 1);
    let left = client.scan().table_name(TABLE).send().await.unwrap();
    assert_eq!(left.count(), 1);
    server.stop().await;
}

fn scratch_file() -> PathBuf {
    std::env::temp_dir().join(format!("fencepost-tables-{}", uuid::Uuid::new_v4())).join("tables.sqlite")
}

#[tokio::test]
async fn a_file_survives_a_restart_and_has_one_user_at_a_time() {
    let file = scratch_file();
    let storage = TableStorage::File(file.clone());
    let server = TableServer::start(any_port(), storage.clone()).unwrap();
    let first = client(&server);
    create_table(&first).await;
    put(&first, "1", "pending").await;
    assert!(matches!(TableServer::start(any_port(), storage.clone()), Err(StartError::DataInUse { .. })));
    server.stop().await;

    let server = TableServer::start(any_port(), storage).unwrap();
    let left = client(&server).scan().table_name(TABLE).send().await.unwrap();
    assert_eq!(left.count(), 1);
    assert_eq!(left.items()[0]["payload"], AttributeValue::B(Blob::new([0x00, 0xFF])));
    assert_eq!(server.stream_reader(TABLE).unwrap().poll(10).unwrap().len(), 0);
    server.stop().await;
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let file = scratch_file();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let content = "these are somebody's notes, ".repeat(40);
    std::fs::write(&file, &content).unwrap();
    let error = TableServer::start(any_port(), TableStorage::File(file.clone())).unwrap_err();
    assert!(matches!(error, StartError::DataUnusable { .. }), "{error}");
    assert!(error.to_string().contains("--data DIR"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn the_port_is_free_after_a_stop() {
    let server = TableServer::start(any_port(), TableStorage::Memory).unwrap();
    let addr = server.addr;
    assert!(matches!(TableServer::start(addr, TableStorage::Memory), Err(StartError::PortBusy { .. })));
    server.stop().await;
    TableServer::start(addr, TableStorage::Memory).unwrap().stop().await;
}
