//! The shipped state machines, parsed once, and what their `Resource` strings reach in an instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_protocol::time::duration_ms;
use fencepost_runtime::clock::Clock;
use fencepost_runtime::settings::Function;
use serde_json::{Value, json};

use super::WorldError;
use super::region::Region;
use crate::machine::{Definition, Resources, TaskError, Time};

/// The bus that events are put on.
const EVENT_BUS: &str = "fencepost";

/// The shipped state machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    LeaseCycle,
    Drain,
    Takeover,
    StepDown,
    Redrive,
}

impl Machine {
    const ALL: [Self; 5] = [Self::LeaseCycle, Self::Drain, Self::Takeover, Self::StepDown, Self::Redrive];

    /// Its name, which is its file's.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::LeaseCycle => "lease_cycle",
            Self::Drain => "drain",
            Self::Takeover => "takeover",
            Self::StepDown => "step_down",
            Self::Redrive => "redrive",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::LeaseCycle => include_str!("../../../../statemachines/lease_cycle.asl.json"),
            Self::Drain => include_str!("../../../../statemachines/drain.asl.json"),
            Self::Takeover => include_str!("../../../../statemachines/takeover.asl.json"),
            Self::StepDown => include_str!("../../../../statemachines/step_down.asl.json"),
            Self::Redrive => include_str!("../../../../statemachines/redrive.asl.json"),
        }
    }

    /// Its ARN.
    pub(super) fn arn(self) -> String {
        format!("arn:aws:states:us-east-1:000000000000:stateMachine:{}", self.name())
    }

    /// Is it a Standard machine, whose execution names are used once?
    pub(super) const fn is_standard(self) -> bool {
        matches!(self, Self::Takeover | Self::StepDown | Self::Redrive)
    }

    fn of_arn(arn: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.arn() == arn)
    }
}

fn function_arn(function: Function) -> String {
    format!("arn:aws:lambda:us-east-1:000000000000:function:fencepost-{}:live", function.as_str())
}

/// The definitions of all machines. Every instance has the same: ARNs are a region's own.
pub(super) struct Definitions(Vec<Arc<Definition>>);

impl Definitions {
    /// Parses the shipped files.
    pub(super) fn shipped() -> Result<Self, WorldError> {
        let substitutions: BTreeMap<String, String> = [
            ("LeaseFunctionArn", function_arn(Function::Lease)),
            ("DrainerFunctionArn", function_arn(Function::Drainer)),
            ("TakeoverStateMachineArn", Machine::Takeover.arn()),
            ("EventBusName", EVENT_BUS.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let parse = |machine: Machine| {
            Definition::parse(machine.text(), &substitutions)
                .map(Arc::new)
                .map_err(|error| WorldError::Internal { what: machine.name(), problem: error.to_string() })
        };
        Machine::ALL.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// One machine's. They stand in the order of [`Machine::ALL`], which is that of its variants.
    pub(super) fn of(&self, machine: Machine) -> Arc<Definition> {
        Arc::clone(&self.0[machine as usize])
    }
}

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
        let function = Function::ALL.into_iter().find(|function| function_arn(*function) == arn).ok_or_else(|| {
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
