//! The lease function: one invocation, one command, at most one lease write.
//!
//! A handler over the ports that carries out what [`fencepost_protocol::lease`] decides: it reads, asks, writes and reports.
//! A tick never raises for a store that cannot be read or a row that does not decode: it answers with what that takes away,
//! so the loop goes on and demotes in time. Every other command raises, with a stable `errorType`.
//!
//! What must stay out: decisions, environment, AWS types.

mod command;
mod custom_resource;
mod entry;
mod reads;
mod reply;
mod request;
mod table_check;
mod tick;

use std::sync::Arc;

use fencepost_protocol::ids::Malformed;
use fencepost_protocol::lease::Rules;
use fencepost_runtime::clock::Clock;
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::ids::Ids;
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::settings::Settings;
use fencepost_runtime::telemetry::Metrics;
use fencepost_runtime::wiring::{Edge, Stores};
use fencepost_storage::{LeaseStore, Outbox, Source};
use serde_json::Value;

pub use custom_resource::CustomResource;
pub use entry::Entry;
pub use reply::{Event, StatusReply, StepDownReply, TakeoverStart, TickReply};
pub use request::Request;

/// The handler and what it works with.
pub struct LeaseFunction {
    /// Who this instance is and by which rules it ticks.
    pub rules: Rules,
    /// How many shards a step-down looks at.
    pub shards: u16,
    /// How many rows of each: as many as a drainer claims at once.
    pub head_rows: usize,
    /// The lease table.
    pub leases: Arc<dyn LeaseStore>,
    /// The outbox: its fence, and the heads of its shards during a step-down.
    pub outbox: Arc<dyn Outbox>,
    /// The topic rule; `None` where the source is open.
    pub source: Option<Arc<dyn Source>>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Arc<dyn Ids>,
    /// Where measures go.
    pub metrics: Metrics,
}

impl LeaseFunction {
    /// The handler of an instance; `source` is its topic rule where that is gated.
    pub fn new(settings: &Settings, stores: &Stores, source: Option<Arc<dyn Source>>, edge: Edge) -> Self {
        Self {
            rules: settings.rules(),
            shards: settings.drained_shards(),
            head_rows: settings.page_rows,
            leases: Arc::clone(&stores.leases),
            outbox: Arc::clone(&stores.outbox),
            source,
            clock: edge.clock,
            ids: edge.ids,
            metrics: edge.metrics,
        }
    }

    /// Carries out one request, inside `limit`.
    ///
    /// # Errors
    /// `InputInvalid` for a request that is none; for every command but a tick the store's own kinds and
    /// `LeaseRecordInvalid`.
    pub async fn handle(&self, input: Value, limit: &Limit) -> Result<Value, FunctionError> {
        let request = Request::parse(input)?;
        let reply = match request {
            Request::Tick { me_loop, carried, delivered } => {
                to_json(&self.tick(me_loop, carried.unwrap_or_default(), delivered, limit).await)
            }
            Request::StepDown { reason } => to_json(&self.step_down(reason).await?),
            Request::Release {} => to_json(&self.release(limit).await?),
            Request::Resume {} => to_json(&self.resume().await?),
            Request::TakeoverFinished { token, try_number, succeeded } => {
                to_json(&self.takeover_finished(token, try_number, succeeded).await?)
            }
            Request::Source { enabled } => to_json(&self.switch_source(enabled).await?),
            Request::Status {} => to_json(&self.status().await?),
            // The settings were checked when the function was built; a faulty one answered `SettingsInvalid` before this.
            Request::Validate {} => Ok(serde_json::json!({ "valid": true })),
        };
        reply.map_err(|error| FunctionError::from(Malformed::new("reply", error.to_string())))
    }
}

fn to_json<T: serde::Serialize>(reply: &T) -> Result<Value, serde_json::Error> {
    serde_json::to_value(reply)
}
