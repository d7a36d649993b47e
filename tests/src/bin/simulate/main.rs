//! `simulate`: the shipped handlers and machines in virtual time under faults, seed after seed.
//!
//! Exit codes: 0 all runs were sound and everything that should sometimes happen did; 1 a rule was broken, a run was not the
//! same twice, something was never reached, or the result could not be written; 2 wrong use, which includes listed faults
//! that never happened in a run that broke nothing.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, Parser, Subcommand, value_parser};
use fencepost_tests::chance::Chance;
use fencepost_tests::simulation::{Fault, Plan, Report, parse_faults_of, run, shrink};

mod figures;

use figures::Figures;

/// The root seed of the CI profile.
const ROOT_SEED: u64 = 2_023;
/// Seeds of the CI profile.
const SEEDS: u64 = 200;
/// Every so manieth seed runs twice.
const TWICE_EACH: u64 = 40;
/// A line of progress comes every so many seeds.
const PROGRESS_EACH: usize = 25;
/// The stack of a thread.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Runs that shrinking a list of faults may take.
const SHRINK_RUNS_MAX: usize = 250;
/// The most runs side by side.
const THREADS_MAX: u64 = 256;
/// The longest soak: about ten weeks.
const MINUTES_MAX: u64 = 100_000;

/// Runs the shipped handlers and state machines in virtual time under faults. Without a command: the CI profile, 200 seeds of
/// ten simulated minutes from a fixed root seed.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Simulate {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    batch: Batch,
}

#[derive(Debug, Args)]
struct Batch {
    /// How many seeds.
    #[arg(long, default_value_t = SEEDS, value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// The root seed that all others come from.
    #[arg(long, default_value_t = ROOT_SEED)]
    root: u64,
    /// Runs side by side.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u64).range(1..=THREADS_MAX))]
    threads: u64,
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
        #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(1..=MINUTES_MAX))]
        minutes: u64,
        /// The root seed; a fresh one where none is given.
        #[arg(long)]
        root: Option<u64>,
        /// Runs side by side.
        #[arg(long, default_value_t = 2, value_parser = value_parser!(u64).range(1..=THREADS_MAX))]
        threads: u64,
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
    Count(u64),
    Time(Instant),
}

/// Why there is no answer.
#[derive(Debug)]
enum Problem {
    WrongUse(String),
    ResultLost(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::ResultLost(error)
    }
}

fn main() -> ExitCode {
    match carry_out(Simulate::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Problem::WrongUse(problem)) => {
            say(&problem);
            ExitCode::from(2)
        }
        Err(Problem::ResultLost(error)) => {
            say(&format!("the result is lost: stdout cannot be written: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn carry_out(simulate: Simulate) -> Result<bool, Problem> {
    match simulate.command {
        None => {
            let Batch { seeds, root, threads, json, reach_anything, no_shrink } = simulate.batch;
            let runs_max = if no_shrink { 0 } else { SHRINK_RUNS_MAX };
            Ok(batch(root, threads.min(seeds), Until::Count(seeds), json, !reach_anything, runs_max)?)
        }
        Some(Command::Soak { minutes, root, threads, json, reach_anything }) => {
            let root = root.unwrap_or_else(fresh_root);
            say(&format!("soak: root seed {root}, {minutes} minutes"));
            let until = Until::Time(Instant::now() + Duration::from_secs(minutes * 60));
            Ok(batch(root, threads, until, json, !reach_anything, SHRINK_RUNS_MAX)?)
        }
        Some(Command::Replay { seed, faults }) => replay(seed, faults),
    }
}

/// A root seed that nobody chose.
fn fresh_root() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn seed_of(root: u64, index: u64) -> u64 {
    // Short enough to be typed again.
    Chance::keyed(root, &[index]).number() >> 24
}

/// Runs seeds side by side until the end or the first failure; tells figures. Whether all was well.
///
/// # Errors
/// The figures, or the faults that are enough to fail, could not be written.
fn batch(
    root: u64,
    threads: u64,
    until: Until,
    json: bool,
    reach_all: bool,
    shrink_runs_max: usize,
) -> io::Result<bool> {
    let (next, stop, unstarted) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
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
    // Failures are told even where the figures are lost.
    let mut written = out(&if json { figures.json() } else { figures.text() });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sound = failures.is_empty() && !unstarted.load(Ordering::SeqCst) && figures.seeds > 0;
    for failure in failures {
        written = written.and(tell(failure, shrink_runs_max));
    }
    let missing = figures.reached.missing();
    if reach_all && sound && !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|what| what.name()).collect();
        say(&format!("never reached in {} seeds: {}", figures.seeds, names.join(", ")));
        return written.map(|()| false);
    }
    written.map(|()| sound)
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

fn tell(failure: Failure, shrink_runs_max: usize) -> io::Result<()> {
    let mut written = Ok(());
    match failure {
        Failure::NotTheSame(seed) => say(&format!("seed {seed} did not make the same history twice")),
        Failure::Broken(report) => {
            let seed = report.seed;
            say(&format!("seed {seed} broke a rule after {} faults:", report.met.len()));
            report.verdict.broken.iter().take(5).for_each(|broken| say(&format!("  {broken}")));
            say(&format!("replay it: tests/run simulate replay --seed {seed}"));
            if shrink_runs_max == 0 {
                return written;
            }
            let (faults, smallest) = shrink(*report, shrink_runs_max, |left| say(&format!("  {left} faults are left")));
            say(&format!("{} faults are enough:", faults.len()));
            written = faults.iter().try_for_each(|fault| out(&fault.to_string()));
            smallest.verdict.broken.iter().take(5).for_each(|broken| say(&format!("  {broken}")));
            say(&format!(
                "replay with them: put those lines into FILE; tests/run simulate replay --seed {seed} --faults FILE"
            ));
        }
    }
    written
}

/// Runs one seed and tells its history. Whether it was sound.
fn replay(seed: u64, faults: Option<PathBuf>) -> Result<bool, Problem> {
    let faults = faults.map(|path| read_faults(seed, &path)).transpose().map_err(Problem::WrongUse)?;
    let report = run(seed, faults.as_deref());
    out(report.history.text().trim_end())?;
    out(&format!("{:?}", report.verdict.conservation))?;
    for broken in &report.verdict.broken {
        out(&format!("BROKEN {broken}"))?;
    }
    let sound = report.verdict.broken.is_empty();
    let listed = faults.unwrap_or_default();
    let unmet = report.unmet(&listed);
    unmet.iter().for_each(|fault| say(&format!("never happened: {fault}")));
    // A run ends where a rule breaks, so what is listed for later cannot happen; it has answered all the same.
    if sound && !unmet.is_empty() {
        let (unmet, listed) = (unmet.len(), listed.len());
        return Err(Problem::WrongUse(format!("{unmet} of {listed} listed faults never happened")));
    }
    Ok(sound)
}

/// The faults in a file, each at an instance that `seed` has.
fn read_faults(seed: u64, path: &Path) -> Result<Vec<Fault>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_faults_of(&text, Plan::of(seed).instances()).map_err(|problem| format!("{}: {problem}", path.display()))
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
fn out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}
