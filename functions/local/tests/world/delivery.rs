//! What is published arrives.

use std::time::Duration;

use fencepost_local::world::{IngestOutcome, WorldEvent, WorldOptions};
use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::ids::PayloadDigest;

use crate::harness::{assert_delivered, options, publish, start, until, until_at_rest, until_ingest_has};

fn every_kind() -> Vec<Vec<u8>> {
    vec![
        b"plain text".to_vec(),
        b"{\"celsius\": 21.5}".to_vec(),
        vec![0x00, 0xFF],
        b"aGVsbG8=".to_vec(),
        Vec::new(),
        (0..131_072_u32).map(|n| u8::try_from(n % 251).unwrap()).collect(),
    ]
}

#[tokio::test]
async fn every_kind_of_payload_comes_out_byte_for_byte() {
    let (world, told) = start(options()).await;
    publish(&world, "pump-1", "telemetry/plant/pump-1", &every_kind()).await;
    publish(&world, "pump-1", "elsewhere/pump-1", &[b"not for the rule".to_vec()]).await;
    until("the other topic was seen", async || world.counts().unmatched == 1).await;
    until_at_rest(&world, 6).await;
    let report = assert_delivered(&world, &every_kind()).await;
    assert!(report.delivered.iter().all(|message| message.topic == "telemetry/plant/pump-1"));
    assert!(report.delivered.iter().all(|message| message.client_id.as_deref() == Some("pump-1")));
    let conservation = report.conservation.unwrap();
    assert_eq!((conservation.ingested, conservation.committed), (6, 6));
    let acknowledged = |on_the_list: bool| {
        told.all(|event| match event {
            WorldEvent::Ingested { digest, outcome, .. } => {
                ((*outcome == IngestOutcome::Recovered) == on_the_list).then(|| digest.clone())
            }
            _ => None,
        })
    };
    // What a busy machine kept from ingest three times comes back through the failures list, behind the others.
    let (directly, recovered) = (acknowledged(false), acknowledged(true));
    let published: Vec<PayloadDigest> = every_kind().iter().map(|payload| PayloadDigest::of(payload)).collect();
    let in_order: Vec<_> = published.iter().filter(|digest| !recovered.contains(digest)).cloned().collect();
    assert_eq!(directly, in_order, "told once each, in the client's order");
    assert_eq!(directly.len() + recovered.len(), published.len());
    assert_eq!(told.failures(), Vec::<String>::new());
    world.stop().await;
}

#[tokio::test]
async fn a_fifo_destination_gets_each_device_in_order() {
    let (world, told) = start(WorldOptions {
        destination: "telemetry.fifo".to_owned(),
        body_format: BodyFormat::CloudEvents,
        ..options()
    })
    .await;
    let payloads: Vec<Vec<u8>> = (0..8).map(|n| format!("reading {n}").into_bytes()).collect();
    // One connection after the other, each once ingest has the one before: messages of one millisecond have no order.
    for (payload, published) in payloads.iter().zip(1..) {
        publish(&world, "meter-1", "telemetry/meter-1", std::slice::from_ref(payload)).await;
        until_ingest_has(&world, published).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    until_at_rest(&world, 8).await;
    let report = assert_delivered(&world, &payloads).await;
    let order: Vec<_> = report.delivered.iter().map(|message| message.digest.clone()).collect();
    let wanted: Vec<_> = payloads.iter().map(|payload| PayloadDigest::of(payload)).collect();
    assert_eq!(order, wanted);
    assert_eq!(told.failures(), Vec::<String>::new());
    world.stop().await;
}
