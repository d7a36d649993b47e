//! What devices publish in a random run.

use std::time::Duration;

use super::intake::Message;
use crate::chance::Chance;

/// Devices at most.
const DEVICES_MAX: u64 = 9;
/// The largest payload that IoT Core takes: 128 KiB.
const PAYLOAD_MAX: u64 = 128 * 1024;

/// The messages of a run of `length`, each with its time.
pub(crate) fn workload(chance: &mut Chance, length: Duration) -> Vec<(Duration, Message)> {
    let devices = chance.between(1, DEVICES_MAX);
    let until_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let mean_ms = chance.between(1_500, 6_000);
    let mut messages = Vec::new();
    let mut at_ms = chance.between(0, 3_000);
    while at_ms < until_ms {
        // Devices speak alone, in bursts, and all at once.
        let burst = if chance.in_thousand(60) { chance.between(5, 25) } else { 1 };
        let device = chance.below(devices);
        for _ in 0..burst {
            let device = if chance.in_thousand(300) { chance.below(devices) } else { device };
            messages.push((Duration::from_millis(at_ms), message(chance, device)));
            at_ms += chance.between(0, 40);
        }
        at_ms += chance.between(1, mean_ms * 2);
    }
    messages
}

fn message(chance: &mut Chance, device: u64) -> Message {
    let mut message = Message::new(&format!("device-{device}"), payload(chance));
    if chance.in_thousand(60) {
        let number = chance.below(1_000_000);
        message = message.device_message_id(&format!("own-{number}"));
    }
    if chance.in_thousand(80) {
        let pause = *chance.pick(&[1_u64, 40, 400, 1_000, 10_000, 45_000]);
        message = message.delivered_again_after(Duration::from_millis(pause));
    }
    message
}

fn payload(chance: &mut Chance) -> Vec<u8> {
    let bytes = |chance: &mut Chance, count: u64| -> Vec<u8> {
        (0..count).map(|_| u8::try_from(chance.number() & 0xff).unwrap_or(0)).collect()
    };
    match chance.below(100) {
        // Equal payloads are many messages.
        0..50 => b"{\"running\":true}".to_vec(),
        50..80 => format!("{{\"celsius\":{}}}", chance.below(100)).into_bytes(),
        80..88 => {
            let count = chance.between(1, 200);
            bytes(chance, count)
        }
        88..92 => Vec::new(),
        92..95 => vec![0x00, 0xff, 0xef, 0xbf, 0xbe],
        95..97 => b"QUFBQQ==".to_vec(),
        97..99 => vec![b'a'; usize::try_from(chance.between(2_000, 6_000)).unwrap_or(2_000)],
        _ => vec![b'x'; usize::try_from(chance.between(8_000, PAYLOAD_MAX)).unwrap_or(8_000)],
    }
}
