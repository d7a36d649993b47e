//! One instance at work: its functions with their own clients, and its executions of the state machines.
//!
//! Everything here runs on the instance's own thread and dies with it (`process`): its memory, its connections, the names
//! of its executions.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_drainer::DrainerFunction;
use fencepost_ingest::IngestFunction;
use fencepost_lease::LeaseFunction;
use fencepost_protocol::ids::InstanceName;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::ids::RandomIds;
use fencepost_runtime::lambda::guard;
use fencepost_runtime::settings::{Function, Settings};
use fencepost_runtime::telemetry::MetricSink;
use fencepost_runtime::wiring::{Edge, Stores, open_queue};
use fencepost_storage::Clients;
use serde_json::Value;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::bus::Bus;
use super::counters::Counters;
use super::event::WorldEvent;
use super::machines::{MachineTime, RegionResources};
use super::site::Site;
use super::watch::Watched;
use crate::machine::{Execution, Outcome, TaskError};
use crate::shipped::{Machine, time_limit};

/// How a function failed, by the names that the platform reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvokeError {
    pub(super) error_type: String,
    pub(super) message: String,
}

impl From<FunctionError> for InvokeError {
    fn from(error: FunctionError) -> Self {
        Self { error_type: error.error_type.as_str().to_owned(), message: error.message }
    }
}

/// A running instance.
pub(super) struct Region {
    pub(super) site: Arc<Site>,
    pub(super) name: InstanceName,
    pub(super) bus: Arc<Bus>,
    lease: LeaseFunction,
    ingest: IngestFunction,
    drainer: DrainerFunction,
    settings: Settings,
    names: Mutex<HashSet<(&'static str, String)>>,
}

impl Region {
    /// A cold instance: new clients, nothing remembered.
    pub(super) async fn cold(site: Arc<Site>, settings: &Settings) -> Result<Self, FunctionError> {
        let name = settings.identity.name.clone();
        let stores = Stores::open(settings, site.dynamodb(), None).await?;
        let queue = open_queue(settings, &Clients::load(site.sqs()).await?, None)?;
        let stores = Stores {
            leases: Arc::new(Watched::new(Arc::clone(&site), name.clone(), stores.leases)),
            outbox: Arc::new(Watched::new(Arc::clone(&site), name.clone(), stores.outbox)),
            hasty_leases: stores.hasty_leases,
        };
        let queue = Arc::new(Watched::new(Arc::clone(&site), name.clone(), queue));
        let sink: Arc<dyn MetricSink> = Arc::<Counters>::clone(&site.counters);
        // Ids by chance also here: a cold process that repeated the ids of an earlier one would take that one's writes for its own.
        let edge = Edge::new(settings, Arc::clone(&site.clock), Arc::new(RandomIds), sink);
        let lease = LeaseFunction::new(settings, &stores, None, edge.clone());
        let ingest = IngestFunction::new(settings, &stores, edge.clone());
        let bus = Arc::new(Bus::new(Arc::clone(&site), name.clone()));
        let drainer = DrainerFunction::new(settings, &stores, queue, bus.clone(), edge)?;
        Ok(Self { site, name, bus, lease, ingest, drainer, settings: settings.clone(), names: Mutex::default() })
    }

    /// Runs a function to its answer, its failure or its time limit.
    pub(super) async fn invoke(&self, function: Function, payload: Value) -> Result<Value, InvokeError> {
        let span = tracing::info_span!("invocation", instance = %self.name, function = function.as_str());
        let work = |limit| async move {
            match function {
                Function::Ingest => self.ingest.handle(payload, &limit).await,
                Function::Lease => self.lease.handle(payload, &limit).await,
                Function::Drainer => self.drainer.handle(payload, &limit).await,
            }
        };
        let guarded = guard(&*self.site.clock, time_limit(function, &self.settings), work).instrument(span);
        let outcome = Result::from(guarded.await).map_err(InvokeError::from);
        if let Err(error) = &outcome {
            self.site.tell(&WorldEvent::FunctionFailed {
                instance: self.name.clone(),
                function: function.as_str().to_owned(),
                error_type: error.error_type.clone(),
                message: error.message.clone(),
            });
        }
        outcome
    }

    /// Starts an execution. Its task goes on when the handle is dropped.
    ///
    /// # Errors
    /// `ExecutionAlreadyExists` for a name that a Standard machine has used since this instance started.
    pub(super) fn start(
        self: &Arc<Self>,
        machine: Machine,
        name: String,
        input: Value,
    ) -> Result<JoinHandle<Outcome>, TaskError> {
        if machine.is_standard() {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            if !names.insert((machine.name(), name.clone())) {
                return Err(TaskError::new("ExecutionAlreadyExists", format!("{} {name} was started", machine.name())));
            }
        }
        let region = Arc::clone(self);
        Ok(tokio::spawn(async move { region.run(machine, &name, input).await }))
    }

    async fn run(self: Arc<Self>, machine: Machine, name: &str, input: Value) -> Outcome {
        let definition = self.site.machines.of(machine);
        let arn = machine.arn();
        let time = MachineTime(Arc::clone(&self.site.clock));
        let resources = RegionResources(Arc::clone(&self));
        let outcome = Execution::new(&definition, &arn, name, input).run(&resources, &time, &()).await;
        if let Outcome::Failed { error, cause } = &outcome {
            self.site.tell(&WorldEvent::ExecutionFailed {
                instance: self.name.clone(),
                machine: machine.name().to_owned(),
                execution: name.to_owned(),
                error: error.clone(),
                cause: cause.clone(),
            });
        }
        outcome
    }
}
