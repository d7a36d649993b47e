//! One client's connection: connect, publish, subscribe, keep-alive, will.
//!
//! The read side hands each publish to the receiver and acknowledges it afterwards; while the receiver's channel is full
//! it reads nothing more from this client. The write side goes on meanwhile, so that a held publisher still gets its
//! acknowledgements and its subscriptions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rumqttd::Notification;
use rumqttd::local::{LinkRx, LinkTx};
use rumqttd::protocol::{
    ConnAck, ConnAckProperties, ConnectReturnCode, Disconnect, DisconnectReasonCode, LastWill, Packet, PingResp,
    PubAck, PubAckReason, Publish, PublishProperties, QoS, Subscribe, SubscribeProperties, valid_filter, valid_topic,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::codec::{Ended, PACKET_BYTES_MAX, PacketReader, PublishHeader, Version, encode};
use super::{Hub, PAYLOAD_BYTES_MAX, Published};

/// How long a new connection may take for its CONNECT packet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most acknowledgements that wait for the socket.
const ANSWERS_MAX: usize = 64;
/// The most topic aliases of a client, as on AWS.
const TOPIC_ALIASES_MAX: u16 = 8;

/// A connected client.
struct Client {
    client_id: String,
    version: Version,
    will: Option<LastWill>,
    silence_max: Option<Duration>,
    topic_aliases: HashMap<u16, Bytes>,
}

/// Serves one connection until it ends.
pub(super) async fn serve(stream: TcpStream, peer: SocketAddr, hub: Arc<Hub>) {
    let _ = stream.set_nodelay(true);
    let (read_half, mut write_half) = stream.into_split();
    let mut reader = PacketReader::new(read_half);
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connect(&mut reader, &mut write_half, &hub)).await;
    let (mut client, link_tx, link_rx) = match connected {
        Ok(Ok(connected)) => connected,
        Ok(Err(ended)) => return tracing::warn!(%peer, %ended, "an MQTT client could not connect"),
        Err(_) => return tracing::warn!(%peer, "an MQTT client connected and sent no CONNECT packet"),
    };
    let ended = run(&mut client, &mut reader, write_half, link_tx, link_rx, &hub).await;
    match ended {
        Ended::Goodbye | Ended::Stopping => {}
        Ended::Closed(_) | Ended::TakenOver | Ended::Silent => {
            tracing::debug!(client_id = %client.client_id, %ended, "an MQTT client is gone");
        }
        Ended::Malformed(_) | Ended::Refused(_) => {
            tracing::warn!(client_id = %client.client_id, %ended, "an MQTT client was cut off");
        }
    }
}

/// Reads CONNECT, joins the router under the client's id, and says so.
async fn connect(
    reader: &mut PacketReader,
    writer: &mut OwnedWriteHalf,
    hub: &Arc<Hub>,
) -> Result<(Client, LinkTx, LinkRx), Ended> {
    let (version, packet) = match reader.connect().await {
        Err(Ended::Refused(reason)) => {
            // CONNACK "unacceptable protocol version" in the form that every version before 5 reads.
            writer.write_all(&[0x20, 2, 0, 1]).await?;
            return Err(Ended::Refused(reason));
        }
        read => read?,
    };
    let Packet::Connect(connect, _, will, _, _) = packet else {
        return Err(Ended::Refused("the first packet is not CONNECT".to_owned()));
    };
    if let Some(will) = &will {
        check_message(&will.topic, &will.message)?;
    }
    let assigned = connect.client_id.is_empty().then(|| format!("auto-{}", Uuid::new_v4()));
    let client_id = assigned.clone().unwrap_or(connect.client_id);
    let (link_tx, link_rx) = match join_router(hub, &client_id).await {
        Ok(link) => link,
        Err(ended) => {
            // CONNACK "server unavailable".
            let refusal: &[u8] = match version {
                Version::V4 => &[0x20, 2, 0, 3],
                Version::V5 => &[0x20, 3, 0, 0x88, 0],
            };
            writer.write_all(refusal).await?;
            return Err(ended);
        }
    };
    let mut answer = BytesMut::new();
    encode(version, connack(version, assigned), &mut answer)?;
    writer.write_all(&answer).await?;
    let keep_alive = Duration::from_secs(u64::from(connect.keep_alive));
    let silence_max = (!keep_alive.is_zero()).then(|| keep_alive + keep_alive / 2);
    Ok((Client { client_id, version, will, silence_max, topic_aliases: HashMap::new() }, link_tx, link_rx))
}

fn connack(version: Version, assigned_client_identifier: Option<String>) -> Packet {
    let properties = (version == Version::V5).then(|| ConnAckProperties {
        session_expiry_interval: Some(0),
        max_qos: Some(1),
        max_packet_size: u32::try_from(PACKET_BYTES_MAX).ok(),
        topic_alias_max: Some(TOPIC_ALIASES_MAX),
        assigned_client_identifier,
        ..ConnAckProperties::default()
    });
    Packet::ConnAck(ConnAck { session_present: false, code: ConnectReturnCode::Success }, properties)
}

/// Joins the router under a name made from the client's id: rumqttd refuses four characters that MQTT and AWS allow.
async fn join_router(hub: &Arc<Hub>, client_id: &str) -> Result<(LinkTx, LinkRx), Ended> {
    let mut name = String::with_capacity(client_id.len());
    for character in client_id.chars() {
        match character {
            '+' | '$' | '#' | '/' | '%' => name.push_str(&format!("%{:02X}", u32::from(character))),
            other => name.push(other),
        }
    }
    let hub = Arc::clone(hub);
    // The router answers by a channel that blocks.
    let joined = tokio::task::spawn_blocking(move || hub.router.link(&name).map_err(|error| error.to_string())).await;
    match joined {
        Ok(Ok(link)) => Ok(link),
        Ok(Err(error)) => Err(Ended::Refused(format!("no room for another client: {error}"))),
        Err(_) => Err(Ended::Stopping),
    }
}

async fn run(
    client: &mut Client,
    reader: &mut PacketReader,
    writer: OwnedWriteHalf,
    mut link_tx: LinkTx,
    link_rx: LinkRx,
    hub: &Hub,
) -> Ended {
    let (answers, answers_waiting) = mpsc::channel(ANSWERS_MAX);
    let version = client.version;
    let ended = tokio::select! {
        ended = read_side(client, reader, &mut link_tx, answers, hub) => ended,
        ended = write_side(version, writer, answers_waiting, link_rx) => ended,
    };
    if let Some(will) = client.will.take().filter(|_| !matches!(ended, Ended::Goodbye)) {
        let header = PublishHeader { qos: will.qos as u8, packet_id: 0 };
        let publish = Publish::new(will.topic, will.message, will.retain);
        if let Err(error) = deliver(client, header, publish, None, &mut link_tx, hub).await {
            tracing::warn!(client_id = %client.client_id, %error, "a will could not be published");
        }
    }
    if !matches!(ended, Ended::TakenOver) {
        let goodbye = Disconnect { reason_code: DisconnectReasonCode::NormalDisconnection };
        let _ = link_tx.send(Packet::Disconnect(goodbye, None)).await;
    }
    ended
}

/// Reads the client's packets until the connection ends; gives the reason.
async fn read_side(
    client: &mut Client,
    reader: &mut PacketReader,
    link_tx: &mut LinkTx,
    answers: mpsc::Sender<Packet>,
    hub: &Hub,
) -> Ended {
    loop {
        let read = match client.silence_max {
            None => reader.next(client.version).await,
            Some(silence_max) => match tokio::time::timeout(silence_max, reader.next(client.version)).await {
                Ok(read) => read,
                Err(_) => return Ended::Silent,
            },
        };
        let handled = match read {
            Ok((header, packet)) => handle(client, header, packet, link_tx, &answers, hub).await,
            Err(ended) => Err(ended),
        };
        if let Err(ended) = handled {
            return ended;
        }
    }
}

async fn handle(
    client: &mut Client,
    header: PublishHeader,
    packet: Packet,
    link_tx: &mut LinkTx,
    answers: &mpsc::Sender<Packet>,
    hub: &Hub,
) -> Result<(), Ended> {
    let answer = match packet {
        Packet::Publish(publish, properties) => {
            deliver(client, header, publish, properties, link_tx, hub).await?;
            match header.qos {
                0 => return Ok(()),
                _ => Packet::PubAck(PubAck { pkid: header.packet_id, reason: PubAckReason::Success }, None),
            }
        }
        Packet::PingReq(_) => Packet::PingResp(PingResp),
        Packet::Subscribe(subscribe, properties) => {
            return forward(link_tx, subscription(subscribe, properties)?).await;
        }
        packet @ (Packet::Unsubscribe(..) | Packet::PubAck(..)) => return forward(link_tx, packet).await,
        Packet::Disconnect(disconnect, _) => {
            let keeps_will = disconnect.reason_code == DisconnectReasonCode::DisconnectWithWillMessage;
            return Err(if keeps_will {
                Ended::Refused("disconnected with its will".to_owned())
            } else {
                Ended::Goodbye
            });
        }
        _ => return Err(Ended::Refused("a packet that a client may not send here (QoS 2 is not offered)".to_owned())),
    };
    answers.send(answer).await.map_err(|_| Ended::Stopping)
}

/// Hands a publish to the receiver, waiting for room, and then to the router for MQTT subscribers.
async fn deliver(
    client: &mut Client,
    header: PublishHeader,
    mut publish: Publish,
    mut properties: Option<PublishProperties>,
    link_tx: &mut LinkTx,
    hub: &Hub,
) -> Result<(), Ended> {
    if header.qos > 1 {
        return Err(Ended::Refused("published with QoS 2; use QoS 0 or 1, as on AWS IoT Core".to_owned()));
    }
    if let Some(properties) = &mut properties {
        resolve_alias(client, &mut publish, properties)?;
    }
    let topic = check_message(&publish.topic, &publish.payload)?.to_owned();
    // rumqttd's matching cuts the topic after its first byte, and panics when that is inside a character.
    let forwardable = topic.starts_with(|first: char| first.is_ascii());
    let user_properties = properties.as_ref().map(|properties| properties.user_properties.clone()).unwrap_or_default();
    let published = Published {
        client_id: client.client_id.clone(),
        topic,
        payload: publish.payload.clone(),
        qos: header.qos,
        retain: publish.retain,
        user_properties,
    };
    hub.published.send(published).await.map_err(|_| Ended::Stopping)?;
    if forwardable {
        // Without the QoS: the acknowledgement is ours to give, and subscribers get theirs by their subscription.
        let publish = Publish::new(publish.topic, publish.payload, publish.retain);
        forward(link_tx, Packet::Publish(publish, properties)).await?;
    }
    Ok(())
}

/// MQTT 5: puts the topic in the place of its alias, and remembers new aliases.
fn resolve_alias(client: &mut Client, publish: &mut Publish, properties: &mut PublishProperties) -> Result<(), Ended> {
    if !properties.subscription_identifiers.is_empty() {
        return Err(Ended::Refused("a client's publish carries a subscription identifier".to_owned()));
    }
    let Some(alias) = properties.topic_alias.take() else { return Ok(()) };
    if alias == 0 || alias > TOPIC_ALIASES_MAX {
        return Err(Ended::Refused(format!("topic alias {alias} is not between 1 and {TOPIC_ALIASES_MAX}")));
    }
    if !publish.topic.is_empty() {
        client.topic_aliases.insert(alias, publish.topic.clone());
        return Ok(());
    }
    let known = client.topic_aliases.get(&alias);
    publish.topic = known.cloned().ok_or_else(|| Ended::Refused(format!("topic alias {alias} is unknown")))?;
    Ok(())
}

/// The topic as text, when topic and payload are what a publish may carry.
fn check_message<'a>(topic: &'a Bytes, payload: &Bytes) -> Result<&'a str, Ended> {
    let topic = std::str::from_utf8(topic).map_err(|_| Ended::Refused("the topic is not UTF-8".to_owned()))?;
    if topic.is_empty() || topic.contains('\0') || !valid_topic(topic) {
        return Err(Ended::Refused("the topic is empty, or has a wildcard or a zero character".to_owned()));
    }
    if payload.len() > PAYLOAD_BYTES_MAX {
        let bytes = payload.len();
        return Err(Ended::Refused(format!("the payload has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}")));
    }
    Ok(topic)
}

/// A subscription as the router takes it: QoS 1 at most, and no filter that it would cut the client off for.
fn subscription(mut subscribe: Subscribe, properties: Option<SubscribeProperties>) -> Result<Packet, Ended> {
    for filter in &mut subscribe.filters {
        let path = &filter.path;
        if !valid_filter(path) || (path.starts_with('$') && !path.starts_with("$share/")) {
            return Err(Ended::Refused(format!("the topic filter {path:?} is not offered")));
        }
        if filter.qos == QoS::ExactlyOnce {
            filter.qos = QoS::AtLeastOnce;
        }
    }
    Ok(Packet::Subscribe(subscribe, properties))
}

async fn forward(link_tx: &mut LinkTx, packet: Packet) -> Result<(), Ended> {
    link_tx.send(packet).await.map(drop).map_err(|_| Ended::Stopping)
}

/// Writes acknowledgements and what the router has for the client, until the connection ends; gives the reason.
async fn write_side(
    version: Version,
    mut writer: OwnedWriteHalf,
    mut answers: mpsc::Receiver<Packet>,
    mut link_rx: LinkRx,
) -> Ended {
    let mut buffer = BytesMut::new();
    loop {
        let mut awaits_room = false;
        let packet = tokio::select! {
            answer = answers.recv() => match answer {
                Some(answer) => Some(answer),
                None => return Ended::Stopping,
            },
            notification = link_rx.next() => match notification {
                Ok(Some(Notification::Unschedule)) => {
                    awaits_room = true;
                    None
                }
                Ok(notification) => notification.and_then(Option::<Packet>::from),
                Err(_) => return Ended::TakenOver,
            },
        };
        let mut waiting = packet;
        while let Some(packet) = waiting {
            if let Err(ended) = encode(version, packet, &mut buffer) {
                return ended;
            }
            waiting = answers.try_recv().ok();
        }
        if let Err(error) = writer.write_all(&buffer).await {
            return Ended::Closed(error);
        }
        buffer.clear();
        // The router stopped sending because much was waiting; all of it is written now.
        if awaits_room && link_rx.wake().await.is_err() {
            return Ended::TakenOver;
        }
    }
}
