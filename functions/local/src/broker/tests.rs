//! The broker as MQTT clients of both versions see it.

use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, Incoming, LastWill, MqttOptions, QoS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;

const LIMIT: Duration = Duration::from_secs(5);

fn start() -> (Broker, mpsc::Receiver<Published>) {
    Broker::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

fn options(broker: &Broker, client_id: &str) -> MqttOptions {
    let mut options = MqttOptions::new(client_id, "127.0.0.1", broker.addr().port());
    options.set_max_packet_size(300_000, 300_000);
    options
}

fn client(broker: &Broker, client_id: &str) -> (AsyncClient, EventLoop) {
    AsyncClient::new(options(broker, client_id), 500)
}

/// Polls until an event of the kind comes.
async fn until(events: &mut EventLoop, wanted: impl Fn(&Incoming) -> bool) -> Incoming {
    timeout(LIMIT, async {
        loop {
            if let Event::Incoming(packet) = events.poll().await.unwrap()
                && wanted(&packet)
            {
                return packet;
            }
        }
    })
    .await
    .unwrap()
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap()
}

async fn next(receiver: &mut mpsc::Receiver<Published>) -> Published {
    timeout(LIMIT, receiver.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn every_payload_comes_out_byte_for_byte_with_its_publisher() {
    let (broker, mut receiver) = start();
    let (client, mut events) = client(&broker, "thermometer/1");
    let payloads: Vec<Vec<u8>> = vec![
        b"plain text".to_vec(),
        b"{\"celsius\": 21.5}".to_vec(),
        vec![0x00, 0xFF],
        Vec::new(),
        b"aGVsbG8=".to_vec(),
        (0..PAYLOAD_BYTES_MAX).map(|n| byte(n % 251)).collect(),
    ];
    for payload in &payloads {
        client.publish("telemetry/d1", QoS::AtLeastOnce, false, payload.clone()).await.unwrap();
        until(&mut events, |packet| matches!(packet, Incoming::PubAck(_))).await;
        let published = next(&mut receiver).await;
        assert_eq!(published.payload, Bytes::from(payload.clone()));
        assert_eq!((published.topic.as_str(), published.client_id.as_str()), ("telemetry/d1", "thermometer/1"));
        assert_eq!((published.qos, published.retain), (1, false));
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_slow_receiver_holds_publishers_back_and_loses_nothing() {
    let (broker, mut receiver) = start();
    let mut options = options(&broker, "fast");
    options.set_inflight(1_000);
    let (client, mut events) = AsyncClient::new(options, 1_000);
    let sent_max = WAITING_MAX + 200;
    for n in 0..sent_max {
        client.try_publish("telemetry/d1", QoS::AtLeastOnce, false, n.to_string()).unwrap();
    }
    let mut acknowledged = 0;
    let is_one = |event: Event| usize::from(matches!(event, Event::Incoming(Incoming::PubAck(_))));
    // Everything that fits in the channel is acknowledged, and nothing beyond it.
    while acknowledged < WAITING_MAX {
        acknowledged += is_one(timeout(Duration::from_secs(60), events.poll()).await.unwrap().unwrap());
    }
    while let Ok(event) = timeout(Duration::from_millis(300), events.poll()).await {
        acknowledged += is_one(event.unwrap());
    }
    assert_eq!(acknowledged, WAITING_MAX);
    let draining = tokio::spawn(async move { while events.poll().await.is_ok() {} });
    for n in 0..sent_max {
        assert_eq!(next(&mut receiver).await.payload, Bytes::from(n.to_string()));
    }
    draining.abort();
    broker.stop().await;
}

#[tokio::test]
async fn nothing_is_acknowledged_once_the_receiver_is_gone() {
    let (broker, receiver) = start();
    drop(receiver);
    let (client, mut events) = client(&broker, "late");
    client.publish("telemetry/d1", QoS::AtLeastOnce, false, "lost?").await.unwrap();
    let cut_off = timeout(LIMIT, async {
        loop {
            match events.poll().await {
                Ok(Event::Incoming(Incoming::PubAck(_))) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    });
    assert!(cut_off.await.unwrap());
    broker.stop().await;
}

#[tokio::test]
async fn subscribers_get_live_and_retained_messages() {
    let (broker, mut receiver) = start();
    let (publisher, mut publisher_events) = client(&broker, "publisher");
    publisher.publish("telemetry/kept", QoS::AtLeastOnce, true, "kept").await.unwrap();
    until(&mut publisher_events, |packet| matches!(packet, Incoming::PubAck(_))).await;
    assert!(next(&mut receiver).await.retain);

    let (subscriber, mut events) = client(&broker, "subscriber");
    subscriber.subscribe("telemetry/#", QoS::ExactlyOnce).await.unwrap();
    let granted = until(&mut events, |packet| matches!(packet, Incoming::SubAck(_))).await;
    let Incoming::SubAck(granted) = granted else { unreachable!() };
    assert_eq!(granted.return_codes, [rumqttc::SubscribeReasonCode::Success(QoS::AtLeastOnce)]);
    let Incoming::Publish(kept) = until(&mut events, |packet| matches!(packet, Incoming::Publish(_))).await else {
        unreachable!()
    };
    assert_eq!(&kept.payload[..], b"kept");
    publisher.publish("telemetry/live", QoS::AtMostOnce, false, "live").await.unwrap();
    let polling = tokio::spawn(async move { while publisher_events.poll().await.is_ok() {} });
    let Incoming::Publish(live) = until(&mut events, |packet| matches!(packet, Incoming::Publish(_))).await else {
        unreachable!()
    };
    assert_eq!((live.topic.as_str(), &live.payload[..]), ("telemetry/live", &b"live"[..]));
    assert_eq!(next(&mut receiver).await.qos, 0);
    polling.abort();
    broker.stop().await;
}

#[tokio::test]
async fn a_will_is_published_when_the_connection_breaks() {
    let (broker, mut receiver) = start();
    let mut options = options(&broker, "fragile");
    options.set_last_will(LastWill::new("telemetry/gone", "gone", QoS::AtLeastOnce, false));
    let (client, mut events) = AsyncClient::new(options, 10);
    until(&mut events, |packet| matches!(packet, Incoming::ConnAck(_))).await;
    drop((client, events));
    let will = next(&mut receiver).await;
    assert_eq!((will.topic.as_str(), will.client_id.as_str()), ("telemetry/gone", "fragile"));
    broker.stop().await;
}

#[tokio::test]
async fn a_second_connection_with_the_same_id_ends_the_first() {
    let (broker, mut receiver) = start();
    let (_first, mut first_events) = client(&broker, "twin");
    until(&mut first_events, |packet| matches!(packet, Incoming::ConnAck(_))).await;
    let (second, mut second_events) = client(&broker, "twin");
    until(&mut second_events, |packet| matches!(packet, Incoming::ConnAck(_))).await;
    let ended = timeout(LIMIT, async { while first_events.poll().await.is_ok() {} });
    ended.await.unwrap();
    second.publish("telemetry/d1", QoS::AtLeastOnce, false, "mine").await.unwrap();
    until(&mut second_events, |packet| matches!(packet, Incoming::PubAck(_))).await;
    assert_eq!(&next(&mut receiver).await.payload[..], b"mine");
    broker.stop().await;
}

#[tokio::test]
async fn mqtt_5_tells_user_properties_and_resolves_topic_aliases() {
    use rumqttc::v5::mqttbytes::QoS;
    use rumqttc::v5::mqttbytes::v5::{Packet, PublishProperties};
    use rumqttc::v5::{AsyncClient, Event, MqttOptions};

    let (broker, mut receiver) = start();
    let options = MqttOptions::new("five", "127.0.0.1", broker.addr().port());
    let (client, mut events) = AsyncClient::new(options, 10);
    let properties = PublishProperties {
        topic_alias: Some(3),
        user_properties: vec![("id".to_owned(), "device-made".to_owned())],
        ..PublishProperties::default()
    };
    let publish = |topic: &'static str, properties: PublishProperties| {
        client.publish_with_properties(topic, QoS::AtLeastOnce, false, "payload", properties)
    };
    publish("telemetry/d5", properties.clone()).await.unwrap();
    publish("", PublishProperties { user_properties: Vec::new(), ..properties }).await.unwrap();
    let mut acknowledged = 0;
    while acknowledged < 2 {
        let event = timeout(LIMIT, events.poll()).await.unwrap().unwrap();
        acknowledged += usize::from(matches!(event, Event::Incoming(Packet::PubAck(_))));
    }
    let first = next(&mut receiver).await;
    assert_eq!(first.user_properties, [("id".to_owned(), "device-made".to_owned())]);
    let second = next(&mut receiver).await;
    assert_eq!((first.topic.as_str(), second.topic.as_str()), ("telemetry/d5", "telemetry/d5"));
    broker.stop().await;
}

#[tokio::test]
async fn properties_of_mqtt_5_reach_an_older_subscriber_without_harm() {
    use rumqttc::v5;
    let (broker, mut receiver) = start();
    let (subscriber, mut events) = client(&broker, "older");
    subscriber.subscribe("telemetry/#", QoS::AtLeastOnce).await.unwrap();
    until(&mut events, |packet| matches!(packet, Incoming::SubAck(_))).await;
    let options = v5::MqttOptions::new("newer", "127.0.0.1", broker.addr().port());
    let (publisher, mut publisher_events) = v5::AsyncClient::new(options, 10);
    let properties = v5::mqttbytes::v5::PublishProperties {
        user_properties: vec![("id".to_owned(), "device-made".to_owned())],
        ..Default::default()
    };
    let qos = v5::mqttbytes::QoS::AtLeastOnce;
    publisher.publish_with_properties("telemetry/d1", qos, false, "a", properties).await.unwrap();
    let polling = tokio::spawn(async move { while publisher_events.poll().await.is_ok() {} });
    let Incoming::Publish(got) = until(&mut events, |packet| matches!(packet, Incoming::Publish(_))).await else {
        unreachable!()
    };
    assert_eq!(&got.payload[..], b"a");
    next(&mut receiver).await;
    polling.abort();
    broker.stop().await;
}

/// Connects by hand as MQTT 3.1.1 with client id `a` and reads the answer.
async fn raw(broker: &Broker) -> TcpStream {
    let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
    stream.write_all(b"\x10\x0D\x00\x04MQTT\x04\x02\x00\x00\x00\x01a").await.unwrap();
    let mut answer = [0; 4];
    timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, [0x20, 2, 0, 0]);
    stream
}

async fn is_cut_off(mut stream: TcpStream) -> bool {
    let mut rest = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut rest)).await.is_ok_and(|_| rest.is_empty())
}

#[tokio::test]
async fn what_is_not_offered_cuts_the_client_off_and_nobody_else() {
    let (broker, mut receiver) = start();
    let mut too_large = b"\x30".to_vec();
    let length = PAYLOAD_BYTES_MAX + 1 + 3;
    too_large.extend([byte(length % 128) | 128, byte(length / 128 % 128) | 128, byte(length / 16_384)]);
    too_large.extend(b"\x00\x01t");
    too_large.resize(too_large.len() + PAYLOAD_BYTES_MAX + 1, 0);
    for refused in [
        b"\x34\x06\x00\x01t\x00\x01x".to_vec(),
        b"\x32\x06\x00\x01#\x00\x01x".to_vec(),
        b"\x30\x02\x00\x00".to_vec(),
        b"\x32\x04\x00\x08t\x00".to_vec(),
        b"\x82\x08\x00\x01\x00\x03$a/\x00".to_vec(),
        b"\x62\x02\x00\x01".to_vec(),
        b"\xFF\x00".to_vec(),
        too_large,
    ] {
        let mut stream = raw(&broker).await;
        stream.write_all(&refused).await.unwrap();
        assert!(is_cut_off(stream).await, "{:?}", &refused[..refused.len().min(12)]);
    }
    let mut older = TcpStream::connect(broker.addr()).await.unwrap();
    older.write_all(b"\x10\x0F\x00\x06MQIsdp\x03\x02\x00\x00\x00\x01a").await.unwrap();
    let mut answer = [0; 4];
    timeout(LIMIT, older.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, [0x20, 2, 0, 1]);

    let mut good = raw(&broker).await;
    good.write_all(b"\x32\x06\x00\x01t\x00\x07x").await.unwrap();
    let mut acknowledgement = [0; 4];
    timeout(LIMIT, good.read_exact(&mut acknowledgement)).await.unwrap().unwrap();
    assert_eq!(acknowledgement, [0x40, 2, 0, 7]);
    assert_eq!(next(&mut receiver).await.topic, "t");
    assert!(receiver.try_recv().is_err(), "nothing of what was refused came through");
    broker.stop().await;
}

#[tokio::test]
async fn a_topic_outside_ascii_is_delivered_and_does_not_stop_the_router() {
    let (broker, mut receiver) = start();
    let (client, mut events) = client(&broker, "café");
    client.subscribe("#", QoS::AtLeastOnce).await.unwrap();
    until(&mut events, |packet| matches!(packet, Incoming::SubAck(_))).await;
    for topic in ["température/d1", "été/d1", "telemetry/d1"] {
        client.publish(topic, QoS::AtLeastOnce, false, topic).await.unwrap();
    }
    for expected in ["température/d1", "telemetry/d1"] {
        let Incoming::Publish(got) = until(&mut events, |packet| matches!(packet, Incoming::Publish(_))).await else {
            unreachable!()
        };
        assert_eq!(got.topic, expected);
    }
    for expected in ["température/d1", "été/d1", "telemetry/d1"] {
        let published = next(&mut receiver).await;
        assert_eq!((published.topic.as_str(), published.client_id.as_str()), (expected, "café"));
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_busy_port_is_told_with_its_option() {
    let (broker, _receiver) = start();
    let error = Broker::start(broker.addr()).unwrap_err();
    assert!(error.to_string().contains("--mqtt-port"), "{error}");
    let addr = broker.addr();
    broker.stop().await;
    Broker::start(addr).unwrap().0.stop().await;
}
