//! What a decoder is to these checks, and the list of all of them.

use serde_json::Value;

use crate::paths::Form;
use crate::{bodies, ingest, records, requests, settings};

/// Why an input was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The field, as the decoder names it.
    pub(crate) field: String,
    /// What is wrong.
    pub(crate) problem: String,
}

impl From<fencepost_protocol::ids::Malformed> for Refusal {
    fn from(malformed: fencepost_protocol::ids::Malformed) -> Self {
        Self { field: malformed.field, problem: malformed.problem }
    }
}

/// A function, and which of its sample events are taken.
pub(crate) type Sample = (&'static str, fn(&str) -> bool);

/// A pattern of places, and why it stands here.
pub(crate) type Declared = (&'static str, &'static str);

/// A decoder, and what it tolerates. Every entry is used by some damage, or a test fails.
pub(crate) struct Decoder {
    /// Its folder in the corpus.
    pub(crate) name: &'static str,
    /// The functions whose sample events it takes, with a test for which of them.
    pub(crate) samples: &'static [Sample],
    /// Reads an input and writes what it understood anew, in the form that it reads itself. Two inputs mean the same where
    /// that is the same.
    pub(crate) decode: fn(&Value) -> Result<Value, Refusal>,
    /// Texts that hold JSON.
    pub(crate) inside: &'static [(&'static str, Form)],
    /// Places whose every change is refused, also one that keeps the kind.
    pub(crate) fixed: &'static [&'static str],
    /// Places that may be absent or null (for settings: empty).
    pub(crate) optional: &'static [Declared],
    /// Places that nobody reads: a change there changes nothing.
    pub(crate) unread: &'static [Declared],
    /// Places that take any kind of value.
    pub(crate) free: &'static [Declared],
    /// Objects in which a field that nobody knows is passed over.
    pub(crate) open: &'static [Declared],
    /// Damaged place, and the field that is blamed instead: fields that only fit together.
    pub(crate) blamed: &'static [(&'static str, &'static str)],
    /// The name of a place as refusals state it.
    pub(crate) stated: fn(&str) -> String,
    /// Refusals never repeat what they found: it may be a payload.
    pub(crate) discreet: bool,
    /// Every value is a text.
    pub(crate) texts_only: bool,
}

/// A decoder that tolerates nothing and has nothing particular.
pub(crate) const STRICT: Decoder = Decoder {
    name: "",
    samples: &[],
    decode: |_| Err(Refusal { field: String::new(), problem: String::new() }),
    inside: &[],
    fixed: &[],
    optional: &[],
    unread: &[],
    free: &[],
    open: &[],
    blamed: &[],
    stated: str::to_owned,
    discreet: false,
    texts_only: false,
};

/// Every decoder of the project.
pub(crate) static DECODERS: &[Decoder] = &[
    ingest::EVENTS,
    requests::LEASE,
    requests::DRAINER,
    requests::STREAM,
    requests::CLOUDFORMATION,
    records::LEASE,
    records::INSTANCE,
    records::OUTSTANDING,
    records::DEAD,
    records::TOMBSTONE,
    records::FENCE,
    settings::SETTINGS,
    bodies::RAW,
    bodies::CLOUD_EVENTS,
];
