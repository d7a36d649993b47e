//! The lease function in Lambda: the one that links the topic rule's client.

use std::process::ExitCode;
use std::sync::Arc;

use fencepost_lease::{Entry, LeaseFunction};
use fencepost_protocol::lease::SourceMode;
use fencepost_runtime::clock::{Clock, SystemClock};
use fencepost_runtime::failure::FunctionError;
use fencepost_runtime::settings::{Function, Settings};
use fencepost_runtime::wiring::{Edge, Stores};
use fencepost_runtime::{lambda, telemetry};
use fencepost_storage::dynamodb::DynamoTableInspection;
use fencepost_storage::iot::TopicRuleSource;
use fencepost_storage::{CallPolicy, ClientOptions, Clients, Source};

fn main() -> ExitCode {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    lambda::start(lambda::serve(
        Arc::clone(&clock),
        move || {
            let clock = Arc::clone(&clock);
            let inspection = Arc::new(DynamoTableInspection::default());
            Entry::open(Arc::clone(&clock), inspection, move || build(Arc::clone(&clock)))
        },
        |entry, input, invocation| async move { entry.handle(input, &invocation.limit).await },
    ))
}

async fn build(clock: Arc<dyn Clock>) -> Result<LeaseFunction, FunctionError> {
    let settings = Settings::from_env(&[Function::Lease])?;
    telemetry::init_logs(&settings, Arc::clone(&clock));
    let stores = Stores::open(&settings, ClientOptions::default(), None).await?;
    let source = match settings.source {
        SourceMode::Open => None,
        SourceMode::Gated => Some(topic_rule(&settings).await?),
    };
    Ok(LeaseFunction::new(&settings, &stores, source, Edge::in_lambda(&settings, clock)))
}

async fn topic_rule(settings: &Settings) -> Result<Arc<dyn Source>, FunctionError> {
    let clients = Clients::load(ClientOptions::default()).await?;
    let policy = CallPolicy::in_thirds(settings.store_call_timeout);
    Ok(Arc::new(TopicRuleSource::new(&clients, settings.topic_rule()?, policy, None)))
}
