//! What can be done to a world at a time.

use fencepost_local::shipped::Machine;
use fencepost_protocol::failure::FailureKind;
use serde::{Deserialize, Serialize};

/// What an outage takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outage {
    /// Both tables.
    Tables,
    /// The lease table.
    Lease,
    /// Writes to the lease table, while reads go on.
    LeaseWrites,
    /// The outbox table.
    Outbox,
    /// The queue.
    Queue,
    /// The event bus.
    Bus,
}

/// How a lease row is damaged by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// The token is 0.
    TokenZero,
    /// The token is the largest that a number can be.
    TokenMax,
    /// A field is missing.
    FieldMissing,
    /// A field is of another kind.
    FieldOfWrongKind,
    /// The schema is newer than this code.
    NewerSchema,
}

/// Something that happens at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// The whole instance is gone where it stands: functions, executions, schedules.
    Kill {
        /// Which.
        instance: String,
    },
    /// A dead instance starts, cold.
    Start {
        /// Which.
        instance: String,
    },
    /// Nothing of the instance runs, and its monotonic clock stands still.
    Freeze {
        /// Which.
        instance: String,
    },
    /// It runs on where it stood.
    Thaw {
        /// Which.
        instance: String,
    },
    /// The wall clock of its hosts is set.
    StepClock {
        /// Which.
        instance: String,
        /// By how much, in milliseconds; negative: back.
        by_ms: i64,
    },
    /// Its hosts' clocks run too fast or too slow from now on.
    DriftClock {
        /// Which.
        instance: String,
        /// By how many parts of a million; negative: too slow.
        ppm: i32,
    },
    /// Its clocks are right again.
    SetClockRight {
        /// Which.
        instance: String,
    },
    /// A service cannot be reached from now on.
    Begin {
        /// Which service.
        outage: Outage,
        /// By whom; by everybody where it is `None`.
        instance: Option<String>,
        /// How calls fail.
        failure: FailureKind,
    },
    /// It can be reached again.
    End {
        /// Which service.
        outage: Outage,
        /// By whom.
        instance: Option<String>,
    },
    /// The operator's machine `step_down` is started.
    StepDown {
        /// Where.
        instance: String,
    },
    /// The operator's `resume`.
    Resume {
        /// Where.
        instance: String,
    },
    /// The stack's deletion: `release`.
    Release {
        /// Where.
        instance: String,
    },
    /// The machine `redrive` is started for everything that is dead.
    Redrive {
        /// Where.
        instance: String,
    },
    /// A machine is started outside its schedule.
    StartMachine {
        /// Where.
        instance: String,
        /// Which.
        machine: Machine,
    },
    /// Running executions of a machine are stopped by hand.
    StopMachine {
        /// Where.
        instance: String,
        /// Which.
        machine: Machine,
    },
    /// The schedules of an instance are switched off.
    StopSchedules {
        /// Whose.
        instance: String,
    },
    /// And on again.
    StartSchedules {
        /// Whose.
        instance: String,
    },
    /// The lease table is empty.
    LoseLeaseTable,
    /// The lease table stands as it stood so long ago.
    RestoreLeaseTable {
        /// How long ago, in milliseconds; the nearest older copy is taken (one is kept every 10 s).
        age_ms: u64,
    },
    /// The lease row is damaged by hand.
    DamageLease {
        /// How.
        damage: Damage,
    },
    /// The lease row that was damaged is put back as it was.
    RepairLease,
    /// The fence is damaged by hand.
    DamageFence,
    /// It is put back as it was.
    RepairFence,
    /// An outstanding row is damaged by hand: of a schema that nobody knows.
    DamageRow {
        /// Counted from the oldest, modulo their number.
        row: u64,
    },
    /// All damaged rows are put back as they were.
    RepairRows,
    /// A FIFO queue forgets the deduplication ids that it has seen, as it does after five minutes.
    ForgetDeduplication,
}

impl Act {
    /// Its kind in one word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Start { .. } => "start",
            Self::Freeze { .. } => "freeze",
            Self::Thaw { .. } => "thaw",
            Self::StepClock { .. } => "step_clock",
            Self::DriftClock { .. } => "drift_clock",
            Self::SetClockRight { .. } => "set_clock_right",
            Self::Begin { outage, .. } => match outage {
                Outage::Tables => "tables_unreachable",
                Outage::Lease => "lease_table_unreachable",
                Outage::LeaseWrites => "lease_writes_fail",
                Outage::Outbox => "outbox_unreachable",
                Outage::Queue => "queue_down",
                Outage::Bus => "bus_down",
            },
            Self::End { .. } => "mended",
            Self::StepDown { .. } => "step_down",
            Self::Resume { .. } => "resume",
            Self::Release { .. } => "release",
            Self::Redrive { .. } => "redrive",
            Self::StartMachine { .. } => "start_machine",
            Self::StopMachine { .. } => "stop_machine",
            Self::StopSchedules { .. } => "schedules_off",
            Self::StartSchedules { .. } => "schedules_on",
            Self::LoseLeaseTable => "lease_table_lost",
            Self::RestoreLeaseTable { .. } => "lease_table_restored",
            Self::DamageLease { .. } => "lease_damaged",
            Self::RepairLease => "lease_repaired",
            Self::DamageFence => "fence_damaged",
            Self::RepairFence => "fence_repaired",
            Self::DamageRow { .. } => "row_damaged",
            Self::RepairRows => "rows_repaired",
            Self::ForgetDeduplication => "deduplication_forgotten",
        }
    }

    /// The instance that it befalls; `None` where it befalls all of them, or a table.
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::Kill { instance }
            | Self::Start { instance }
            | Self::Freeze { instance }
            | Self::Thaw { instance }
            | Self::StepClock { instance, .. }
            | Self::DriftClock { instance, .. }
            | Self::SetClockRight { instance }
            | Self::StepDown { instance }
            | Self::Resume { instance }
            | Self::Release { instance }
            | Self::Redrive { instance }
            | Self::StartMachine { instance, .. }
            | Self::StopMachine { instance, .. }
            | Self::StopSchedules { instance }
            | Self::StartSchedules { instance } => Some(instance),
            Self::Begin { instance, .. } | Self::End { instance, .. } => instance.as_deref(),
            Self::LoseLeaseTable
            | Self::RestoreLeaseTable { .. }
            | Self::DamageLease { .. }
            | Self::RepairLease
            | Self::DamageFence
            | Self::RepairFence
            | Self::DamageRow { .. }
            | Self::RepairRows
            | Self::ForgetDeduplication => None,
        }
    }
}
