//! What happens when a leader dies, and when it hands over.

use std::time::Duration;

use fencepost_local::queue::QueueFault;
use fencepost_local::world::WorldEvent;
use fencepost_protocol::time::duration_ms;

use crate::harness::{
    assert_delivered, leader, options, other, publish, start, telemetry, until, until_at_rest, until_led_by,
};

#[tokio::test]
async fn a_leader_that_dies_in_mid_drain_is_followed_within_the_bound_and_nothing_is_lost() {
    let (world, told) = start(options()).await;
    let first = leader(&world).await;
    // Claims stand while the queue is applied to and never answers; then the leader dies with them.
    world.set_queue_fault(QueueFault::BlackHole);
    let payloads = telemetry("pump", 60);
    publish(&world, "pump-1", "telemetry/pump-1", &payloads[..30]).await;
    publish(&world, "pump-2", "telemetry/pump-2", &payloads[30..]).await;
    until("rows are claimed", async || world.counts().claimed >= 30).await;
    world.kill(&first).await.unwrap();
    world.set_queue_fault(QueueFault::None);
    let last_renewal_ms = world.lease().await.unwrap().unwrap().confirmed_at_ms;

    until_led_by(&world, other(&first)).await;
    until("the acquisition was reported", async || told.acquisitions().len() == 2).await;
    let (_, token, at_ms) = told.acquisitions().pop().unwrap();
    assert!(token > 1);
    let took = Duration::from_millis(at_ms - last_renewal_ms);
    assert!(took <= world.timing().warm_takeover_max(), "took {took:?}");
    assert!(duration_ms(took) >= 5_000, "not before the TTL: {took:?}");

    world.start_instance(&first).await.unwrap();
    until_at_rest(&world, 60).await;
    let report = assert_delivered(&world, &payloads).await;
    assert!(report.delivered.len() > payloads.len(), "the dead leader's sends had reached the queue");
    until("the takeover ended", async || told.takeovers_completed().contains(&token)).await;
    assert!(world.counts().duplicates_known > 0);
    assert_eq!(told.failures(), Vec::<String>::new());
    world.stop().await;
}

#[tokio::test]
async fn a_planned_handover_of_an_idle_outbox_takes_two_ticks() {
    let (world, told) = start(options()).await;
    let first = leader(&world).await;
    until("the first takeover ended", async || told.takeovers_completed() == [1]).await;
    let before = std::time::Instant::now();
    let stepping = world.step_down(&first);
    let handed_over = until_led_by(&world, other(&first));
    let (output, took) = tokio::join!(stepping, async {
        handed_over.await;
        before.elapsed()
    });
    let output = output.unwrap();
    assert_eq!((&output["released"], &output["successor"]["name"]), (&true.into(), &other(&first).into()), "{output}");
    assert!(took <= world.timing().handover_max(true), "took {took:?}");
    assert_eq!(told.failures(), Vec::<String>::new());
    world.stop().await;
}

#[tokio::test]
async fn while_nobody_lives_messages_wait_and_are_ingested_once_somebody_does() {
    let (world, told) = start(options()).await;
    leader(&world).await;
    world.kill("east").await.unwrap();
    world.kill("west").await.unwrap();
    let payloads = telemetry("pump", 10);
    publish(&world, "pump-1", "telemetry/pump-1", &payloads).await;
    until("the rule has them", async || world.counts().rule_waiting > 0).await;
    assert_eq!(world.counts().ingested, 0);
    world.start_instance("west").await.unwrap();
    until_at_rest(&world, 10).await;
    assert_delivered(&world, &payloads).await;
    let failed = told.all(|event| matches!(event, WorldEvent::IngestFailed { .. }).then_some(()));
    assert!(failed.is_empty(), "a dead region costs no try");
    world.stop().await;
}
