//! Bodies as consumers get them. A seed is `{"format": …, "body": …, "attributes": {…}}`.

use fencepost_protocol::body::{self, BodyFormat, PAYLOAD_ENCODING, decode_body};
use fencepost_protocol::ids::{FencingToken, InstanceName, LeaseName, MessageId, Position, RowKey, Shard};
use fencepost_protocol::outbox::OutboxRow;
use fencepost_protocol::time::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::decoder::{Declared, Decoder, Refusal, STRICT};
use crate::paths::Form;

const UNREAD: &[Declared] = &[("attributes.*", "the payload needs its encoding alone")];
const OPEN: &[Declared] =
    &[("", "nothing stands beside body and attributes"), ("attributes", "a queue may add attributes of its own")];

/// The payload itself.
pub(crate) const RAW: Decoder = Decoder {
    name: "body_raw",
    decode: |input| decode(input, BodyFormat::Raw),
    fixed: &["attributes.payload-encoding"],
    unread: UNREAD,
    open: OPEN,
    blamed: &[("attributes", "payload-encoding")],
    stated: |place| place.trim_start_matches("attributes.").to_owned(),
    ..STRICT
};

/// The payload in a CloudEvents envelope.
pub(crate) const CLOUD_EVENTS: Decoder = Decoder {
    name: "body_cloud_events",
    decode: |input| decode(input, BodyFormat::CloudEvents),
    inside: &[("body", Form::Text)],
    fixed: &["attributes.payload-encoding"],
    unread: &[
        ("attributes.*", "the payload needs its encoding alone"),
        ("body.specversion", "the encoding attribute tells the format"),
        ("body.id", "the payload needs none of these"),
        ("body.source", "the same"),
        ("body.type", "the same"),
        ("body.time", "the same"),
        ("body.subject", "the same"),
        ("body.clientid", "the same"),
        ("body.fencingtoken", "the same"),
        ("body.datacontenttype", "the same"),
    ],
    open: &[
        ("", "nothing stands beside body and attributes"),
        ("attributes", "a queue may add attributes of its own"),
        ("body", "an envelope may have extensions"),
    ],
    blamed: &[("attributes", "payload-encoding")],
    stated: |place| place.trim_start_matches("attributes.").to_owned(),
    ..STRICT
};

fn row(payload: Vec<u8>, topic: &str) -> OutboxRow {
    let shard = Shard::new(LeaseName::new("telemetry").unwrap(), 3).unwrap();
    let position = Position::new(Timestamp::from_ms(1_767_225_600_123), MessageId::new("m-1").unwrap()).unwrap();
    OutboxRow::pending(RowKey { shard, position }, payload, topic.to_owned(), InstanceName::new("east").unwrap())
}

fn decode(input: &Value, format: BodyFormat) -> Result<Value, Refusal> {
    let missing = |field: &str| Refusal { field: field.to_owned(), problem: "is missing or no text".to_owned() };
    let body = input["body"].as_str().ok_or_else(|| missing("body"))?;
    // A queue hands over texts only.
    let attributes = input["attributes"].as_object().ok_or_else(|| missing("attributes"))?;
    let texts = attributes.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let payload = decode_body(format, body, &texts.collect::<Vec<_>>())?;
    let entry = body::encode(&row(payload, "telemetry/a"), FencingToken::FIRST, format, false);
    let encoding = entry.attributes.iter().find(|(name, _)| name == PAYLOAD_ENCODING).unwrap();
    Ok(json!({ "body": entry.body, "attributes": { PAYLOAD_ENCODING: encoding.1 } }))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_consumer_reads_is_what_was_published(
        payload in prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes)],
        topic in any::<String>(),
        cloud_events in any::<bool>(),
    ) {
        let format = if cloud_events { BodyFormat::CloudEvents } else { BodyFormat::Raw };
        let entry = body::encode(&row(payload.clone(), &topic), FencingToken::FIRST, format, false);
        prop_assert_eq!(decode_body(format, &entry.body, &entry.attributes), Ok(payload));
        prop_assert_eq!(body::attribute(&entry.attributes, body::TOPIC), Ok(Some(topic)));
        let mut texts = entry.attributes.iter().map(|(_, value)| value).chain([&entry.body]);
        prop_assert!(texts.all(|text| !text.is_empty() && text.chars().all(body::is_allowed)), "{:?}", entry);
    }

    #[test]
    fn no_attribute_makes_a_reader_panic(value in any::<String>(), names in any::<String>(), body in any::<String>()) {
        let attributes = [
            (body::TOPIC.to_owned(), value.clone()),
            (PAYLOAD_ENCODING.to_owned(), value),
            (body::PERCENT_ENCODED.to_owned(), format!("{names},topic,payload-encoding")),
        ];
        for format in [BodyFormat::Raw, BodyFormat::CloudEvents] {
            if let Err(refused) = decode_body(format, &body, &attributes) {
                prop_assert!(!refused.field.is_empty() && !refused.problem.is_empty());
            }
        }
        if let Err(refused) = body::attribute(&attributes, body::TOPIC) {
            prop_assert_eq!(refused.field, body::TOPIC);
        }
    }
}
