//! Packets on a connection: rumqttd's codec for the version that the client speaks, and what that codec does not tell.
//!
//! The version is in the first packet, so one port serves both. rumqttd hides the QoS and the id of a publish; both are
//! read from the packet's first bytes before it is decoded. Packets that its encoder would panic on never reach it.

use bytes::BytesMut;
use rumqttd::protocol::v4::{FixedHeader, V4, check};
use rumqttd::protocol::v5::V5;
use rumqttd::protocol::{Error, Packet, Protocol as _};
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;

use super::PAYLOAD_BYTES_MAX;

/// The largest packet, in bytes: a payload, a topic of any length, and MQTT 5 properties.
pub(super) const PACKET_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 128 * 1_024;
/// The packet type of CONNECT, in the upper half of the first byte.
const CONNECT: u8 = 1;
/// The packet type of PUBLISH, in the upper half of the first byte.
const PUBLISH: u8 = 3;

/// The MQTT version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// MQTT 3.1.1.
    V4,
    /// MQTT 5.
    V5,
}

/// Why a connection ended or was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// The client closed it, or the network did.
    #[error("closed: {0}")]
    Closed(#[from] std::io::Error),
    /// The client said goodbye.
    #[error("disconnected by the client")]
    Goodbye,
    /// The bytes are not MQTT, or a packet is malformed or too large.
    #[error("malformed packet: {0}")]
    Malformed(#[from] Error),
    /// The client asked for something that is not offered, or broke the protocol.
    #[error("{0}")]
    Refused(String),
    /// The client was silent for one and a half keep-alives.
    #[error("silent for longer than its keep-alive allows")]
    Silent,
    /// The same client id connected anew.
    #[error("taken over by a newer connection with the same client id")]
    TakenOver,
    /// The receiver of published messages is gone.
    #[error("the bridge is stopping")]
    Stopping,
}

/// What the codec hides of a PUBLISH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PublishHeader {
    /// 0, 1 or 2.
    pub(super) qos: u8,
    /// The packet id, with QoS 1 and 2.
    pub(super) packet_id: u16,
}

/// The packets that a client sends.
pub(super) struct PacketReader {
    socket: OwnedReadHalf,
    buffer: BytesMut,
}

impl PacketReader {
    pub(super) fn new(socket: OwnedReadHalf) -> PacketReader {
        PacketReader { socket, buffer: BytesMut::with_capacity(8 * 1_024) }
    }

    /// The CONNECT packet, and the version it names.
    pub(super) async fn connect(&mut self) -> Result<(Version, Packet), Ended> {
        let header = self.frame().await?;
        if header.byte1 >> 4 != CONNECT {
            return Err(Ended::Refused("the first packet is not CONNECT".to_owned()));
        }
        let version = match protocol_level(&self.buffer, header.fixed_header_len) {
            Some(4) => Version::V4,
            Some(5) => Version::V5,
            _ => return Err(Ended::Refused("only MQTT 3.1.1 and MQTT 5 are spoken here".to_owned())),
        };
        Ok((version, decode(version, &mut self.buffer)?))
    }

    /// The next packet; the header is meaningful for a PUBLISH.
    pub(super) async fn next(&mut self, version: Version) -> Result<(PublishHeader, Packet), Ended> {
        let header = self.frame().await?;
        let publish = match header.byte1 >> 4 {
            PUBLISH => publish_header(&self.buffer, header)?,
            _ => PublishHeader::default(),
        };
        Ok((publish, decode(version, &mut self.buffer)?))
    }

    /// Reads until the buffer begins with a whole packet. Safe to cancel: what was read stays in the buffer.
    async fn frame(&mut self) -> Result<FixedHeader, Ended> {
        loop {
            match check(self.buffer.iter(), PACKET_BYTES_MAX) {
                Ok(header) => return Ok(header),
                Err(Error::InsufficientBytes(missing)) => self.buffer.reserve(missing),
                Err(error) => return Err(error.into()),
            }
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(Ended::Closed(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// Appends a packet for the client to `buffer`.
pub(super) fn encode(version: Version, packet: Packet, buffer: &mut BytesMut) -> Result<(), Ended> {
    match version {
        Version::V5 => V5.write(packet, buffer)?,
        Version::V4 => match packet {
            // A publisher with MQTT 5 may have set properties, which MQTT 3.1.1 has no room for.
            Packet::Publish(publish, _) => V4.write(Packet::Publish(publish, None), buffer)?,
            // MQTT 3.1.1 has no goodbye from the server: the connection is closed, nothing is said.
            Packet::Disconnect(..) => 0,
            packet => V4.write(packet, buffer)?,
        },
    };
    Ok(())
}

fn decode(version: Version, buffer: &mut BytesMut) -> Result<Packet, Ended> {
    match version {
        Version::V4 => Ok(V4.read_mut(buffer, PACKET_BYTES_MAX)?),
        Version::V5 => Ok(V5.read_mut(buffer, PACKET_BYTES_MAX)?),
    }
}

/// The protocol level of a CONNECT whose protocol name is `MQTT`.
fn protocol_level(frame: &[u8], at: usize) -> Option<u8> {
    let name = frame.get(at..at + 6)?;
    if name != [0, 4, b'M', b'Q', b'T', b'T'] {
        return None;
    }
    frame.get(at + 6).copied()
}

fn publish_header(frame: &[u8], header: FixedHeader) -> Result<PublishHeader, Error> {
    let qos = (header.byte1 >> 1) & 0b11;
    let number = |at: usize| match frame.get(at..at + 2) {
        Some(&[high, low]) if at + 2 <= header.frame_length() => Ok(u16::from_be_bytes([high, low])),
        _ => Err(Error::MalformedPacket),
    };
    let topic_length = number(header.fixed_header_len)?;
    let packet_id = match qos {
        0 => 0,
        1 | 2 => number(header.fixed_header_len + 2 + usize::from(topic_length))?,
        _ => return Err(Error::InvalidQoS(qos)),
    };
    Ok(PublishHeader { qos, packet_id })
}
