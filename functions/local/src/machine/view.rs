//! What the expressions of a state see: `$states`, the variables, and the execution's time.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use jsonata_core::value::JValue;
use serde_json::{Map, Value, json};

use super::expression::{Template, to_engine};
use super::timestamp::format_timestamp;
use super::{DATA_BYTES_MAX, TaskError};

/// Variables by name. A map's item or a branch starts with a copy of what its surroundings hold.
pub(super) type Variables = BTreeMap<String, Arc<Value>>;

/// What stays the same throughout an execution.
pub(super) struct Identity<'e> {
    pub(super) name: &'e str,
    pub(super) execution_id: String,
    pub(super) state_machine_id: &'e str,
    pub(super) input: Value,
    pub(super) started_ms: u64,
}

/// The item that a map's states run for.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) index: usize,
    pub(super) value: Arc<Value>,
}

/// One look of one state at its data.
#[derive(Clone, Copy)]
pub(super) struct View<'v> {
    pub(super) identity: &'v Identity<'v>,
    pub(super) state: &'v str,
    pub(super) entered_ms: u64,
    pub(super) retry_count: u32,
    pub(super) item: Option<&'v Item>,
    pub(super) variables: &'v Variables,
    pub(super) input: &'v Value,
    pub(super) result: Option<&'v Value>,
    pub(super) error_output: Option<&'v Value>,
    pub(super) now_ms: u64,
}

impl<'v> View<'v> {
    /// The field `name` of `$states`, if there is one now.
    pub(super) fn states_field(&self, name: &str) -> Option<JValue> {
        match name {
            "input" => Some(to_engine(self.input)),
            "result" => self.result.map(to_engine),
            "errorOutput" => self.error_output.map(to_engine),
            "context" => Some(to_engine(&self.context())),
            _ => None,
        }
    }

    /// The value of the variable `name`, once it is assigned.
    pub(super) fn variable(&self, name: &str) -> Option<&'v Value> {
        self.variables.get(name).map(Arc::as_ref)
    }

    fn context(&self) -> Value {
        let identity = self.identity;
        let machine_name = identity.state_machine_id.rsplit(':').next().unwrap_or_default();
        let mut context = json!({
            "Execution": {
                "Id": identity.execution_id,
                "Input": identity.input,
                "Name": identity.name,
                "StartTime": format_timestamp(identity.started_ms),
                "RedriveCount": 0,
            },
            "State": {
                "Name": self.state,
                "EnteredTime": format_timestamp(self.entered_ms),
                "RetryCount": self.retry_count,
            },
            "StateMachine": { "Id": identity.state_machine_id, "Name": machine_name },
        });
        if let (Some(item), Some(fields)) = (self.item, context.as_object_mut()) {
            fields.insert("Map".to_owned(), json!({ "Item": { "Index": item.index, "Value": *item.value } }));
        }
        context
    }

    /// The value of `template`, which stands in `field`.
    ///
    /// # Errors
    /// `States.QueryEvaluationError` names the state and the field; `States.DataLimitExceeded` if the value is too large.
    pub(super) fn value(&self, template: &Template, field: &str) -> Result<Value, TaskError> {
        let value = template
            .evaluate(self)
            .map_err(|problem| TaskError::query(format!("state {}, {field}: {problem}", self.state)))?;
        self.limited(value, field)
    }

    /// The value of `template` if there is one, else `default`.
    pub(super) fn value_or(
        &self,
        template: Option<&Template>,
        field: &str,
        default: impl FnOnce() -> Value,
    ) -> Result<Value, TaskError> {
        template.map_or_else(|| Ok(default()), |template| self.value(template, field))
    }

    /// The variables that `template` assigns. All its expressions see the values from before.
    pub(super) fn assigned(&self, template: Option<&Template>) -> Result<Map<String, Value>, TaskError> {
        match self.value_or(template, "Assign", || Value::Object(Map::new()))? {
            Value::Object(variables) => Ok(variables),
            _ => Err(TaskError::query(format!("state {}, Assign: not an object", self.state))),
        }
    }

    /// A whole number of at least `least` and at most `most`.
    pub(super) fn whole(&self, template: &Template, field: &str, least: u32, most: u32) -> Result<u32, TaskError> {
        let value = self.value(template, field)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            TaskError::query(format!("state {}, {field}: not a whole number of {least} to {most}", self.state))
        })
    }

    /// `value`, unless it is too large to leave the state.
    pub(super) fn limited(&self, value: Value, field: &str) -> Result<Value, TaskError> {
        let mut size = Size(0);
        match serde_json::to_writer(&mut size, &value) {
            Ok(()) if size.0 <= DATA_BYTES_MAX => Ok(value),
            _ => Err(TaskError::new(
                "States.DataLimitExceeded",
                format!(
                    "state {}, {field}: {} bytes of JSON, at most {DATA_BYTES_MAX} are allowed",
                    self.state, size.0
                ),
            )),
        }
    }
}

/// Counts what is written to it.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
