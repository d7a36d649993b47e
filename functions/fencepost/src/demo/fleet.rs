//! Devices that publish telemetry over real MQTT connections, QoS 1, and tell the ledger what the broker acknowledged.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_protocol::ids::PayloadDigest;
use fencepost_runtime::clock::Clock;
use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, Outgoing, Packet, QoS};
use tokio::task::JoinHandle;

use super::ledger::Ledger;
use super::telemetry::Telemetry;

/// Messages that may wait for the connection, for each device. A full wait holds the publisher back.
const QUEUED_MAX: usize = 16;
/// The pause before a device whose connection failed connects again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Between two looks at the pace.
const PACE_STEP: Duration = Duration::from_millis(20);

/// All devices.
pub(crate) struct Fleet {
    devices: Vec<Device>,
    next: AtomicUsize,
    clock: Arc<dyn Clock>,
}

struct Device {
    name: String,
    topic: String,
    client: AsyncClient,
    /// Held over a publish, so that the order on the wire is the order in `sending`.
    telemetry: tokio::sync::Mutex<Telemetry>,
    sending: Arc<Mutex<Sending>>,
    ledger: Arc<Ledger>,
    connection: JoinHandle<()>,
}

/// The messages of one device that have no acknowledgement yet.
#[derive(Debug, Default)]
struct Sending {
    /// Handed to the client, without a packet id yet, in order.
    queued: VecDeque<PayloadDigest>,
    /// On the wire, by packet id.
    in_flight: HashMap<u16, PayloadDigest>,
}

impl Sending {
    /// The client wrote a message under this packet id: the oldest queued one, or one of earlier once more.
    fn written(&mut self, packet_id: u16) {
        if self.in_flight.contains_key(&packet_id) {
            return;
        }
        if let Some(digest) = self.queued.pop_front() {
            self.in_flight.insert(packet_id, digest);
        }
    }
}

impl Fleet {
    /// Connects `count` devices.
    pub(crate) fn connect(
        broker: SocketAddr,
        count: u16,
        seed: u64,
        ledger: &Arc<Ledger>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let device = |index| Device::connect(broker, index, seed, Arc::clone(ledger), Arc::clone(clock));
        Self { devices: (1..=count).map(device).collect(), next: AtomicUsize::new(0), clock: Arc::clone(clock) }
    }

    /// Publishes `count` messages, the devices in turn, evenly over `duration` or as fast as the broker takes them, if that
    /// is slower.
    pub(crate) async fn publish(&self, count: u32, duration: Duration) {
        let start = self.clock.now().monotonic;
        for index in 0..count {
            // Compared as fractions, so that nothing is rounded: index / count > elapsed / duration.
            let too_early = |elapsed: Duration| duration * index > elapsed * count;
            while too_early(self.clock.now().monotonic.saturating_sub(start)) {
                self.clock.sleep(PACE_STEP).await;
            }
            let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.devices.len();
            self.devices[turn].publish().await;
        }
    }
}

impl Device {
    fn connect(broker: SocketAddr, index: u16, seed: u64, ledger: Arc<Ledger>, clock: Arc<dyn Clock>) -> Self {
        let name = format!("device-{index:02}");
        let mut options = MqttOptions::new(&name, broker.ip().to_string(), broker.port());
        options.set_keep_alive(Duration::from_secs(30));
        let (client, connection) = AsyncClient::new(options, QUEUED_MAX);
        let sending = Arc::new(Mutex::new(Sending::default()));
        Self {
            topic: format!("telemetry/{name}"),
            client,
            telemetry: tokio::sync::Mutex::new(Telemetry::new(seed, index)),
            sending: Arc::clone(&sending),
            ledger: Arc::clone(&ledger),
            connection: tokio::spawn(keep_connected(connection, sending, ledger, clock)),
            name,
        }
    }

    async fn publish(&self) {
        let mut telemetry = self.telemetry.lock().await;
        let payload = telemetry.next_payload();
        let digest = PayloadDigest::of(&payload);
        self.ledger.publishing(digest.clone(), &self.topic, &self.name);
        lock(&self.sending).queued.push_back(digest);
        // It fails only when the connection's task has ended, which is when the fleet is gone; the ledger shows the message
        // as not acknowledged.
        let _ = self.client.publish(&self.topic, QoS::AtLeastOnce, false, payload).await;
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn lock(sending: &Mutex<Sending>) -> MutexGuard<'_, Sending> {
    sending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drives one device's connection, and connects again when it breaks: QoS 1 sends again what has no acknowledgement.
async fn keep_connected(
    mut connection: EventLoop,
    sending: Arc<Mutex<Sending>>,
    ledger: Arc<Ledger>,
    clock: Arc<dyn Clock>,
) {
    loop {
        match connection.poll().await {
            Ok(Event::Outgoing(Outgoing::Publish(packet_id))) => lock(&sending).written(packet_id),
            Ok(Event::Incoming(Packet::PubAck(acknowledgement))) => {
                let digest = lock(&sending).in_flight.remove(&acknowledgement.pkid);
                if let Some(digest) = digest {
                    ledger.acknowledge(&digest);
                }
            }
            Ok(_) => {}
            Err(_) => clock.sleep(RECONNECT_PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_ids_are_matched_to_messages_in_order_and_a_repeated_one_stays() {
        let digests = [b"a", b"b", b"c"].map(|payload| PayloadDigest::of(payload));
        let mut sending = Sending { queued: digests.clone().into(), ..Sending::default() };
        sending.written(1);
        sending.written(2);
        sending.written(1);
        assert_eq!(sending.in_flight[&1], digests[0]);
        assert_eq!(sending.in_flight[&2], digests[1]);
        assert_eq!(sending.queued, [digests[2].clone()]);
        sending.in_flight.remove(&1);
        sending.written(1);
        assert_eq!(sending.in_flight[&1], digests[2], "an id that was acknowledged is used again");
    }
}
