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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Eq, Default, Deserialize)]
    #[serde(default)]
    struct Filter {
        limit: Option<u32>,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Request {
        #[serde(deserialize_with = "super::required")]
        filter: Filter,
        #[serde(deserialize_with = "super::optional")]
        second: Option<Filter>,
    }

    #[test]
    fn an_object_is_read_null_is_nothing_and_a_list_is_refused() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        let (filter, second) = (Filter { limit: Some(1) }, Some(Filter { limit: Some(2) }));
        let both = read(r#"{"filter": {"limit": 1}, "second": {"limit": 2}}"#).unwrap();
        assert_eq!(both, Request { filter, second });
        let null = read(r#"{"filter": {}, "second": null}"#).unwrap();
        assert_eq!(null, Request { filter: Filter::default(), second: None });
        for bad in [
            r#"{"filter": [], "second": null}"#,
            r#"{"filter": {}, "second": []}"#,
            r#"{"filter": null, "second": null}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
