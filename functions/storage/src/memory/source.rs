//! The topic rule's switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;

use super::faults::{FaultPlan, Gate, NoFaults};
use crate::ports::Source;
use crate::{StoreError, operation};

/// [`Source`] as a flag. Clones share it.
#[derive(Clone)]
pub struct MemorySource {
    enabled: Arc<AtomicBool>,
    switches: Arc<AtomicU64>,
    gate: Gate,
}

impl MemorySource {
    /// A switch that stands at `enabled`.
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled: Arc::new(AtomicBool::new(enabled)),
            switches: Arc::default(),
            gate: Gate::new(Arc::new(NoFaults)),
        }
    }

    /// The same, with the faults of `plan`. Calls are counted from 1 for this adapter and its clones.
    #[must_use]
    pub fn with_faults(self, plan: Arc<dyn FaultPlan>) -> Self {
        Self { gate: Gate::new(plan), ..self }
    }

    /// Where it stands, without a call.
    pub fn stands_enabled(&self) -> bool {
        self.enabled.load(Ordering::SeqCst)
    }

    /// How often it was set, to whatever.
    pub fn switches(&self) -> u64 {
        self.switches.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Source for MemorySource {
    async fn is_enabled(&self) -> Result<bool, StoreError> {
        let pass = self.gate.enter(operation::IS_ENABLED, 1).await?;
        let enabled = self.stands_enabled();
        pass.leave().await?;
        Ok(enabled)
    }

    async fn set_enabled(&self, enabled: bool) -> Result<(), StoreError> {
        let pass = self.gate.enter(operation::SET_ENABLED, 1).await?;
        self.enabled.store(enabled, Ordering::SeqCst);
        self.switches.fetch_add(1, Ordering::SeqCst);
        pass.leave().await
    }
}
