//! The fields of one JSON object of a definition, taken one by one; what is left over is unknown and refused.

use serde_json::{Map, Value};

use super::DefinitionError;

/// An object that is being read, and where it stands.
pub(super) struct Fields {
    place: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// The fields of `value`, which must be an object.
    pub(super) fn of(place: impl Into<String>, value: Value) -> Result<Self, DefinitionError> {
        let place = place.into();
        match value {
            Value::Object(fields) => Ok(Self { place, fields }),
            _ => Err(DefinitionError::invalid(place, "must be an object")),
        }
    }

    /// An error about `field` of this object.
    pub(super) fn fault(&self, field: &str, problem: impl Into<String>) -> DefinitionError {
        DefinitionError::invalid(self.place_of(field), problem)
    }

    /// Where `field` of this object stands.
    pub(super) fn place_of(&self, field: &str) -> String {
        format!("{}, {field}", self.place)
    }

    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field)
    }

    pub(super) fn require(&mut self, field: &str) -> Result<Value, DefinitionError> {
        self.take(field).ok_or_else(|| self.fault(field, "is missing"))
    }

    pub(super) fn text(&mut self, field: &str) -> Result<Option<String>, DefinitionError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(field, "must be a string")),
        }
    }

    pub(super) fn require_text(&mut self, field: &str) -> Result<String, DefinitionError> {
        self.text(field)?.ok_or_else(|| self.fault(field, "is missing"))
    }

    pub(super) fn flag(&mut self, field: &str) -> Result<bool, DefinitionError> {
        match self.take(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(self.fault(field, "must be true or false")),
        }
    }

    /// A whole number of at least `least` and at most `most`.
    pub(super) fn whole(&mut self, field: &str, least: u32, most: u32) -> Result<Option<u32>, DefinitionError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.fault(field, format!("must be a whole number of {least} to {most}"))),
        }
    }

    /// The entries of a list; none if the field is absent.
    pub(super) fn list(&mut self, field: &str) -> Result<Vec<Value>, DefinitionError> {
        match self.take(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(entries)) => Ok(entries),
            Some(_) => Err(self.fault(field, "must be a list")),
        }
    }

    /// The objects of a list, each with its place.
    pub(super) fn objects(&mut self, field: &str) -> Result<Vec<Self>, DefinitionError> {
        let place = self.place_of(field);
        let entries = self.list(field)?.into_iter().enumerate();
        entries.map(|(index, entry)| Self::of(format!("{place}[{index}]"), entry)).collect()
    }

    /// Drops the fields that say nothing to a machine.
    pub(super) fn comment(&mut self) -> Result<(), DefinitionError> {
        self.text("Comment").map(drop)
    }

    /// `QueryLanguage`, where it may be given again.
    pub(super) fn query_language(&mut self, required: bool) -> Result<(), DefinitionError> {
        match self.text("QueryLanguage")?.as_deref() {
            Some("JSONata") => Ok(()),
            None if !required => Ok(()),
            _ => Err(self.fault("QueryLanguage", "must be JSONata")),
        }
    }

    /// Refuses what nobody took.
    pub(super) fn finish(self) -> Result<(), DefinitionError> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(field) => Err(self.fault(field, "is unknown here, or not supported by this runner")),
        }
    }
}
