//! Explores a model to its end and says what was found.

use std::sync::Arc;
use std::time::Instant;

use fencepost_protocol::outbox::Slot;
use stateright::{Checker, HasDiscoveries, Model};

use crate::bounds::{Bounds, either};
use crate::ends::{End, Reached};
use crate::steps::Bridge;
use crate::world::World;

/// Both cores of a build machine.
const THREADS: usize = 2;
/// States after which a model counts as too large. No model comes near: one that is cut off fails.
const STATES_MAX_CI: usize = 20_000_000;
const STATES_MAX_SOAK: usize = 100_000_000;

/// Explores everything within `bounds`. Fails where a rule is broken, with the way there, and where an end was not reached.
pub(crate) fn check(bounds: Bounds) {
    let bridge = Bridge { bounds, reached: Arc::new(Reached::default()) };
    let states_max = either(STATES_MAX_CI, STATES_MAX_SOAK);
    let started = Instant::now();
    let checker = bridge
        .clone()
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(states_max)
        .spawn_dfs()
        .join();
    let broken = checker.discoveries().into_iter().min_by_key(|(name, _)| *name);
    let (states, unique, depth) = (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    let name = bridge.bounds.name;
    println!("{name}: {states} states, {unique} unique, depth {depth}, {:.1}s", started.elapsed().as_secs_f64());
    if let Some((rule, path)) = broken {
        let steps = shorter(&bridge).unwrap_or_else(|| path.into_actions());
        tell(&bridge, &steps);
        panic!("{name}: broken: {rule}");
    }
    for end in bridge.reached.all() {
        println!("    reached: {}", end.words());
    }
    // Without a counterexample and below this number the checker ends for one reason alone: nothing is left to explore.
    assert!(states < states_max, "{name}: cut off at {states_max} states; give it smaller bounds");
    let missed: Vec<&str> =
        bridge.bounds.ends.iter().filter(|end| !bridge.reached.has(**end)).map(|end| End::words(*end)).collect();
    assert!(missed.is_empty(), "{name}: never reached: {missed:?}");
}

/// The way to a broken rule by breadth first, which is about the shortest; `None` where that takes too many states.
fn shorter(bridge: &Bridge) -> Option<Vec<<Bridge as Model>::Action>> {
    const STATES_MAX: usize = 3_000_000;
    let checker = bridge
        .clone()
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(STATES_MAX)
        .spawn_bfs()
        .join();
    let ways = checker.discoveries().into_values().map(|path| path.into_actions());
    ways.min_by_key(Vec::len)
}

/// Prints the steps, each with the time and what the lease row says after it.
fn tell(bridge: &Bridge, steps: &[<Bridge as Model>::Action]) {
    let mut world = World::new(&bridge.bounds);
    for (number, step) in steps.iter().enumerate() {
        world = bridge.next_state(&world, *step).unwrap();
        println!("{:>4}. {}s  {step:?}\n          {}", number + 1, world.now_s, lease_in_words(&world));
        for (key, row) in &world.store.rows {
            println!("          {key}: {:?}, stamp {}, attempts {}", row.status, row.stamp, row.attempts);
        }
    }
    if let Some(breach) = &world.broken {
        println!("      {}: {}", breach.rule, breach.what);
    }
}

fn lease_in_words(world: &World) -> String {
    let record = match &*world.store.lease {
        Slot::Absent => return "no lease row".to_owned(),
        Slot::Damaged(_) => return "damaged lease row".to_owned(),
        Slot::Present(record) => record,
    };
    let owner = record.owner.as_ref().map_or("nobody".to_owned(), ToString::to_string);
    let mark = if record.stepping_down.is_some() { ", stepping down" } else { "" };
    let confirmed = record.confirmed_at.since(crate::world::start()).as_secs();
    format!("{owner}, token {}, renewal {}, confirmed at {confirmed}s{mark}", record.token, record.renewal)
}
