//! Everything that is set from outside, parsed once.
//!
//! Each setting is an environment variable with the prefix `FENCEPOST_` and one row of one table ([`table`]): its name, what
//! it does, its default, its rule and who needs it. The table parses, refuses unknown names, and prints the README's list.
//!
//! Rules: an empty value counts as unset (a template passes empty parameters); durations carry a unit; a name with our prefix
//! that is not in the table is refused with the nearest name that is. All faults are reported at once, each with the
//! variable's name and the fix. Parsing is pure: only [`Settings::from_env`] reads the environment.
//!
//! What must stay out: what follows from a setting (`fencepost_protocol::timing` derives and checks durations).

use std::fmt;
use std::time::Duration;

use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::drain::DrainPolicy;
use fencepost_protocol::ids::{Identity, LeaseName, Malformed};
use fencepost_protocol::lease::{Rules, SourceMode};
use fencepost_protocol::timing::{Profile, Timing};

mod build;
mod rows;
mod table;
mod values;

pub use table::{DefaultValue, Setting, markdown, table};

/// What the names of all our environment variables begin with.
pub const PREFIX: &str = "FENCEPOST_";

/// The functions that settings are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Stores what the rule hands over.
    Ingest,
    /// Ticks.
    Lease,
    /// Claims, sends, commits.
    Drainer,
}

impl Function {
    /// All three: what the lease function's `validate` command and one machine's world check.
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Lease, Self::Drainer];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Lease => "lease",
            Self::Drainer => "drainer",
        }
    }
}

/// Where the tables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Topology {
    /// Tables of the own region.
    #[default]
    Single,
    /// Tables of another region, by cross-region clients.
    Home,
    /// A strongly consistent global table: no TTL, so no tombstones; no batches.
    Global,
}

/// How much is logged of our own crates; everything else logs warnings and errors only, because a library's debug lines may
/// hold payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// And what an operator should look at.
    Warn,
    /// And each decision of a lease, each drain call.
    #[default]
    Info,
    /// And each row.
    Debug,
    /// And each step.
    Trace,
}

/// The two tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Name or ARN of the lease table.
    pub lease: String,
    /// Name or ARN of the outbox table.
    pub outbox: String,
    /// Their region, where it is not the function's own.
    pub region: Option<String>,
}

/// The queue that records are drained to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Its URL.
    pub url: String,
    /// Is it a FIFO queue?
    pub ordered: bool,
}

/// All settings of one stack, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The lease group.
    pub lease: LeaseName,
    /// Who this instance is.
    pub identity: Identity,
    /// What the durations began with.
    pub profile: Profile,
    /// Every duration of the protocol.
    pub timing: Timing,
    /// Shards that new records are spread over.
    pub shards: u16,
    /// Shards before the last change of their number; the old range is drained too.
    pub previous_shards: Option<u16>,
    /// Shards that one drain call takes.
    pub shards_per_group: u16,
    /// The tables.
    pub tables: Tables,
    /// Where they are.
    pub topology: Topology,
    /// Do claims, commits and tombstones travel 25 to a request?
    pub batching: bool,
    /// The queue; always there for the drainer.
    pub destination: Option<Destination>,
    /// How a payload becomes a body.
    pub body_format: BodyFormat,
    /// How the topic rule is switched.
    pub source: SourceMode,
    /// The topic rule's name; always there for a lease function whose source is gated.
    pub topic_rule: Option<String>,
    /// Attempts before a record may die by exhaustion.
    pub max_attempts: u32,
    /// Age before a record may die by exhaustion.
    pub max_age: Duration,
    /// The first back-off.
    pub backoff_base: Duration,
    /// The longest back-off.
    pub backoff_max: Duration,
    /// Rows of one page.
    pub page_rows: usize,
    /// Bytes that one message and one request to the queue may have.
    pub request_bytes_max: usize,
    /// How long ingest believes a lease row that it read (it only stamps by it).
    pub stamp_cache: Duration,
    /// The whole of one call to the outbox table, retries included.
    pub store_call_timeout: Duration,
    /// The event bus that the drainer tells of dead records.
    pub event_bus: String,
    /// How much is logged.
    pub log: LogLevel,
}

impl Settings {
    /// Parses `pairs` of name and value for a process that runs `functions`. Pairs whose name lacks our prefix are passed
    /// over, except `AWS_REGION`.
    ///
    /// # Errors
    /// [`SettingsFaults`] with every fault.
    pub fn parse(
        functions: &[Function],
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsFaults> {
        build::build(functions, pairs)
    }

    /// Parses the process's environment for `functions`.
    ///
    /// # Errors
    /// [`SettingsFaults`] with every fault.
    pub fn from_env(functions: &[Function]) -> Result<Self, SettingsFaults> {
        // A value that is no Unicode keeps its replacement characters, which every rule refuses.
        let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
        Self::parse(functions, std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// The queue.
    ///
    /// # Errors
    /// [`SettingsFaults`] where none is set; never for a process that was parsed for the drainer.
    pub fn destination(&self) -> Result<&Destination, SettingsFaults> {
        self.destination.as_ref().ok_or_else(|| SettingsFaults::missing("QUEUE_URL"))
    }

    /// The topic rule's name.
    ///
    /// # Errors
    /// [`SettingsFaults`] where none is set; never for a lease function whose source is gated.
    pub fn topic_rule(&self) -> Result<&str, SettingsFaults> {
        self.topic_rule.as_deref().ok_or_else(|| SettingsFaults::missing("TOPIC_RULE"))
    }

    /// How many shards are drained: the old range and the new one.
    pub fn drained_shards(&self) -> u16 {
        self.shards.max(self.previous_shards.unwrap_or(0))
    }

    /// What the tick goes by.
    pub fn rules(&self) -> Rules {
        Rules { lease: self.lease.clone(), me: self.identity.clone(), timing: self.timing, source: self.source }
    }

    /// What the drainer goes by.
    ///
    /// # Errors
    /// [`SettingsFaults`] where no queue is set.
    pub fn drain_policy(&self) -> Result<DrainPolicy, SettingsFaults> {
        Ok(DrainPolicy {
            timing: self.timing,
            ordered: self.destination()?.ordered,
            body_format: self.body_format,
            page_rows: self.page_rows,
            max_attempts: self.max_attempts,
            max_age: self.max_age,
            backoff_base: self.backoff_base,
            backoff_max: self.backoff_max,
            request_bytes_max: self.request_bytes_max,
        })
    }
}

/// Everything that is wrong with the settings; the field of each fault is the variable's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFaults(pub Vec<Malformed>);

impl SettingsFaults {
    fn missing(name: &str) -> Self {
        Self(vec![Malformed::new(format!("{PREFIX}{name}"), "is missing")])
    }

    /// A fault of the protocol's, whose field is a setting's plain name, by the name of the variable.
    pub fn as_set(fault: Malformed) -> Malformed {
        Malformed { field: format!("{PREFIX}{}", fault.field.to_ascii_uppercase()), ..fault }
    }
}

impl fmt::Display for SettingsFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [fault] => write!(f, "{fault}"),
            faults => {
                write!(f, "{} settings are wrong:", faults.len())?;
                faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
            }
        }
    }
}

impl std::error::Error for SettingsFaults {}

#[cfg(test)]
mod tests;
