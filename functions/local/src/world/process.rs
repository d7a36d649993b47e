//! An instance's process: a thread with a runtime of its own.
//!
//! Ending the runtime is what a crash is: every task stands at some await and is dropped there, connections break, nothing is
//! cleaned up. A new process knows nothing of the old one but its name.

use std::sync::Arc;
use std::time::Duration;

use fencepost_runtime::settings::{Function, Settings};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::WorldError;
use super::region::{InvokeError, Region};
use super::site::Site;
use crate::endpoint::{EndpointThread, StopSignal};
use crate::machine::Outcome;
use crate::shipped::Machine;

/// How often the schedules start the tick loop and the drain.
const SCHEDULE: Duration = Duration::from_secs(60);
/// Stream records of one batch.
const STREAM_BATCH: usize = 1_000;
/// How often a stream batch is tried before it is left to the schedule.
const STREAM_TRIES: u32 = 3;
/// The pause before a stream batch is tried again.
const STREAM_PAUSE: Duration = Duration::from_secs(1);
/// Calls that wait for a process to take them.
const WAITING_MAX: usize = 256;

/// What a process can be asked from outside.
#[derive(Debug)]
pub(super) enum Order {
    /// Run a function and answer.
    Invoke(Function, Value, oneshot::Sender<Result<Value, InvokeError>>),
    /// Run an execution under a fresh name and answer with its outcome.
    Execute(Machine, Value, oneshot::Sender<Outcome>),
}

/// A door to a process. Orders through it are answered, or their reply is dropped with the process.
#[derive(Debug, Clone)]
pub(super) struct Door {
    orders: mpsc::Sender<Order>,
    changes: mpsc::UnboundedSender<Value>,
}

/// The process died before it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

impl Door {
    /// A door to a process that a test plays.
    #[cfg(test)]
    pub(super) fn played() -> (Self, mpsc::Receiver<Order>) {
        let ((orders, taken), (changes, _)) = (mpsc::channel(WAITING_MAX), mpsc::unbounded_channel());
        (Self { orders, changes }, taken)
    }

    /// Invokes a function.
    pub(super) async fn invoke(&self, function: Function, payload: Value) -> Result<Result<Value, InvokeError>, Gone> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Invoke(function, payload, reply)).await.map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }

    /// Runs an execution to its end.
    pub(super) async fn execute(&self, machine: Machine, input: Value) -> Result<Outcome, Gone> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Execute(machine, input, reply)).await.map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }

    /// Hands over a record of the outbox's stream. A dead process takes none.
    pub(super) fn changed(&self, record: Value) {
        drop(self.changes.send(record));
    }
}

/// A running process. Dropping it ends it without waiting.
#[derive(Debug)]
pub(super) struct Process {
    thread: EndpointThread,
    door: Door,
}

impl Process {
    /// Starts a cold process, and returns once its functions are built.
    pub(super) async fn start(site: Arc<Site>, settings: Settings) -> Result<Self, WorldError> {
        let (orders, taken) = mpsc::channel(WAITING_MAX);
        let (changes, changed) = mpsc::unbounded_channel();
        let (ready, is_ready) = oneshot::channel();
        let name = settings.identity.name.to_string();
        let thread = EndpointThread::spawn("instance", move |stop| live(site, settings, taken, changed, ready, stop))?;
        let failed = |error, cause| WorldError::Failed { name, what: "the start".to_owned(), error, cause };
        match is_ready.await {
            Ok(Ok(())) => Ok(Self { thread, door: Door { orders, changes } }),
            Ok(Err(InvokeError { error_type, message })) => Err(failed(error_type, message)),
            Err(_) => Err(failed("HandlerPanicked".to_owned(), "its thread ended".to_owned())),
        }
    }

    /// A way to ask it.
    pub(super) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Ends it where it stands.
    pub(super) async fn kill(self) {
        self.thread.stop().await;
    }
}

async fn live(
    site: Arc<Site>,
    settings: Settings,
    mut orders: mpsc::Receiver<Order>,
    changes: mpsc::UnboundedReceiver<Value>,
    ready: oneshot::Sender<Result<(), InvokeError>>,
    stop: StopSignal,
) {
    let region = match Region::cold(site, &settings).await {
        Ok(region) => Arc::new(region),
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    drop(ready.send(Ok(())));
    tokio::spawn(keep_schedules(Arc::clone(&region)));
    tokio::spawn(pump_stream(Arc::clone(&region), changes));
    let serving = async {
        while let Some(order) = orders.recv().await {
            drop(tokio::spawn(carry_out(Arc::clone(&region), order)));
        }
    };
    tokio::select! {
        () = serving => {}
        () = stop.stopped() => {}
    }
}

async fn carry_out(region: Arc<Region>, order: Order) {
    match order {
        Order::Invoke(function, payload, reply) => drop(reply.send(region.invoke(function, payload).await)),
        Order::Execute(machine, input, reply) => {
            if let Ok(execution) = region.start(machine, Uuid::new_v4().to_string(), input)
                && let Ok(outcome) = execution.await
            {
                drop(reply.send(outcome));
            }
        }
    }
}

/// The two schedules: at once, then every minute.
async fn keep_schedules(region: Arc<Region>) {
    loop {
        for machine in [Machine::LeaseCycle, Machine::Drain] {
            if let Err(error) = region.start(machine, Uuid::new_v4().to_string(), json!({})) {
                region.site.trouble(format!("the schedule could not start {}: {error}", machine.name()));
            }
        }
        region.site.clock.sleep(SCHEDULE).await;
    }
}

/// The event source mapping between the outbox's stream and the drainer: one batch at a time, few tries. What is given up is
/// found by the schedule.
async fn pump_stream(region: Arc<Region>, mut changes: mpsc::UnboundedReceiver<Value>) {
    let mut records = Vec::new();
    while changes.recv_many(&mut records, STREAM_BATCH).await > 0 {
        let batch = json!({ "Records": std::mem::take(&mut records) });
        for tries_left in (0..STREAM_TRIES).rev() {
            match region.invoke(Function::Drainer, batch.clone()).await {
                Ok(_) => break,
                Err(error) if tries_left > 0 => {
                    tracing::warn!(error = error.error_type, "a stream batch is tried again");
                    region.site.clock.sleep(STREAM_PAUSE).await;
                }
                Err(error) => tracing::warn!(error = error.error_type, "a stream batch is left to the schedule"),
            }
        }
    }
}
