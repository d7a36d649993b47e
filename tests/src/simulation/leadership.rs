//! For how long nobody led, by the true time (I10, P6, P7).
//!
//! A holder leads from its acquisition until its word runs out, counted from the true moment at which its last accepted
//! renewal left it. An instance is able to take over from the moment on since which nothing was done to it and it ticks. Both
//! are looked at after every lease write and four times a second.

use std::time::Duration;

use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::timing::Timing;

/// What looking four times a second, drifting clocks and a call at each end add to a bound.
const SLACK: Duration = Duration::from_millis(1_500);

/// The present holder, in true time.
#[derive(Debug, Clone, Copy)]
struct Term {
    confirmed: Duration,
    lease_ttl: Duration,
    marked: Option<Duration>,
    released: bool,
}

/// Who leads, and for how long nobody did.
#[derive(Debug)]
pub(crate) struct Leadership {
    timing: Timing,
    term: Option<Term>,
    /// Since when somebody beside the holder has been able to take over.
    able_since: Option<Duration>,
}

impl Leadership {
    pub(crate) fn new(timing: &Timing) -> Self {
        Self { timing: *timing, term: None, able_since: None }
    }

    /// The longest that nobody may lead although somebody is able to: P6 for a standby that begins to tick only now.
    pub(crate) fn vacancy_max(&self) -> Duration {
        self.slackened(self.timing.warm_takeover_max())
    }

    /// Clocks may run one part in a hundred too slow.
    fn slackened(&self, bound: Duration) -> Duration {
        bound + bound / 100 + SLACK
    }

    /// Does somebody lead?
    pub(crate) fn leads(&self, now: Duration) -> bool {
        self.term.is_some_and(|term| {
            let until = term.confirmed + term.lease_ttl.saturating_sub(self.timing.clock_margin);
            !term.released && term.marked.is_none() && now < until
        })
    }

    /// A standby is able to take over since `since`; `None`: nobody is.
    pub(crate) fn able_since(&mut self, since: Option<Duration>) {
        self.able_since = since;
    }

    /// The lease row was changed by hand: nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.term = None;
        self.able_since = None;
    }

    /// The holder wrote, with a call that left it at `entered`.
    pub(crate) fn written(&mut self, at: Duration, entered: Duration, record: &LeaseRecord) {
        let Some(term) = &mut self.term else { return };
        if record.owner.is_none() {
            term.released = true;
            return;
        }
        match record.stepping_down {
            Some(_) => term.marked = term.marked.or(Some(at)),
            None => term.marked = None,
        }
        term.confirmed = term.confirmed.max(entered);
        term.lease_ttl = record.lease_ttl;
    }

    /// Somebody took the lease; gives the rule that it broke by coming too late.
    pub(crate) fn acquired(
        &mut self,
        at: Duration,
        before: Option<&LeaseRecord>,
        record: &LeaseRecord,
    ) -> Option<(&'static str, String)> {
        let new = Term { confirmed: at, lease_ttl: record.lease_ttl, marked: None, released: false };
        let old = self.term.replace(new)?;
        let same_owner = before.is_some_and(|before| before.owner == record.owner);
        let (rule, from, bound) = match old.marked {
            Some(marked) => ("P7", marked, self.timing.handover_max(false)),
            None if old.released || same_owner => return None,
            None => ("P6", old.confirmed, self.timing.warm_takeover_max()),
        };
        let was_able = self.able_since.is_some_and(|since| since <= from);
        let (took, bound) = (at.saturating_sub(from), self.slackened(bound));
        // Without a release in time a step-down falls back to the TTL.
        let bound = if rule == "P7" && !old.released { bound.max(self.vacancy_max()) } else { bound };
        (was_able && took > bound).then(|| {
            (
                rule,
                format!(
                    "the lease changed hands {}ms after {}ms; at most {}ms are promised",
                    took.as_millis(),
                    from.as_millis(),
                    bound.as_millis()
                ),
            )
        })
    }
}
