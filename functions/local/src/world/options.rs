//! What the world is asked to be.

use std::path::PathBuf;

use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::ids::{InstanceName, LeaseName};
use fencepost_protocol::timing::Profile;
use fencepost_runtime::settings::{Function, PREFIX, Settings};

use super::WorldError;
use super::topic::TopicFilter;

/// The lease table's name.
pub(super) const LEASE_TABLE: &str = "fencepost-lease";
/// The outbox table's name.
pub(super) const OUTBOX_TABLE: &str = "fencepost-outbox";
/// The region that clients name; the endpoints take any.
pub(super) const REGION: &str = "us-east-1";
/// The most instances: each is a thread with clients of its own.
const INSTANCES_MAX: usize = 16;

/// Settings that the world states itself, and what states them.
const OWN_SETTINGS: [(&str, &str); 10] = [
    ("LEASE", "the option lease"),
    ("INSTANCE", "--instances"),
    ("STACK", "--instances"),
    ("LEASE_TABLE", "the world itself"),
    ("OUTBOX_TABLE", "the world itself"),
    ("QUEUE_URL", "the option destination"),
    ("SHARDS", "--shards"),
    ("TOPOLOGY", "the world itself, whose instances share their tables"),
    ("TABLE_REGION", "the world itself, whose instances share their tables"),
    ("SOURCE", "the world itself, whose topic rule is always open"),
];

/// On which loopback ports the endpoints listen; 0 takes any free one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The MQTT broker's.
    pub mqtt: u16,
    /// DynamoDB's.
    pub dynamodb: u16,
    /// SQS's.
    pub sqs: u16,
    /// The control server's.
    pub control: u16,
}

impl Ports {
    /// Any free ports.
    #[must_use]
    pub const fn any() -> Self {
        Self { mqtt: 0, dynamodb: 0, sqs: 0, control: 0 }
    }
}

impl Default for Ports {
    fn default() -> Self {
        Self { mqtt: 1883, dynamodb: 8000, sqs: 9324, control: 7370 }
    }
}

/// What the world is asked to be. The default is two instances, the fast profile, everything in memory.
#[derive(Debug, Clone)]
pub struct WorldOptions {
    /// The lease group.
    pub lease: LeaseName,
    /// The instances, each one "region": 1 to 16 different names.
    pub instances: Vec<InstanceName>,
    /// The durations to start from.
    pub profile: Profile,
    /// More settings, by the names that the functions read in Lambda (`FENCEPOST_LEASE_TTL`). They win over the world's own
    /// `PROFILE` and `BODY_FORMAT`; those that the world must state itself are refused.
    pub settings: Vec<(String, String)>,
    /// Shards of the outbox.
    pub shards: u16,
    /// Where the endpoints listen.
    pub ports: Ports,
    /// Where tables and queue are kept; `None`: in memory.
    pub data: Option<PathBuf>,
    /// The topic rule's filter.
    pub topic_filter: String,
    /// The destination queue's name; a FIFO queue where it ends in `.fifo`.
    pub destination: String,
    /// How a payload becomes a body.
    pub body_format: BodyFormat,
    /// Remember every row that was stored, for the invariants of an audit. Takes memory for each message.
    pub keep_history: bool,
}

impl Default for WorldOptions {
    #[expect(clippy::expect_used, reason = "three constant names; a test builds the default")]
    fn default() -> Self {
        let instance = |name: &str| InstanceName::new(name).expect("a well-formed name");
        Self {
            lease: LeaseName::new("telemetry").expect("a well-formed name"),
            instances: vec![instance("east"), instance("west")],
            profile: Profile::Fast,
            settings: Vec::new(),
            shards: 4,
            ports: Ports::default(),
            data: None,
            topic_filter: "telemetry/#".to_owned(),
            destination: "telemetry".to_owned(),
            body_format: BodyFormat::Raw,
            keep_history: false,
        }
    }
}

impl WorldOptions {
    /// Checks what is asked for, and parses the topic filter.
    pub(super) fn check(&self) -> Result<TopicFilter, WorldError> {
        let wrong = |option, problem: String| WorldError::Option { option, problem };
        if self.instances.is_empty() || self.instances.len() > INSTANCES_MAX {
            let problem = format!("are {}; a world has 1 to {INSTANCES_MAX}", self.instances.len());
            return Err(wrong("--instances", problem));
        }
        for (index, name) in self.instances.iter().enumerate() {
            if self.instances[..index].contains(name) {
                return Err(wrong("--instances", format!("names {name} twice; give each instance a name of its own")));
            }
        }
        for (name, _) in &self.settings {
            let own = OWN_SETTINGS.iter().find(|(own, _)| name.strip_prefix(PREFIX) == Some(own));
            if let Some((_, by)) = own {
                return Err(wrong("settings", format!("name {name}, which is stated by {by}; leave it out")));
            }
        }
        TopicFilter::parse(&self.topic_filter).map_err(|problem| wrong("--topic-filter", problem))
    }

    /// The settings of one instance, by the way that its functions take in Lambda.
    pub(super) fn settings_of(&self, instance: &InstanceName, queue_url: &str) -> Result<Settings, WorldError> {
        let pair = |name: &str, value: &str| (format!("{PREFIX}{name}"), value.to_owned());
        let mut pairs = vec![pair("PROFILE", self.profile.as_str()), pair("BODY_FORMAT", self.body_format.as_str())];
        pairs.extend(self.settings.iter().cloned());
        pairs.extend([
            pair("LEASE", self.lease.as_str()),
            pair("INSTANCE", instance.as_str()),
            pair("STACK", &format!("local-{instance}")),
            pair("LEASE_TABLE", LEASE_TABLE),
            pair("OUTBOX_TABLE", OUTBOX_TABLE),
            pair("QUEUE_URL", queue_url),
            pair("SHARDS", &self.shards.to_string()),
        ]);
        Settings::parse(&Function::ALL, pairs).map_err(WorldError::Settings)
    }
}
