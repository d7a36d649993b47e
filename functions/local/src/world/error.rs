//! Why the world could not start, or could not do what it was asked for.

use std::path::PathBuf;

use fencepost_runtime::settings::SettingsFaults;
use fencepost_storage::StoreError;

use crate::StartError;
use crate::queue::Refusal;
use crate::shipped::UnusableMachine;

/// A failure of the world. Each message names the option or the instance, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// An endpoint could not start, or the data directory cannot be used.
    #[error(transparent)]
    Endpoint(#[from] StartError),
    /// An option has a value that makes no world.
    #[error("{option} {problem}")]
    Option {
        /// The option, as the command or the options' field names it.
        option: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The settings of the functions are wrong; every fault is told.
    #[error(transparent)]
    Settings(SettingsFaults),
    /// The data directory holds a world of another form.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The file that says so.
        path: PathBuf,
        /// What does not fit, and what to do.
        problem: String,
    },
    /// A table could not be made, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The destination queue could not be made.
    #[error("the queue {name} cannot be made: {refusal}")]
    Queue {
        /// Its name.
        name: String,
        /// What SQS says.
        refusal: Refusal,
    },
    /// There is no instance of this name.
    #[error("there is no instance {name:?}; this world has {}", known.join(", "))]
    UnknownInstance {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The instance is not running.
    #[error("instance {name} is not running; start it first (fencepost local start {name})")]
    NotRunning {
        /// Its name.
        name: String,
    },
    /// The instance is running already.
    #[error("instance {name} is running already; kill it first (fencepost local kill {name})")]
    AlreadyRunning {
        /// Its name.
        name: String,
    },
    /// A state machine or a function failed.
    #[error("{what} of instance {name} failed with {error}: {cause}")]
    Failed {
        /// The instance.
        name: String,
        /// The machine or function.
        what: String,
        /// The stable name of the error.
        error: String,
        /// What happened.
        cause: String,
    },
    /// A shipped state machine cannot be run here.
    #[error(transparent)]
    Machine(#[from] UnusableMachine),
    /// A defect of the world itself.
    #[error("{what}: {problem}")]
    Internal {
        /// What was being done.
        what: &'static str,
        /// What happened.
        problem: String,
    },
}
