//! One random run: by its seed alone, or by its seed and a list of faults.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fault::Fault;
use super::history::History;
use super::observer::Broken;
use super::plan::Plan;
use super::reached::Reached;
use super::verdict::Verdict;
use super::world::World;

/// How often a run looks whether something is broken already.
const STEP: Duration = Duration::from_secs(10);

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Its end.
    pub verdict: Verdict,
    /// What happened.
    pub history: History,
    /// Every fault that was met, in order: fed back, they make the same run.
    pub met: Vec<Fault>,
    /// What was reached.
    pub reached: Reached,
    /// How much time passed in it.
    pub simulated: Duration,
    /// Ticks that lease functions answered.
    pub ticks: u64,
}

impl Report {
    /// What was broken first, if anything was.
    #[must_use]
    pub fn first_broken(&self) -> Option<&Broken> {
        self.verdict.broken.iter().min_by_key(|broken| broken.at)
    }

    /// Those of the `listed` faults that were not met. A fault that is listed twice must be met twice.
    #[must_use]
    pub fn unmet<'a>(&self, listed: &'a [Fault]) -> Vec<&'a Fault> {
        let mut met: Vec<&Fault> = self.met.iter().collect();
        let mut was_met = |fault: &Fault| {
            let index = met.iter().position(|other| *other == fault);
            index.map(|index| met.swap_remove(index)).is_some()
        };
        listed.iter().filter(|fault| !was_met(fault)).collect()
    }

    /// How many faults of each kind were met.
    #[must_use]
    pub fn faults_by_kind(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for fault in &self.met {
            *counts.entry(fault.kind()).or_default() += 1;
        }
        counts
    }
}

/// Runs `seed`. With `faults` these are met and none by chance; everything else (settings, workload, ids, latencies) is the
/// seed's as before.
#[must_use]
pub fn run(seed: u64, faults: Option<&[Fault]>) -> Report {
    let plan = Plan::of(seed);
    let mut world = World::new(plan.options.clone());
    match faults {
        None => {
            world.site.book().set_storms(plan.storms.clone());
            plan.acts.iter().for_each(|(at, act)| world.at(*at, act.clone()));
        }
        Some(faults) => faults.iter().for_each(|fault| place(&mut world, fault)),
    }
    for (at, message) in plan.messages {
        world.publish_at(at, message);
    }
    // What broke a rule is not made worse by going on; a shrinking list of faults is run many times.
    while world.now() < plan.length && world.broken().is_empty() {
        let next = (world.now() + STEP).min(plan.length);
        world.run_until(next);
    }
    let verdict = if world.broken().is_empty() { world.finish() } else { world.judge_now() };
    Report {
        seed,
        verdict,
        history: world.history(),
        met: world.met(),
        reached: world.reached(),
        simulated: world.now(),
        ticks: world.ticks_of_all(),
    }
}

fn place(world: &mut World, fault: &Fault) {
    match fault {
        Fault::Call { instance, operation, number, fault } => world.fault(instance, operation, *number, fault.clone()),
        Fault::At { ms, act } => world.at(Duration::from_millis(*ms), act.clone()),
    }
}
