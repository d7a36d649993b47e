//! The drainer function in Lambda: the one that links the event bus's client.

use std::process::ExitCode;
use std::sync::Arc;

use fencepost_drainer::{DrainerFunction, PUT_TIMEOUT};
use fencepost_runtime::clock::{Clock, SystemClock};
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::settings::{Function, Settings};
use fencepost_runtime::wiring::{Edge, Stores, open_queue};
use fencepost_runtime::{lambda, telemetry};
use fencepost_storage::eventbridge::EventBridgeBus;
use fencepost_storage::{ClientOptions, Clients};

fn main() -> ExitCode {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    lambda::start(lambda::serve(
        Arc::clone(&clock),
        move || build(Arc::clone(&clock)),
        |function, input, invocation| async move { function.handle(input, &invocation.limit).await },
    ))
}

async fn build(clock: Arc<dyn Clock>) -> Result<DrainerFunction, FunctionError> {
    let settings = Settings::from_env(&[Function::Drainer])?;
    telemetry::init_logs(&settings, Arc::clone(&clock));
    let stores = Stores::open(&settings, ClientOptions::default(), None).await?;
    let clients = Clients::load(ClientOptions::default()).await?;
    let queue = open_queue(&settings, &clients, None)?;
    let bus = Arc::new(EventBridgeBus::new(&clients, settings.event_bus.as_str(), PUT_TIMEOUT));
    Ok(DrainerFunction::new(&settings, &stores, queue, bus, Edge::in_lambda(&settings, clock))?)
}
