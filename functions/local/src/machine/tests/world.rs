//! A clock that only moves when everybody sleeps, and resources that do as they are told.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::machine::{Definition, DefinitionError, Execution, Observation, Outcome, Resources, Step, TaskError, Time};

/// 2026-01-31T12:34:56.789Z.
pub(super) const START_MS: u64 = 1_769_862_896_789;
pub(super) const MACHINE_ID: &str = "arn:aws:states:eu-central-1:000000000000:stateMachine:tested";

#[derive(Default)]
struct Clock {
    now_ms: u64,
    sleepers: Vec<(u64, Waker)>,
}

/// Time as the test makes it.
#[derive(Clone)]
pub(super) struct VirtualTime(Arc<Mutex<Clock>>);

impl VirtualTime {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Clock { now_ms: START_MS, sleepers: Vec::new() })))
    }

    /// Moves to the next moment at which somebody wakes.
    fn advance(&self) {
        let mut clock = self.0.lock().unwrap();
        let next = clock.sleepers.iter().map(|(at, _)| *at).min().expect("the execution waits for nothing");
        clock.now_ms = next;
        let (due, later) = std::mem::take(&mut clock.sleepers).into_iter().partition(|(at, _)| *at <= next);
        clock.sleepers = later;
        drop(clock);
        Vec::into_iter(due).for_each(|(_, waker): (u64, Waker)| waker.wake());
    }
}

#[async_trait]
impl Time for VirtualTime {
    fn now_ms(&self) -> u64 {
        self.0.lock().unwrap().now_ms
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now_ms() + u64::try_from(duration.as_millis()).unwrap();
        poll_fn(|context: &mut Context<'_>| {
            let mut clock = self.0.lock().unwrap();
            if clock.now_ms >= until {
                return Poll::Ready(());
            }
            clock.sleepers.push((until, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls `work` to its end, moving `time` on whenever nothing else can happen.
fn drive<F: Future>(time: &VirtualTime, work: F) -> F::Output {
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        if !woken.0.swap(false, Ordering::SeqCst) {
            time.advance();
        }
    }
}

/// One call that a resource received.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) after_ms: u64,
    pub(super) resource: String,
    pub(super) arguments: Value,
    pub(super) timeout: Duration,
}

/// `arn:echo` gives its arguments, `arn:sleep` too but after their `seconds`, `arn:fail` fails with their `error`, and
/// `arn:script` answers from a list.
struct Scripted {
    time: VirtualTime,
    script: Mutex<VecDeque<Result<Value, &'static str>>>,
    calls: Mutex<Vec<Call>>,
    running: Mutex<(usize, usize)>,
}

#[async_trait]
impl Resources for Scripted {
    async fn call(&self, resource: &str, arguments: Value, timeout: Duration) -> Result<Value, TaskError> {
        self.calls.lock().unwrap().push(Call {
            after_ms: self.time.now_ms() - START_MS,
            resource: resource.to_owned(),
            arguments: arguments.clone(),
            timeout,
        });
        match resource {
            "arn:echo" => Ok(arguments),
            "arn:sleep" => {
                let now = {
                    let mut running = self.running.lock().unwrap();
                    *running = (running.0 + 1, running.1.max(running.0 + 1));
                    arguments["seconds"].as_u64().unwrap()
                };
                self.time.sleep(Duration::from_secs(now)).await;
                self.running.lock().unwrap().0 -= 1;
                Ok(arguments)
            }
            "arn:fail" => Err(TaskError::new(arguments["error"].as_str().unwrap(), "as told")),
            "arn:script" => {
                let answer = self.script.lock().unwrap().pop_front().expect("the script is long enough");
                answer.map_err(|error| TaskError::new(error, "as told"))
            }
            other => panic!("no resource {other}"),
        }
    }
}

/// What came of an execution.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// How long it took, in virtual time.
    pub(super) took_ms: u64,
    /// Steps as `Entered A`, `Exited A -> B`, …
    pub(super) steps: Vec<String>,
    pub(super) calls: Vec<Call>,
    /// The most `arn:sleep` calls at one time.
    pub(super) most_running: usize,
}

impl Ran {
    pub(super) fn output(&self) -> &Value {
        match &self.outcome {
            Outcome::Succeeded(output) => output,
            Outcome::Failed { error, cause } => panic!("failed: {error}: {cause}"),
        }
    }

    /// The error's name, and its cause for a look at what it says.
    pub(super) fn failure(&self) -> (&str, &str) {
        match &self.outcome {
            Outcome::Failed { error, cause } => (error, cause),
            Outcome::Succeeded(output) => panic!("succeeded with {output}"),
        }
    }

    pub(super) fn error(&self) -> &str {
        self.failure().0
    }
}

/// A machine that starts at its state `A`.
pub(super) fn machine(states: Value) -> Value {
    json!({ "QueryLanguage": "JSONata", "StartAt": "A", "States": states })
}

/// A machine of the one state `A`.
pub(super) fn single(mut state: Value) -> Value {
    if state.get("Type") != Some(&json!("Succeed")) && state.get("Type") != Some(&json!("Fail")) {
        state["End"] = json!(true);
    }
    machine(json!({ "A": state }))
}

pub(super) fn parse(machine: &Value) -> Result<Definition, DefinitionError> {
    Definition::parse(&machine.to_string(), &BTreeMap::new())
}

pub(super) fn run(machine: &Value, input: Value) -> Ran {
    run_with(machine, input, Vec::new(), |execution| execution)
}

pub(super) fn run_scripted(machine: &Value, script: Vec<Result<Value, &'static str>>) -> Ran {
    run_with(machine, json!({}), script, |execution| execution)
}

pub(super) fn run_with(
    machine: &Value,
    input: Value,
    script: Vec<Result<Value, &'static str>>,
    adjust: impl FnOnce(Execution<'_>) -> Execution<'_>,
) -> Ran {
    let definition = parse(machine).unwrap_or_else(|fault| panic!("{fault}"));
    let time = VirtualTime::new();
    let resources = Scripted {
        time: time.clone(),
        script: Mutex::new(script.into()),
        calls: Mutex::new(Vec::new()),
        running: Mutex::new((0, 0)),
    };
    let steps = Mutex::new(Vec::new());
    let observer = |seen: &Observation<'_>| steps.lock().unwrap().push(line(seen));
    let execution = adjust(Execution::new(&definition, MACHINE_ID, "once", input));
    let outcome = drive(&time, execution.run(&resources, &time, &observer));
    Ran {
        outcome,
        took_ms: time.now_ms() - START_MS,
        steps: steps.into_inner().unwrap(),
        calls: resources.calls.into_inner().unwrap(),
        most_running: resources.running.into_inner().unwrap().1,
    }
}

fn line(seen: &Observation<'_>) -> String {
    let state = match seen.item {
        Some(item) => format!("{}[{item}]", seen.state),
        None => seen.state.to_owned(),
    };
    match &seen.step {
        Step::Entered => format!("entered {state}"),
        Step::Exited { next: Some(next) } => format!("exited {state} -> {next}"),
        Step::Exited { next: None } => format!("exited {state}, end"),
        Step::Retried { failure, retry, delay } => format!("retried {state} {} #{retry} {delay:?}", failure.error),
        Step::Caught { failure, next } => format!("caught {state} {} -> {next}", failure.error),
        Step::Failed { failure } => format!("failed {state} {}", failure.error),
    }
}
