//! The orderly end: what the broker acknowledged is stored before the world is gone, or told as dropped.

use std::cell::Cell;
use std::collections::BTreeSet;

use fencepost_local::world::{World, WorldEvent, WorldOptions};
use fencepost_protocol::ids::PayloadDigest;
use futures::future::join_all;

use crate::harness::{Directory, Told, options, publish, start, telemetry};

/// Devices of a burst, and messages of each.
const DEVICES: usize = 6;
const MESSAGES: usize = 40;

fn bursts() -> Vec<Vec<Vec<u8>>> {
    (0..DEVICES).map(|device| telemetry(&format!("pump-{device}"), MESSAGES)).collect()
}

fn digests<'a>(payloads: impl IntoIterator<Item = &'a Vec<u8>>) -> BTreeSet<PayloadDigest> {
    payloads.into_iter().map(|payload| PayloadDigest::of(payload)).collect()
}

fn ingested(told: &Told) -> BTreeSet<PayloadDigest> {
    let digest = |event: &WorldEvent| match event {
        WorldEvent::Ingested { digest, .. } => Some(digest.clone()),
        _ => None,
    };
    told.all(digest).into_iter().collect()
}

/// Publishes a burst of every device. Returns when the broker has acknowledged all of it; ingest has not.
async fn publish_bursts(world: &World, bursts: &[Vec<Vec<u8>>]) {
    let devices: Vec<String> = (0..DEVICES).map(|device| format!("pump-{device}")).collect();
    let published =
        devices.iter().zip(bursts).map(|(device, payloads)| publish(world, device, "telemetry/pumps", payloads));
    join_all(published).await;
    let waiting = world.counts().published != (DEVICES * MESSAGES) as u64 || world.counts().rule_waiting > 0;
    assert!(waiting, "ingest has not stored the burst when the world is stopped");
}

#[tokio::test]
async fn everything_acknowledged_is_stored_before_the_end_and_there_for_the_next_process() {
    let directory = Directory::new("stop");
    let options = WorldOptions { data: Some(directory.0.clone()), ..options() };
    let (world, told) = start(options.clone()).await;
    let bursts = bursts();
    publish_bursts(&world, &bursts).await;
    assert_eq!(world.stop().await, 0, "no message is dropped");
    assert_eq!(ingested(&told), digests(bursts.iter().flatten()));
    // At each word, how many wait and how many were told as stored before it: of what was acknowledged none is left out, also
    // of what the broker still has. A message is told before it stops waiting, so one may stand on both sides.
    let stored = Cell::new(0);
    let words = told.all(|event| match event {
        WorldEvent::Ingested { .. } => {
            stored.set(stored.get() + 1);
            None
        }
        WorldEvent::Stopping { waiting, .. } => Some((*waiting, stored.get())),
        _ => None,
    });
    let whole = (DEVICES * MESSAGES) as u64;
    assert!(!words.is_empty() && words.iter().all(|(waiting, stored)| waiting + stored >= whole), "{words:?}");
    assert!(words.iter().all(|(waiting, _)| *waiting > 0), "once nothing waits, nobody waits: {words:?}");
    assert!(words.windows(2).all(|pair| pair[0].0 >= pair[1].0), "never more than before: {words:?}");
    let killed = told.all(|event| matches!(event, WorldEvent::Killed { .. }).then_some(())).len();
    assert_eq!(killed, 2, "the instances end, after that");

    let (world, _) = start(options).await;
    let report = world.audit().await.unwrap();
    let outstanding = report.outstanding.iter().map(|row| row.digest.clone());
    let delivered = report.delivered.iter().map(|message| message.digest.clone());
    assert_eq!(BTreeSet::from_iter(outstanding.chain(delivered)), digests(bursts.iter().flatten()));
    world.stop().await;
}

#[tokio::test]
async fn an_end_whose_wait_is_cut_short_tells_what_is_dropped() {
    let (world, told) = start(options()).await;
    publish_bursts(&world, &bursts()).await;
    let dropped = world.stop_until(std::future::ready(())).await;
    let reasons = told.all(|event| match event {
        WorldEvent::Dropped { messages, reason } => Some((*messages, reason.clone())),
        _ => None,
    });
    assert_eq!(reasons, [(dropped, "the wait for ingest was cut short".to_owned())]);
    let acknowledged = told.all(|event| matches!(event, WorldEvent::Ingested { .. }).then_some(())).len();
    assert_eq!(usize::try_from(dropped).unwrap() + acknowledged, DEVICES * MESSAGES);
}

#[tokio::test]
async fn without_a_living_instance_the_end_comes_at_once_and_tells_what_is_dropped() {
    let (world, told) = start(options()).await;
    world.kill("east").await.unwrap();
    world.kill("west").await.unwrap();
    let payloads = telemetry("pump", 100);
    // More than the lanes of the rule hold: some of it is still in the broker's hands.
    publish(&world, "pump-1", "telemetry/pump-1", &payloads).await;
    publish(&world, "pump-1", "elsewhere/pump-1", &[b"not for the rule".to_vec()]).await;
    assert_eq!(world.stop().await, 100);
    let dropped = told.all(|event| match event {
        WorldEvent::Dropped { messages, reason } => Some((*messages, reason.clone())),
        _ => None,
    });
    assert_eq!(dropped, [(100, "no instance lives that could store them".to_owned())]);
    let published = told.all(|event| match event {
        WorldEvent::Published { digest, matched: true, .. } => Some(digest.clone()),
        _ => None,
    });
    assert_eq!(BTreeSet::from_iter(published), digests(&payloads), "each of them was told");
}
