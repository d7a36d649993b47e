//! Structs that are read from an object only.
//!
//! A derived decoder also takes a list, by position, and where every field has a default the empty list is the default: a
//! filter of `[]` would mean every row. For `#[serde(deserialize_with = …)]` of such fields.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Value};

/// Reads a `T` from an object.
///
/// # Errors
/// For anything else, and what `T` itself refuses.
pub fn required<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let fields = Map::<String, Value>::deserialize(deserializer)?;
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

/// Reads a `T` from an object, or nothing from null.
///
/// # Errors
/// For anything else, and what `T` itself refuses.
pub fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let fields = Option::<Map<String, Value>>::deserialize(deserializer)?;
    fields.map(|fields| T::deserialize(Value::Object(fields)).map_err(D::Error::custom)).transpose()
}
