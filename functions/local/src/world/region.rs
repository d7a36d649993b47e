//! One instance at work: its functions with their own clients, and its executions of the state machines.
//!
//! Everything here runs on the instance's own thread and dies with it (`process`): its memory, its connections, the names
//! of its executions.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_drainer::DrainerFunction;
use fencepost_ingest::{IngestFunction, StampCache};
use fencepost_lease::LeaseFunction;
use fencepost_protocol::ids::InstanceName;
use fencepost_protocol::ingest::IngestTerms;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::ids::RandomIds;
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::settings::{Function, Settings};
use fencepost_runtime::telemetry::{Labels, MetricSink, Metrics};
use fencepost_storage::dynamodb::{DynamoLeaseStore, DynamoOutbox};
use fencepost_storage::sqs::SqsQueue;
use fencepost_storage::{CallPolicy, LeaseStore, Outbox, Queue};
use futures::FutureExt as _;
use serde_json::Value;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::event::WorldEvent;
use super::machines::{Machine, MachineTime, RegionResources};
use super::site::Site;
use super::watch::Watched;
use crate::machine::{Execution, Outcome, TaskError};

/// The lease function's own time limit.
const LEASE_LIMIT: Duration = Duration::from_secs(15);
/// The ingest function's own time limit.
const INGEST_LIMIT: Duration = Duration::from_secs(10);
/// How long before its time limit a handler is asked to have ended, as in Lambda.
const SOFT_RESERVE: Duration = Duration::from_secs(1);

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
    lease: LeaseFunction,
    ingest: IngestFunction,
    drainer: DrainerFunction,
    names: Mutex<HashSet<(&'static str, String)>>,
}

impl Region {
    /// A cold instance: new clients, nothing remembered.
    pub(super) async fn cold(site: Arc<Site>, settings: &Settings) -> Result<Self, FunctionError> {
        let (tables, queues) = (site.dynamodb_clients().await?, site.sqs_clients().await?);
        let (timing, name) = (&settings.timing, settings.identity.name.clone());
        let lease_calls = CallPolicy::in_thirds(timing.renew_call_timeout);
        let outbox_calls = CallPolicy::in_thirds(settings.store_call_timeout);
        let leases: Arc<dyn LeaseStore> =
            Arc::new(DynamoLeaseStore::new(&tables, &settings.tables.lease, lease_calls, None));
        let outbox: Arc<dyn Outbox> =
            Arc::new(DynamoOutbox::new(&tables, &settings.tables.outbox, outbox_calls, settings.batching, None));
        let queue: Arc<dyn Queue> =
            Arc::new(SqsQueue::new(&queues, &settings.destination()?.url, timing.send_timeout, None));
        let leases: Arc<dyn LeaseStore> = Arc::new(Watched::new(Arc::clone(&site), name.clone(), leases));
        let outbox: Arc<dyn Outbox> = Arc::new(Watched::new(Arc::clone(&site), name.clone(), outbox));
        let queue: Arc<dyn Queue> = Arc::new(Watched::new(Arc::clone(&site), name.clone(), queue));
        let (clock, ids) = (Arc::clone(&site.clock), Arc::new(RandomIds));
        let sink: Arc<dyn MetricSink> = Arc::clone(&site.counters) as Arc<dyn MetricSink>;
        let labels = Labels { lease: settings.lease.clone(), instance: name.clone() };
        let metrics = Metrics::new(labels, Arc::clone(&clock), sink);
        let lease = LeaseFunction {
            rules: settings.rules(),
            shards: settings.drained_shards(),
            leases: Arc::clone(&leases),
            outbox: Arc::clone(&outbox),
            source: None,
            clock: Arc::clone(&clock),
            ids: ids.clone(),
            metrics: metrics.clone(),
        };
        let ingest = IngestFunction {
            terms: IngestTerms { lease: settings.lease.clone(), origin: name.clone(), shards: settings.shards },
            leases: Arc::clone(&leases),
            outbox: Arc::clone(&outbox),
            stamps: StampCache::new(settings.stamp_cache),
            clock: Arc::clone(&clock),
            metrics: metrics.clone(),
        };
        let drainer = DrainerFunction {
            lease: settings.lease.clone(),
            me: settings.identity.clone(),
            policy: settings.drain_policy()?,
            shard_counts: [Some(settings.shards), settings.previous_shards].into_iter().flatten().collect(),
            shards_per_group: usize::from(settings.shards_per_group),
            has_stream: true,
            leases,
            outbox,
            queue,
            clock,
            ids,
            metrics,
        };
        Ok(Self { site, name, lease, ingest, drainer, names: Mutex::default() })
    }

    /// Runs a function to its answer, its failure or its time limit.
    pub(super) async fn invoke(&self, function: Function, payload: Value) -> Result<Value, InvokeError> {
        let whole = match function {
            Function::Ingest => INGEST_LIMIT,
            Function::Lease => LEASE_LIMIT,
            Function::Drainer => self.drainer.policy.timing.drainer_limit,
        };
        let limit = Limit::new(self.site.clock.now(), whole.saturating_sub(SOFT_RESERVE));
        let span = tracing::info_span!("invocation", instance = %self.name, function = function.as_str());
        let work = async {
            match function {
                Function::Ingest => self.ingest.handle(payload, &limit).await,
                Function::Lease => self.lease.handle(payload, &limit).await,
                Function::Drainer => self.drainer.handle(payload, &limit).await,
            }
        };
        let guarded = async {
            tokio::select! {
                biased;
                outcome = AssertUnwindSafe(work).catch_unwind() => match outcome {
                    Ok(outcome) => outcome.map_err(InvokeError::from),
                    Err(_) => Err(InvokeError {
                        error_type: "HandlerPanicked".to_owned(),
                        message: "the handler panicked, which is a defect".to_owned(),
                    }),
                },
                () = self.site.clock.sleep(whole) => Err(InvokeError {
                    error_type: "Sandbox.Timedout".to_owned(),
                    message: format!("the function was still at work after its time limit of {whole:?}"),
                }),
            }
        };
        let outcome = guarded.instrument(span).await;
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
        let definition = self.site.definitions.of(machine);
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
