//! What a model contains: its instances, their durations, how far time goes, and what may go wrong how often.

use std::time::Duration;

use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::drain::DrainPolicy;
use fencepost_protocol::ids::{Identity, InstanceName, LeaseName, MessageId, RowKey, StackId};
use fencepost_protocol::ingest::{self, IngestTerms, Message};
use fencepost_protocol::lease::{Rules, SourceMode};
use fencepost_protocol::outbox::OutboxRow;
use fencepost_protocol::time::Timestamp;
use fencepost_protocol::timing::{Profile, RenewFailurePolicy, Timing, TimingOverrides};

use crate::ends::End;

/// The world's clock at second 0.
pub(crate) const START_MS: u64 = 1_000_000_000;

/// Something that goes wrong. Each costs one of [`Bounds::faults`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A write is applied and its reply is lost.
    LostReply,
    /// A write is given up by its writer and may be applied at any later time, or never.
    Late,
    /// A write is applied and answered, and arrives once more at any later time.
    Twice,
    /// A read fails.
    Unreadable,
    /// A read takes a second.
    SlowRead,
    /// A process ends between any two of its calls.
    Die,
    /// A whole instance ends; it comes back when it likes, with nothing but what the store keeps.
    Crash,
    /// An instance's wall clock steps by [`Bounds::clock_step_s`] in either direction.
    ClockStep,
    /// An instance's processes are frozen for a second: its monotonic clock stands still.
    Freeze,
    /// The lease table is lost.
    LoseTable,
    /// The lease row is damaged.
    Damage,
    /// A tick does not write its instance record: what it saw is forgotten.
    ForgetEvidence,
    /// A write or a send is refused because there were too many.
    Throttle,
    /// The queue refuses an entry, for now or for good.
    Refuse,
}

/// What a model's drains need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drains {
    /// Messages that ingest stores at the beginning.
    pub(crate) messages: usize,
    /// Does the queue keep order (one key for all messages)?
    pub(crate) ordered: bool,
    /// Drain calls that may begin.
    pub(crate) calls: u8,
    /// Calls of one instance at a time.
    pub(crate) at_once: usize,
    /// May a claimer come back whose claim was settled? Then its second send is one that nobody can know of.
    pub(crate) frozen: bool,
    /// Redrives that may begin.
    pub(crate) redrives: u8,
    /// Messages that the broker delivers once more.
    pub(crate) redeliveries: u8,
}

impl Drains {
    /// One message, one call of an instance at a time, two calls.
    pub(crate) const PLAIN: Self =
        Self { messages: 1, ordered: false, calls: 2, at_once: 1, frozen: false, redrives: 0, redeliveries: 0 };
}

/// A model's bounds.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// The test's name.
    pub(crate) name: &'static str,
    /// Who competes.
    pub(crate) cast: Vec<Rules>,
    /// How many seconds time goes on.
    pub(crate) seconds: u64,
    /// Ticks of one instance in progress.
    pub(crate) ticks_at_once: usize,
    /// Ticks that one instance begins within a second.
    pub(crate) pace: u8,
    /// Does a tick pass as one step? Then nothing comes between its calls.
    pub(crate) whole_ticks: bool,
    /// Instances that tick in every second while they are up.
    pub(crate) steady: &'static [usize],
    /// Do hosts of an instance disagree by the whole margin?
    pub(crate) two_hosts: bool,
    /// What each instance's wall clock shows beyond the true time, from the beginning; 0 for those not named.
    pub(crate) wall_ahead_s: &'static [i64],
    /// What may go wrong.
    pub(crate) kinds: &'static [Fault],
    /// How often.
    pub(crate) faults: u8,
    /// How many looks may be disturbed ([`Fault::SlowRead`], [`Fault::ForgetEvidence`]); `None`: as many as there are faults.
    pub(crate) disturbed_looks: Option<u8>,
    /// Of a clock step.
    pub(crate) clock_step_s: u64,
    /// Step-downs and resumptions that an operator may ask for.
    pub(crate) commands: u8,
    /// I10: the longest vacancy.
    pub(crate) vacancy_max: Option<Duration>,
    /// Claims, sends and commits.
    pub(crate) drains: Option<Drains>,
    /// What must have been come across.
    pub(crate) ends: &'static [End],
}

impl Bounds {
    /// Two instances without any fault.
    pub(crate) fn new(name: &'static str, cast: Vec<Rules>, seconds: u64) -> Self {
        Self {
            name,
            cast,
            seconds,
            ticks_at_once: 1,
            pace: 1,
            whole_ticks: false,
            steady: &[],
            two_hosts: false,
            wall_ahead_s: &[],
            kinds: &[],
            faults: 0,
            disturbed_looks: None,
            clock_step_s: 3,
            commands: 0,
            vacancy_max: None,
            drains: None,
            ends: &[],
        }
    }

    /// The rows that ingest makes of the messages, stamped with no token.
    pub(crate) fn rows(&self) -> Vec<OutboxRow> {
        (0..self.drains.map_or(0, |drains| drains.messages)).map(row).collect()
    }

    /// The key of the message whose body is `body`.
    pub(crate) fn key_of(&self, body: &str) -> RowKey {
        self.rows().into_iter().find(|row| row.payload == body.as_bytes()).map(|row| row.key).unwrap()
    }
}

/// What ingest decides for message `number`; message 0 is the oldest, and all are of one topic.
fn row(number: usize) -> OutboxRow {
    let name = format!("m{number}");
    let message = Message {
        payload: name.clone().into_bytes(),
        topic: "t".to_owned(),
        client_id: None,
        id: MessageId::new(name).unwrap(),
        device_message_id: None,
        received_at: Some(Timestamp::from_ms(START_MS - 10 + u64::try_from(number).unwrap())),
    };
    let terms = IngestTerms { lease: lease_name(), origin: InstanceName::new("a").unwrap(), shards: 1 };
    ingest::decide(message, &terms, ingest::stamp(None), Timestamp::from_ms(START_MS)).unwrap()
}

/// Larger bounds were asked for.
pub(crate) fn soak() -> bool {
    std::env::var("MODEL_BOUNDS").is_ok_and(|bounds| bounds == "soak")
}

/// `ci`, or `soak` where larger bounds were asked for.
pub(crate) fn either<T>(ci: T, large: T) -> T {
    if soak() { large } else { ci }
}

pub(crate) fn lease_name() -> LeaseName {
    LeaseName::new("l").unwrap()
}

/// Durations in which a few seconds make a TTL: a holder believes in itself for 4s after a renewal, an observer must see
/// the row stand still for 6s, a tick comes every second, a renewal every two.
pub(crate) fn timing(policy: RenewFailurePolicy) -> Timing {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let overrides = TimingOverrides {
        lease_ttl: seconds(5),
        max_renew_fails: Some(1),
        renew_failure_policy: Some(policy),
        renew_interval: seconds(2),
        renew_call_timeout: Some(Duration::from_millis(500)),
        jitter: seconds(0),
        tick_interval: seconds(1),
        clock_margin: seconds(1),
        claim_budget: seconds(1),
        send_timeout: seconds(1),
        drainer_limit: seconds(4),
        step_down_grace: seconds(3),
        stale_claim_duration: seconds(9),
        ..TimingOverrides::default()
    };
    Timing::build(Profile::Durable, &overrides).unwrap()
}

/// An instance; the stack is the second letter.
pub(crate) fn instance(name: &str, policy: RenewFailurePolicy) -> Rules {
    let (name, stack) = name.split_at(1);
    let me = Identity { name: InstanceName::new(name).unwrap(), stack: StackId::new(stack).unwrap() };
    Rules { lease: lease_name(), me, timing: timing(policy), source: SourceMode::Open }
}

/// Instances of these names and stacks.
pub(crate) fn cast(names: &[&str]) -> Vec<Rules> {
    names.iter().map(|name| instance(name, RenewFailurePolicy::Verify)).collect()
}

/// The drainers' settings in this model.
pub(crate) fn policy(bounds: &Bounds, who: usize) -> DrainPolicy {
    let ordered = bounds.drains.is_some_and(|drains| drains.ordered);
    let mut policy = DrainPolicy::new(bounds.cast[who].timing, ordered, BodyFormat::Raw);
    policy.page_rows = 2;
    policy.backoff_base = Duration::from_secs(1);
    policy.backoff_max = Duration::from_secs(1);
    policy
}
