//! Tables as the service describes them.

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::tables::{Replication, TableFacts};
use serde_json::{Value, json};

use crate::dynamodb::DynamoTableInspection;
use crate::inspection::TableInspection as _;
use crate::loopback::world::World;
use crate::loopback::{Act, Loopback, error_reply};
use crate::records::Table;
use crate::{ClientOptions, StoreError};

fn at(url: &str) -> DynamoTableInspection {
    DynamoTableInspection::new(ClientOptions::loopback(url, "eu-west-1"))
}

#[tokio::test]
async fn the_tables_that_we_make_are_seen_as_they_are() {
    let world = World::start().await;
    let inspection = at(&format!("http://{}", world.addr));
    let lease = inspection.inspect(Table::Lease, &world.names.lease, None).await.unwrap();
    assert_eq!(lease, TableFacts { has_our_keys: true, replication: Replication::OneRegion, expires_by: None });
    let outbox = inspection.inspect(Table::Outbox, &world.names.outbox, None).await.unwrap();
    assert_eq!((outbox.has_our_keys, outbox.expires_by.as_deref()), (true, Some("expires_at")));
    let swapped = inspection.inspect(Table::Lease, &world.names.outbox, None).await.unwrap();
    assert!(!swapped.has_our_keys);
    let missing = inspection.inspect(Table::Lease, "nowhere", None).await.unwrap_err();
    assert_eq!(missing.kind, FailureKind::Invalid);
    assert!(missing.detail.contains("FENCEPOST_LEASE_TABLE"), "{missing}");
}

/// What is seen of a table whose description has these further fields, and whose time to live stands so.
async fn seen(further: Value, time_to_live: Value) -> Result<TableFacts, StoreError> {
    let mut table = json!({
        "TableName": "lease-table",
        "KeySchema": [
            { "AttributeName": "lease", "KeyType": "HASH" },
            { "AttributeName": "record", "KeyType": "RANGE" },
        ],
    });
    if let (Some(table), Value::Object(further)) = (table.as_object_mut(), further) {
        table.extend(further);
    }
    let service = Loopback::start(None, move |_, request| match request.operation.as_str() {
        "DescribeTable" => Act::Reply(200, json!({ "Table": table }).to_string()),
        "DescribeTimeToLive" => Act::Reply(200, json!({ "TimeToLiveDescription": time_to_live }).to_string()),
        other => panic!("nobody asked for {other}"),
    })
    .await;
    at(&service.url).inspect(Table::Lease, "lease-table", Some("eu-central-1")).await
}

#[tokio::test]
async fn a_global_table_is_eventual_unless_it_says_strong() {
    let off = json!({ "TimeToLiveStatus": "DISABLED" });
    let replicas = json!([{ "RegionName": "eu-west-2", "ReplicaStatus": "ACTIVE" }]);
    for (further, expected) in [
        (json!({}), Replication::OneRegion),
        (json!({ "Replicas": [] }), Replication::OneRegion),
        (json!({ "Replicas": replicas }), Replication::Eventual),
        (json!({ "Replicas": replicas, "MultiRegionConsistency": "EVENTUAL" }), Replication::Eventual),
        (json!({ "Replicas": replicas, "MultiRegionConsistency": "SOMEHOW" }), Replication::Eventual),
        (json!({ "GlobalTableVersion": "2017.11.29" }), Replication::Eventual),
        (json!({ "Replicas": replicas, "MultiRegionConsistency": "STRONG" }), Replication::Strong),
    ] {
        assert_eq!(seen(further.clone(), off.clone()).await.unwrap().replication, expected, "{further}");
    }
}

#[tokio::test]
async fn a_time_to_live_counts_until_it_is_off() {
    for (status, expected) in
        [("ENABLED", Some("when")), ("ENABLING", Some("when")), ("DISABLING", Some("when")), ("DISABLED", None)]
    {
        let facts = seen(json!({}), json!({ "TimeToLiveStatus": status, "AttributeName": "when" })).await.unwrap();
        assert_eq!(facts.expires_by.as_deref(), expected, "{status}");
    }
}

#[tokio::test]
async fn a_look_that_is_forbidden_is_told_as_such() {
    let service = Loopback::start(None, |_, _| error_reply(400, "AccessDeniedException")).await;
    let error = at(&service.url).inspect(Table::Outbox, "outbox-table", None).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied);
}
