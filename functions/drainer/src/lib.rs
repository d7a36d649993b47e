//! The drainer: claims outstanding rows, sends them to the queue and commits them under its token.
//!
//! A handler over the ports that carries out what [`fencepost_protocol::drain`] decides, page by page, inside the function's
//! time limit. It is called by the outbox's stream, by the drain and takeover workflows, and by a redrive.
//!
//! Guarantees: no future of a call lives on after its answer; a page is begun only where its claim budget and its sends fit
//! the time that is left; a call that ends early answers with a cursor and loses nothing.
//!
//! Records that died are told to the event bus from here, whoever asked for the pass, in what time is left; a bus that does
//! not take the event fails no drain.
//!
//! What must stay out: decisions, environment, AWS types.

mod call;
mod measure;
mod page;
mod plan;
mod redrive;
mod report;
mod request;

use std::sync::Arc;

use fencepost_protocol::drain::DrainPolicy;
use fencepost_protocol::ids::{Identity, LeaseName, Malformed};
use fencepost_runtime::clock::Clock;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::ids::Ids;
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::settings::{Settings, SettingsFaults, Topology};
use fencepost_runtime::telemetry::Metrics;
use fencepost_runtime::wiring::{Edge, Stores};
use fencepost_storage::{EventBus, LeaseStore, Outbox, Queue};
use serde_json::{Value, json};

use call::Caller;
pub use plan::PlanReply;
pub use report::PUT_TIMEOUT;
pub use request::Request;

/// The handler and what it works with.
pub struct DrainerFunction {
    /// The group.
    pub lease: LeaseName,
    /// Who drains.
    pub me: Identity,
    /// By which settings.
    pub policy: DrainPolicy,
    /// The present shard count and, after a change, the earlier one.
    pub shard_counts: Vec<u16>,
    /// Shards that one call of a workflow drains.
    pub shards_per_group: usize,
    /// Does the outbox's stream wake this function? Not where the tables are in another region.
    pub has_stream: bool,
    /// The lease table.
    pub leases: Arc<dyn LeaseStore>,
    /// The outbox.
    pub outbox: Arc<dyn Outbox>,
    /// The destination.
    pub queue: Arc<dyn Queue>,
    /// Who is told of records that died.
    pub bus: Arc<dyn EventBus>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Fresh claim ids, and the dice for back-offs.
    pub ids: Arc<dyn Ids>,
    /// Where measures go.
    pub metrics: Metrics,
}

impl DrainerFunction {
    /// The handler of an instance.
    ///
    /// # Errors
    /// [`SettingsFaults`] where no queue is set.
    pub fn new(
        settings: &Settings,
        stores: &Stores,
        queue: Arc<dyn Queue>,
        bus: Arc<dyn EventBus>,
        edge: Edge,
    ) -> Result<Self, SettingsFaults> {
        Ok(Self {
            lease: settings.lease.clone(),
            me: settings.identity.clone(),
            policy: settings.drain_policy()?,
            shard_counts: [Some(settings.shards), settings.previous_shards].into_iter().flatten().collect(),
            shards_per_group: usize::from(settings.shards_per_group),
            has_stream: settings.topology != Topology::Home,
            leases: Arc::clone(&stores.leases),
            outbox: Arc::clone(&stores.outbox),
            queue,
            bus,
            clock: edge.clock,
            ids: edge.ids,
            metrics: edge.metrics,
        })
    }

    /// Carries out one request, inside `limit`.
    ///
    /// # Errors
    /// `InputInvalid` for a request that is none; the store's own kinds where the lease cannot be read, and
    /// `LeaseRecordInvalid` where it does not decode.
    pub async fn handle(&self, input: Value, limit: &Limit) -> Result<Value, FunctionError> {
        let reply = match Request::parse(&self.lease, input)? {
            Request::Plan => serde_json::to_value(self.plan().await?),
            Request::Shards => serde_json::to_value(self.groups()),
            Request::Drain(request) => serde_json::to_value(self.drain(request, limit, Caller::Workflow).await?),
            Request::Redrive(request) => serde_json::to_value(self.redrive(request, limit).await?),
            Request::Wake(shards) => {
                if !shards.is_empty() {
                    self.wake(shards, limit).await?;
                }
                Ok(json!({}))
            }
        };
        reply.map_err(|error| Malformed::new("reply", error.to_string()).into())
    }
}
