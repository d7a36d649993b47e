//! What CloudFormation asks of a custom resource, and the answer that it takes. Pure: nothing here is carried out.
//!
//! Two kinds of resource. `Custom::FencepostSettings` has the settings as its properties, under their own names: it cannot be
//! made or changed while they are wrong, nor while the tables that they name are unfit. `Custom::FencepostLease` stands for the lease: it is deleted first, which releases it.
//! The answer to a deletion is always a success, for a deletion that fails leaves a stack that nobody can delete.
//!
//! What must stay out: the lease itself, and how the answer travels.

use std::collections::BTreeMap;

use fencepost_protocol::ids::{Malformed, PayloadDigest};
use fencepost_protocol::tables::{self, TableFacts, TableUse};
use fencepost_runtime::input;
use fencepost_runtime::settings::{Function, PREFIX, Settings, SettingsFaults, Tables, Topology};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// CloudFormation refuses a longer answer.
const ANSWER_BYTES_MAX: usize = 4096;
/// The resource that checks the settings.
const SETTINGS_TYPE: &str = "Custom::FencepostSettings";
/// The resource that stands for the lease.
const LEASE_TYPE: &str = "Custom::FencepostLease";

/// One request of CloudFormation, as far as it matters here.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CustomResource {
    request_type: String,
    #[serde(rename = "ResponseURL")]
    response_url: String,
    stack_id: String,
    request_id: String,
    resource_type: String,
    logical_resource_id: String,
    #[serde(default)]
    physical_resource_id: Option<String>,
    #[serde(default)]
    resource_properties: BTreeMap<String, Value>,
}

/// What a request comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// It can be answered at once.
    Answer(Outcome),
    /// The settings are sound; look at the tables that they name, then answer.
    LookAtTables(TableCheck),
    /// Release the lease, then answer with a success in any case.
    Release,
}

/// Two tables to look at before anything uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableCheck {
    /// Which, and where.
    pub(crate) tables: Tables,
    usage: TableUse,
    digest: String,
}

impl TableCheck {
    /// The answer, by what was seen of both tables.
    pub(crate) fn conclude(&self, lease: &TableFacts, outbox: &TableFacts) -> Outcome {
        let faults = tables::faults(lease, outbox, self.usage);
        if faults.is_empty() {
            return Outcome::Checked { digest: self.digest.clone() };
        }
        let lines: Vec<String> = faults.into_iter().map(|fault| SettingsFaults::as_set(fault).to_string()).collect();
        Outcome::Failed(format!("the tables are unfit: {}", lines.join("; ")))
    }
}

/// How the answer ends, and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The stack goes on.
    Success(String),
    /// The stack goes on; `digest` is another one where a setting is another one.
    Checked {
        /// A hash of all settings that are set.
        digest: String,
    },
    /// The stack goes back.
    Failed(String),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Answer<'a> {
    status: &'a str,
    reason: &'a str,
    physical_resource_id: &'a str,
    stack_id: &'a str,
    request_id: &'a str,
    logical_resource_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data<'a>>,
}

/// What the template can ask of the resource by `Fn::GetAtt`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Data<'a> {
    settings_digest: &'a str,
}

impl CustomResource {
    /// Is this a request of CloudFormation?
    pub fn is_one(input: &Value) -> bool {
        input.get("RequestType").is_some()
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`Malformed`] that names the field without which there is nobody to answer.
    pub fn parse(input: Value) -> Result<Self, Malformed> {
        input::read("custom resource request", input)
    }

    /// Where the answer goes. It holds a signature: never log it.
    pub(crate) fn response_url(&self) -> &str {
        &self.response_url
    }

    /// What is to be done.
    pub(crate) fn task(&self) -> Task {
        let answer = match (self.request_type.as_str(), self.resource_type.as_str()) {
            ("Delete", LEASE_TYPE) => return Task::Release,
            ("Delete", _) => Outcome::Success("there is nothing to delete".to_owned()),
            ("Create" | "Update", LEASE_TYPE) => Outcome::Success("the lease is released at deletion".to_owned()),
            ("Create" | "Update", SETTINGS_TYPE) => match self.check_settings() {
                Ok(check) => return Task::LookAtTables(check),
                Err(reason) => Outcome::Failed(reason),
            },
            ("Create" | "Update", other) => {
                Outcome::Failed(format!("ResourceType {other} is unknown here; use {SETTINGS_TYPE} or {LEASE_TYPE}"))
            }
            (other, _) => Outcome::Failed(format!("RequestType {other} is unknown; it is Create, Update or Delete")),
        };
        Task::Answer(answer)
    }

    /// All settings of all functions, by the rules that they check themselves by at their start. What is left to look at,
    /// or why they are refused.
    fn check_settings(&self) -> Result<TableCheck, String> {
        let mut pairs = Vec::new();
        for (name, value) in self.resource_properties.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(format!("{name} is no text: a setting is one value")),
            };
            pairs.push((name.clone(), text));
        }
        // An instance without a name takes its region's, as the functions do from their environment.
        if let Some(region) = self.stack_id.split(':').nth(3) {
            pairs.push(("AWS_REGION".to_owned(), region.to_owned()));
        }
        let digest = digest_of(&pairs);
        let settings = Settings::parse(&Function::ALL, pairs).map_err(|faults| faults.to_string())?;
        let usage = TableUse {
            global: settings.topology == Topology::Global,
            keeps_tombstones: !settings.timing.dedupe_window.is_zero(),
        };
        Ok(TableCheck { tables: settings.tables, usage, digest })
    }

    /// The answer's body. Its words are cut where the whole would be longer than CloudFormation takes.
    pub(crate) fn answer(&self, outcome: &Outcome) -> Result<Vec<u8>, serde_json::Error> {
        let encoded = |reason: &str| self.encoded(outcome, reason);
        let reason = outcome.reason();
        let whole = encoded(reason)?;
        if whole.len() <= ANSWER_BYTES_MAX {
            return Ok(whole);
        }
        // Escapes make a text longer than it is, so the longest that fits is searched for.
        let ends: Vec<usize> = reason.char_indices().map(|(end, _)| end).collect();
        let cut = |end: usize| encoded(&format!("{}…", &reason[..end]));
        let fitting = ends.partition_point(|&end| cut(end).is_ok_and(|body| body.len() <= ANSWER_BYTES_MAX));
        cut(fitting.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(0))
    }

    fn encoded(&self, outcome: &Outcome, reason: &str) -> Result<Vec<u8>, serde_json::Error> {
        let data = match outcome {
            Outcome::Checked { digest } => Some(Data { settings_digest: digest }),
            Outcome::Success(_) | Outcome::Failed(_) => None,
        };
        serde_json::to_vec(&Answer {
            status: if outcome.succeeded() { "SUCCESS" } else { "FAILED" },
            reason,
            physical_resource_id: &self.physical_resource_id(),
            stack_id: &self.stack_id,
            request_id: &self.request_id,
            logical_resource_id: &self.logical_resource_id,
            data,
        })
    }

    /// The same for the resource's whole life: another one would make CloudFormation delete the "old" resource.
    fn physical_resource_id(&self) -> String {
        match &self.physical_resource_id {
            Some(given) => given.clone(),
            None => {
                let stack = self.stack_id.rsplit('/').next().unwrap_or_default();
                format!("fencepost-{}-{stack}", self.logical_resource_id)
            }
        }
    }
}

impl Outcome {
    /// Does the stack go on?
    pub(crate) fn succeeded(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// In words.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Success(reason) | Self::Failed(reason) => reason,
            Self::Checked { .. } => "the settings are sound, and the tables are fit",
        }
    }
}

/// Another text for other settings: a function's version is described by it, so that a change publishes a new one.
fn digest_of(pairs: &[(String, String)]) -> String {
    let set = pairs.iter().filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty());
    let lines: Vec<String> = set.map(|(name, value)| format!("{name}={value}\n")).collect();
    PayloadDigest::of(lines.concat().as_bytes()).short(16).to_owned()
}

impl std::fmt::Debug for CustomResource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CustomResource")
            .field("request_type", &self.request_type)
            .field("resource_type", &self.resource_type)
            .field("logical_resource_id", &self.logical_resource_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
