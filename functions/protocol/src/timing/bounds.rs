//! How long a change of holder may take, by the durations alone (promises P6 and P7).

use std::time::Duration;

use super::Timing;

impl Timing {
    /// From the last renewal of a holder that crashed to the acquisition by a standby that ticks, when one lease call takes
    /// `lease_call`: TTL + margin + two ticks (P6).
    pub fn warm_takeover_bound(&self, lease_call: Duration) -> Duration {
        self.lease_ttl.saturating_add(self.clock_margin).saturating_add(self.two_ticks(lease_call))
    }

    /// [`Timing::warm_takeover_bound`] with lease calls that take all the time they may.
    pub fn warm_takeover_max(&self) -> Duration {
        self.warm_takeover_bound(self.renew_call_timeout)
    }

    /// The same by a standby that begins to tick only when the crashed holder's TTL is over: it must see the row stand still
    /// for a whole TTL of its own.
    pub fn cold_takeover_max(&self) -> Duration {
        self.warm_takeover_max().saturating_add(self.lease_ttl)
    }

    /// From a step-down's mark to the acquisition by a standby that ticks, when one lease call takes `lease_call`: two ticks,
    /// and unless the outbox is `idle` (nothing in flight) the grace before them (P7).
    pub fn handover_bound(&self, idle: bool, lease_call: Duration) -> Duration {
        let grace = if idle { Duration::ZERO } else { self.step_down_grace };
        grace.saturating_add(self.two_ticks(lease_call))
    }

    /// [`Timing::handover_bound`] with lease calls that take all the time they may.
    pub fn handover_max(&self, idle: bool) -> Duration {
        self.handover_bound(idle, self.renew_call_timeout)
    }

    fn two_ticks(&self, lease_call: Duration) -> Duration {
        self.tick_interval.saturating_add(lease_call).saturating_mul(2)
    }
}
