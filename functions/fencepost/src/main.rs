//! `fencepost`, the operator's command: the bridge on one machine, as a demonstration that judges itself (`demo`) or as a
//! world to play with (`local`).
//!
//! - `arguments` says what can be asked for, `failure` which exit code an answer has.
//! - `demo` tells the story of a crash and a planned handover and ends with an audit against a ledger of its own.
//! - `local` runs the world until Ctrl-C, and acts on a running one through its control port.
//! - `timeline` turns events into lines, `diagnostics` the warnings of our own crates; `output` is the only room that writes to the terminal.
//!
//! Decisions of the bridge stay out: the handlers that run are the shipped ones. The time comes from `runtime`'s clock.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use fencepost_runtime::clock::{Clock, SystemClock};

mod arguments;
mod demo;
mod diagnostics;
mod failure;
mod local;
mod output;
mod signals;
mod timeline;

use arguments::{Arguments, Command};
use failure::CommandError;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    diagnostics::init(Arc::clone(&clock), arguments.has_json_events());
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::environment(format!("the system gives no threads: {error}")))
        .and_then(|runtime| runtime.block_on(run(arguments, clock)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            error.exit_code()
        }
    }
}

async fn run(arguments: Arguments, clock: Arc<dyn Clock>) -> Result<(), CommandError> {
    match arguments.command.unwrap_or(Command::Demo(arguments.demo)) {
        Command::Demo(arguments) => demo::run(&arguments, clock).await,
        Command::Local(arguments) => match arguments.action {
            Some(action) => local::control::run(&action).await,
            None => local::run(&arguments.world, clock).await,
        },
    }
}
