//! For how long nobody led, by the true time (I10, P6, P7), and whether a seizure had its evidence (P5).
//!
//! A holder leads from its acquisition until its word runs out, counted from the true moment at which its last accepted
//! renewal left it. An instance is able to take over from the moment on since which nothing was done to it and it ticks. Both
//! are looked at after every lease write and four times a second. A step-down is judged in two parts: from its mark to its
//! release, which is the holder's own to write, and from there to the next acquisition.
//!
//! A seizure needs a holder that stood still for max(row's TTL, mine) + `clock_margin`, counted on the seizer's own clocks from
//! the last write that was applied. Nothing that is done to anybody else excuses less; what is done to the seizer's clocks is
//! allowed for exactly: their drift, and of each jump forward what one look may count.

use std::time::Duration;

use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::timing::Timing;

use super::invocation::Caller;

/// What looking four times a second, drifting clocks and a call at each end add to a bound.
const SLACK: Duration = Duration::from_millis(1_500);

/// The present holder, in true time.
#[derive(Debug, Clone, Copy)]
struct Term {
    /// When the call of its last accepted write left it.
    confirmed: Duration,
    /// When that was applied.
    renewed: Duration,
    renewal: u64,
    lease_ttl: Duration,
    marked: Option<Duration>,
    released: Option<Duration>,
}

impl Term {
    /// A term that begins with a write that left its writer at `entered` and was applied at `at`.
    const fn begun(at: Duration, entered: Duration, record: &LeaseRecord) -> Self {
        Self {
            confirmed: entered,
            renewed: at,
            renewal: record.renewal,
            lease_ttl: record.lease_ttl,
            marked: None,
            released: None,
        }
    }
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
        self.term.is_some_and(|term| term.released.is_none() && term.marked.is_none() && now < self.word_ends(&term))
    }

    /// When the holder's word runs out, if it confirms it no more.
    fn word_ends(&self, term: &Term) -> Duration {
        term.confirmed + term.lease_ttl.saturating_sub(self.timing.clock_margin)
    }

    /// A standby is able to take over since `since`; `None`: nobody is.
    pub(crate) fn able_since(&mut self, since: Option<Duration>) {
        self.able_since = since;
    }

    /// The lease row was taken away or replaced by hand: nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.term = None;
        self.able_since = None;
    }

    /// The holder releases the lease at `at`, undisturbed since `healthy_since`; gives the rule that it breaks where its mark
    /// stands for longer than a step-down may take with claims in flight. Renewals in between put nothing off.
    pub(crate) fn released(&self, at: Duration, healthy_since: Option<Duration>) -> Option<(&'static str, String)> {
        let marked = self.term.filter(|term| term.released.is_none())?.marked?;
        let was_able = healthy_since.is_some_and(|since| since <= marked);
        let (took, bound) = (at.saturating_sub(marked), self.slackened(self.timing.handover_max(false)));
        (was_able && took > bound).then(|| {
            let (took, marked, bound) = (took.as_millis(), marked.as_millis(), bound.as_millis());
            (
                "P7",
                format!("the lease was released {took}ms after its mark at {marked}ms; at most {bound}ms are promised"),
            )
        })
    }

    /// The holder wrote, with a call that left it at `entered`. Tells whether it renewed later than it should have.
    pub(crate) fn written(&mut self, at: Duration, entered: Duration, record: &LeaseRecord) -> bool {
        let term = self.term.get_or_insert(Term::begun(at, entered, record));
        if record.owner.is_none() {
            term.released = term.released.or(Some(at));
            return false;
        }
        match record.stepping_down {
            Some(_) => term.marked = term.marked.or(Some(at)),
            None => term.marked = None,
        }
        let mut late = false;
        if record.renewal != term.renewal {
            let expected = self.timing.renew_interval + self.timing.jitter + self.timing.tick_interval * 2;
            late = at.saturating_sub(term.renewed) > expected;
            (term.confirmed, term.renewed, term.renewal) = (term.confirmed.max(entered), at, record.renewal);
        }
        term.lease_ttl = record.lease_ttl;
        late
    }

    /// Somebody took the lease; gives the rule that it broke by coming too late.
    pub(crate) fn acquired(
        &mut self,
        at: Duration,
        caller: &Caller,
        before: Option<&LeaseRecord>,
        record: &LeaseRecord,
    ) -> Option<(&'static str, String)> {
        let old = self.term.replace(Term::begun(at, caller.entered, record))?;
        let same_owner = before.is_some_and(|before| before.owner == record.owner);
        let seized = before.filter(|before| before.owner.is_some() && !same_owner);
        if let Some(early) = seized.and_then(|before| seized_early(&old, caller, before)) {
            return Some(("P5", early));
        }
        let (rule, from, bound) = match (old.released, old.marked) {
            (Some(released), _) => ("P7", released, self.timing.handover_max(true)),
            // Its holder never released it: a step-down falls back to the TTL, from the last renewal on.
            (None, Some(marked)) => ("P7", marked.max(old.renewed), self.timing.warm_takeover_max()),
            (None, None) if same_owner => return None,
            (None, None) => ("P6", old.renewed, self.timing.warm_takeover_max()),
        };
        let was_able = self.able_since.is_some_and(|since| since <= from);
        let (took, bound) = (at.saturating_sub(from), self.slackened(bound));
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

/// Whether a seizure over `before` came before its evidence was whole, by everything that the seizer can have counted since
/// the holder's last write was applied.
fn seized_early(old: &Term, seizer: &Caller, before: &LeaseRecord) -> Option<String> {
    let needed = before.lease_ttl.max(seizer.timing.lease_ttl) + seizer.timing.clock_margin;
    // One look counts a tick and a half at most; where the clock was set forward just before it, all of that is too much.
    let look_max = seizer.timing.tick_interval * 3 / 2;
    let counted = seizer.clock.counted_max(old.renewed, seizer.entered, look_max);
    (counted < needed).then(|| {
        let (counted, needed) = (counted.as_millis(), needed.as_millis());
        format!("the lease was seized when its holder had stood still for {counted}ms by the seizer's clock; it takes {needed}ms")
    })
}

#[cfg(test)]
mod tests {
    use fencepost_protocol::ids::{AttemptId, FencingToken, LeaseName, Stamp};
    use fencepost_protocol::lease::{AcquiredAs, StepDownReason, SteppingDown};
    use fencepost_protocol::time::Timestamp;

    use super::*;
    use crate::harness::settings;

    #[test]
    fn a_mark_that_outlasts_its_grace_is_found_whatever_was_renewed_since() {
        let settings = settings("east", &[]);
        let mark = SteppingDown { since: Timestamp::default(), reason: StepDownReason::StepDown };
        let record = |renewal, stepping_down| LeaseRecord {
            lease: LeaseName::new("telemetry").unwrap(),
            owner: Some(settings.identity.clone()),
            token: FencingToken::FIRST,
            renewal,
            lease_ttl: settings.timing.lease_ttl,
            confirmed_at: Timestamp::default(),
            acquired_as: AcquiredAs::Acquired,
            stepping_down,
            released: None,
            last_release: None,
            takeover_done: Stamp::NONE,
            takeover_try: 0,
            takeover_try_at: Timestamp::default(),
            attempt: AttemptId::new("a1").unwrap(),
        };
        let ms = Duration::from_millis;
        let mut leadership = Leadership::new(&settings.timing);
        leadership.written(ms(0), ms(0), &record(0, None));
        assert_eq!(leadership.released(ms(60_000), Some(ms(0))), None, "nothing was marked");
        leadership.written(ms(10_000), ms(10_000), &record(1, Some(mark)));
        leadership.written(ms(20_000), ms(20_000), &record(2, Some(mark)));
        // Profile fast: 5s of grace, two ticks and calls of 7s in all, 1% and 1.5s.
        let late = |at, healthy_since| leadership.released(ms(at), Some(ms(healthy_since))).map(|(rule, _)| rule);
        assert_eq!((late(23_620, 0), late(23_621, 0)), (None, Some("P7")));
        assert_eq!(late(60_000, 10_001), None, "it was disturbed");
        assert_eq!(leadership.released(ms(60_000), None), None);
        leadership.written(ms(24_000), ms(24_000), &record(3, None));
        assert_eq!(leadership.released(ms(60_000), Some(ms(0))), None, "the mark was taken back");
    }
}
