//! Faults that a test injects, and the gate that every call passes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;

use crate::StoreError;

/// A call that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its name, from [`crate::operation`].
    pub operation: &'static str,
    /// The how manieth of this name at this adapter, from 1.
    pub number: u64,
    /// Rows or entries in it.
    pub rows: usize,
}

/// What goes wrong with one call. The default is nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault {
    /// Time that passes before it takes effect.
    pub delay_before: Duration,
    /// What happens.
    pub effect: Effect,
    /// Time that passes between effect and answer. A caller that gives up in it does not know that it was applied.
    pub delay_after: Duration,
}

/// The effect of a fault.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Effect {
    /// None: the call is carried out and answered.
    #[default]
    None,
    /// Refused, nothing applied.
    FailBefore(FailureKind),
    /// Applied, and the reply lost.
    FailAfter(FailureKind),
    /// Some rows of a call of many fail, by their index; the others go through.
    Rows(BTreeMap<usize, RowFault>),
    /// Some entries of a queue's batch go wrong, by their index; the others go through.
    Entries(BTreeMap<usize, EntryFault>),
}

/// What goes wrong with one row of a call of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFault {
    /// Refused, not applied.
    Before(FailureKind),
    /// Applied, and reported as failed.
    After(FailureKind),
}

/// What goes wrong with one entry of a queue's batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryFault {
    /// Refused with this code.
    Refuse(String),
    /// Accepted, and not mentioned in the reply.
    Omit,
    /// Not accepted, and not mentioned in the reply.
    Lose,
    /// Accepted, and mentioned twice.
    Repeat,
    /// Accepted, and mentioned under this id instead of its own.
    Rename(String),
}

/// Which fault each call meets.
pub trait FaultPlan: Send + Sync {
    /// Asked once before each call.
    fn fault(&self, call: &Call) -> Fault;
}

impl<F: Fn(&Call) -> Fault + Send + Sync> FaultPlan for F {
    fn fault(&self, call: &Call) -> Fault {
        self(call)
    }
}

/// Nothing ever goes wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl FaultPlan for NoFaults {
    fn fault(&self, _call: &Call) -> Fault {
        Fault::default()
    }
}

/// Faults by operation and call number, written down beforehand or while a test runs.
#[derive(Debug, Clone, Default)]
pub struct Script {
    faults: Arc<Mutex<BTreeMap<(&'static str, u64), Fault>>>,
}

impl Script {
    /// The `number`th call of `operation` (from 1) meets `fault`.
    #[must_use]
    pub fn with(self, operation: &'static str, number: u64, fault: Fault) -> Self {
        self.set(operation, number, fault);
        self
    }

    /// The same for a script that is in use.
    pub fn set(&self, operation: &'static str, number: u64, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).insert((operation, number), fault);
    }
}

impl FaultPlan for Script {
    fn fault(&self, call: &Call) -> Fault {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.get(&(call.operation, call.number)).cloned().unwrap_or_default()
    }
}

impl Fault {
    /// A fault of this effect, without delay.
    pub fn of(effect: Effect) -> Self {
        Self { effect, ..Self::default() }
    }
}

/// An adapter's count of calls and its plan.
#[derive(Clone)]
pub(super) struct Gate {
    plan: Arc<dyn FaultPlan>,
    calls: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Gate {
    pub(super) fn new(plan: Arc<dyn FaultPlan>) -> Self {
        Self { plan, calls: Arc::default() }
    }

    /// Waits out the delay before the call of `operation`.
    ///
    /// # Errors
    /// The failure that the plan wants before anything is applied.
    pub(super) async fn enter(&self, operation: &'static str, rows: usize) -> Result<Pass, StoreError> {
        let fault = self.plan.fault(&self.count(operation, rows));
        wait(fault.delay_before).await;
        if let Effect::FailBefore(kind) = fault.effect {
            return Err(injected(kind, operation));
        }
        Ok(Pass { operation, fault })
    }

    fn count(&self, operation: &'static str, rows: usize) -> Call {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let number = calls.entry(operation).or_default();
        *number += 1;
        Call { operation, number: *number, rows }
    }
}

/// A call between its entry and its answer.
pub(super) struct Pass {
    operation: &'static str,
    fault: Fault,
}

impl Pass {
    /// Waits out the delay after the call took effect.
    ///
    /// # Errors
    /// The failure that the plan wants although the call was applied.
    pub(super) async fn leave(&self) -> Result<(), StoreError> {
        wait(self.fault.delay_after).await;
        match self.fault.effect {
            Effect::FailAfter(kind) => Err(injected(kind, self.operation)),
            _ => Ok(()),
        }
    }

    /// What goes wrong with the row at `index`.
    pub(super) fn row(&self, index: usize) -> Option<RowFault> {
        match &self.fault.effect {
            Effect::Rows(rows) => rows.get(&index).copied(),
            _ => None,
        }
    }

    /// What goes wrong with the entry at `index`.
    pub(super) fn entry(&self, index: usize) -> Option<&EntryFault> {
        match &self.fault.effect {
            Effect::Entries(entries) => entries.get(&index),
            _ => None,
        }
    }
}

pub(super) fn injected(kind: FailureKind, operation: &'static str) -> StoreError {
    StoreError::new(kind, operation, "injected fault")
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
