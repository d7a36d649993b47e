//! What one row of the table of settings is, and the table in words. The rows are in [`super::rows`].

use std::fmt::Write as _;
use std::time::Duration;

use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::ids::{InstanceName, LeaseName, StackId};
use fencepost_protocol::lease::SourceMode;
use fencepost_protocol::timing::{Profile, TimingOverrides};

use super::rows::TABLE;
use super::{Function, LogLevel, Topology};

/// What holds where a setting is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// Nothing: whoever needs it must be given it.
    None,
    /// This value.
    Value(&'static str),
    /// By profile.
    ByProfile {
        /// In the durable profile.
        durable: &'static str,
        /// In the fast profile.
        fast: &'static str,
    },
    /// What the words say.
    Follows(&'static str),
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// What holds where it is not set.
    pub default: DefaultValue,
    /// Which values are right.
    pub rule: &'static str,
    /// The functions that cannot run without it.
    pub needed_by: &'static [Function],
    /// Reads a value into the draft.
    pub(super) apply: fn(&mut Draft, &str) -> Result<(), String>,
}

/// What the table's rows write to. A field without `Option` has a default in the table, so it is written in any case.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    pub(super) lease: Option<LeaseName>,
    pub(super) instance: Option<InstanceName>,
    pub(super) stack: Option<StackId>,
    pub(super) profile: Profile,
    pub(super) timing: TimingOverrides,
    pub(super) shards: u16,
    pub(super) previous_shards: Option<u16>,
    pub(super) shards_per_group: u16,
    pub(super) lease_table: Option<String>,
    pub(super) outbox_table: Option<String>,
    pub(super) table_region: Option<String>,
    pub(super) topology: Topology,
    pub(super) batching: bool,
    pub(super) queue_url: Option<String>,
    pub(super) ordered: Option<bool>,
    pub(super) body_format: Option<BodyFormat>,
    pub(super) source: SourceMode,
    pub(super) topic_rule: Option<String>,
    pub(super) max_attempts: u32,
    pub(super) max_age: Duration,
    pub(super) backoff_base: Duration,
    pub(super) backoff_max: Duration,
    pub(super) page_rows: usize,
    pub(super) request_bytes_max: usize,
    pub(super) stamp_cache: Duration,
    pub(super) store_call_timeout: Option<Duration>,
    pub(super) event_bus: String,
    pub(super) log: LogLevel,
}

/// Every setting, in the order of the README.
pub fn table() -> &'static [Setting] {
    &TABLE
}

impl DefaultValue {
    fn words(self) -> String {
        match self {
            Self::None => "–".to_owned(),
            Self::Value(value) => format!("`{value}`"),
            Self::ByProfile { durable, fast } if durable == fast => format!("`{durable}`"),
            Self::ByProfile { durable, fast } => format!("`{durable}`; fast `{fast}`"),
            Self::Follows(words) => words.to_owned(),
        }
    }
}

/// The table as Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| setting | what it does | default | rule |\n|---|---|---|---|\n");
    for setting in table() {
        let needed = match setting.needed_by {
            [] => String::new(),
            all if all.len() == Function::ALL.len() => " **Required.**".to_owned(),
            some => format!(
                " **Required by {}.**",
                some.iter().map(|function| function.as_str()).collect::<Vec<_>>().join(", ")
            ),
        };
        let default = setting.default.words();
        let _ = writeln!(text, "| `{}` | {} | {default} | {}.{needed} |", setting.name, setting.what, setting.rule);
    }
    text
}
