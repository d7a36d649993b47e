//! The world around a shipped state machine: a clock that moves only when everybody sleeps, and functions that answer as the
//! test says.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_local::machine::{Definition, Execution, Observation, Outcome, Resources, Step, TaskError, Time};
use serde_json::{Value, json};

/// 2026-01-31T12:34:56.789Z.
pub(crate) const START_MS: u64 = 1_769_862_896_789;
pub(crate) const EXECUTION: &str = "execution-1";

/// Every substitution of the contract, and a value that tells which it was.
pub(crate) fn substitutions() -> BTreeMap<String, String> {
    [
        ("LeaseFunctionArn", "lease"),
        ("DrainerFunctionArn", "drainer"),
        ("TakeoverStateMachineArn", "takeover-machine"),
        ("EventBusName", "bus"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

pub(crate) fn shipped_text(name: &str) -> String {
    let path = format!("{}/../../statemachines/{name}.asl.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

pub(crate) fn shipped(name: &str) -> Definition {
    Definition::parse(&shipped_text(name), &substitutions()).unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

/// One call that a machine made.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Since the start of the execution.
    pub(crate) at_ms: u64,
    /// `lease tick`, `drainer drain`, `events`, `start`.
    pub(crate) name: String,
    /// A function's payload, or the arguments of another resource.
    pub(crate) payload: Value,
    pub(crate) timeout: Duration,
}

impl Call {
    fn of(at_ms: u64, resource: &str, arguments: Value, timeout: Duration) -> Self {
        let (name, payload) = match resource {
            "arn:aws:states:::lambda:invoke" => {
                let payload = arguments["Payload"].clone();
                let command = payload["command"].as_str().unwrap_or("no command");
                (format!("{} {command}", arguments["FunctionName"].as_str().unwrap_or("no function")), payload)
            }
            "arn:aws:states:::events:putEvents" => ("events".to_owned(), arguments),
            "arn:aws:states:::states:startExecution" => ("start".to_owned(), arguments),
            other => panic!("a resource that the contract does not name: {other}"),
        };
        Self { at_ms, name, payload, timeout }
    }
}

/// How a call is answered, and how long that takes.
pub(crate) struct Reply {
    after: Duration,
    answer: Result<Value, TaskError>,
}

/// A function's output, at once.
pub(crate) fn output(payload: Value) -> Reply {
    Reply { after: Duration::ZERO, answer: Ok(json!({ "StatusCode": 200, "Payload": payload })) }
}

/// Another service's answer, at once.
pub(crate) fn done() -> Reply {
    Reply { after: Duration::ZERO, answer: Ok(json!({})) }
}

/// An error by its name, at once.
pub(crate) fn error(name: &str) -> Reply {
    Reply { after: Duration::ZERO, answer: Err(TaskError::new(name, "as told")) }
}

impl Reply {
    /// The same after `seconds`.
    pub(crate) fn after_seconds(self, seconds: u64) -> Self {
        Self { after: Duration::from_secs(seconds), ..self }
    }
}

/// What came of an execution.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) took_ms: u64,
    pub(crate) calls: Vec<Call>,
    /// The states entered, in order; those of a map's item as `State[item]`.
    pub(crate) entered: Vec<String>,
}

impl Ran {
    pub(crate) fn output(&self) -> &Value {
        match &self.outcome {
            Outcome::Succeeded(output) => output,
            Outcome::Failed { error, cause } => panic!("failed: {error}: {cause}"),
        }
    }

    pub(crate) fn error(&self) -> &str {
        match &self.outcome {
            Outcome::Failed { error, .. } => error,
            Outcome::Succeeded(output) => panic!("succeeded with {output}"),
        }
    }

    /// Each call with the second at which it was made.
    pub(crate) fn sequence(&self) -> Vec<String> {
        self.calls.iter().map(|call| format!("{} {}", call.at_ms / 1_000, call.name)).collect()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<&Call> {
        self.calls.iter().filter(|call| call.name == name).collect()
    }
}

/// Runs the shipped machine `name`; `answer` is asked for each call.
pub(crate) fn run(name: &str, input: Value, answer: impl FnMut(&Call) -> Reply + Send) -> Ran {
    let definition = shipped(name);
    let time = VirtualTime(Arc::new(Mutex::new(Clock { now_ms: START_MS, sleepers: Vec::new() })));
    let functions = Functions { time: time.clone(), answer: Mutex::new(answer), calls: Mutex::new(Vec::new()) };
    let entered = Mutex::new(Vec::new());
    let observer = |seen: &Observation<'_>| {
        if seen.step == Step::Entered {
            let item = seen.item.map(|item| format!("[{item}]")).unwrap_or_default();
            entered.lock().unwrap().push(format!("{}{item}", seen.state));
        }
    };
    let id = format!("arn:aws:states:eu-central-1:000000000000:stateMachine:{name}");
    let execution = Execution::new(&definition, &id, EXECUTION, input);
    let outcome = drive(&time, execution.run(&functions, &time, &observer));
    Ran {
        outcome,
        took_ms: time.now_ms() - START_MS,
        calls: functions.calls.into_inner().unwrap(),
        entered: entered.into_inner().unwrap(),
    }
}

struct Functions<F> {
    time: VirtualTime,
    answer: Mutex<F>,
    calls: Mutex<Vec<Call>>,
}

#[async_trait]
impl<F: FnMut(&Call) -> Reply + Send> Resources for Functions<F> {
    async fn call(&self, resource: &str, arguments: Value, timeout: Duration) -> Result<Value, TaskError> {
        let call = Call::of(self.time.now_ms() - START_MS, resource, arguments, timeout);
        self.calls.lock().unwrap().push(call.clone());
        let reply = (self.answer.lock().unwrap())(&call);
        self.time.sleep(reply.after).await;
        reply.answer
    }
}

struct Clock {
    now_ms: u64,
    sleepers: Vec<(u64, Waker)>,
}

#[derive(Clone)]
struct VirtualTime(Arc<Mutex<Clock>>);

impl VirtualTime {
    /// Moves to the next moment at which somebody wakes.
    fn advance(&self) {
        let mut clock = self.0.lock().unwrap();
        let next = clock.sleepers.iter().map(|(at, _)| *at).min().expect("the execution waits for something");
        clock.now_ms = next;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut clock.sleepers).into_iter().partition(|(at, _)| *at <= next);
        clock.sleepers = later;
        drop(clock);
        due.into_iter().for_each(|(_, waker)| waker.wake());
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

/// Polls `work` to its end and moves `time` on whenever nothing else can happen.
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
