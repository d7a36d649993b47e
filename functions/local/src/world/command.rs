//! What can be asked of a running world, by its owner and by its control port alike.

use std::sync::Arc;

use fencepost_protocol::ids::Identity;
use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::duration_ms;
use fencepost_runtime::settings::Function;
use fencepost_storage::{LeaseStore, Outbox, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::WorldError;
use super::audit::count_outstanding;
use super::counters::Counts;
use super::regions::{InstanceState, Regions};
use super::site::Site;
use crate::machine::Outcome;
use crate::shipped::Machine;

/// The lease row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// The holder; `None` when released.
    pub owner: Option<Identity>,
    /// The token of the present or last holder.
    pub token: u64,
    /// Renewals since the acquisition.
    pub renewal: u64,
    /// The last confirmation, on the holder's clock, in milliseconds since the epoch.
    pub confirmed_at_ms: u64,
    /// How long the holder's word lasts, in milliseconds.
    pub lease_ttl_ms: u64,
    /// Is a step-down in progress?
    pub stepping_down: bool,
    /// Who released it last.
    pub released_by: Option<Identity>,
    /// The highest token whose takeover is done; 0 for none.
    pub takeover_done: u64,
    /// Which try of the present takeover is due or running.
    pub takeover_try: u32,
}

impl From<LeaseRecord> for LeaseView {
    fn from(record: LeaseRecord) -> Self {
        Self {
            owner: record.owner,
            token: record.token.get(),
            renewal: record.renewal,
            confirmed_at_ms: record.confirmed_at.as_ms(),
            lease_ttl_ms: duration_ms(record.lease_ttl),
            stepping_down: record.stepping_down.is_some(),
            released_by: record.released.map(|released| released.by),
            takeover_done: record.takeover_done.get(),
            takeover_try: record.takeover_try,
        }
    }
}

/// How a world stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The lease row; `None` before the first acquisition, and where it does not decode (see `refused`).
    pub lease: Option<LeaseView>,
    /// Records of the group that do not decode, each with its field: the lease row, instance rows, the fence. A tick leaves
    /// them alone, and no lease is taken past a damaged lease row or fence.
    pub refused: Vec<String>,
    /// Rows in the outbox now, damaged ones too.
    pub outstanding: u64,
    /// The instances.
    pub instances: Vec<InstanceState>,
    /// What happened so far.
    pub counts: Counts,
}

/// What can be asked of a running world.
pub(super) struct Commands {
    pub(super) site: Arc<Site>,
    pub(super) regions: Arc<Regions>,
    pub(super) leases: Arc<dyn LeaseStore>,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) drained_shards: u16,
}

impl Commands {
    pub(super) async fn lease(&self) -> Result<Option<LeaseView>, WorldError> {
        match self.leases.read_lease(&self.site.lease).await? {
            Slot::Absent => Ok(None),
            Slot::Present(record) => Ok(Some(record.into())),
            Slot::Damaged(damage) => Err(StoreError::new(
                fencepost_protocol::failure::FailureKind::Invalid,
                "read_lease",
                damage.to_string(),
            )
            .into()),
        }
    }

    pub(super) async fn status(&self) -> Result<Status, WorldError> {
        let group = self.leases.read_group(&self.site.lease).await?;
        let fence = self.outbox.read_fence(&self.site.lease).await?;
        let instances = group.instances.iter().filter_map(|(_, slot)| damage(slot));
        let refused = damage(&group.lease).into_iter().chain(instances).chain(damage(&fence)).collect();
        let lease = match group.lease {
            Slot::Present(record) => Some(record.into()),
            Slot::Absent | Slot::Damaged(_) => None,
        };
        Ok(Status {
            lease,
            refused,
            outstanding: self.outstanding().await?,
            instances: self.regions.states(),
            counts: self.site.counters.counts(),
        })
    }

    pub(super) async fn outstanding(&self) -> Result<u64, WorldError> {
        Ok(count_outstanding(self.outbox.as_ref(), &self.site.lease, self.drained_shards).await?)
    }

    pub(super) async fn step_down(&self, name: &str) -> Result<Value, WorldError> {
        self.execute(name, Machine::StepDown, json!({})).await
    }

    /// Runs a machine in an instance, to its end.
    pub(super) async fn execute(&self, name: &str, machine: Machine, input: Value) -> Result<Value, WorldError> {
        match self.regions.door(name)?.execute(machine, input).await {
            Ok(Outcome::Succeeded(output)) => Ok(output),
            Ok(Outcome::Failed { error, cause }) => {
                Err(WorldError::Failed { name: name.to_owned(), what: machine.name().to_owned(), error, cause })
            }
            Err(_) => Err(WorldError::NotRunning { name: name.to_owned() }),
        }
    }

    pub(super) async fn resume(&self, name: &str) -> Result<Value, WorldError> {
        match self.regions.door(name)?.invoke(Function::Lease, json!({ "command": "resume" })).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(WorldError::Failed {
                name: name.to_owned(),
                what: "resume".to_owned(),
                error: error.error_type,
                cause: error.message,
            }),
            Err(_) => Err(WorldError::NotRunning { name: name.to_owned() }),
        }
    }
}

fn damage<T>(slot: &Slot<T>) -> Option<String> {
    match slot {
        Slot::Damaged(damage) => Some(damage.to_string()),
        Slot::Present(_) | Slot::Absent => None,
    }
}
