//! I10: for how long nobody led although somebody could have.

use std::time::Duration;

use super::{Invariant, Violation};
use crate::time::Timestamp;

/// Watches for a vacancy that is too long.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Vacancy {
    max: Option<Duration>,
    somebody_leads: bool,
    able: bool,
    since: Option<Timestamp>,
}

impl Vacancy {
    /// Nobody leads, and nobody is able to, until it is observed otherwise.
    pub(super) const fn new(max: Option<Duration>) -> Self {
        Self { max, somebody_leads: false, able: false, since: None }
    }

    pub(super) fn leading(&mut self, at: Timestamp, somebody: bool) -> Option<Violation> {
        self.somebody_leads = somebody;
        self.changed(at)
    }

    pub(super) fn able(&mut self, at: Timestamp, able: bool) -> Option<Violation> {
        self.able = able;
        self.changed(at)
    }

    pub(super) fn end(&mut self, at: Timestamp) -> Option<Violation> {
        self.judge(at)
    }

    fn changed(&mut self, at: Timestamp) -> Option<Violation> {
        let is_vacant = self.able && !self.somebody_leads;
        match (self.since, is_vacant) {
            (None, true) => {
                self.since = Some(at);
                None
            }
            (Some(_), false) => {
                let violation = self.judge(at);
                self.since = None;
                violation
            }
            (None, false) | (Some(_), true) => None,
        }
    }

    fn judge(&self, at: Timestamp) -> Option<Violation> {
        let (max, vacant) = (self.max?, at.since(self.since?));
        (vacant > max).then(|| {
            let what = format!("nobody led for {}ms; at most {}ms are allowed", vacant.as_millis(), max.as_millis());
            Violation::new(Invariant::I10, what)
        })
    }
}
