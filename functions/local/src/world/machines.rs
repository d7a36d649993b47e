//! What the `Resource` strings of the shipped state machines reach in an instance.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_protocol::time::duration_ms;
use fencepost_runtime::clock::Clock;
use serde_json::{Value, json};

use super::region::Region;
use crate::machine::{Resources, TaskError, Time};
use crate::shipped::{Machine, function_of};

/// The clock of an execution.
pub(super) struct MachineTime(pub(super) Arc<dyn Clock>);

#[async_trait]
impl Time for MachineTime {
    fn now_ms(&self) -> u64 {
        self.0.now().wall.as_ms()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }
}

/// The resources of one instance's executions.
pub(super) struct RegionResources(pub(super) Arc<Region>);

#[async_trait]
impl Resources for RegionResources {
    async fn call(&self, resource: &str, arguments: Value, _timeout: Duration) -> Result<Value, TaskError> {
        match resource {
            "arn:aws:states:::lambda:invoke" => self.invoke(arguments).await,
            "arn:aws:states:::events:putEvents" => Ok(self.put_events(&arguments)),
            "arn:aws:states:::states:startExecution" => self.start_execution(&arguments),
            other => Err(TaskError::new("States.Runtime", format!("this world has no resource {other}"))),
        }
    }
}

impl RegionResources {
    /// The function runs as a task of its own: a state's time-out ends the wait for it, not the function.
    async fn invoke(&self, mut arguments: Value) -> Result<Value, TaskError> {
        let arn = arguments["FunctionName"].as_str().unwrap_or_default();
        let function = function_of(arn).ok_or_else(|| {
            TaskError::new("Lambda.ResourceNotFoundException", format!("this world has no function {arn}"))
        })?;
        let payload = arguments["Payload"].take();
        let region = Arc::clone(&self.0);
        let call = tokio::spawn(async move { region.invoke(function, payload).await });
        let outcome = call.await.map_err(|error| TaskError::new("Lambda.Unknown", error.to_string()))?;
        let payload = outcome.map_err(|error| TaskError::new(error.error_type, error.message))?;
        Ok(json!({ "StatusCode": 200, "ExecutedVersion": "1", "Payload": payload }))
    }

    fn put_events(&self, arguments: &Value) -> Value {
        let entries = arguments["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        for entry in entries {
            self.0.bus.put(entry["DetailType"].as_str().unwrap_or_default(), &entry["Detail"]);
        }
        json!({ "FailedEntryCount": 0, "Entries": entries.iter().map(|_| json!({})).collect::<Vec<_>>() })
    }

    fn start_execution(&self, arguments: &Value) -> Result<Value, TaskError> {
        let arn = arguments["StateMachineArn"].as_str().unwrap_or_default();
        let machine = Machine::of_arn(arn).ok_or_else(|| {
            TaskError::new("StepFunctions.StateMachineDoesNotExistException", format!("there is no machine {arn}"))
        })?;
        let name = arguments["Name"].as_str().unwrap_or_default().to_owned();
        drop(self.0.start(machine, name.clone(), arguments["Input"].clone())?);
        let started_seconds = duration_ms(Duration::from_millis(self.0.site.clock.now().wall.as_ms())) / 1_000;
        let arn = format!("{}:{name}", arn.replacen(":stateMachine:", ":execution:", 1));
        Ok(json!({ "ExecutionArn": arn, "StartDate": started_seconds }))
    }
}
