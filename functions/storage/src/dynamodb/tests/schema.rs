//! The tables as they are made.

use crate::dynamodb::create_tables;
use crate::loopback::world::World;
use aws_sdk_dynamodb::types::StreamViewType;

#[tokio::test]
async fn making_the_tables_twice_is_the_same_as_once() {
    let world = World::start().await;
    create_tables(&world.clients, &world.names).await.expect("they exist, and that is fine");
}

#[tokio::test]
async fn only_the_outbox_has_a_stream_and_a_time_to_live() {
    let world = World::start().await;
    let client = world.clients.dynamodb();
    let outbox = client.describe_table().table_name(&world.names.outbox).send().await.expect("described");
    let stream = outbox.table.expect("a table").stream_specification.expect("a stream");
    assert_eq!(stream.stream_view_type, Some(StreamViewType::KeysOnly));
    let lease = client.describe_table().table_name(&world.names.lease).send().await.expect("described");
    assert!(lease.table.expect("a table").stream_specification.is_none_or(|stream| !stream.stream_enabled));
    let ttl_of = |name: String| async move {
        let described = client.describe_time_to_live().table_name(name).send().await.expect("described");
        described.time_to_live_description.and_then(|ttl| ttl.attribute_name)
    };
    assert_eq!(ttl_of(world.names.outbox.clone()).await.as_deref(), Some("expires_at"));
    assert_eq!(ttl_of(world.names.lease.clone()).await, None);
}
