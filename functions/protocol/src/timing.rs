//! Every duration of the protocol: profiles, derivation, and the rules that a set of durations must keep.
//!
//! A user sets few of them; the others follow. [`Timing::build`] takes a [`Profile`] and what the user set, derives the rest
//! and checks every relation that the protocol's promises rest on. What it returns keeps all of them; what it refuses is
//! reported whole, each broken rule with its numbers, so that nobody mends a configuration one error at a time.
//!
//! What must stay out: how a duration is written in an environment variable or a template (that is the runtime's business).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Malformed;

mod bounds;
mod derive;
mod rules;
mod text;

pub use derive::{Profile, TimingOverrides};
pub use text::duration_text;

/// How long a takeover workflow may run; a takeover that is due for longer is tried again by the tick.
pub const TAKEOVER_LIMIT: Duration = Duration::from_secs(15 * 60);
/// How long one tick loop runs, and how long one drain workflow may run: an Express workflow ends at 300s.
pub const LOOP_LENGTH: Duration = Duration::from_secs(270);
/// How long a drain workflow begins new drain calls.
pub const DRAIN_PASS_LENGTH: Duration = Duration::from_secs(55);
/// How long an asynchronous invocation of ingest may wait and be retried before it goes to the failure queue.
pub const ASYNC_EVENT_AGE_MAX: Duration = Duration::from_secs(6 * 60 * 60);
/// How long the failure queue keeps what ingest could not store.
pub const FAILURE_QUEUE_RETENTION: Duration = Duration::from_secs(4 * 24 * 60 * 60);
/// The smallest lease TTL.
pub const LEASE_TTL_MIN: Duration = Duration::from_secs(5);
/// The largest lease TTL, and the largest value of every duration except `dedupe_window`.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The largest `dedupe_window`.
pub const DEDUPE_WINDOW_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

const EXPRESS_WORKFLOW_LIMIT: Duration = Duration::from_secs(300);
const _: () = assert!(LOOP_LENGTH.as_secs() < EXPRESS_WORKFLOW_LIMIT.as_secs(), "a loop must end by itself");
const _: () = assert!(TAKEOVER_LIMIT.as_secs() > LOOP_LENGTH.as_secs(), "a takeover may wait for a stale claim");

/// What to do when renewals have failed `max_renew_fails` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenewFailurePolicy {
    /// Read the row once more, strongly: it names me and my deadline is ahead → stay; the read fails → demote.
    Verify,
    /// Demote without asking.
    Demote,
}

impl RenewFailurePolicy {
    /// The policy of this name: `verify` or `demote`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "verify" => Some(Self::Verify),
            "demote" => Some(Self::Demote),
            _ => None,
        }
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Demote => "demote",
        }
    }
}

/// Every duration of the protocol, checked: [`Timing::build`] is the only way to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

impl Timing {
    /// The durations of `profile`, each replaced by what `overrides` sets; what neither sets is derived. All rules are
    /// checked, and all broken ones are reported.
    ///
    /// # Errors
    /// One [`Malformed`] per broken rule. Its field is the field of [`Timing`] that the rule is about.
    pub fn build(profile: Profile, overrides: &TimingOverrides) -> Result<Self, Vec<Malformed>> {
        let timing = derive::derive(&overrides.or_else(&profile.base()));
        let broken = rules::broken(&timing);
        if broken.is_empty() { Ok(timing) } else { Err(broken) }
    }
}

#[cfg(test)]
mod tests;
