//! What a process builds once, from its settings: the adapters of its tables and its queue, and the edge that every handler
//! takes its time, its ids and its measures from. The Lambda functions and one machine's world build the same.
//!
//! What must stay out: anything of one function only.

use std::sync::Arc;
use std::time::Duration;

use fencepost_storage::dynamodb::{DynamoLeaseStore, DynamoOutbox};
use fencepost_storage::sqs::SqsQueue;
use fencepost_storage::{CallObserver, CallPolicy, ClientOptions, Clients, LeaseStore, Outbox, Queue};

use crate::clock::Clock;
use crate::failure::FunctionError;
use crate::ids::{Ids, RandomIds};
use crate::settings::{Settings, SettingsFaults};
use crate::telemetry::{EmfSink, Labels, MetricSink, Metrics};

/// The longest that ingest waits for the lease row that it stamps by; without one it stamps none.
const STAMP_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Time, ids and measures.
#[derive(Clone)]
pub struct Edge {
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids and dice.
    pub ids: Arc<dyn Ids>,
    /// Where measures go.
    pub metrics: Metrics,
}

impl Edge {
    /// The edge of an instance whose measures go to `sink`.
    pub fn new(settings: &Settings, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>, sink: Arc<dyn MetricSink>) -> Self {
        let labels = Labels { lease: settings.lease.clone(), instance: settings.identity.name.clone() };
        let metrics = Metrics::new(labels, Arc::clone(&clock), sink);
        Self { clock, ids, metrics }
    }

    /// The edge of a function in Lambda: random ids, measures as lines on stdout.
    pub fn in_lambda(settings: &Settings, clock: Arc<dyn Clock>) -> Self {
        Self::new(settings, clock, Arc::new(RandomIds), Arc::new(EmfSink::stdout()))
    }
}

/// The two tables.
#[derive(Clone)]
pub struct Stores {
    /// The lease table; a call takes `renew_call_timeout` at most, a try a third of it.
    pub leases: Arc<dyn LeaseStore>,
    /// The lease table for a reader who had rather not know than wait.
    pub hasty_leases: Arc<dyn LeaseStore>,
    /// The outbox.
    pub outbox: Arc<dyn Outbox>,
}

impl Stores {
    /// Builds the adapters; opens no connection. `options` say where, unless the settings name the tables' region.
    ///
    /// # Errors
    /// `RequestInvalid` where no region is known.
    pub async fn open(
        settings: &Settings,
        options: ClientOptions,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Result<Self, FunctionError> {
        let region = settings.tables.region.clone().or(options.region);
        let clients = Clients::load(ClientOptions { region, ..options }).await?;
        let leases = |policy| -> Arc<dyn LeaseStore> {
            Arc::new(DynamoLeaseStore::new(&clients, settings.tables.lease.as_str(), policy, observer.clone()))
        };
        let outbox = DynamoOutbox::new(
            &clients,
            settings.tables.outbox.as_str(),
            CallPolicy::in_thirds(settings.store_call_timeout),
            settings.batching,
            observer.clone(),
        );
        Ok(Self {
            leases: leases(CallPolicy::in_thirds(settings.timing.renew_call_timeout)),
            hasty_leases: leases(CallPolicy::once(STAMP_READ_TIMEOUT)),
            outbox: Arc::new(outbox),
        })
    }
}

/// Builds the destination's adapter from the clients of its region; opens no connection.
///
/// # Errors
/// Where no queue is set.
pub fn open_queue(
    settings: &Settings,
    clients: &Clients,
    observer: Option<Arc<dyn CallObserver>>,
) -> Result<Arc<dyn Queue>, SettingsFaults> {
    let url = settings.destination()?.url.clone();
    Ok(Arc::new(SqsQueue::new(clients, url, settings.timing.send_timeout, observer)))
}
