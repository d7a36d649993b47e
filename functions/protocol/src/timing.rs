//! placeholder: written by its owner
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What to do when renewals have failed `max_renew_fails` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenewFailurePolicy {
    /// Read the row once more, strongly: it names me and my deadline is ahead → stay; the read fails → demote.
    Verify,
    /// Demote without asking.
    Demote,
}

/// Every duration of the protocol, checked: [`Timing::build`] is the only way to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a holder's word lasts.
    pub lease_ttl: Duration,
    /// Renewals in a row that may fail before the policy asks.
    pub max_renew_fails: u32,
    /// What happens then.
    pub renew_failure_policy: RenewFailurePolicy,
    /// From one renewal to the next.
    pub renew_interval: Duration,
    /// The whole of one renewal call, retries included.
    pub renew_call_timeout: Duration,
    /// Width of the random part of the interval.
    pub jitter: Duration,
    /// From one tick to the next, whole seconds.
    pub tick_interval: Duration,
    /// By how much hosts of one instance may disagree.
    pub clock_margin: Duration,
    /// From before the first claim of a page to the last moment at which its sends may start.
    pub claim_budget: Duration,
    /// The whole of one send call.
    pub send_timeout: Duration,
    /// The drainer function's own time limit.
    pub drainer_limit: Duration,
    /// How long a step-down waits for claims in flight.
    pub step_down_grace: Duration,
    /// How long the drain workflow waits before a claim is settled.
    pub stale_claim_duration: Duration,
    /// How long a tombstone is kept; zero: no tombstones.
    pub dedupe_window: Duration,
    /// A bound for a warm failover that the user wants enforced.
    pub failover_slo: Option<Duration>,
}

/// How long one try of the takeover workflow may run before the tick holds it for dead and starts another.
pub const TAKEOVER_LIMIT: Duration = Duration::from_secs(15 * 60);
