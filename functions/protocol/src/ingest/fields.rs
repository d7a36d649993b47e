//! Fields of a JSON object, read so that what is wrong is said with the field's whole path and the fix. Values are never
//! repeated in an error: they may be a payload.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use crate::ids::Malformed;

/// An object and the path that leads to it.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The object `value` at `path` (empty for the event itself).
    pub(super) fn of(value: &'a Value, path: impl Into<String>) -> Result<Self, Malformed> {
        let path = path.into();
        match value.as_object() {
            Some(object) => Ok(Self { object, path }),
            None => {
                let name = if path.is_empty() { "event".to_owned() } else { path };
                Err(Malformed::new(name, "is not a JSON object"))
            }
        }
    }

    /// The path of field `name`.
    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// An error about field `name`.
    pub(super) fn malformed(&self, name: &str, problem: impl Into<String>) -> Malformed {
        Malformed::new(self.path(name), problem)
    }

    /// The value; JSON's null counts as absent, as IoT SQL omits what is undefined.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn object(&self, name: &str, fix: &str) -> Result<Fields<'a>, Malformed> {
        let value = self.value(name).ok_or_else(|| self.malformed(name, format!("is missing; {fix}")))?;
        Fields::of(value, self.path(name))
    }

    /// Text, or `None` where it is absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Malformed> {
        match self.value(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| self.malformed(name, "is not a string")),
        }
    }

    /// Text that must be there; `fix` says how it gets there.
    pub(super) fn required_text(&self, name: &str, fix: &str) -> Result<&'a str, Malformed> {
        self.text(name)?.ok_or_else(|| self.malformed(name, format!("is missing; {fix}")))
    }

    /// Bytes in base64 that must be there, perhaps none.
    pub(super) fn required_bytes(&self, name: &str, fix: &str) -> Result<Vec<u8>, Malformed> {
        let digits = self.required_text(name, fix)?;
        BASE64
            .decode(digits)
            .map_err(|_| self.malformed(name, format!("is not base64 (standard alphabet, with padding); {fix}")))
    }

    /// A whole number of 0 or more, or `None` where it is absent.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Malformed> {
        match self.value(name) {
            None => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| self.malformed(name, "is not a whole number of 0 or more"))
            }
        }
    }
}
