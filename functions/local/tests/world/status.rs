//! What a status tells: rows that wait, also those of an earlier process, and records that nobody reads.

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use fencepost_local::queue::QueueFault;
use fencepost_local::world::{World, WorldOptions};

use crate::harness::{Directory, leader, options, publish, start, telemetry, until, until_ingest_has};

fn dynamodb(world: &World) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(world.dynamodb_url())
        .region(Region::new(world.region().to_owned()))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

#[tokio::test]
async fn outstanding_rows_are_those_of_the_table_not_of_this_process() {
    let directory = Directory::new("status");
    let options = WorldOptions { data: Some(directory.0.clone()), ..options() };
    let (world, _) = start(options.clone()).await;
    leader(&world).await;
    world.set_queue_fault(QueueFault::Unavailable);
    publish(&world, "pump-1", "telemetry/pump-1", &telemetry("pump", 30)).await;
    until_ingest_has(&world, 30).await;
    assert_eq!(world.status().await.unwrap().outstanding, 30);
    world.stop().await;

    let (world, _) = start(options).await;
    world.kill("east").await.unwrap();
    world.kill("west").await.unwrap();
    // Once what a killed instance had asked of the tables is through.
    until("both tell the same", async || {
        world.status().await.unwrap().outstanding == world.outstanding().await.unwrap()
    })
    .await;
    assert_eq!(world.status().await.unwrap().counts.ingested, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_lease_row_that_does_not_decode_is_named_with_its_field() {
    let (world, _) = start(options()).await;
    leader(&world).await;
    world.kill("east").await.unwrap();
    world.kill("west").await.unwrap();
    assert_eq!(world.status().await.unwrap().refused, Vec::<String>::new());
    dynamodb(&world)
        .update_item()
        .table_name(world.lease_table())
        .key("lease", AttributeValue::S("telemetry".to_owned()))
        .key("record", AttributeValue::S("LEASE".to_owned()))
        .update_expression("SET fencing_token = :wrong")
        .expression_attribute_values(":wrong", AttributeValue::S("many".to_owned()))
        .send()
        .await
        .unwrap();
    let status = world.status().await.unwrap();
    assert_eq!(status.lease, None);
    let [refused] = status.refused.as_slice() else { panic!("{:?}", status.refused) };
    assert!(refused.contains("fencing_token"), "{refused}");
    world.stop().await;
}
