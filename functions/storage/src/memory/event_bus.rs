//! The event bus.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::faults::{FaultPlan, Gate, NoFaults};
use crate::ports::{BusEvent, EventBus};
use crate::{StoreError, operation};

/// [`EventBus`] as a list. Clones share it.
#[derive(Clone)]
pub struct MemoryEventBus {
    events: Arc<Mutex<Vec<BusEvent>>>,
    gate: Gate,
}

impl MemoryEventBus {
    /// A bus that nothing was put on.
    pub fn new() -> Self {
        Self { events: Arc::default(), gate: Gate::new(Arc::new(NoFaults)) }
    }

    /// The same, with the faults of `plan`. Calls are counted from 1 for this adapter and its clones.
    #[must_use]
    pub fn with_faults(self, plan: Arc<dyn FaultPlan>) -> Self {
        Self { gate: Gate::new(plan), ..self }
    }

    /// Everything that was put on it, in order.
    pub fn events(&self) -> Vec<BusEvent> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BusEvent>> {
        // A push is the only change: the list is whole at any moment.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryEventBus {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl EventBus for MemoryEventBus {
    async fn put_event(&self, event: &BusEvent) -> Result<(), StoreError> {
        let pass = self.gate.enter(operation::PUT_EVENT, 1).await?;
        self.lock().push(event.clone());
        pass.leave().await
    }
}
