//! What a device says: JSON and binary payloads in turn, made from a seed.
//!
//! Two payloads are never equal: each carries its device and its number. The same seed makes the same payloads.

use serde_json::json;

/// One device's source of payloads.
#[derive(Debug)]
pub(crate) struct Telemetry {
    device: u16,
    sequence: u32,
    state: u64,
}

/// Bytes that text and JSON have no place for, and that a bridge could break.
const AWKWARD: [u8; 6] = [0x00, 0xFF, 0xFE, 0x80, 0x0A, 0xC3];

impl Telemetry {
    pub(crate) fn new(seed: u64, device: u16) -> Self {
        Self { device, sequence: 0, state: seed ^ (u64::from(device) << 32) }
    }

    /// The next payload.
    pub(crate) fn next_payload(&mut self) -> Vec<u8> {
        self.sequence += 1;
        if self.sequence % 2 == 1 { self.json() } else { self.binary() }
    }

    fn json(&mut self) -> Vec<u8> {
        let reading = json!({
            "device": self.device,
            "sequence": self.sequence,
            "temperature_celsius": f64::from(15_000 + self.below(15_000)) / 1_000.0,
            "humidity_percent": 20 + self.below(70),
            "battery_millivolts": 3_300 + self.below(900),
        });
        reading.to_string().into_bytes()
    }

    /// Device, number, length, and bytes of every kind.
    fn binary(&mut self) -> Vec<u8> {
        let length = 8 + self.below(57);
        let mut payload = vec![0xFE];
        payload.extend(self.device.to_be_bytes());
        payload.extend(self.sequence.to_be_bytes());
        payload.extend(length.to_be_bytes());
        payload.extend(AWKWARD);
        for _ in 0..length {
            let [byte, ..] = self.random().to_be_bytes();
            payload.push(byte);
        }
        payload
    }

    /// A number below `end`.
    fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.random() % u64::from(end)).unwrap_or_default()
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, and good enough to vary a payload.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn payloads(seed: u64) -> Vec<Vec<u8>> {
        let device = |device| {
            let mut telemetry = Telemetry::new(seed, device);
            (0..200).map(move |_| telemetry.next_payload())
        };
        (0..5).flat_map(device).collect()
    }

    #[test]
    fn a_seed_makes_its_payloads_again_and_no_two_are_equal() {
        assert_eq!(payloads(7), payloads(7));
        assert_ne!(payloads(7), payloads(8));
        let different: HashSet<Vec<u8>> = payloads(7).into_iter().collect();
        assert_eq!(different.len(), 1_000);
    }

    #[test]
    fn json_and_binary_take_turns() {
        for (index, payload) in payloads(1).iter().enumerate() {
            let is_json = serde_json::from_slice::<serde_json::Value>(payload).is_ok();
            assert_eq!(is_json, index % 2 == 0, "payload {index}");
            assert_eq!(std::str::from_utf8(payload).is_ok(), index % 2 == 0, "payload {index}");
        }
    }
}
