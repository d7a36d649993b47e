//! The records of both tables. A seed is an item as DynamoDB writes it in JSON (`{"topic": {"S": "a"}, …}`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fencepost_protocol::ids::LeaseName;
use fencepost_protocol::outbox::Damage;
use fencepost_storage::item::{Item, Value as Attribute};
use fencepost_storage::records;
use serde_json::{Map, Value, json};

use crate::decoder::{Decoder, Refusal, STRICT};

const RECORD: Decoder = Decoder {
    fixed: &["schema.N"],
    open: &[("", "a later version of the same schema may add attributes")],
    stated: without_kinds,
    ..STRICT
};

/// The lease row.
pub(crate) const LEASE: Decoder = Decoder {
    name: "record_lease",
    decode: |input| decode(input, records::lease::decode, records::lease::encode),
    optional: &[("stepping_down", "nobody asked for it"), ("last_release", "it followed no release")],
    open: &[
        ("", "a later version of the same schema may add attributes"),
        ("stepping_down.M", "the same"),
        ("released_by.M", "the same"),
        ("last_release.M", "the same"),
    ],
    blamed: &[
        ("owner.**", "owner_stack"),
        ("owner_stack.**", "owner"),
        ("owner", "released_by"),
        ("released_by", "released_at"),
        ("released_at", "released_by"),
        ("released_by", "owner"),
        ("fencing_token", "takeover_done"),
        ("fencing_token", "last_release.fencing_token"),
    ],
    ..RECORD
};

/// An instance's row.
pub(crate) const INSTANCE: Decoder = Decoder {
    name: "record_instance",
    decode: |input| decode(input, records::instance::decode, records::instance::encode),
    optional: &[
        ("evidence", "none was taken yet"),
        ("evidence.M.namesake_generation", "nobody else has this name"),
        ("told_token", "nothing was told yet"),
        ("reporting", "nothing is being told"),
        ("reported.M.stepping_down", "it was not"),
        ("reporting.M.standing.M.stepping_down", "it is not"),
    ],
    open: &[
        ("", "a later version of the same schema may add attributes"),
        ("evidence.M", "the same"),
        ("loops.L.*.M", "the same"),
        ("reported.M", "the same"),
        ("reporting.M", "the same"),
        ("reporting.M.standing.M", "the same"),
        ("reporting.M.by.M", "the same"),
    ],
    blamed: &[("reported.state", "reported.*"), ("reporting.standing.state", "reporting.standing.*")],
    ..RECORD
};

/// An outstanding row.
pub(crate) const OUTSTANDING: Decoder = Decoder {
    name: "record_outstanding",
    decode: |input| decode(input, records::outstanding::decode, records::outstanding::encode),
    optional: MESSAGE_OPTIONAL,
    blamed: &[("status", "claim")],
    ..RECORD
};

/// A dead row.
pub(crate) const DEAD: Decoder = Decoder {
    name: "record_dead",
    decode: |input| decode(input, records::dead::decode, records::dead::encode),
    optional: MESSAGE_OPTIONAL,
    blamed: &[("status", "claim")],
    ..RECORD
};

const MESSAGE_OPTIONAL: &[crate::decoder::Declared] = &[
    ("client_id", "a message over HTTP has no client"),
    ("device_message_id", "most devices make none"),
    ("first_attempt_at", "nobody claimed it yet"),
    ("not_before", "it is due"),
    ("last_error", "it was never refused"),
];

/// A tombstone.
pub(crate) const TOMBSTONE: Decoder = Decoder {
    name: "record_tombstone",
    decode: |input| decode(input, records::tombstone::decode, records::tombstone::encode),
    ..RECORD
};

/// The fence.
pub(crate) const FENCE: Decoder = Decoder {
    name: "record_fence",
    decode: |input| {
        let lease = || {
            let key = input["shard"]["S"].as_str().unwrap_or_default();
            LeaseName::new(key.trim_start_matches(records::fence::PARTITION_PREFIX)).unwrap()
        };
        decode(input, records::fence::decode, |fence| records::fence::encode(&lease(), fence))
    },
    ..RECORD
};

fn decode<T>(
    input: &Value,
    decode: impl Fn(&Item) -> Result<T, Damage>,
    encode: impl Fn(&T) -> Item,
) -> Result<Value, Refusal> {
    let record = decode(&item(input)).map_err(|damage| {
        assert!(damage.record.chars().count() < 40_000, "the record's name is as long as its key");
        Refusal::from(damage.malformed)
    })?;
    Ok(json_of(&encode(&record)))
}

/// Any JSON as an item: what is no typed attribute becomes one of a kind that no record uses.
fn item(input: &Value) -> Item {
    let fields = input.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.clone(), attribute(value))).collect()
}

fn attribute(value: &Value) -> Attribute {
    let only = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.iter().next());
    let known = only.and_then(|(kind, value)| match (kind.as_str(), value) {
        ("S", Value::String(text)) => Some(Attribute::Text(text.clone())),
        ("N", Value::String(digits)) => Some(Attribute::Number(digits.clone())),
        ("B", Value::String(digits)) => BASE64.decode(digits).ok().map(Attribute::Bytes),
        ("BOOL", Value::Bool(truth)) => Some(Attribute::Bool(*truth)),
        ("L", Value::Array(elements)) => Some(Attribute::List(elements.iter().map(attribute).collect())),
        ("M", fields @ Value::Object(_)) => Some(Attribute::Map(item(fields))),
        _ => None,
    });
    known.unwrap_or(Attribute::Other("of a kind that no record has"))
}

fn json_of(item: &Item) -> Value {
    Value::Object(item.iter().map(|(name, value)| (name.clone(), typed(value))).collect::<Map<_, _>>())
}

fn typed(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Text(text) => json!({ "S": text }),
        Attribute::Number(digits) => json!({ "N": digits }),
        Attribute::Bytes(bytes) => json!({ "B": BASE64.encode(bytes) }),
        Attribute::Bool(truth) => json!({ "BOOL": truth }),
        Attribute::List(elements) => json!({ "L": elements.iter().map(typed).collect::<Vec<_>>() }),
        Attribute::Map(item) => json!({ "M": json_of(item) }),
        Attribute::Other(_) => json!({ "NULL": true }),
    }
}

/// `loops.L.0.M.name.S` is `loops.0.name` in a refusal.
fn without_kinds(place: &str) -> String {
    let kept = place.split('.').filter(|part| !["S", "N", "B", "BOOL", "NULL", "L", "M"].contains(part));
    kept.collect::<Vec<_>>().join(".")
}
