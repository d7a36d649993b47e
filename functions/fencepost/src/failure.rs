//! Why the command ends without success, and the exit code that says so.

use std::process::ExitCode;

use fencepost_local::world::WorldError;

/// The exit code of a promise that was broken.
const PROMISE_BROKEN: u8 = 1;
/// The exit code of bad input and of surroundings that do not let the command work; clap uses the same one.
const BAD_INPUT_OR_ENVIRONMENT: u8 = 2;

/// A failure of the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The bridge did not do what it promises: each line says what.
    #[error("{}", .0.join("\n"))]
    PromiseBroken(Vec<String>),
    /// What was asked for, or the surroundings, do not let the command work. The message names the fix.
    #[error("{0}")]
    Environment(String),
}

impl CommandError {
    pub(crate) fn environment(problem: impl Into<String>) -> Self {
        Self::Environment(problem.into())
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::PromiseBroken(_) => PROMISE_BROKEN,
            Self::Environment(_) => BAD_INPUT_OR_ENVIRONMENT,
        })
    }
}

impl From<WorldError> for CommandError {
    fn from(error: WorldError) -> Self {
        Self::Environment(error.to_string())
    }
}
