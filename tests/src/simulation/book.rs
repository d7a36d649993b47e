//! The book of faults: which call meets which, by chance in a storm or because it was placed there.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_storage::operation;

use super::act::Outage;
use super::fault::{CallFault, Fault, platform};
use crate::chance::{Chance, number_of};

/// What a call may meet beside a whole failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Read,
    Write,
    Many,
    Send,
    Invoke,
    Bus,
    Start,
    Schedule,
    Stream,
    Deliver,
}

/// A time in which calls fail by chance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storm {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// Calls of a thousand that meet a fault.
    pub(crate) per_mille: u64,
    /// Only this instance's calls.
    pub(crate) instance: Option<usize>,
    /// The longest delay of a slow call, in milliseconds.
    pub(crate) slow_ms_max: u64,
    /// May processes die?
    pub(crate) crashes: bool,
    /// Only this call, and always with this fault: for something that fails in one way for long.
    pub(crate) only: Option<(&'static str, CallFault)>,
}

/// How a call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Course {
    pub(crate) number: u64,
    pub(crate) fault: Option<CallFault>,
    pub(crate) before: Duration,
    pub(crate) after: Duration,
    /// By an outage: it has no call of its own in the list of faults.
    pub(crate) outage: bool,
}

/// Who calls what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Duration,
    pub(crate) instance: usize,
    pub(crate) operation: &'static str,
    /// Is a process at work that could die?
    pub(crate) in_process: bool,
}

/// The book.
#[derive(Debug)]
pub(crate) struct Book {
    seed: u64,
    names: Vec<String>,
    latency_ms_max: u64,
    placed: Vec<BTreeMap<String, BTreeMap<u64, CallFault>>>,
    counts: Vec<BTreeMap<&'static str, u64>>,
    storms: Vec<Storm>,
    outages: Vec<(Outage, Option<usize>, FailureKind)>,
    met: Vec<Fault>,
}

impl Book {
    pub(crate) fn new(seed: u64, names: Vec<String>, latency_ms_max: u64) -> Self {
        let count = names.len();
        Self {
            seed,
            names,
            latency_ms_max,
            placed: vec![BTreeMap::new(); count],
            counts: vec![BTreeMap::new(); count],
            storms: Vec::new(),
            outages: Vec::new(),
            met: Vec::new(),
        }
    }

    pub(crate) fn set_storms(&mut self, storms: Vec<Storm>) {
        self.storms = storms;
    }

    /// The `number`th call of `operation` meets `fault`.
    pub(crate) fn place(&mut self, instance: usize, operation: &str, number: u64, fault: CallFault) {
        self.placed[instance].entry(operation.to_owned()).or_default().insert(number, fault);
    }

    /// How many calls of `operation` the instance has made.
    pub(crate) fn count(&self, instance: usize, operation: &str) -> u64 {
        self.counts[instance].get(operation).copied().unwrap_or(0)
    }

    pub(crate) fn begin(&mut self, outage: Outage, instance: Option<usize>, failure: FailureKind) {
        self.end(outage, instance);
        self.outages.push((outage, instance, failure));
    }

    pub(crate) fn end(&mut self, outage: Outage, instance: Option<usize>) {
        self.outages.retain(|(which, who, _)| (*which, *who) != (outage, instance));
    }

    /// No more faults of any kind.
    pub(crate) fn calm(&mut self) {
        self.outages.clear();
        self.storms.clear();
        self.placed.iter_mut().for_each(BTreeMap::clear);
    }

    /// Everything that was met, in order; acts are added by the world.
    pub(crate) fn met(&self) -> &[Fault] {
        &self.met
    }

    pub(crate) fn note(&mut self, fault: Fault) {
        self.met.push(fault);
    }

    /// Is the instance cut off from what a tick needs?
    pub(crate) fn cuts_off_ticks(&self, instance: usize) -> bool {
        let cuts = |outage| matches!(outage, Outage::Tables | Outage::Lease | Outage::LeaseWrites | Outage::Outbox);
        self.outages.iter().any(|(outage, who, _)| who.is_none_or(|who| who == instance) && cuts(*outage))
    }

    /// Counts a call and says how it goes.
    pub(crate) fn course(&mut self, asked: Asked) -> Course {
        let Asked { at, instance, operation, in_process } = asked;
        let number = self.counts[instance].entry(operation).or_default();
        *number += 1;
        let number = *number;
        let mut chance =
            Chance::keyed(self.seed, &[u64::try_from(instance).unwrap_or(0), number_of(operation), number]);
        let class = class_of(operation);
        let (before, after) = match class {
            Class::Schedule | Class::Stream | Class::Deliver => (Duration::ZERO, Duration::ZERO),
            _ => (self.latency(&mut chance), self.latency(&mut chance)),
        };
        let placed = self.placed[instance].get(operation).and_then(|by_number| by_number.get(&number)).cloned();
        let drawn = || {
            let storm = self.storms.iter().find(|storm| {
                let fits = storm.only.as_ref().is_none_or(|(only, _)| *only == operation);
                storm.from <= at && at < storm.to && storm.instance.is_none_or(|who| who == instance) && fits
            })?;
            if let Some((_, fault)) = &storm.only {
                return Some(fault.clone());
            }
            chance.in_thousand(storm.per_mille).then(|| draw(&mut chance, class, storm, in_process)).flatten()
        };
        let fault = placed.or_else(drawn);
        if let Some(fault) = &fault {
            self.met.push(Fault::Call {
                instance: self.names[instance].clone(),
                operation: operation.to_owned(),
                number,
                fault: fault.clone(),
            });
        }
        let outage = if fault.is_none() { self.outage(instance, operation) } else { None };
        Course { number, outage: outage.is_some(), fault: fault.or(outage), before, after }
    }

    fn latency(&self, chance: &mut Chance) -> Duration {
        let most = self.latency_ms_max.max(1);
        Duration::from_millis(if most <= 2 { most } else { chance.between(1, most) })
    }

    fn outage(&self, instance: usize, name: &str) -> Option<CallFault> {
        let hit = |outage: Outage| match outage {
            Outage::Tables => is_lease(name) || is_outbox(name),
            Outage::Lease => is_lease(name),
            Outage::LeaseWrites => matches!(name, operation::WRITE_LEASE | operation::WRITE_INSTANCE),
            Outage::Outbox => is_outbox(name),
            Outage::Queue => name == operation::SEND,
            Outage::Bus => name == platform::PUT_EVENTS,
        };
        let (_, _, failure) =
            self.outages.iter().find(|(outage, who, _)| who.is_none_or(|who| who == instance) && hit(*outage))?;
        Some(match failure {
            FailureKind::Throttled => CallFault::Throttled,
            FailureKind::Denied => CallFault::Denied,
            FailureKind::TimedOut => CallFault::TimeoutBefore,
            FailureKind::Unavailable | FailureKind::Invalid => CallFault::ErrorBefore,
        })
    }
}

fn is_lease(name: &str) -> bool {
    use operation::{READ_GROUP, READ_LEASE, WRITE_INSTANCE, WRITE_LEASE};
    [READ_GROUP, READ_LEASE, WRITE_LEASE, WRITE_INSTANCE].contains(&name)
}

fn is_outbox(name: &str) -> bool {
    !is_lease(name) && name != operation::SEND && matches!(class_of(name), Class::Read | Class::Write | Class::Many)
}

fn class_of(name: &str) -> Class {
    match name {
        operation::SEND => Class::Send,
        operation::PUT_MANY
        | operation::CLAIM
        | operation::HAND_BACK
        | operation::WRITE_TOMBSTONES
        | operation::COMMIT => Class::Many,
        operation::READ_GROUP
        | operation::READ_LEASE
        | operation::PAGE
        | operation::ROW
        | operation::TOMBSTONES
        | operation::DEAD_PAGE
        | operation::READ_FENCE
        | operation::IS_ENABLED => Class::Read,
        platform::INVOKE_LEASE | platform::INVOKE_DRAINER | platform::INVOKE_INGEST => Class::Invoke,
        platform::PUT_EVENTS => Class::Bus,
        platform::START_EXECUTION => Class::Start,
        platform::SCHEDULE_LEASE_CYCLE | platform::SCHEDULE_DRAIN => Class::Schedule,
        platform::STREAM => Class::Stream,
        platform::DELIVER => Class::Deliver,
        _ => Class::Write,
    }
}

/// A fault that fits the call.
fn draw(chance: &mut Chance, class: Class, storm: &Storm, in_process: bool) -> Option<CallFault> {
    let slow = CallFault::Slow { ms: chance.between(50, storm.slow_ms_max.max(50)) };
    let rows = u32::try_from(chance.number() & u64::from(u32::MAX)).unwrap_or(u32::MAX) | 1;
    let mut kinds = match class {
        Class::Read => vec![CallFault::Throttled, CallFault::TimeoutBefore, CallFault::ErrorBefore, slow],
        Class::Write | Class::Start => vec![
            CallFault::Throttled,
            CallFault::TimeoutBefore,
            CallFault::TimeoutAfter,
            CallFault::ErrorBefore,
            CallFault::ErrorAfter,
            slow,
        ],
        Class::Many => vec![
            CallFault::Throttled,
            CallFault::TimeoutBefore,
            CallFault::TimeoutAfter,
            CallFault::ErrorAfter,
            slow,
            CallFault::RowsBefore { rows },
            CallFault::RowsAfter { rows },
        ],
        Class::Send => vec![
            CallFault::Throttled,
            CallFault::TimeoutBefore,
            CallFault::TimeoutAfter,
            CallFault::ErrorBefore,
            CallFault::ErrorAfter,
            slow,
            CallFault::Refused { rows },
            CallFault::RefusedForGood { rows: 1 << (rows % 10) },
            CallFault::Unmentioned { rows },
            CallFault::Lost { rows },
            CallFault::MentionedTwice { rows },
            CallFault::Renamed { rows },
        ],
        Class::Invoke => vec![CallFault::Throttled, CallFault::ErrorBefore, slow],
        Class::Bus => vec![CallFault::Throttled, CallFault::TimeoutBefore, CallFault::ErrorAfter],
        Class::Schedule => {
            vec![CallFault::Missing, CallFault::Twice, CallFault::Slow { ms: chance.between(1, 59_000) }]
        }
        Class::Stream => vec![CallFault::Missing, CallFault::Twice, slow],
        Class::Deliver => vec![CallFault::Twice, slow],
    };
    if matches!(class, Class::Read | Class::Write | Class::Many) {
        // Denied is an operator's mistake: rarer than what a network does by itself.
        if chance.in_thousand(30) {
            return Some(CallFault::Denied);
        }
    }
    if in_process && storm.crashes && matches!(class, Class::Read | Class::Write | Class::Many | Class::Send) {
        kinds.extend([CallFault::CrashBefore, CallFault::CrashAfter]);
    }
    Some(chance.pick(&kinds).clone())
}
