//! A world with a data directory, over the end of its process.

use fencepost_local::queue::QueueFault;
use fencepost_local::world::{LeaseView, WorldOptions};

use crate::harness::{
    Directory, assert_delivered, leader, options_of_one_leader, publish, start, telemetry, try_start, until,
    until_at_rest, until_ingest_has,
};

#[tokio::test]
async fn what_ingest_acknowledged_is_delivered_by_the_next_process() {
    let directory = Directory::new("restart");
    let options = WorldOptions { data: Some(directory.0.clone()), ..options_of_one_leader() };
    let payloads = telemetry("pump", 40);

    let (world, _) = start(options.clone()).await;
    leader(&world).await;
    publish(&world, "pump-0", "telemetry/pump-0", &payloads[..10]).await;
    until_at_rest(&world, 10).await;
    world.set_queue_fault(QueueFault::Unavailable);
    for (device, part) in payloads[10..].chunks(10).enumerate() {
        publish(&world, &format!("pump-{device}"), "telemetry/pumps", part).await;
    }
    until_ingest_has(&world, 40).await;
    let held = |lease: LeaseView| (lease.owner.map(|owner| owner.name), lease.token);
    let before = world.lease().await.unwrap().unwrap();
    world.stop().await;

    let (world, told) = start(options.clone()).await;
    until("the outbox is empty", async || world.outstanding().await.unwrap() == 0).await;
    until("it was renewed", async || world.lease().await.unwrap().unwrap().renewal > before.renewal).await;
    let after = world.lease().await.unwrap().unwrap();
    assert_eq!(held(after), held(before), "the same holder under the same token, before its deadline");
    assert_delivered(&world, &payloads).await;
    assert_eq!(told.failures(), Vec::<String>::new());

    let busy = try_start(options.clone()).await.unwrap_err().to_string();
    assert!(busy.contains("in use by another process") && busy.contains("--data"), "{busy}");
    world.stop().await;

    let fewer = try_start(WorldOptions { shards: 2, ..options }).await.unwrap_err().to_string();
    assert!(fewer.contains("shards is 4") && fewer.contains("--shards 4") && fewer.contains("--data"), "{fewer}");
}
