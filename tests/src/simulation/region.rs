//! An instance: its hosts, which live as long as the run, and its life, which ends with a kill and begins again cold.
//!
//! What AWS keeps beyond a crash is kept here too: the names of Standard executions. Everything else dies with the life:
//! executions, invocations, schedules, what a warm function remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_drainer::DrainerFunction;
use fencepost_ingest::IngestFunction;
use fencepost_lease::LeaseFunction;
use fencepost_local::shipped::Machine;
use fencepost_protocol::lease::SourceMode;
use fencepost_protocol::time::Timestamp;
use fencepost_protocol::timing::LOOP_LENGTH;
use fencepost_runtime::clock::Clock;
use fencepost_runtime::ids::SeededIds;
use fencepost_runtime::settings::Settings;
use fencepost_runtime::telemetry::{Labels, Metric, MetricSink};
use fencepost_runtime::wiring::{Edge, Stores};
use fencepost_storage::CallPolicy;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::site::Site;
use super::time::{Gate, HostClock};
use super::wire::Wire;

/// The longest that ingest waits for the lease row that it stamps by, as in the functions' own wiring.
const STAMP_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// What a metric came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Total {
    /// How often it was observed.
    pub count: u64,
    /// The sum of all values.
    pub sum: f64,
    /// The last value.
    pub last: f64,
}

/// The metrics of an instance over the whole run.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    totals: Mutex<BTreeMap<Metric, Total>>,
}

impl MetricSink for Totals {
    fn record(&self, _at: Timestamp, _labels: &Labels, values: &[(Metric, f64)]) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        for (metric, value) in values {
            let total = totals.entry(*metric).or_default();
            *total = Total { count: total.count + 1, sum: total.sum + value, last: *value };
        }
    }
}

impl Totals {
    pub(crate) fn of(&self, metric: Metric) -> Total {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).get(&metric).copied().unwrap_or_default()
    }
}

/// The functions of a life.
pub(crate) struct Functions {
    pub(crate) ingest: IngestFunction,
    pub(crate) lease: LeaseFunction,
    pub(crate) drainer: DrainerFunction,
}

/// A life: everything that a kill ends.
struct Life {
    functions: Arc<Functions>,
    tasks: JoinSet<()>,
    running: Vec<(Machine, AbortHandle)>,
    changes: mpsc::UnboundedSender<Value>,
}

/// An instance.
pub(crate) struct Host {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<HostClock>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) metrics: Arc<Totals>,
    ids: Arc<SeededIds>,
    life: Mutex<Option<Life>>,
    names: Mutex<BTreeSet<(Machine, String)>>,
    executions: AtomicU64,
    ticks: AtomicU64,
    pub(crate) schedules: AtomicBool,
    source: AtomicBool,
    troubled_at: Mutex<Duration>,
    ticks_until: Mutex<Duration>,
    released_at: Mutex<Duration>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A seed of its own for each instance, short enough to be read in a history.
fn ids_seed(seed: u64, index: usize) -> u64 {
    seed.wrapping_mul(16).wrapping_add(u64::try_from(index).unwrap_or(0))
}

impl Host {
    /// A dead instance.
    pub(crate) fn dead(site: &Arc<Site>, index: usize, settings: Settings) -> Arc<Self> {
        let name = settings.identity.name.to_string();
        Arc::new(Self {
            index,
            clock: Arc::new(HostClock::new(site.time)),
            gate: Arc::default(),
            metrics: Arc::default(),
            ids: Arc::new(SeededIds::new(ids_seed(site.options.seed, index))),
            life: Mutex::default(),
            names: Mutex::default(),
            executions: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            schedules: AtomicBool::new(site.options.schedules),
            // The deployment leaves a gated rule disabled until its instance leads.
            source: AtomicBool::new(settings.source == SourceMode::Open),
            troubled_at: Mutex::default(),
            ticks_until: Mutex::default(),
            released_at: Mutex::default(),
            name,
            settings,
        })
    }

    /// Starts a life, cold. Nothing where one goes on.
    pub(crate) fn start(self: &Arc<Self>, site: &Arc<Site>) -> bool {
        if self.is_alive() {
            return false;
        }
        let (changes, changed) = mpsc::unbounded_channel();
        let functions = Arc::new(self.cold(site));
        let life = Life { functions, tasks: JoinSet::new(), running: Vec::new(), changes };
        *lock(&self.life) = Some(life);
        *lock(&self.ticks_until) = Duration::ZERO;
        self.trouble(site.now());
        self.begin(site, changed);
        true
    }

    /// New functions that remember nothing.
    fn cold(self: &Arc<Self>, site: &Arc<Site>) -> Functions {
        let settings = &self.settings;
        let wire = |policy| Arc::new(Wire { site: Arc::clone(site), host: Arc::clone(self), policy });
        let thirds = |timeout| wire(CallPolicy::in_thirds(timeout));
        let stores = Stores {
            leases: thirds(settings.timing.renew_call_timeout),
            hasty_leases: wire(CallPolicy::once(STAMP_READ_TIMEOUT)),
            outbox: thirds(settings.store_call_timeout),
        };
        let clock: Arc<dyn Clock> = Arc::<HostClock>::clone(&self.clock);
        let edge = Edge::new(settings, clock, Arc::<SeededIds>::clone(&self.ids), Arc::<Totals>::clone(&self.metrics));
        let side = thirds(settings.timing.send_timeout);
        Functions {
            ingest: IngestFunction::new(settings, &stores, edge.clone()),
            lease: LeaseFunction::new(settings, &stores, Some(Arc::<Wire>::clone(&side)), edge.clone()),
            drainer: DrainerFunction::new(settings, &stores, Arc::<Wire>::clone(&side), side, edge)
                .expect("the world names a queue"),
        }
    }

    /// Ends the life where it stands. Nothing where there is none.
    pub(crate) fn kill(&self) -> bool {
        // Dropping the tasks ends them; their futures are dropped before anything else happens in the run.
        lock(&self.life).take().is_some()
    }

    pub(crate) fn is_alive(&self) -> bool {
        lock(&self.life).is_some()
    }

    pub(crate) fn functions(&self) -> Option<Arc<Functions>> {
        lock(&self.life).as_ref().map(|life| Arc::clone(&life.functions))
    }

    /// Runs `work` as a part of this life, behind the gate. Dropped at once where there is no life.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        let mut life = lock(&self.life);
        let life = life.as_mut()?;
        while life.tasks.try_join_next().is_some() {}
        Some(life.tasks.spawn(self.gate.behind(work)))
    }

    /// A name of its own for an execution.
    pub(crate) fn next_execution(&self) -> String {
        format!("{}-{}", self.name, self.executions.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Takes the name of a Standard execution; `false` where it was used before.
    pub(crate) fn take_name(&self, machine: Machine, name: &str) -> bool {
        !machine.is_standard() || lock(&self.names).insert((machine, name.to_owned()))
    }

    /// Notes that an execution runs.
    pub(crate) fn runs(&self, machine: Machine, handle: AbortHandle) {
        if let Some(life) = lock(&self.life).as_mut() {
            life.running.retain(|(_, handle)| !handle.is_finished());
            life.running.push((machine, handle));
        }
    }

    /// How many executions of a machine run.
    pub(crate) fn running(&self, machine: Machine) -> usize {
        let life = lock(&self.life);
        let running = life.as_ref().map_or(&[][..], |life| life.running.as_slice());
        running.iter().filter(|(which, handle)| *which == machine && !handle.is_finished()).count()
    }

    /// Stops the executions of a machine by hand.
    pub(crate) fn stop(&self, machine: Machine) -> usize {
        if machine == Machine::LeaseCycle {
            *lock(&self.ticks_until) = Duration::ZERO;
        }
        let life = lock(&self.life);
        let running = life.as_ref().map_or(&[][..], |life| life.running.as_slice());
        let stopped = running.iter().filter(|(which, handle)| *which == machine && !handle.is_finished());
        stopped.map(|(_, handle)| handle.abort()).count()
    }

    /// Hands a record of the outbox's stream to this life.
    pub(crate) fn change(&self, record: Value) {
        if let Some(life) = lock(&self.life).as_ref() {
            drop(life.changes.send(record));
        }
    }

    /// Something that a tick needs went wrong at `at`.
    pub(crate) fn trouble(&self, at: Duration) {
        let mut troubled_at = lock(&self.troubled_at);
        *troubled_at = (*troubled_at).max(at);
    }

    /// A tick loop begins. It ticks for its whole length, unless it is stopped by hand or newer ones tick in its place.
    pub(crate) fn loop_begins(&self, at: Duration) {
        let until =
            std::mem::replace(&mut *lock(&self.ticks_until), at + LOOP_LENGTH - self.settings.timing.tick_interval);
        if until < at {
            self.trouble(at);
        }
    }

    /// Since when no fault has kept this instance from ticking; `None` where one does now. Whether it really ticks is for the
    /// judge to say: a loop that ends by itself is no excuse for a lease that nobody holds.
    pub(crate) fn healthy_since(&self, site: &Site) -> Option<Duration> {
        let now = site.now();
        let is_kept = !self.is_alive()
            || self.gate.is_shut()
            || site.book().cuts_off_ticks(self.index)
            || *lock(&self.ticks_until) < now;
        if is_kept {
            self.trouble(now);
            return None;
        }
        Some(*lock(&self.troubled_at))
    }

    /// When it last released the lease.
    pub(crate) fn released_at(&self) -> Duration {
        *lock(&self.released_at)
    }

    pub(crate) fn released(&self, at: Duration) {
        *lock(&self.released_at) = at;
    }

    pub(crate) fn ticked(&self) {
        self.ticks.fetch_add(1, Ordering::SeqCst);
    }

    /// How many ticks its lease function has answered.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::SeqCst)
    }

    pub(crate) fn source(&self) -> bool {
        self.source.load(Ordering::SeqCst)
    }

    pub(crate) fn set_source(&self, enabled: bool) {
        self.source.store(enabled, Ordering::SeqCst);
    }
}
