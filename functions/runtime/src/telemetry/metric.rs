//! The metrics, by name and unit, and where they go.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_protocol::ids::{InstanceName, LeaseName};
use fencepost_protocol::time::Timestamp;

use crate::clock::Clock;

/// A metric's unit, as CloudWatch knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Things or events.
    Count,
    /// A duration in milliseconds.
    Milliseconds,
    /// A duration in seconds.
    Seconds,
    /// A number without a unit, or a state: 1 is yes, 0 is no.
    None,
}

/// Declares the metrics once: variant, documentation, unit.
macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident: $unit:ident,)*) => {
        /// Every metric of the project. Its name in CloudWatch is the variant's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $($(#[$doc])* $name,)*
        }

        impl Metric {
            /// Every metric.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in CloudWatch.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Its unit.
            pub const fn unit(self) -> Unit {
                match self {
                    $(Self::$name => Unit::$unit,)*
                }
            }
        }
    };
}

metrics! {
    /// 1 where this instance holds the lease.
    LeaseHeld: None,
    /// 1 where some instance holds the lease, as far as this one can tell.
    GroupHasHolder: None,
    /// The token in the lease row.
    FencingToken: None,
    /// Acquisitions by this instance.
    LeaseAcquired: Count,
    /// Demotions of this instance.
    LeaseLost: Count,
    /// Acquisitions that changed the holder.
    LeaseTransfers: Count,
    /// How long a renewal took.
    RenewLatency: Milliseconds,
    /// Ticks of a holder that could not confirm its lease: the renewal failed, or the lease table could not be read.
    RenewFailures: Count,
    /// For how long the former holder had stood still when its lease was seized: the length of the failover.
    TakeoverDuration: Milliseconds,
    /// Records stored.
    Ingested: Count,
    /// Deliveries of a message that was already stored.
    IngestDuplicates: Count,
    /// How long one put took.
    PersistLatency: Milliseconds,
    /// Records that a whole pass over a group of shards saw and left; the maximum is the fullest group's.
    OutboxOutstanding: Count,
    /// Age of the oldest outstanding record.
    OldestOutstandingAge: Seconds,
    /// Records claimed.
    Claimed: Count,
    /// Claims that somebody else won.
    ClaimConflicts: Count,
    /// Claims that outlived their drainer.
    StaleClaims: Count,
    /// Records that the queue accepted.
    Sent: Count,
    /// Records committed.
    Committed: Count,
    /// Commits refused because a successor had touched the record.
    CommitsFenced: Count,
    /// Sends that may have been second ones.
    DuplicateRisk: Count,
    /// Sends that the queue refused or did not answer.
    SendFailures: Count,
    /// Records that died.
    Dead: Count,
    /// Dead records put back.
    Redriven: Count,
    /// Outbox items that do not decode, or are of a newer schema: left alone until somebody repairs them.
    Held: Count,
    /// Records with a token above the lease's: somebody restored a table.
    TokenRegression: Count,
    /// From a message's receipt by the broker to its acceptance by the queue.
    EndToEndLatency: Milliseconds,
    /// How long a drain call took.
    DrainDuration: Milliseconds,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose metrics they are: the two dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// The group.
    pub lease: LeaseName,
    /// The instance.
    pub instance: InstanceName,
}

/// Where observations go.
pub trait MetricSink: Send + Sync {
    /// Takes what was observed at `at`. The same metric twice is two observations.
    fn record(&self, at: Timestamp, labels: &Labels, values: &[(Metric, f64)]);
}

/// A handle to emit metrics with. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    labels: Arc<Labels>,
    clock: Arc<dyn Clock>,
    sink: Arc<dyn MetricSink>,
}

impl Metrics {
    /// A handle that stamps by `clock` and writes to `sink`.
    pub fn new(labels: Labels, clock: Arc<dyn Clock>, sink: Arc<dyn MetricSink>) -> Self {
        Self { labels: Arc::new(labels), clock, sink }
    }

    /// Emits what a call observed. Values that are no finite number, or below zero, are left out: CloudWatch would refuse
    /// the whole line.
    pub fn emit(&self, values: &[(Metric, f64)]) {
        let good: Vec<(Metric, f64)> =
            values.iter().copied().filter(|(_, value)| value.is_finite() && *value >= 0.0).collect();
        if !good.is_empty() {
            self.sink.record(self.clock.now().wall, &self.labels, &good);
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("labels", &self.labels).finish_non_exhaustive()
    }
}

/// A sink that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMetrics;

impl MetricSink for NoMetrics {
    fn record(&self, _at: Timestamp, _labels: &Labels, _values: &[(Metric, f64)]) {}
}

/// One observation that [`CollectedMetrics`] kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When.
    pub at: Timestamp,
    /// Whose.
    pub labels: Labels,
    /// Which.
    pub metric: Metric,
    /// How much, in the metric's unit.
    pub value: f64,
}

/// A sink that keeps everything in memory: for tests and for one machine's world.
#[derive(Debug, Default)]
pub struct CollectedMetrics {
    recorded: Mutex<Vec<Recorded>>,
}

impl CollectedMetrics {
    /// All observations so far, oldest first.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All values of `metric`, oldest first.
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.iter().filter(|one| one.metric == metric).map(|one| one.value).collect()
    }

    /// The sum of all values of `metric`.
    pub fn total(&self, metric: Metric) -> f64 {
        self.values(metric).iter().sum()
    }
}

impl MetricSink for CollectedMetrics {
    fn record(&self, at: Timestamp, labels: &Labels, values: &[(Metric, f64)]) {
        let new = values.iter().map(|(metric, value)| Recorded {
            at,
            labels: labels.clone(),
            metric: *metric,
            value: *value,
        });
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
    }
}
