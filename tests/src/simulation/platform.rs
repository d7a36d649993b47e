//! The state machines of the shipped files, parsed once for all runs, and the ARNs that their resources go by.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use fencepost_local::machine::Definition;
use fencepost_runtime::settings::Function;
use serde::{Deserialize, Serialize};

/// The shipped state machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    /// Ticks.
    LeaseCycle,
    /// Drains every shard.
    Drain,
    /// Drains what former holders left.
    Takeover,
    /// Hands the lease over.
    StepDown,
    /// Puts dead records back.
    Redrive,
}

impl Machine {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::LeaseCycle, Self::Drain, Self::Takeover, Self::StepDown, Self::Redrive];

    /// Its name, which is its file's.
    pub const fn name(self) -> &'static str {
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
            Self::LeaseCycle => include_str!("../../../statemachines/lease_cycle.asl.json"),
            Self::Drain => include_str!("../../../statemachines/drain.asl.json"),
            Self::Takeover => include_str!("../../../statemachines/takeover.asl.json"),
            Self::StepDown => include_str!("../../../statemachines/step_down.asl.json"),
            Self::Redrive => include_str!("../../../statemachines/redrive.asl.json"),
        }
    }

    /// Its ARN.
    pub(crate) fn arn(self) -> &'static str {
        match self {
            Self::LeaseCycle => "arn:aws:states:us-east-1:000000000000:stateMachine:lease_cycle",
            Self::Drain => "arn:aws:states:us-east-1:000000000000:stateMachine:drain",
            Self::Takeover => "arn:aws:states:us-east-1:000000000000:stateMachine:takeover",
            Self::StepDown => "arn:aws:states:us-east-1:000000000000:stateMachine:step_down",
            Self::Redrive => "arn:aws:states:us-east-1:000000000000:stateMachine:redrive",
        }
    }

    pub(crate) fn of_arn(arn: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.arn() == arn)
    }

    /// Is it a Standard machine, whose execution names are used once?
    pub(crate) const fn is_standard(self) -> bool {
        matches!(self, Self::Takeover | Self::StepDown | Self::Redrive)
    }

    /// Its definition.
    pub(crate) fn definition(self) -> Arc<Definition> {
        static DEFINITIONS: OnceLock<BTreeMap<Machine, Arc<Definition>>> = OnceLock::new();
        let all = DEFINITIONS.get_or_init(|| Machine::ALL.map(|machine| (machine, parse(machine))).into());
        Arc::clone(&all[&self])
    }
}

fn parse(machine: Machine) -> Arc<Definition> {
    let substitutions: BTreeMap<String, String> = [
        ("LeaseFunctionArn", function_arn(Function::Lease)),
        ("DrainerFunctionArn", function_arn(Function::Drainer)),
        ("TakeoverStateMachineArn", Machine::Takeover.arn()),
        ("EventBusName", "fencepost"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    Arc::new(Definition::parse(machine.text(), &substitutions).expect("the shipped machine is understood"))
}

/// A function's ARN.
pub(crate) const fn function_arn(function: Function) -> &'static str {
    match function {
        Function::Ingest => "arn:aws:lambda:us-east-1:000000000000:function:fencepost-ingest:live",
        Function::Lease => "arn:aws:lambda:us-east-1:000000000000:function:fencepost-lease:live",
        Function::Drainer => "arn:aws:lambda:us-east-1:000000000000:function:fencepost-drainer:live",
    }
}

/// The function of an ARN.
pub(crate) fn function_of(arn: &str) -> Option<Function> {
    Function::ALL.into_iter().find(|function| function_arn(*function) == arn)
}
