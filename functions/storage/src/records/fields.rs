//! Reading single fields of an item, and how a field that does not fit is named.
//!
//! Every reader returns a [`Malformed`] that names the attribute (`stepping_down.since` for a nested one), says what was
//! found and what would be right. No reader repeats a value that may come from a payload.

use std::ops::RangeInclusive;

use fencepost_protocol::ids::{Malformed, Stamp};
use fencepost_protocol::outbox::{Damage, SCHEMA};
use fencepost_protocol::time::Timestamp;

use crate::item::{Item, Value};

/// The attribute of every record that says which schema wrote it.
pub const SCHEMA_ATTRIBUTE: &str = "schema";

/// The attributes of an item or of one map inside it.
pub(super) struct Fields<'a> {
    item: &'a Item,
    path: String,
}

impl<'a> Fields<'a> {
    /// The attributes of a whole item.
    pub(super) fn of(item: &'a Item) -> Self {
        Self { item, path: String::new() }
    }

    /// The full name of `field`, as errors state it.
    pub(super) fn name(&self, field: &str) -> String {
        format!("{}{field}", self.path)
    }

    /// A [`Malformed`] of `field`.
    pub(super) fn malformed(&self, field: &str, problem: impl Into<String>) -> Malformed {
        Malformed::new(self.name(field), problem)
    }

    /// Is the attribute there, of whatever kind?
    pub(super) fn has(&self, field: &str) -> bool {
        self.item.contains_key(field)
    }

    fn missing(&self, field: &str, wanted: &str) -> Malformed {
        self.malformed(field, format!("is missing; it must be {wanted}"))
    }

    fn wrong_kind(&self, field: &str, found: &Value, wanted: &str) -> Malformed {
        self.malformed(field, format!("is {}; it must be {wanted}", found.kind()))
    }

    /// A text, where there is one.
    pub(super) fn text_opt(&self, field: &str) -> Result<Option<&'a str>, Malformed> {
        match self.item.get(field) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_kind(field, other, "a text")),
        }
    }

    /// A text.
    pub(super) fn text(&self, field: &str) -> Result<&'a str, Malformed> {
        self.text_opt(field)?.ok_or_else(|| self.missing(field, "a text"))
    }

    /// A text that `parse` makes something of; what it refuses is named after this field.
    pub(super) fn parsed<T>(
        &self,
        field: &str,
        parse: impl FnOnce(&'a str) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        parse(self.text(field)?).map_err(|refused| self.malformed(field, refused.problem))
    }

    /// The same for a text that may be absent.
    pub(super) fn parsed_opt<T>(
        &self,
        field: &str,
        parse: impl FnOnce(&'a str) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let Some(text) = self.text_opt(field)? else { return Ok(None) };
        parse(text).map(Some).map_err(|refused| self.malformed(field, refused.problem))
    }

    /// Bytes.
    pub(super) fn bytes(&self, field: &str) -> Result<&'a [u8], Malformed> {
        match self.item.get(field) {
            None => Err(self.missing(field, "binary")),
            Some(Value::Bytes(bytes)) => Ok(bytes),
            Some(other) => Err(self.wrong_kind(field, other, "binary")),
        }
    }

    /// A whole number within `range`, where there is one.
    pub(super) fn number_opt(&self, field: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Malformed> {
        let wanted = || format!("a whole number from {} to {}", range.start(), range.end());
        match self.item.get(field) {
            None => Ok(None),
            Some(Value::Number(digits)) => match digits.parse() {
                Ok(number) if range.contains(&number) => Ok(Some(number)),
                _ => Err(self.malformed(field, format!("is out of range; it must be {}", wanted()))),
            },
            Some(other) => Err(self.wrong_kind(field, other, &wanted())),
        }
    }

    /// A whole number within `range`.
    pub(super) fn number(&self, field: &str, range: RangeInclusive<u64>) -> Result<u64, Malformed> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        self.number_opt(field, range)?.ok_or_else(|| self.missing(field, &wanted))
    }

    /// A count of 32 bits.
    pub(super) fn count(&self, field: &str) -> Result<u32, Malformed> {
        let number = self.number(field, 0..=u64::from(u32::MAX))?;
        u32::try_from(number).map_err(|_| self.malformed(field, "is out of range"))
    }

    /// A moment of at most 13 digits, where there is one.
    pub(super) fn moment_opt(&self, field: &str) -> Result<Option<Timestamp>, Malformed> {
        Ok(self.number_opt(field, 0..=Timestamp::MAX.as_ms())?.map(Timestamp::from_ms))
    }

    /// A moment of at most 13 digits.
    pub(super) fn moment(&self, field: &str) -> Result<Timestamp, Malformed> {
        Ok(Timestamp::from_ms(self.number(field, 0..=Timestamp::MAX.as_ms())?))
    }

    /// A token, or 0 for none.
    pub(super) fn stamp(&self, field: &str) -> Result<Stamp, Malformed> {
        let number = self.number(field, 0..=u64::MAX)?;
        Stamp::new(number).map_err(|refused| self.malformed(field, refused.problem))
    }

    /// A map, where there is one.
    pub(super) fn map_opt(&self, field: &str) -> Result<Option<Fields<'a>>, Malformed> {
        match self.item.get(field) {
            None => Ok(None),
            Some(Value::Map(item)) => Ok(Some(Fields { item, path: format!("{}{field}.", self.path) })),
            Some(other) => Err(self.wrong_kind(field, other, "a map")),
        }
    }

    /// A map.
    pub(super) fn map(&self, field: &str) -> Result<Fields<'a>, Malformed> {
        self.map_opt(field)?.ok_or_else(|| self.missing(field, "a map"))
    }

    /// A list of at most `max` maps.
    pub(super) fn maps(&self, field: &str, max: usize) -> Result<Vec<Fields<'a>>, Malformed> {
        let wanted = format!("a list of at most {max} maps");
        let values = match self.item.get(field) {
            None => return Err(self.missing(field, &wanted)),
            Some(Value::List(values)) => values,
            Some(other) => return Err(self.wrong_kind(field, other, &wanted)),
        };
        if values.len() > max {
            return Err(self.malformed(field, format!("has {} elements; it must be {wanted}", values.len())));
        }
        let element = |(index, value): (usize, &'a Value)| match value {
            Value::Map(item) => Ok(Fields { item, path: format!("{}{field}[{index}].", self.path) }),
            other => Err(self.malformed(field, format!("holds {}; it must be {wanted}", other.kind()))),
        };
        values.iter().enumerate().map(element).collect()
    }
}

/// Decodes a whole item by `read`: the schema first, so that an item of a newer one is never judged by older rules.
pub(super) fn decode<T>(
    item: &Item,
    record: impl Fn() -> String,
    read: impl FnOnce(&Fields<'_>) -> Result<T, Malformed>,
) -> Result<T, Damage> {
    let fields = Fields::of(item);
    let refuse = |malformed, newer_schema| Damage { record: record(), malformed, newer_schema };
    let schema = fields.number(SCHEMA_ATTRIBUTE, 1..=u64::MAX).map_err(|malformed| refuse(malformed, false))?;
    if schema > u64::from(SCHEMA) {
        let problem = format!("is {schema}; this version reads up to {SCHEMA}: update it, or take the newer one back");
        return Err(refuse(fields.malformed(SCHEMA_ATTRIBUTE, problem), true));
    }
    read(&fields).map_err(|malformed| refuse(malformed, false))
}
