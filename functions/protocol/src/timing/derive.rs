//! From a profile and what a user set to a value for every duration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{RenewFailurePolicy, Timing};
use crate::time::duration_ms;

/// A named set of durations to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Few calls, patient: a crash is taken over in about five minutes.
    #[default]
    Durable,
    /// A crash is taken over in about 16.5s plus the calls; a planned handover of an idle outbox in 2s plus the calls.
    Fast,
}

impl Profile {
    /// The profile of this name: `durable` or `fast`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "durable" => Some(Self::Durable),
            "fast" => Some(Self::Fast),
            _ => None,
        }
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Fast => "fast",
        }
    }

    /// What the profile sets. Everything else is derived.
    pub fn base(self) -> TimingOverrides {
        match self {
            Self::Durable => TimingOverrides::default(),
            Self::Fast => TimingOverrides {
                lease_ttl: Some(Duration::from_secs(14)),
                max_renew_fails: Some(1),
                renew_failure_policy: Some(RenewFailurePolicy::Demote),
                renew_interval: Some(Duration::from_secs(5)),
                renew_call_timeout: Some(Duration::from_millis(2_500)),
                tick_interval: Some(Duration::from_secs(1)),
                claim_budget: Some(Duration::from_secs(2)),
                send_timeout: Some(Duration::from_millis(2_500)),
                drainer_limit: Some(Duration::from_secs(10)),
                step_down_grace: Some(Duration::from_secs(5)),
                stale_claim_duration: Some(Duration::from_secs(20)),
                ..TimingOverrides::default()
            },
        }
    }
}

/// The durations that somebody set; the fields are those of [`Timing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TimingOverrides {
    /// [`Timing::lease_ttl`].
    pub lease_ttl: Option<Duration>,
    /// [`Timing::max_renew_fails`].
    pub max_renew_fails: Option<u32>,
    /// [`Timing::renew_failure_policy`].
    pub renew_failure_policy: Option<RenewFailurePolicy>,
    /// [`Timing::renew_interval`].
    pub renew_interval: Option<Duration>,
    /// [`Timing::renew_call_timeout`].
    pub renew_call_timeout: Option<Duration>,
    /// [`Timing::jitter`].
    pub jitter: Option<Duration>,
    /// [`Timing::tick_interval`].
    pub tick_interval: Option<Duration>,
    /// [`Timing::clock_margin`].
    pub clock_margin: Option<Duration>,
    /// [`Timing::claim_budget`].
    pub claim_budget: Option<Duration>,
    /// [`Timing::send_timeout`].
    pub send_timeout: Option<Duration>,
    /// [`Timing::drainer_limit`].
    pub drainer_limit: Option<Duration>,
    /// [`Timing::step_down_grace`].
    pub step_down_grace: Option<Duration>,
    /// [`Timing::stale_claim_duration`].
    pub stale_claim_duration: Option<Duration>,
    /// [`Timing::dedupe_window`].
    pub dedupe_window: Option<Duration>,
    /// [`Timing::failover_slo`].
    pub failover_slo: Option<Duration>,
}

impl TimingOverrides {
    /// What is set here, and where nothing is, what is set in `base`.
    pub fn or_else(&self, base: &Self) -> Self {
        Self {
            lease_ttl: self.lease_ttl.or(base.lease_ttl),
            max_renew_fails: self.max_renew_fails.or(base.max_renew_fails),
            renew_failure_policy: self.renew_failure_policy.or(base.renew_failure_policy),
            renew_interval: self.renew_interval.or(base.renew_interval),
            renew_call_timeout: self.renew_call_timeout.or(base.renew_call_timeout),
            jitter: self.jitter.or(base.jitter),
            tick_interval: self.tick_interval.or(base.tick_interval),
            clock_margin: self.clock_margin.or(base.clock_margin),
            claim_budget: self.claim_budget.or(base.claim_budget),
            send_timeout: self.send_timeout.or(base.send_timeout),
            drainer_limit: self.drainer_limit.or(base.drainer_limit),
            step_down_grace: self.step_down_grace.or(base.step_down_grace),
            stale_claim_duration: self.stale_claim_duration.or(base.stale_claim_duration),
            dedupe_window: self.dedupe_window.or(base.dedupe_window),
            failover_slo: self.failover_slo.or(base.failover_slo),
        }
    }
}

/// Fills every gap of `set`. Nothing is checked here; nothing here can overflow.
pub(super) fn derive(set: &TimingOverrides) -> Timing {
    let lease_ttl = set.lease_ttl.unwrap_or(Duration::from_secs(300));
    let max_renew_fails = set.max_renew_fails.unwrap_or(3);
    let renew_interval = set.renew_interval.unwrap_or_else(|| renew_interval(lease_ttl, max_renew_fails));
    let step_down_grace = set.step_down_grace.unwrap_or(Duration::from_secs(20));
    Timing {
        lease_ttl,
        max_renew_fails,
        renew_failure_policy: set.renew_failure_policy.unwrap_or(RenewFailurePolicy::Verify),
        renew_interval,
        renew_call_timeout: set.renew_call_timeout.unwrap_or_else(|| renew_call_timeout(renew_interval)),
        jitter: set.jitter.unwrap_or_else(|| whole_ms(renew_interval / 8)),
        tick_interval: set.tick_interval.unwrap_or_else(|| tick_interval(renew_interval, lease_ttl)),
        clock_margin: set.clock_margin.unwrap_or(Duration::from_millis(500)),
        claim_budget: set.claim_budget.unwrap_or(Duration::from_secs(10)),
        send_timeout: set.send_timeout.unwrap_or(Duration::from_secs(5)),
        drainer_limit: set.drainer_limit.unwrap_or(Duration::from_secs(30)),
        step_down_grace,
        stale_claim_duration: set
            .stale_claim_duration
            .unwrap_or(step_down_grace.saturating_add(Duration::from_secs(15))),
        dedupe_window: set.dedupe_window.unwrap_or(Duration::from_secs(5 * 24 * 60 * 60)),
        failover_slo: set.failover_slo,
    }
}

/// Three quarters of the TTL are the renewals' budget, shared by those that may fail; of each share a reserve stays for the
/// call and the tick, and a ninth for the jitter.
fn renew_interval(lease_ttl: Duration, max_renew_fails: u32) -> Duration {
    let budget = lease_ttl.saturating_mul(3) / max_renew_fails.max(1).saturating_mul(4);
    let reserve = (budget / 2).min(Duration::from_secs(5));
    whole_ms(budget.saturating_sub(reserve).saturating_mul(8) / 9)
}

fn renew_call_timeout(renew_interval: Duration) -> Duration {
    whole_ms(renew_interval / 2).clamp(Duration::from_millis(500), Duration::from_secs(5))
}

/// Whole seconds, rounded down; 0s where even a second is too long, which the rules then refuse.
fn tick_interval(renew_interval: Duration, lease_ttl: Duration) -> Duration {
    Duration::from_secs(renew_interval.min(lease_ttl / 4).min(Duration::from_secs(5)).as_secs())
}

fn whole_ms(duration: Duration) -> Duration {
    Duration::from_millis(duration_ms(duration))
}
