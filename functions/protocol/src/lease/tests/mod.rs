//! The lease's decisions as tables and as random histories, over a row, a fence and instance records held in plain values.

mod conclusions;
mod holder;
mod random;
mod records;
mod reports;
mod standby;
mod step_down;

use std::time::Duration;

use super::*;
use crate::failure::FailureKind;
use crate::ids::{AttemptId, InstanceName, StackId};
use crate::outbox::{Damage, Fence, Slot};
use crate::time::{Reading, Timestamp};
use crate::timing::{Profile, TimingOverrides};

/// Sunday noon, in milliseconds.
const NOON: u64 = 1_700_000_000_000;

fn identity(name: &str, stack: &str) -> Identity {
    Identity { name: InstanceName::new(name).unwrap(), stack: StackId::new(stack).unwrap() }
}

fn fast() -> Timing {
    Timing::build(Profile::Fast, &TimingOverrides::default()).unwrap()
}

fn verifying(max_renew_fails: u32) -> Timing {
    let overrides = TimingOverrides {
        lease_ttl: Some(Duration::from_secs(300)),
        max_renew_fails: Some(max_renew_fails),
        ..TimingOverrides::default()
    };
    Timing::build(Profile::Durable, &overrides).unwrap()
}

/// What the next lease write meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Fails and was not applied.
    Before(FailureKind),
    /// Fails and was applied: the reply is lost.
    After(FailureKind),
}

/// The store of one group.
#[derive(Debug, Clone)]
struct Store {
    lease: Slot<LeaseRecord>,
    fence: Slot<Fence>,
    instances: Vec<(Identity, Slot<InstanceRecord>)>,
}

impl Store {
    fn new() -> Self {
        Self { lease: Slot::Absent, fence: Slot::Absent, instances: Vec::new() }
    }

    fn row(&self) -> &LeaseRecord {
        self.lease.present().expect("a lease row")
    }

    fn row_mut(&mut self) -> &mut LeaseRecord {
        match &mut self.lease {
            Slot::Present(row) => row,
            other => panic!("no lease row: {other:?}"),
        }
    }

    fn write_lease(&mut self, write: &LeaseWrite, fault: Fault) -> LeaseOutcome {
        if let Fault::Before(kind) = fault {
            return LeaseOutcome::Failed(kind);
        }
        let current = self.lease.present().map(|row| row.attempt.clone());
        if matches!(self.lease, Slot::Damaged(_)) || current != write.expected {
            return LeaseOutcome::Refused(self.lease.clone());
        }
        write.record.check().expect("only possible rows are written");
        self.lease = Slot::Present(write.record.clone());
        match fault {
            Fault::After(kind) => LeaseOutcome::Failed(kind),
            _ => LeaseOutcome::Written,
        }
    }

    fn raise_fence(&mut self, raise: &FenceRaise) -> bool {
        if self.fence.present() != raise.expected.as_ref() {
            return false;
        }
        self.fence = Slot::Present(raise.fence.clone());
        true
    }

    fn write_instance(&mut self, write: &InstanceWrite) -> bool {
        let place = self.instances.iter_mut().find(|(identity, _)| *identity == write.record.identity);
        match place {
            None if write.expected_generation == 0 => {
                self.instances.push((write.record.identity.clone(), Slot::Present(write.record.clone())));
                self.instances.sort_by(|(a, _), (b, _)| a.cmp(b));
                true
            }
            Some((_, slot)) if slot.present().map(|r| r.generation) == Some(write.expected_generation) => {
                *slot = Slot::Present(write.record.clone());
                true
            }
            _ => false,
        }
    }
}

/// One instance: its rules, its clock's error, its loop and the loop's variable.
#[derive(Debug, Clone)]
struct Instance {
    rules: Rules,
    /// What this host's wall clock shows beyond the true time, in milliseconds.
    offset_ms: i64,
    me_loop: LoopId,
    carried: Carried,
    attempts: u32,
}

impl Instance {
    fn new(name: &str, timing: Timing) -> Self {
        Self {
            rules: Rules {
                lease: LeaseName::new("telemetry").unwrap(),
                me: identity(name, &format!("stack-{name}")),
                timing,
                source: SourceMode::Open,
            },
            offset_ms: 0,
            me_loop: LoopId { started_at_ms: Timestamp::from_ms(NOON), name: format!("loop-{name}") },
            carried: Carried::default(),
            attempts: 0,
        }
    }

    fn reading(&self, true_ms: u64) -> Reading {
        Reading {
            wall: Timestamp::from_ms(true_ms.saturating_add_signed(self.offset_ms)),
            monotonic: Duration::from_millis(true_ms),
        }
    }

    fn input(&mut self, store: &Store, command: Command, at_ms: u64) -> Input {
        self.attempts += 1;
        Input {
            command,
            records: GroupRecords { lease: store.lease.clone(), instances: store.instances.clone() },
            before: self.reading(at_ms),
            after: self.reading(at_ms),
            fence: None,
            in_flight: None,
            source_enabled: None,
            attempt: AttemptId::new(format!("{}-{}", self.rules.me.name, self.attempts)).unwrap(),
        }
    }

    /// A whole command: read, decide, write, conclude, remember.
    fn run(&mut self, store: &mut Store, command: Command, at_ms: u64, fault: Fault, in_flight: bool) -> Ran {
        let mut input = self.input(store, command, at_ms);
        let needs = needs(&self.rules, &input);
        input.fence = needs.fence.then(|| store.fence.clone());
        input.in_flight = needs.heads.then_some(in_flight);
        let decision = decide(&self.rules, &input);
        let outcome = match (&decision.fence, &decision.write) {
            (Some(raise), _) if !store.raise_fence(raise) => LeaseOutcome::FenceRefused,
            (_, Some((_, write))) => store.write_lease(write, fault),
            (_, None) => LeaseOutcome::NothingToWrite,
        };
        let now = input.now();
        let verified = must_verify(&self.rules, &decision, &input, &outcome, now).then(|| Ok(store.lease.clone()));
        let mut conclusion = conclude(&self.rules, &input, &self.carried, &decision, &outcome, verified.as_ref(), now);
        if let Some(write) = &conclusion.instance_write
            && !store.write_instance(write)
        {
            conclusion.instance_write_lost();
        }
        if matches!(input.command, Command::Tick { me_loop: _, delivered: true }) {
            self.carried = conclusion.carried;
        }
        Ran { decision, conclusion }
    }

    fn tick(&mut self, store: &mut Store, at_ms: u64) -> Ran {
        self.tick_with(store, at_ms, Fault::None)
    }

    fn tick_with(&mut self, store: &mut Store, at_ms: u64, fault: Fault) -> Ran {
        let command = Command::Tick { me_loop: self.me_loop.clone(), delivered: true };
        self.run(store, command, at_ms, fault, false)
    }
}

/// What a command did.
#[derive(Debug, Clone)]
struct Ran {
    decision: Decision,
    conclusion: Conclusion,
}

impl Ran {
    fn told(&self) -> Vec<TransitionKind> {
        self.conclusion.transitions.iter().map(|transition| transition.kind).collect()
    }

    fn token(&self) -> Option<u64> {
        match self.conclusion.standing {
            Standing::Holder { token, .. } => Some(token.get()),
            Standing::Standby => None,
        }
    }
}

fn damage(field: &str) -> Damage {
    Damage { record: "lease".into(), malformed: crate::ids::Malformed::new(field, "is broken"), newer_schema: false }
}
