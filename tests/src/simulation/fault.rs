//! Faults as data: what goes wrong, and at which call or at which time.
//!
//! One fault is one line of JSON. A run writes down every fault that it met, drawn by chance or placed by hand; the same lines
//! fed back make the same run.

use std::fmt;

use fencepost_protocol::failure::FailureKind;
use serde::{Deserialize, Serialize};

use super::act::Act;

/// Calls of the platform that can go wrong beside the calls to a store, the queue or the source
/// ([`fencepost_storage::operation`]).
pub mod platform {
    /// An invocation of the lease function.
    pub const INVOKE_LEASE: &str = "invoke_lease";
    /// An invocation of the drainer.
    pub const INVOKE_DRAINER: &str = "invoke_drainer";
    /// An invocation of ingest.
    pub const INVOKE_INGEST: &str = "invoke_ingest";
    /// Events put on the bus.
    pub const PUT_EVENTS: &str = "put_events";
    /// A start of an execution by a machine.
    pub const START_EXECUTION: &str = "start_execution";
    /// The schedule of the tick loop.
    pub const SCHEDULE_LEASE_CYCLE: &str = "schedule_lease_cycle";
    /// The schedule of the drain.
    pub const SCHEDULE_DRAIN: &str = "schedule_drain";
    /// A record of the outbox's stream.
    pub const STREAM: &str = "stream";
    /// An event of the topic rule on its way to ingest.
    pub const DELIVER: &str = "deliver";
}

/// What goes wrong with one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallFault {
    /// Asked to slow down. Not applied.
    Throttled,
    /// Access denied. Not applied.
    Denied,
    /// No answer in time, and nothing applied.
    TimeoutBefore,
    /// Applied, and no answer in time: the reply is lost.
    TimeoutAfter,
    /// A 5xx, and nothing applied.
    ErrorBefore,
    /// A 5xx although it was applied.
    ErrorAfter,
    /// It takes effect so much later. A caller that has given up by then is overtaken by its own write.
    Slow {
        /// By how much, in milliseconds.
        ms: u64,
    },
    /// The process dies before the call leaves it.
    CrashBefore,
    /// The process dies after the call was applied and before it hears so.
    CrashAfter,
    /// Some rows of a call of many fail and are not applied; bit n stands for row n, n + 32, ….
    RowsBefore {
        /// Which.
        rows: u32,
    },
    /// Some rows of a call of many are applied and reported as failed.
    RowsAfter {
        /// Which.
        rows: u32,
    },
    /// Some entries of a batch to the queue are refused, for now.
    Refused {
        /// Which.
        rows: u32,
    },
    /// Some entries are refused with a permanent code.
    RefusedForGood {
        /// Which.
        rows: u32,
    },
    /// Some entries are accepted and not mentioned in the reply.
    Unmentioned {
        /// Which.
        rows: u32,
    },
    /// Some entries are neither accepted nor mentioned.
    Lost {
        /// Which.
        rows: u32,
    },
    /// Some entries are accepted and mentioned twice.
    MentionedTwice {
        /// Which.
        rows: u32,
    },
    /// Some entries are accepted and mentioned under an id that nobody gave.
    Renamed {
        /// Which.
        rows: u32,
    },
    /// It does not happen: a schedule that misses, a stream record that is lost.
    Missing,
    /// It happens twice at once.
    Twice,
}

impl CallFault {
    /// Its name, without its numbers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::TimeoutBefore => "timeout_before",
            Self::TimeoutAfter => "timeout_after",
            Self::ErrorBefore => "error_before",
            Self::ErrorAfter => "error_after",
            Self::Slow { .. } => "slow",
            Self::CrashBefore => "crash_before",
            Self::CrashAfter => "crash_after",
            Self::RowsBefore { .. } => "rows_before",
            Self::RowsAfter { .. } => "rows_after",
            Self::Refused { .. } => "refused",
            Self::RefusedForGood { .. } => "refused_for_good",
            Self::Unmentioned { .. } => "unmentioned",
            Self::Lost { .. } => "lost",
            Self::MentionedTwice { .. } => "mentioned_twice",
            Self::Renamed { .. } => "renamed",
            Self::Missing => "missing",
            Self::Twice => "twice",
        }
    }

    /// As what a caller sees it who is told of a failure of the whole call.
    pub(crate) const fn failure(&self) -> Option<FailureKind> {
        match self {
            Self::Throttled => Some(FailureKind::Throttled),
            Self::Denied => Some(FailureKind::Denied),
            Self::TimeoutBefore | Self::TimeoutAfter => Some(FailureKind::TimedOut),
            Self::ErrorBefore | Self::ErrorAfter => Some(FailureKind::Unavailable),
            _ => None,
        }
    }
}

/// Is row `index` among `rows`?
pub(crate) const fn has_row(rows: u32, index: usize) -> bool {
    rows & (1 << (index % 32)) != 0
}

/// One fault of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// At an exact call.
    Call {
        /// Whose call.
        instance: String,
        /// Which, by its name in [`fencepost_storage::operation`] or [`platform`].
        operation: String,
        /// The how manieth request of that name by that instance, from 1. What an adapter tries again is a request more.
        number: u64,
        /// What happens.
        fault: CallFault,
    },
    /// At a time.
    At {
        /// Milliseconds since the beginning of the run.
        ms: u64,
        /// What happens.
        act: Act,
    },
}

impl Fault {
    /// Its kind in one word, for counts.
    pub fn kind(&self) -> String {
        match self {
            Self::Call { operation, fault, .. } if is_platform(operation) => format!("{operation} {}", fault.name()),
            Self::Call { fault, .. } => fault.name().to_owned(),
            Self::At { act, .. } => act.kind().to_owned(),
        }
    }

    /// The instance that it befalls; `None` where it befalls the whole world.
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::Call { instance, .. } => Some(instance),
            Self::At { act, .. } => act.instance(),
        }
    }
}

fn is_platform(operation: &str) -> bool {
    use platform::{DELIVER, SCHEDULE_DRAIN, SCHEDULE_LEASE_CYCLE, STREAM};
    [DELIVER, SCHEDULE_DRAIN, SCHEDULE_LEASE_CYCLE, STREAM].contains(&operation)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&line)
    }
}

/// Reads faults, one JSON object a line; empty lines are passed over.
///
/// # Errors
/// Says which line is none, and why.
pub fn parse_faults(text: &str) -> Result<Vec<Fault>, String> {
    parse_lines(text, |_| Ok(()))
}

/// Reads faults as [`parse_faults`] does, for a world of these instances.
///
/// # Errors
/// Says which line is none, or befalls an instance that is not among `instances`.
pub fn parse_faults_of(text: &str, instances: &[String]) -> Result<Vec<Fault>, String> {
    parse_lines(text, |fault| match fault.instance() {
        Some(name) if !instances.iter().any(|known| known == name) => {
            Err(format!("there is no instance {name:?}; there are {}", instances.join(", ")))
        }
        _ => Ok(()),
    })
}

fn parse_lines(text: &str, check: impl Fn(&Fault) -> Result<(), String>) -> Result<Vec<Fault>, String> {
    let parse = |line: &str| {
        let fault = serde_json::from_str(line).map_err(|error| error.to_string())?;
        check(&fault)?;
        Ok(fault)
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| parse(line).map_err(|problem: String| format!("line {}: {problem}", index + 1))).collect()
}
