//! Tables as somebody says they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::tables::TableFacts;

use super::faults::{FaultPlan, Gate, NoFaults};
use crate::inspection::TableInspection;
use crate::records::Table;
use crate::{StoreError, operation};

/// [`TableInspection`] of tables that were told. Clones share them.
#[derive(Clone)]
pub struct MemoryTableInspection {
    tables: Arc<Mutex<BTreeMap<String, TableFacts>>>,
    gate: Gate,
}

impl Default for MemoryTableInspection {
    fn default() -> Self {
        Self { tables: Arc::default(), gate: Gate::new(Arc::new(NoFaults)) }
    }
}

impl MemoryTableInspection {
    /// The same, with the faults of `plan`. Calls are counted from 1 for this adapter and its clones.
    #[must_use]
    pub fn with_faults(self, plan: Arc<dyn FaultPlan>) -> Self {
        Self { gate: Gate::new(plan), ..self }
    }

    /// From now on there is a table `name`, and it looks so.
    pub fn tell(&self, name: &str, facts: TableFacts) {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), facts);
    }
}

#[async_trait]
impl TableInspection for MemoryTableInspection {
    async fn inspect(&self, _table: Table, name: &str, _region: Option<&str>) -> Result<TableFacts, StoreError> {
        let pass = self.gate.enter(operation::INSPECT, 1).await?;
        let facts = self.tables.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        pass.leave().await?;
        facts.ok_or_else(|| {
            StoreError::new(FailureKind::Invalid, operation::INSPECT, format!("there is no table {name:?}"))
        })
    }
}
