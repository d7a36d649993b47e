//! `tests/run crash`: see `fencepost_tests::crash`.
//!
//! Exit codes: 0 every promise held, 1 one was broken, 2 the run could not be made.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, value_parser};
use fencepost_runtime::clock::{Clock as _, SystemClock};
use fencepost_tests::crash::{Failure, Options, Report, run};
use tokio::signal::unix::{SignalKind, signal};

/// The real functions as processes, killed and frozen behind proxies that lose replies.
#[derive(Debug, Parser)]
#[command(name = "crash")]
struct Arguments {
    /// Rounds: each publishes a few messages and does one thing to the world.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// Chooses what is done; by default the present time.
    #[arg(long)]
    seed: Option<u64>,
    /// One JSON object instead of the text.
    #[arg(long)]
    json: bool,
    /// The folder of the compiled functions.
    #[arg(long, default_value = "target/debug")]
    functions: PathBuf,
    /// The folder for history and logs of each seed; kept where something is wrong.
    #[arg(long, default_value = "target/crash")]
    evidence: PathBuf,
    /// Keep the evidence in any case.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| SystemClock::new().now().wall.as_ms() % 1_000_000);
    let options = Options {
        rounds: arguments.rounds,
        seed,
        functions: arguments.functions.clone(),
        evidence: arguments.evidence.join(seed.to_string()),
    };
    let outcome = tokio::select! {
        outcome = run(&options, to_stderr) => outcome,
        outcome = interrupted() => outcome,
    };
    match outcome {
        Ok(report) => finish(&arguments, &options, &report),
        Err(failure) => {
            to_stderr(&format!("seed {seed}: the run could not be made: {failure}"));
            ExitCode::from(2)
        }
    }
}

/// Every process dies with the run's future, which is dropped then.
async fn interrupted() -> Result<Report, Failure> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Err("interrupted".into())
}

fn finish(arguments: &Arguments, options: &Options, report: &Report) -> ExitCode {
    let text = if arguments.json { format!("{}\n", report.json()) } else { report.to_string() };
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        let kept = options.evidence.display();
        to_stderr(&format!("the report could not be written to standard output: {error}; evidence: {kept}"));
        if report.passed() {
            return ExitCode::from(2);
        }
    }
    if report.passed() {
        if !arguments.keep {
            drop(std::fs::remove_dir_all(&options.evidence));
        }
        return ExitCode::SUCCESS;
    }
    to_stderr(&format!(
        "evidence: {}; the same plan again: tests/run crash --rounds {} --seed {}",
        options.evidence.display(),
        options.rounds,
        options.seed
    ));
    ExitCode::FAILURE
}

fn to_stderr(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
