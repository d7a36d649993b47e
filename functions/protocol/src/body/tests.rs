use proptest::prelude::*;

use super::*;
use crate::ids::{InstanceName, LeaseName, MessageId, Position, RowKey, Shard};
use crate::limits;
use crate::time::Timestamp;

fn row(payload: &[u8], topic: &str, client: Option<&str>, device_id: Option<&str>) -> OutboxRow {
    let position = Position::new(Timestamp::from_ms(1_767_225_600_123), MessageId::new("m-1").unwrap()).unwrap();
    OutboxRow {
        client_id: client.map(str::to_owned),
        device_message_id: device_id.map(str::to_owned),
        ..OutboxRow::pending(
            RowKey { shard: Shard::new(LeaseName::new("telemetry").unwrap(), 0).unwrap(), position },
            payload.to_vec(),
            topic.to_owned(),
            InstanceName::new("east").unwrap(),
        )
    }
}

fn token() -> FencingToken {
    FencingToken::new(7).unwrap()
}

fn value<'a>(entry: &'a QueueEntry, name: &str) -> Option<&'a str> {
    entry.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

#[test]
fn the_encoding_follows_from_the_bytes_and_is_stated() {
    for (payload, encoding, body) in [
        (&b"21.5"[..], "text", "21.5"),
        (b"{\"t\": 1.50}", "text", "{\"t\": 1.50}"),
        (b"eyJ0IjoxfQ==", "text", "eyJ0IjoxfQ=="),
        (b"-", "text", "-"),
        (b"", "empty", "-"),
        (&[0x00, 0xFF], "base64", "AP8="),
        (b"a\x01b", "base64", "YQFi"),
        ("\u{FFFE}".as_bytes(), "base64", "77++"),
    ] {
        let entry = encode(&row(payload, "t", None, None), token(), BodyFormat::Raw, false);
        assert_eq!(value(&entry, PAYLOAD_ENCODING), Some(encoding), "{payload:?}");
        assert_eq!(entry.body, body, "{payload:?}");
    }
}

#[test]
fn attributes_are_those_of_the_table() {
    let entry = encode(&row(b"x", "a/b", Some("dev-1"), Some("own-9")), token(), BodyFormat::Raw, true);
    let names: Vec<_> = entry.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        names,
        [
            ("message-id", "m-1"),
            ("topic", "a/b"),
            ("client-id", "dev-1"),
            ("received-at", "1767225600123"),
            ("payload-encoding", "text"),
            ("fencing-token", "7"),
            ("device-message-id", "own-9"),
        ]
    );
}

#[test]
fn a_message_counts_its_body_and_each_attributes_name_type_and_value() {
    let attributes = vec![("topic".to_owned(), "a/b".to_owned()), ("client-id".to_owned(), "dev-1".to_owned())];
    let entry = QueueEntry {
        entry_id: "7".to_owned(),
        body: "four".to_owned(),
        attributes,
        group_id: Some("dev-1".to_owned()),
        deduplication_id: None,
    };
    assert_eq!(entry.size_bytes(), 4 + (5 + 6 + 3) + (9 + 6 + 5));
}

#[test]
fn a_body_format_has_the_name_that_is_read() {
    for (format, name) in [(BodyFormat::Raw, "raw"), (BodyFormat::CloudEvents, "cloudevents")] {
        assert_eq!((format.as_str(), BodyFormat::parse(name).unwrap()), (name, format));
        assert_eq!(serde_json::to_value(format).unwrap(), name);
    }
    assert_eq!(BodyFormat::parse("xml").unwrap_err().field, "body_format");
}

#[test]
fn what_an_attribute_cannot_hold_is_percent_encoded_and_named() {
    let entry = encode(&row(b"x", "a\u{1}%/b", Some(""), None), token(), BodyFormat::Raw, false);
    assert_eq!(value(&entry, TOPIC), Some("a%01%25/b"));
    assert_eq!(value(&entry, PERCENT_ENCODED), Some("topic,client-id"));
    assert_eq!(attribute(&entry.attributes, TOPIC).unwrap().as_deref(), Some("a\u{1}%/b"));
    assert_eq!(attribute(&entry.attributes, CLIENT_ID).unwrap().as_deref(), Some(""));
    let plain = encode(&row(b"x", "50%", None, None), token(), BodyFormat::Raw, false);
    assert_eq!(attribute(&plain.attributes, TOPIC).unwrap().as_deref(), Some("50%"), "not encoded, so not decoded");
}

#[test]
fn an_envelope_has_the_required_attributes() {
    let entry = encode(&row(b"on", "a/b", Some("dev-1"), None), token(), BodyFormat::CloudEvents, false);
    let event: serde_json::Value = serde_json::from_str(&entry.body).unwrap();
    assert_eq!(
        event,
        serde_json::json!({
            "specversion": "1.0", "id": "m-1", "source": "/fencepost/telemetry/east", "type": "fencepost.mqtt.message.v1",
            "time": "2026-01-01T00:00:00.123Z", "subject": "a/b", "clientid": "dev-1", "fencingtoken": "7",
            "datacontenttype": "text/plain; charset=utf-8", "data": "on"
        })
    );
    assert_eq!(value(&entry, CONTENT_TYPE), Some("application/cloudevents+json; charset=utf-8"));
}

#[test]
fn an_empty_payload_and_a_devices_own_id_come_back() {
    for format in [BodyFormat::Raw, BodyFormat::CloudEvents] {
        let entry = encode(&row(b"", "t", None, Some("own-9")), token(), format, false);
        assert_eq!(decode_body(format, &entry.body, &entry.attributes).unwrap(), b"", "{format:?}");
    }
    let envelope = |device_id| {
        let entry = encode(&row(b"x", "t", Some(""), device_id), token(), BodyFormat::CloudEvents, false);
        serde_json::from_str::<serde_json::Value>(&entry.body).unwrap()
    };
    assert_eq!(envelope(Some("own-9"))["devicemessageid"], "own-9");
    assert!(envelope(Some("")).get("devicemessageid").is_none(), "an attribute of an envelope is never empty");
    assert!(envelope(Some("own-9")).get("clientid").is_none());
}

#[test]
fn bodies_that_contradict_their_attributes_are_refused_by_name() {
    let stated = |encoding: &str| vec![(PAYLOAD_ENCODING.to_owned(), encoding.to_owned())];
    for (format, body, attributes, field) in [
        (BodyFormat::Raw, "x", vec![], "payload-encoding"),
        (BodyFormat::Raw, "x", stated("gzip"), "payload-encoding"),
        (BodyFormat::Raw, "x", stated("base64"), "body"),
        (BodyFormat::Raw, "x", stated("empty"), "body"),
        (BodyFormat::CloudEvents, "x", stated("text"), "body"),
        (BodyFormat::CloudEvents, "{}", stated("text"), "body.data"),
        (BodyFormat::CloudEvents, "{\"data_base64\":\"?\"}", stated("base64"), "body.data_base64"),
        (BodyFormat::CloudEvents, "{\"data\":\"\"}", stated("empty"), "body.data"),
    ] {
        assert_eq!(decode_body(format, body, &attributes).unwrap_err().field, field, "{body}");
    }
}

#[test]
fn queue_ids_are_what_the_queue_takes() {
    assert_eq!(group_id("dev-1"), "dev-1");
    assert_eq!(group_id("a b").len(), 64, "a space is refused");
    assert_eq!(group_id(&"x".repeat(129)).len(), 64);
    assert_eq!(group_id("").len(), 64);
    assert_eq!(deduplication_id(&row(b"x", "t", Some("d"), None)), "m-1");
    let own = deduplication_id(&row(b"x", "t", Some("d"), Some("1")));
    assert_eq!(own, deduplication_id(&row(b"x", "other", Some("d"), Some("1"))), "the topic is no part of it");
    assert_ne!(own, deduplication_id(&row(b"x", "t", Some("e"), Some("1"))), "ids are per device");
    assert_ne!(own, deduplication_id(&row(b"y", "t", Some("d"), Some("1"))), "other bytes are another message");
    assert_ne!(
        deduplication_id(&row(b"x", "t", Some("ab"), Some("c"))),
        deduplication_id(&row(b"x", "t", Some("a"), Some("bc"))),
        "parts do not run together"
    );
    assert!(encode(&row(b"x", "t", None, None), token(), BodyFormat::Raw, false).deduplication_id.is_none());
}

proptest! {
    #[test]
    fn every_payload_comes_back(
        payload in prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), "\\PC{0,60}".prop_map(String::into_bytes), "[ -~\\t\\r\\n]{0,60}".prop_map(String::into_bytes)],
        topic in any::<String>(),
        client in proptest::option::of(any::<String>()),
        device_id in proptest::option::of(any::<String>()),
        cloud_events in any::<bool>(),
        ordered in any::<bool>(),
    ) {
        let format = if cloud_events { BodyFormat::CloudEvents } else { BodyFormat::Raw };
        let row = row(&payload, &topic, client.as_deref(), device_id.as_deref());
        let entry = encode(&row, token(), format, ordered);
        prop_assert_eq!(decode_body(format, &entry.body, &entry.attributes).unwrap(), payload);
        prop_assert_eq!(attribute(&entry.attributes, TOPIC).unwrap(), Some(topic));
        prop_assert_eq!(attribute(&entry.attributes, CLIENT_ID).unwrap(), client);
        prop_assert_eq!(attribute(&entry.attributes, DEVICE_MESSAGE_ID).unwrap(), device_id);
        prop_assert!(!entry.body.is_empty() && entry.body.chars().all(is_allowed));
        prop_assert!(entry.attributes.len() <= limits::QUEUE_ATTRIBUTES_MAX);
        for (name, value) in &entry.attributes {
            prop_assert!(!value.is_empty() && value.chars().all(is_allowed), "{} = {:?}", name, value);
        }
        for id in entry.group_id.iter().chain(&entry.deduplication_id) {
            prop_assert!((1..=limits::QUEUE_ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()));
        }
    }

    #[test]
    fn decoding_never_panics(body in any::<String>(), encoding in "text|base64|empty|x", cloud_events in any::<bool>()) {
        let format = if cloud_events { BodyFormat::CloudEvents } else { BodyFormat::Raw };
        let _ = decode_body(format, &body, &[(PAYLOAD_ENCODING.to_owned(), encoding)]);
        let _ = percent_decode(&body);
    }
}
