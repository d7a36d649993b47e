//! One instance: a pool of processes for each function, the executions of the shipped state machines that call them, and the
//! schedules, faster than in production so that a round is short.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_local::machine::{Execution, Outcome, Resources, TaskError, Time};
use fencepost_local::shipped::{Machine, Machines, function_of};
use fencepost_runtime::clock::{Clock as _, SystemClock};
use fencepost_runtime::settings::Function;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::sandbox::{Launch, Sandbox};
use crate::proxy::{Fault, Tap};

/// How often an execution of the tick loop is started; in production every minute.
const CYCLE_EVERY: Duration = Duration::from_secs(15);
/// How often a drain is started; in production every minute, and by the stream.
const DRAIN_EVERY: Duration = Duration::from_secs(2);
/// Drains of one instance that may run at once: one may be in its stale wait for long.
const DRAINS_MAX: usize = 4;

/// How long an invocation waits for a process before it is throttled.
const THROTTLED_AFTER: Duration = Duration::from_secs(3);

/// What an instance is capable of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Of everything.
    Up,
    /// Its processes are stopped; invocations wait in vain.
    Frozen,
    /// It has no processes and gets none.
    Down,
}

/// Rates at which the traffic of every process is spoilt.
#[derive(Debug, Clone, Default)]
pub(super) struct Rates {
    pub(super) tables: Vec<(Fault, u32)>,
    pub(super) queue: Vec<(Fault, u32)>,
}

/// What all instances share.
pub(super) struct Site {
    pub(super) machines: Machines,
    pub(super) tap: Arc<Tap>,
    pub(super) rates: Mutex<Rates>,
    pub(super) seed: u64,
    /// Processes started so far.
    pub(super) started: AtomicU64,
    /// Executions that failed, by machine and error.
    pub(super) failed: Mutex<BTreeMap<String, u64>>,
}

/// One instance.
pub(super) struct Instance {
    pub(super) name: &'static str,
    site: Arc<Site>,
    launches: BTreeMap<&'static str, Launch>,
    mode: Mutex<Mode>,
    all: Mutex<Vec<(Function, Arc<Sandbox>)>>,
    idle: Mutex<Vec<(Function, Arc<Sandbox>)>>,
    free: BTreeMap<&'static str, Semaphore>,
    /// Names of takeovers that were started: the platform knows them for ever.
    names: Mutex<HashSet<String>>,
    executions: Mutex<JoinSet<()>>,
    drains: AtomicU64,
    calm: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Instance {
    /// An instance without processes; they come as they are needed.
    pub(super) fn new(name: &'static str, site: Arc<Site>, launches: BTreeMap<&'static str, Launch>) -> Self {
        Self {
            name,
            site,
            launches,
            mode: Mutex::new(Mode::Up),
            all: Mutex::default(),
            idle: Mutex::default(),
            free: Function::ALL.map(|of| (of.as_str(), Semaphore::new(super::concurrency(of)))).into(),
            names: Mutex::default(),
            executions: Mutex::default(),
            drains: AtomicU64::new(0),
            calm: AtomicBool::new(false),
        }
    }

    pub(super) fn mode(&self) -> Mode {
        *locked(&self.mode)
    }

    /// The living processes of a function, or of all.
    pub(super) fn sandboxes(&self, function: Option<Function>) -> Vec<Arc<Sandbox>> {
        let mut all = locked(&self.all);
        all.retain(|(_, sandbox)| sandbox.is_alive());
        all.iter()
            .filter(|(of, _)| function.is_none_or(|wanted| wanted == *of))
            .map(|(_, one)| Arc::clone(one))
            .collect()
    }

    /// Every process dies; with `workflows`, every execution is stopped with them. Nothing new begins until [`Self::revive`].
    pub(super) fn crash(&self, workflows: bool) {
        *locked(&self.mode) = Mode::Down;
        self.sandboxes(None).iter().for_each(|sandbox| sandbox.kill());
        if workflows {
            locked(&self.executions).abort_all();
        }
    }

    /// Every process is stopped, and none is started. Gives those that were stopped.
    pub(super) fn freeze(&self) -> Vec<Arc<Sandbox>> {
        *locked(&self.mode) = Mode::Frozen;
        let stopped = self.sandboxes(None);
        stopped.iter().for_each(|sandbox| sandbox.stop());
        stopped
    }

    /// It is itself again, with new processes.
    pub(super) fn revive(&self) {
        *locked(&self.mode) = Mode::Up;
    }

    /// From now on its traffic is left alone.
    pub(super) fn calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
        self.sandboxes(None).iter().for_each(|sandbox| sandbox.spoil(0, &[], &[]));
    }

    /// Takes back what was placed on a process; the background rates stay.
    pub(super) fn spoil(&self, sandbox: &Sandbox) {
        let rates = if self.calm.load(Ordering::SeqCst) { Rates::default() } else { locked(&self.site.rates).clone() };
        let number = self.site.started.load(Ordering::SeqCst);
        sandbox.spoil(self.site.seed.wrapping_add(number), &rates.tables, &rates.queue);
    }

    /// Runs a function in an idle process or a new one.
    pub(super) async fn invoke(&self, function: Function, input: Value) -> Result<Value, TaskError> {
        match self.mode() {
            Mode::Up => {}
            Mode::Down => return Err(TaskError::new("Lambda.ServiceException", "the instance is down")),
            Mode::Frozen => {
                tokio::time::sleep(self.launches[function.as_str()].limit).await;
                return Err(TaskError::new("Sandbox.Timedout", "the instance is frozen"));
            }
        }
        let free = tokio::time::timeout(THROTTLED_AFTER, self.free[function.as_str()].acquire()).await;
        let Ok(Ok(_permit)) = free else {
            return Err(TaskError::new("Lambda.TooManyRequestsException", "every process is busy"));
        };
        let kept = {
            let mut idle = locked(&self.idle);
            idle.retain(|(_, sandbox)| sandbox.is_usable());
            idle.iter().rposition(|(of, _)| *of == function).map(|at| idle.swap_remove(at).1)
        };
        let sandbox = match kept {
            Some(sandbox) => sandbox,
            None => self.start(function).await.map_err(|error| TaskError::new("Lambda.Unknown", error.to_string()))?,
        };
        let answer = sandbox.invoke(input).await;
        let timed_out = answer.as_ref().is_err_and(|error| error.error == "Sandbox.Timedout");
        if sandbox.is_usable() && !timed_out {
            locked(&self.idle).push((function, sandbox));
        } else if sandbox.is_usable() {
            // The platform ends what is over its time. A frozen one it cannot see: it goes on as a late writer.
            sandbox.kill();
        }
        answer
    }

    async fn start(&self, function: Function) -> std::io::Result<Arc<Sandbox>> {
        let number = self.site.started.fetch_add(1, Ordering::SeqCst);
        let name = format!("{}/{}/{number}", self.name, function.as_str());
        let sandbox = Arc::new(Sandbox::start(name, &self.launches[function.as_str()], &self.site.tap).await?);
        self.spoil(&sandbox);
        locked(&self.all).push((function, Arc::clone(&sandbox)));
        // A crash that came meanwhile did not see it.
        if self.mode() != Mode::Up {
            sandbox.kill();
        }
        Ok(sandbox)
    }

    /// Starts an execution.
    pub(super) fn execute(self: &Arc<Self>, machine: Machine, name: String, input: Value) {
        let instance = Arc::clone(self);
        let mut executions = locked(&self.executions);
        while executions.try_join_next().is_some() {}
        executions.spawn(async move {
            let counted = Counted::new(&instance, machine);
            let definition = instance.site.machines.of(machine);
            let resources = Reach(Arc::clone(&instance));
            let outcome =
                Execution::new(&definition, &machine.arn(), &name, input).run(&resources, &RealTime, &()).await;
            drop(counted);
            if let Outcome::Failed { error, .. } = outcome {
                *locked(&instance.site.failed).entry(format!("{} {error}", machine.name())).or_default() += 1;
            }
        });
    }

    /// The schedules, until the task is dropped.
    pub(super) async fn keep_schedules(self: Arc<Self>) {
        let (mut cycles, mut drains) = (tokio::time::interval(CYCLE_EVERY), tokio::time::interval(DRAIN_EVERY));
        let mut number = 0_u64;
        let mut was_up = true;
        loop {
            let machine = tokio::select! {
                _ = cycles.tick() => Machine::LeaseCycle,
                _ = drains.tick() => Machine::Drain,
            };
            let up = self.mode() == Mode::Up;
            if up && !was_up {
                cycles.reset_immediately();
            }
            was_up = up;
            let running = self.drains.load(Ordering::SeqCst);
            if up && (machine != Machine::Drain || usize::try_from(running).is_ok_and(|running| running < DRAINS_MAX)) {
                number += 1;
                self.execute(machine, format!("{}-{number}", self.name), json!({}));
            }
        }
    }
}

/// Counts the drains that run, also where they are stopped.
struct Counted(Option<Arc<Instance>>);

impl Counted {
    fn new(instance: &Arc<Instance>, machine: Machine) -> Self {
        let counted = (machine == Machine::Drain).then(|| Arc::clone(instance));
        if let Some(instance) = &counted {
            instance.drains.fetch_add(1, Ordering::SeqCst);
        }
        Self(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(instance) = &self.0 {
            instance.drains.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

struct RealTime;

#[async_trait]
impl Time for RealTime {
    fn now_ms(&self) -> u64 {
        SystemClock::new().now().wall.as_ms()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// What the machines of an instance reach.
struct Reach(Arc<Instance>);

#[async_trait]
impl Resources for Reach {
    async fn call(&self, resource: &str, mut arguments: Value, _timeout: Duration) -> Result<Value, TaskError> {
        match resource {
            "arn:aws:states:::lambda:invoke" => {
                let name = arguments["FunctionName"].as_str().unwrap_or_default();
                let function =
                    function_of(name).ok_or_else(|| TaskError::new("Lambda.ResourceNotFoundException", name))?;
                let (instance, payload) = (Arc::clone(&self.0), arguments["Payload"].take());
                // A task of its own: a state's time-out ends the wait for the function, not the function.
                let call = tokio::spawn(async move { instance.invoke(function, payload).await });
                let answer = call.await.map_err(|error| TaskError::new("Lambda.Unknown", error.to_string()))??;
                Ok(json!({ "StatusCode": 200, "ExecutedVersion": "1", "Payload": answer }))
            }
            "arn:aws:states:::events:putEvents" => {
                let entries = arguments["Entries"].as_array().map(Vec::len).unwrap_or_default();
                Ok(json!({ "FailedEntryCount": 0, "Entries": vec![json!({}); entries] }))
            }
            "arn:aws:states:::states:startExecution" => {
                let name = arguments["Name"].as_str().unwrap_or_default().to_owned();
                if !locked(&self.0.names).insert(name.clone()) {
                    return Err(TaskError::new("ExecutionAlreadyExists", name));
                }
                self.0.execute(Machine::Takeover, name, arguments["Input"].take());
                Ok(json!({ "ExecutionArn": "arn", "StartDate": 0 }))
            }
            other => Err(TaskError::new("States.Runtime", format!("this world has no resource {other}"))),
        }
    }
}
