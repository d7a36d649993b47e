//! The suite that every adapter passes, over the embedded DynamoDB through the real SDK client, in both forms of writing.

use std::sync::Arc;

use crate::conformance::{TablesSubject, run_tables};
use crate::dynamodb::convert::to_attributes;
use crate::loopback::world::World;
use crate::records::Table;
use crate::{StoreError, sdk_failure};

fn subject(world: &World, batching: bool) -> TablesSubject {
    let (client, names) = (world.clients.dynamodb().clone(), world.names.clone());
    TablesSubject {
        lease_store: Arc::new(world.lease_store()),
        outbox: Arc::new(world.outbox(batching)),
        plant: Arc::new(move |table, item| {
            let (client, names) = (client.clone(), names.clone());
            Box::pin(async move {
                let name = if table == Table::Lease { names.lease } else { names.outbox };
                let put = client.put_item().table_name(name).set_item(Some(to_attributes(item))).send().await;
                put.map(|_| ()).map_err(|error| -> StoreError { sdk_failure::store_error("plant", &error) })
            })
        }),
    }
}

#[tokio::test]
async fn batched_statements_pass() {
    let world = World::start().await;
    let report = run_tables(&subject(&world, true), "batched").await;
    assert!(report.all_passed().is_ok(), "{report}");
}

#[tokio::test]
async fn single_calls_pass() {
    let world = World::start().await;
    let report = run_tables(&subject(&world, false), "single").await;
    assert!(report.all_passed().is_ok(), "{report}");
}
