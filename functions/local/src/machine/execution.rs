//! The walk from state to state.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use serde_json::{Map, Value, json};

use super::definition::{Catcher, Definition, Graph, Kind, Results, State, Transition, WaitUntil};
use super::read::SECONDS_MAX;
use super::retry::{Attempts, answers};
use super::timestamp::parse_timestamp;
use super::view::{Identity, Item, Variables, View};
use super::{Observation, Observer, Outcome, Resources, Step, TaskError, Time};

/// How many states an execution may enter unless told otherwise: the length of a Standard workflow's history.
pub const STATES_ENTERED_MAX: u64 = 25_000;

/// One execution of a state machine, not yet begun.
#[derive(Debug, Clone)]
pub struct Execution<'e> {
    definition: &'e Definition,
    state_machine_id: &'e str,
    name: &'e str,
    input: Value,
    states_entered_max: u64,
}

impl<'e> Execution<'e> {
    /// An execution called `name` of the machine with the ARN `state_machine_id`.
    pub fn new(definition: &'e Definition, state_machine_id: &'e str, name: &'e str, input: Value) -> Self {
        Self { definition, state_machine_id, name, input, states_entered_max: STATES_ENTERED_MAX }
    }

    /// The same, failing with `States.Runtime` once more than `states` were entered, items and branches included.
    pub fn with_states_entered_max(self, states: u64) -> Self {
        Self { states_entered_max: states, ..self }
    }

    /// Runs to the end. Never fails itself: an error that nothing catches is the outcome.
    pub async fn run(self, resources: &dyn Resources, time: &dyn Time, observer: &dyn Observer) -> Outcome {
        let id = self.state_machine_id.replacen(":stateMachine:", ":execution:", 1);
        let run = Run {
            identity: Identity {
                name: self.name,
                execution_id: format!("{id}:{}", self.name),
                state_machine_id: self.state_machine_id,
                input: self.input.clone(),
                started_ms: time.now_ms(),
            },
            resources,
            time,
            observer,
            states_entered: AtomicU64::new(0),
            states_entered_max: self.states_entered_max,
        };
        let walk = run.graph(&self.definition.graph, Arc::new(self.input), Frame::default());
        let ended = match self.definition.timeout {
            Some(limit) => run.within(limit, "the execution", walk).await,
            None => walk.await,
        };
        match ended {
            Ok(output) => Outcome::Succeeded(Arc::unwrap_or_clone(output)),
            Err(TaskError { error, cause }) => Outcome::Failed { error, cause },
        }
    }
}

/// What the states of one graph share: their variables, and the map item they run for.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    pub(super) variables: Variables,
    pub(super) item: Option<Item>,
}

/// An execution under way.
pub(super) struct Run<'e> {
    pub(super) identity: Identity<'e>,
    resources: &'e dyn Resources,
    pub(super) time: &'e dyn Time,
    observer: &'e dyn Observer,
    states_entered: AtomicU64,
    states_entered_max: u64,
}

/// A state left behind: where it leads and what it gives.
struct Left<'s> {
    then: &'s Transition,
    output: Value,
    assigned: Map<String, Value>,
}

/// A state that is being executed.
#[derive(Clone, Copy)]
pub(super) struct Visit<'s> {
    pub(super) name: &'s str,
    pub(super) input: &'s Value,
    entered_ms: u64,
    retry_count: u32,
}

impl Run<'_> {
    /// Runs the states of `graph` from its start to an end, and gives the output of the last one.
    pub(super) fn graph<'f>(
        &'f self,
        graph: &'f Graph,
        input: Arc<Value>,
        mut frame: Frame,
    ) -> BoxFuture<'f, Result<Arc<Value>, TaskError>> {
        Box::pin(async move {
            let (mut name, mut input) = (graph.start_at.as_str(), input);
            loop {
                let state = graph.states.get(name).ok_or_else(|| TaskError::runtime(format!("no state {name}")))?;
                let left = self.state(name, state, &input, &frame).await?;
                for (variable, value) in left.assigned {
                    frame.variables.insert(variable, Arc::new(value));
                }
                input = Arc::new(left.output);
                match left.then {
                    Transition::Next(next) => name = next,
                    Transition::End => return Ok(input),
                }
            }
        })
    }

    /// Runs one state until it succeeds, is caught, or fails for good.
    async fn state<'s>(
        &self,
        name: &str,
        state: &'s State,
        input: &Value,
        frame: &Frame,
    ) -> Result<Left<'s>, TaskError> {
        let mut visit = Visit { name, input, entered_ms: self.time.now_ms(), retry_count: 0 };
        let mut attempts = Attempts::new(&state.retry);
        let seed = format!("{} {name}", self.identity.name);
        self.count_entry()?;
        self.tell(name, frame, Step::Entered);
        loop {
            let failure = match self.attempt(state, visit, frame).await {
                Ok(left) => {
                    self.tell(name, frame, Step::Exited { next: left.then.target() });
                    return Ok(left);
                }
                Err(failure) => failure,
            };
            if let Some(delay) = attempts.after(&failure, &seed) {
                visit.retry_count = attempts.total;
                self.tell(name, frame, Step::Retried { failure: &failure, retry: attempts.total, delay });
                self.time.sleep(delay).await;
            } else if let Some(catcher) = state.catch.iter().find(|entry| answers(&entry.error_equals, &failure.error))
            {
                self.tell(
                    name,
                    frame,
                    Step::Caught { failure: &failure, next: catcher.then.target().unwrap_or_default() },
                );
                return self.caught(catcher, &failure, visit, frame);
            } else {
                self.tell(name, frame, Step::Failed { failure: &failure });
                return Err(failure);
            }
        }
    }

    fn caught<'s>(
        &self,
        catcher: &'s Catcher,
        failure: &TaskError,
        visit: Visit<'_>,
        frame: &Frame,
    ) -> Result<Left<'s>, TaskError> {
        let error_output = json!({ "Error": failure.error, "Cause": failure.cause });
        let view = View { error_output: Some(&error_output), ..self.view(visit, frame) };
        let output = view.value_or(catcher.results.output.as_ref(), "Catch, Output", || error_output.clone())?;
        let assigned = view.assigned(catcher.results.assign.as_ref())?;
        Ok(Left { then: &catcher.then, output, assigned })
    }

    /// Runs a state once.
    async fn attempt<'s>(&self, state: &'s State, visit: Visit<'_>, frame: &Frame) -> Result<Left<'s>, TaskError> {
        let view = self.view(visit, frame);
        let (mut results, mut then) = (&state.results, state.then.as_ref());
        let result = match &state.kind {
            Kind::Task { resource, arguments, timeout } => {
                let arguments = view.value_or(arguments.as_ref(), "Arguments", || visit.input.clone())?;
                let seconds = view.whole(timeout, "TimeoutSeconds", 1, SECONDS_MAX)?;
                Some(self.task(resource, arguments, Duration::from_secs(seconds.into()), visit.name).await?)
            }
            Kind::Map { items, selector, concurrency_max, body } => {
                let items = self.map_items(items.as_ref(), selector.as_ref(), visit, frame)?;
                let concurrency = concurrency_max.as_ref();
                let concurrency =
                    concurrency.map(|most| view.whole(most, "MaxConcurrency", 0, SECONDS_MAX)).transpose()?;
                Some(self.map(body, items, concurrency.unwrap_or(0), frame).await?)
            }
            Kind::Parallel { arguments, branches } => {
                let input = view.value_or(arguments.as_ref(), "Arguments", || visit.input.clone())?;
                Some(self.parallel(branches, input, frame).await?)
            }
            Kind::Wait(until) => {
                self.wait(until, &view).await?;
                None
            }
            Kind::Choice(rules) => {
                for rule in rules {
                    if condition(view.value(&rule.condition, "Condition")?, visit.name)? {
                        (results, then) = (&rule.results, Some(&rule.then));
                        break;
                    }
                }
                None
            }
            Kind::Pass | Kind::Succeed => None,
            Kind::Fail { error, cause } => {
                let error = view.value_or(error.as_ref(), "Error", || Value::String(String::new()))?;
                let cause = view.value_or(cause.as_ref(), "Cause", || Value::String(String::new()))?;
                return Err(failed_by_state(&error, &cause, visit.name));
            }
        };
        let then = then.ok_or_else(|| {
            TaskError::new("States.NoChoiceMatched", format!("state {}: no rule matched, and no Default", visit.name))
        })?;
        self.leave(results, then, result, visit, frame)
    }

    /// Evaluates `Output` and `Assign`, both against the variables from before.
    fn leave<'s>(
        &self,
        results: &Results,
        then: &'s Transition,
        result: Option<Value>,
        visit: Visit<'_>,
        frame: &Frame,
    ) -> Result<Left<'s>, TaskError> {
        let result = result.map(|result| self.view(visit, frame).limited(result, "result")).transpose()?;
        let view = View { result: result.as_ref(), ..self.view(visit, frame) };
        let assigned = view.assigned(results.assign.as_ref())?;
        let output = match &results.output {
            Some(output) => view.value(output, "Output")?,
            None => result.unwrap_or_else(|| visit.input.clone()),
        };
        Ok(Left { then, output, assigned })
    }

    async fn task(&self, resource: &str, arguments: Value, limit: Duration, state: &str) -> Result<Value, TaskError> {
        let call = self.resources.call(resource, arguments, limit);
        self.within(limit, &format!("state {state}"), call).await
    }

    async fn wait(&self, until: &WaitUntil, view: &View<'_>) -> Result<(), TaskError> {
        let duration = match until {
            WaitUntil::Seconds(seconds) => Duration::from_secs(view.whole(seconds, "Seconds", 0, SECONDS_MAX)?.into()),
            WaitUntil::Timestamp(timestamp) => {
                let value = view.value(timestamp, "Timestamp")?;
                let until_ms = value.as_str().and_then(parse_timestamp).ok_or_else(|| {
                    TaskError::query(format!(
                        "state {}, Timestamp: not a moment such as 2026-01-31T12:34:56Z",
                        view.state
                    ))
                })?;
                Duration::from_millis(until_ms.saturating_sub(self.time.now_ms()))
            }
        };
        if !duration.is_zero() {
            self.time.sleep(duration).await;
        }
        Ok(())
    }

    /// `work`, unless `limit` passes first. What is done at the very moment counts as done.
    async fn within<T>(
        &self,
        limit: Duration,
        what: &str,
        work: impl Future<Output = Result<T, TaskError>> + Send,
    ) -> Result<T, TaskError> {
        match select(pin!(work), self.time.sleep(limit)).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => {
                Err(TaskError::new("States.Timeout", format!("{what}: not done within {} s", limit.as_secs())))
            }
        }
    }

    pub(super) fn view<'v>(&'v self, visit: Visit<'v>, frame: &'v Frame) -> View<'v> {
        View {
            identity: &self.identity,
            state: visit.name,
            entered_ms: visit.entered_ms,
            retry_count: visit.retry_count,
            item: frame.item.as_ref(),
            variables: &frame.variables,
            input: visit.input,
            result: None,
            error_output: None,
            now_ms: self.time.now_ms(),
        }
    }

    fn count_entry(&self) -> Result<(), TaskError> {
        if self.states_entered.fetch_add(1, Ordering::Relaxed) < self.states_entered_max {
            return Ok(());
        }
        Err(TaskError::runtime(format!("the execution entered more than {} states", self.states_entered_max)))
    }

    fn tell(&self, state: &str, frame: &Frame, step: Step<'_>) {
        let item = frame.item.as_ref().map(|item| item.index);
        self.observer.observe(&Observation {
            at_ms: self.time.now_ms(),
            execution: self.identity.name,
            state,
            item,
            step,
        });
    }
}

fn condition(value: Value, state: &str) -> Result<bool, TaskError> {
    value.as_bool().ok_or_else(|| TaskError::query(format!("state {state}, Condition: neither true nor false")))
}

fn failed_by_state(error: &Value, cause: &Value, state: &str) -> TaskError {
    match (error.as_str(), cause.as_str()) {
        (Some(error), Some(cause)) => TaskError::new(error, cause),
        _ => TaskError::query(format!("state {state}: Error and Cause must be strings")),
    }
}
