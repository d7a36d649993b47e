//! An MQTT broker in the place of AWS IoT Core: MQTT 3.1.1 and 5 on one loopback port, QoS 0 and 1, payloads of up to
//! 128 KiB. rumqttd is the codec and the router; the sessions are ours.
//!
//! **A publisher gets its acknowledgement after the message is in the receiver's channel**, and a full channel holds the
//! publisher back. So nothing that was acknowledged is lost while the process lives, however slow the receiver is.
//! rumqttd alone cannot promise that: it acknowledges at once, keeps a log of bounded size for each subscription, and
//! drops its oldest part when a subscriber is slow; nor does it tell a subscriber who published. That is why the messages
//! are taken here, at the session, with the client's id, and why rumqttd only serves other MQTT subscribers.
//!
//! As on AWS: no QoS 2 (a publish is refused, a subscription is granted QoS 1), wills and retained messages reach the
//! receiver too, a second connection with one client id ends the first, and after a lost acknowledgement the client
//! publishes again, so a message can arrive twice. Nothing is kept on disk.
//!
//! Not here: persistent sessions (every session is clean and the answer says so), TLS, authentication, and matching of
//! topics with the rule's filter: every publish is delivered and the rule decides. Two limits of rumqttd concern only
//! MQTT subscribers: a slow one misses messages, and topics that begin with a character outside ASCII are not forwarded.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::endpoint::{self, EndpointThread, StartError, StopSignal};

mod codec;
mod session;
#[cfg(test)]
mod tests;

/// The option of `fencepost local` that sets the port.
const PORT_OPTION: &str = "--mqtt-port";
/// The largest payload, in bytes: AWS IoT Core's.
pub const PAYLOAD_BYTES_MAX: usize = 131_072;
/// The most messages that wait for the receiver before publishers are held back.
const WAITING_MAX: usize = 256;
/// The most clients at one time.
const CONNECTIONS_MAX: usize = 4_096;

/// A message that a client published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The publisher's client id; made by the broker where the client gave none.
    pub client_id: String,
    /// The topic.
    pub topic: String,
    /// The exact bytes.
    pub payload: Bytes,
    /// 0 or 1.
    pub qos: u8,
    /// Whether the broker keeps it for later subscribers.
    pub retain: bool,
    /// MQTT 5: the publisher's own properties.
    pub user_properties: Vec<(String, String)>,
}

/// A running broker. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Broker {
    addr: SocketAddr,
    thread: EndpointThread,
}

/// What the sessions of one broker share.
struct Hub {
    router: rumqttd::Broker,
    published: mpsc::Sender<Published>,
}

impl Broker {
    /// Starts the broker on a loopback address (port 0 takes any free port). Everything that is published comes out of the
    /// receiver, in each client's order; when the receiver is dropped, clients are cut off.
    ///
    /// # Errors
    /// The port is taken or refused. The message names the option to change.
    pub fn start(addr: SocketAddr) -> Result<(Broker, mpsc::Receiver<Published>), StartError> {
        let (listener, addr) = endpoint::listen(addr, PORT_OPTION)?;
        let (published, receiver) = mpsc::channel(WAITING_MAX);
        let hub = Arc::new(Hub { router: rumqttd::Broker::new(router_config()), published });
        let thread = EndpointThread::spawn("mqtt broker", move |stop| accept(listener, hub, stop))?;
        Ok((Broker { addr, thread }, receiver))
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops the broker and cuts every connection. rumqttd's router cannot be ended: its thread stays, idle, until the
    /// process ends.
    pub async fn stop(self) {
        self.thread.stop().await;
    }
}

/// The router alone: no listener, console or metrics port of its own.
fn router_config() -> rumqttd::Config {
    rumqttd::Config {
        router: rumqttd::RouterConfig {
            max_connections: CONNECTIONS_MAX,
            max_outgoing_packet_count: 200,
            max_segment_size: 4 * 1_048_576,
            max_segment_count: 4,
            ..rumqttd::RouterConfig::default()
        },
        ..rumqttd::Config::default()
    }
}

async fn accept(listener: std::net::TcpListener, hub: Arc<Hub>, stop: StopSignal) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the MQTT broker lost its listener"),
    };
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => drop(tokio::spawn(session::serve(stream, peer, Arc::clone(&hub)))),
                Err(error) => {
                    tracing::warn!(%error, "the MQTT broker could not accept a connection");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop.stopped() => {}
    }
}
