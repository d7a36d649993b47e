//! The whole state: time, store, hosts, what is under way, and the judge.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::ids::{AttemptId, ClaimId, FencingToken, MessageId};
use fencepost_protocol::invariants::{Audit, AuditTerms, Observation};
use fencepost_protocol::lease::Carried;
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::{Reading, Timestamp};

use crate::bounds::{Bounds, START_MS};
use crate::draining::Call;
use crate::redriving::Operator;
use crate::rules::Breach;
use crate::store::{Store, Write};
use crate::ticking::Ticking;

/// The world's clock at second 0.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_ms(START_MS)
}

/// An instance beside its records.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Host {
    /// Is the loop that ticks gone?
    pub(crate) down: bool,
    /// The loop's variable.
    pub(crate) carried: Carried,
    /// Ticks begun within this second.
    pub(crate) begun: u8,
    /// Until when a tick of this instance has said that it holds the lease, and under which token: by its own clock, which
    /// has not stepped since the lease was confirmed.
    pub(crate) belief: Option<(FencingToken, Timestamp)>,
    /// Has its clock stepped since its last lease write?
    pub(crate) is_out_of_step: bool,
    /// What the wall clock shows beyond the true time.
    pub(crate) wall_ahead_s: i64,
    /// For how long its present processes stood still.
    pub(crate) frozen_s: u64,
}

/// The state of a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// Seconds since the beginning.
    pub(crate) now_s: u64,
    /// What may still go wrong, be asked for, begin.
    pub(crate) left: Left,
    /// The tables.
    pub(crate) store: Store,
    /// The instances.
    pub(crate) hosts: Vec<Host>,
    /// Ticks between their read and their last call.
    pub(crate) ticks: Vec<Arc<Ticking>>,
    /// Writes that nobody waits for any more.
    pub(crate) late: Vec<Arc<Write>>,
    /// Drain calls.
    pub(crate) calls: Vec<Arc<Call>>,
    /// Redrives.
    pub(crate) operators: Vec<Arc<Operator>>,
    /// A step-down finds rows in flight.
    pub(crate) busy: bool,
    /// Messages of which a record was committed.
    pub(crate) committed: BTreeSet<MessageId>,
    /// The judge.
    pub(crate) audit: Arc<Audit>,
    /// The first rule that was broken, if any.
    pub(crate) broken: Option<Breach>,
}

/// What is left of the bounds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) faults: u8,
    pub(crate) disturbed_looks: Option<u8>,
    pub(crate) commands: u8,
    pub(crate) calls: u8,
    pub(crate) redrives: u8,
    pub(crate) redeliveries: u8,
}

impl World {
    /// Nobody holds anything; the messages are stored.
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let drains = bounds.drains;
        let terms =
            AuditTerms { ordered: drains.is_some_and(|drains| drains.ordered), vacancy_max: bounds.vacancy_max };
        let mut world = Self {
            now_s: 0,
            left: Left {
                faults: bounds.faults,
                disturbed_looks: bounds.disturbed_looks,
                commands: bounds.commands,
                calls: drains.map_or(0, |drains| drains.calls),
                redrives: drains.map_or(0, |drains| drains.redrives),
                redeliveries: drains.map_or(0, |drains| drains.redeliveries),
            },
            store: Store::new(bounds.cast.len()),
            hosts: vec![Host::default(); bounds.cast.len()],
            ticks: Vec::new(),
            late: Vec::new(),
            calls: Vec::new(),
            operators: Vec::new(),
            busy: false,
            committed: BTreeSet::new(),
            audit: Arc::new(Audit::new(terms)),
            broken: None,
        };
        for (host, ahead) in world.hosts.iter_mut().zip(bounds.wall_ahead_s) {
            host.wall_ahead_s = *ahead;
        }
        for row in bounds.rows() {
            world.ingest(row);
        }
        if bounds.vacancy_max.is_some() {
            world.observe(Observation::Able { at: world.now(), able: true });
        }
        world
    }

    /// The world's time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(START_MS + self.now_s * 1000)
    }

    /// Both clocks of an instance's host. The second host is ahead of the first by `ahead`.
    pub(crate) fn reading(&self, who: usize, ahead: Duration) -> Reading {
        let host = &self.hosts[who];
        let wall = Timestamp::from_ms((START_MS + self.now_s * 1000).saturating_add_signed(host.wall_ahead_s * 1000));
        let monotonic = Duration::from_secs(1_000 + self.now_s - host.frozen_s);
        Reading { wall: wall.plus(ahead), monotonic }
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        Arc::make_mut(&mut self.audit).observe(observation);
    }

    /// Notes a broken rule; the first one stays.
    pub(crate) fn breach(&mut self, rule: &'static str, what: String) {
        self.broken.get_or_insert(Breach { rule, what });
    }

    /// An attempt id that nothing in the world bears or waits for.
    pub(crate) fn fresh_attempt(&self) -> AttemptId {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        if let Slot::Present(record) = &*self.store.lease {
            used.insert(record.attempt.as_str());
        }
        used.extend(self.store.fence.iter().map(|fence| fence.attempt.as_str()));
        for tick in &self.ticks {
            used.extend(tick.attempts().into_iter().flatten());
        }
        for write in &self.late {
            used.extend(write.attempts().into_iter().flatten());
        }
        AttemptId::new(unused("a", &used)).unwrap()
    }

    /// A claim id that nothing in the world bears or waits for. Where order is kept the judge remembers pages by their ids, so
    /// none is used twice.
    pub(crate) fn fresh_claim(&self, call: &Call) -> ClaimId {
        if call.terms.policy.ordered {
            return ClaimId::new(format!("c{}.{}", call.number, call.pages)).unwrap();
        }
        let mut used: BTreeSet<&str> = BTreeSet::new();
        used.extend(self.store.claims());
        used.extend(self.calls.iter().flat_map(|call| call.claim.iter().chain(&call.settled)).map(ClaimId::as_str));
        used.extend(self.late.iter().filter_map(|write| write.claim()).map(ClaimId::as_str));
        ClaimId::new(unused("c", &used)).unwrap()
    }

    /// Makes equal what differs in nothing that can ever show.
    pub(crate) fn tidy(&mut self) {
        self.store.renumber(&mut self.ticks);
        for (who, host) in self.hosts.iter_mut().enumerate() {
            let idle = self.ticks.iter().all(|tick| tick.who != who) && self.calls.iter().all(|call| call.who != who);
            if idle {
                host.frozen_s = 0;
            }
        }
        let now = START_MS + self.now_s * 1000;
        for host in &mut self.hosts {
            let wall_ms = now.saturating_add_signed(host.wall_ahead_s * 1000);
            if host.belief.is_some_and(|(_, until)| until.as_ms() <= wall_ms) {
                host.belief = None;
            }
        }
        self.ticks.sort_by_key(|tick| tick.who);
    }
}

fn unused(prefix: &str, used: &BTreeSet<&str>) -> String {
    (1..).map(|number: u32| format!("{prefix}{number}")).find(|name| !used.contains(name.as_str())).unwrap()
}
