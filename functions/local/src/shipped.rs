//! The state machines that are shipped, by name and ARN: the very files under `statemachines/`, parsed.
//!
//! Beside them stand the functions' own time limits, as the deployment sets them.
//!
//! Whoever runs them outside AWS (the local world, the simulator, the crash test) takes them from here, with one set of ARNs.
//! What the ARNs reach is the runner's business.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::timing::Profile;
use fencepost_runtime::settings::{Function, Settings};
use serde::{Deserialize, Serialize};

use crate::machine::{Definition, DefinitionError};

/// The bus that the machines put events on.
const EVENT_BUS: &str = "fencepost";

/// A shipped state machine.
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
    pub fn arn(self) -> String {
        format!("arn:aws:states:us-east-1:000000000000:stateMachine:{}", self.name())
    }

    /// The machine of an ARN.
    pub fn of_arn(arn: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.arn() == arn)
    }

    /// Is it a Standard machine, whose execution names are used once?
    pub const fn is_standard(self) -> bool {
        matches!(self, Self::Takeover | Self::StepDown | Self::Redrive)
    }
}

/// The ARN by which the machines call a function.
pub fn function_arn(function: Function) -> String {
    format!("arn:aws:lambda:us-east-1:000000000000:function:fencepost-{}:live", function.as_str())
}

/// The function of an ARN.
pub fn function_of(arn: &str) -> Option<Function> {
    Function::ALL.into_iter().find(|function| function_arn(*function) == arn)
}

/// The ingest function's time limit.
pub(crate) const INGEST_LIMIT: Duration = Duration::from_secs(30);
/// The lease function's time limit.
const fn lease_limit(profile: Profile) -> Duration {
    match profile {
        Profile::Durable => Duration::from_secs(15),
        Profile::Fast => Duration::from_secs(10),
    }
}

/// The time limit that the deployment gives a function under these settings.
pub fn time_limit(function: Function, settings: &Settings) -> Duration {
    match function {
        Function::Ingest => INGEST_LIMIT,
        Function::Lease => lease_limit(settings.profile),
        Function::Drainer => settings.timing.drainer_limit,
    }
}

/// A shipped file that the runner does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the state machine {machine}: {problem}")]
pub struct UnusableMachine {
    /// Which.
    pub machine: &'static str,
    /// Why.
    pub problem: DefinitionError,
}

/// The definitions of all machines.
#[derive(Clone)]
pub struct Machines(Vec<Arc<Definition>>);

impl Machines {
    /// Parses the shipped files.
    ///
    /// # Errors
    /// The first that the runner does not take.
    pub fn parse() -> Result<Self, UnusableMachine> {
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
                .map_err(|problem| UnusableMachine { machine: machine.name(), problem })
        };
        Machine::ALL.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// One machine's. They stand in the order of [`Machine::ALL`], which is that of its variants.
    pub fn of(&self, machine: Machine) -> Arc<Definition> {
        Arc::clone(&self.0[machine as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTE: &str = include_str!("../../../infra/stacks/compute.yaml");

    /// The seconds that `name:` states on its first line after `mark`.
    fn seconds(mark: &str, name: &str) -> Duration {
        let (_, after) = COMPUTE.split_once(mark).unwrap();
        let line = after.lines().map(str::trim).find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Duration::from_secs(line.unwrap().parse().unwrap())
    }

    #[test]
    fn the_time_limits_are_the_deployments() {
        assert_eq!(seconds("Binary: fencepost-ingest", "Timeout"), INGEST_LIMIT);
        for profile in [Profile::Durable, Profile::Fast] {
            let mark = format!("\n    {}:\n", profile.as_str());
            assert_eq!(seconds(&mark, "LeaseSeconds"), lease_limit(profile), "{profile:?}");
            let timing = fencepost_protocol::timing::Timing::build(profile, &Default::default()).unwrap();
            assert_eq!(seconds(&mark, "DrainerSeconds"), timing.drainer_limit, "{profile:?}");
        }
    }
}
