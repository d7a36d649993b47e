//! `simulate`: the shipped handlers and machines in virtual time under faults, seed after seed.
//!
//! Exit codes: 0 all runs were sound and everything that should sometimes happen did; 1 a rule was broken, a run was not the
//! same twice, or something was never reached; 2 wrong use.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, Parser, Subcommand};
use fencepost_tests::chance::Chance;
use fencepost_tests::simulation::{Fault, Report, parse_faults, run, shrink};

mod figures;

use figures::Figures;

/// The root seed of the CI profile.
const ROOT_SEED: u64 = 2_023;
/// Seeds of the CI profile.
const SEEDS: usize = 200;
/// Every so manieth seed runs twice.
const TWICE_EACH: usize = 40;
/// A line of progress comes every so many seeds.
const PROGRESS_EACH: usize = 25;
/// The stack of a thread.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Runs that shrinking a list of faults may take.
const SHRINK_RUNS_MAX: usize = 250;

/// Runs the shipped handlers and state machines in virtual time under faults. Without a command: the CI profile, 200 seeds of
/// ten simulated minutes from a fixed root seed.
#[derive(Debug, Parser)]
struct Simulate {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    batch: Batch,
}

#[derive(Debug, Args)]
struct Batch {
    /// How many seeds.
    #[arg(long, default_value_t = SEEDS)]
    seeds: usize,
    /// The root seed that all others come from.
    #[arg(long, default_value_t = ROOT_SEED)]
    root: u64,
    /// Runs side by side.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Figures as one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Do not fail for what was never reached: for fewer seeds than the profile's.
    #[arg(long)]
    reach_anything: bool,
    /// Do not look for the few faults that are enough to fail: for whoever only asks whether a run fails.
    #[arg(long)]
    no_shrink: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fresh seeds until the time is over.
    Soak {
        /// For how long, in minutes of real time.
        #[arg(long, default_value_t = 30)]
        minutes: u64,
        /// The root seed; a fresh one where none is given.
        #[arg(long)]
        root: Option<u64>,
        /// Runs side by side.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Figures as one JSON object on stdout.
        #[arg(long)]
        json: bool,
        /// Do not fail for what was never reached: for minutes too few to reach everything.
        #[arg(long)]
        reach_anything: bool,
    },
    /// One seed again, with its whole history.
    Replay {
        /// The seed.
        #[arg(long)]
        seed: u64,
        /// Faults instead of those that the seed makes, one JSON object a line.
        #[arg(long)]
        faults: Option<PathBuf>,
    },
}

/// When a batch ends.
#[derive(Debug, Clone, Copy)]
enum Until {
    Count(usize),
    Time(Instant),
}

fn main() -> ExitCode {
    let simulate = Simulate::parse();
    match carry_out(simulate) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            say(&problem);
            ExitCode::from(2)
        }
    }
}

fn carry_out(simulate: Simulate) -> Result<bool, String> {
    match simulate.command {
        None => {
            let Batch { seeds, root, threads, json, reach_anything, no_shrink } = simulate.batch;
            if seeds == 0 || threads == 0 {
                return Err("--seeds and --threads must be 1 or more".to_owned());
            }
            let runs_max = if no_shrink { 0 } else { SHRINK_RUNS_MAX };
            Ok(batch(root, threads, Until::Count(seeds), json, !reach_anything, runs_max))
        }
        Some(Command::Soak { minutes, root, threads, json, reach_anything }) => {
            if minutes == 0 || threads == 0 {
                return Err(
                    "--minutes and --threads must be 1 or more: a soak that runs nothing shows nothing".to_owned()
                );
            }
            let root = root.unwrap_or_else(fresh_root);
            say(&format!("soak: root seed {root}, {minutes} minutes"));
            let until = Until::Time(Instant::now() + Duration::from_secs(minutes * 60));
            Ok(batch(root, threads, until, json, !reach_anything, SHRINK_RUNS_MAX))
        }
        Some(Command::Replay { seed, faults }) => replay(seed, faults),
    }
}

/// A root seed that nobody chose.
fn fresh_root() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn seed_of(root: u64, index: usize) -> u64 {
    // Short enough to be typed again.
    Chance::keyed(root, &[u64::try_from(index).unwrap_or(u64::MAX)]).number() >> 24
}

/// Runs seeds side by side until the end or the first failure; tells figures. Whether all was well.
fn batch(root: u64, threads: usize, until: Until, json: bool, reach_all: bool, shrink_runs_max: usize) -> bool {
    let (next, stop, unstarted) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let figures = Mutex::new(Figures::new(root));
    let failures: Mutex<Vec<Failure>> = Mutex::default();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::SeqCst);
            let over = match until {
                Until::Count(count) => index >= count,
                Until::Time(end) => Instant::now() >= end,
            };
            if over || stop.load(Ordering::SeqCst) {
                return;
            }
            let seed = seed_of(root, index);
            let report = run(seed, None);
            if index.is_multiple_of(TWICE_EACH) && !is_same_again(&report) {
                stop.store(true, Ordering::SeqCst);
                lock(&failures).push(Failure::NotTheSame(seed));
            }
            let mut figures = lock(&figures);
            figures.add(&report);
            if figures.seeds.is_multiple_of(PROGRESS_EACH) {
                say(&figures.progress());
            }
            drop(figures);
            if report.first_broken().is_some() {
                stop.store(true, Ordering::SeqCst);
                lock(&failures).push(Failure::Broken(Box::new(report)));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // The engine of the machines' expressions asks the system for a stack of its own wherever little is left.
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            if let Err(error) = thread.spawn_scoped(scope, work) {
                say(&format!("a thread could not be started: {error}"));
                stop.store(true, Ordering::SeqCst);
                unstarted.store(true, Ordering::SeqCst);
            }
        }
    });
    let figures = figures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if json {
        out(&figures.json());
    } else {
        out(&figures.text());
    }
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sound = failures.is_empty() && !unstarted.load(Ordering::SeqCst) && figures.seeds > 0;
    failures.into_iter().for_each(|failure| tell(failure, shrink_runs_max));
    let missing = figures.reached.missing();
    if reach_all && sound && !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|what| what.name()).collect();
        say(&format!("never reached in {} seeds: {}", figures.seeds, names.join(", ")));
        return false;
    }
    sound
}

/// Why a batch failed.
enum Failure {
    NotTheSame(u64),
    Broken(Box<Report>),
}

/// The same seed twice must make the same history.
fn is_same_again(report: &Report) -> bool {
    let again = run(report.seed, None);
    again.history == report.history && again.met == report.met
}

fn tell(failure: Failure, shrink_runs_max: usize) {
    match failure {
        Failure::NotTheSame(seed) => say(&format!("seed {seed} did not make the same history twice")),
        Failure::Broken(report) => {
            let seed = report.seed;
            say(&format!("seed {seed} broke a rule after {} faults:", report.met.len()));
            report.verdict.broken.iter().take(5).for_each(|broken| say(&format!("  {broken}")));
            say(&format!("replay it: tests/run simulate replay --seed {seed}"));
            if shrink_runs_max == 0 {
                return;
            }
            let (faults, smallest) = shrink(*report, shrink_runs_max, |left| say(&format!("  {left} faults are left")));
            say(&format!("{} faults are enough:", faults.len()));
            faults.iter().for_each(|fault| out(&fault.to_string()));
            smallest.verdict.broken.iter().take(5).for_each(|broken| say(&format!("  {broken}")));
            say(&format!(
                "replay with them: put those lines into FILE; tests/run simulate replay --seed {seed} --faults FILE"
            ));
        }
    }
}

fn replay(seed: u64, faults: Option<PathBuf>) -> Result<bool, String> {
    let faults: Option<Vec<Fault>> = match faults {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Some(parse_faults(&text).map_err(|problem| format!("{}: {problem}", path.display()))?)
        }
    };
    let report = run(seed, faults.as_deref());
    out(report.history.text().trim_end());
    out(&format!("{:?}", report.verdict.conservation));
    for broken in &report.verdict.broken {
        out(&format!("BROKEN {broken}"));
    }
    Ok(report.verdict.broken.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For people: progress and problems.
fn say(text: &str) {
    // Nobody is left to be told where stderr is gone.
    drop(writeln!(io::stderr(), "{text}"));
}

/// The result.
fn out(text: &str) {
    drop(writeln!(io::stdout(), "{text}"));
}
