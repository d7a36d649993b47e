//! What goes on in a life: schedules, stream, invocations with the platform's limits, executions and their resources.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_local::machine::{Execution, Outcome, Resources, TaskError, Time};
use fencepost_local::shipped::{Machine, function_of, time_limit};
use fencepost_runtime::lambda::{Ended, guard};
use fencepost_runtime::settings::Function;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::book::{Asked, Course};
use super::fault::{CallFault, platform};
use super::invocation::Invocation;
use super::platform::definition;
use super::reached::Sometimes;
use super::region::Host;
use super::site::Site;

/// How often the schedules start the tick loop and the drain.
const SCHEDULE: Duration = Duration::from_secs(60);
/// Stream records of one batch.
const STREAM_BATCH: usize = 1_000;
/// How often a stream batch is tried before it is left to the schedule.
const STREAM_TRIES: u32 = 3;

impl Host {
    /// The tasks that a life begins with.
    pub(crate) fn begin(self: &Arc<Self>, site: &Arc<Site>, changed: mpsc::UnboundedReceiver<Value>) {
        for machine in [Machine::LeaseCycle, Machine::Drain] {
            let (host, site) = (Arc::clone(self), Arc::clone(site));
            drop(self.spawn(async move { host.keep_schedule(&site, machine).await }));
        }
        let (host, site) = (Arc::clone(self), Arc::clone(site));
        drop(self.spawn(async move { host.pump_stream(&site, changed).await }));
    }

    fn platform_course(&self, site: &Site, operation: &'static str) -> Course {
        let asked = Asked { at: site.now(), instance: self.index, operation, in_process: false };
        let course = site.book().course(asked);
        site.note_call(self.index, operation, &course);
        course
    }

    /// A schedule: at once, then every minute.
    async fn keep_schedule(self: Arc<Self>, site: &Arc<Site>, machine: Machine) {
        let operation =
            if machine == Machine::Drain { platform::SCHEDULE_DRAIN } else { platform::SCHEDULE_LEASE_CYCLE };
        let mut next = site.now();
        loop {
            if self.schedules.load(Ordering::SeqCst) {
                let course = self.platform_course(site, operation);
                let (count, delay) = match course.fault {
                    Some(CallFault::Missing) => (0, Duration::ZERO),
                    Some(CallFault::Twice) => (2, Duration::ZERO),
                    Some(CallFault::Slow { ms }) => (1, Duration::from_millis(ms)),
                    _ => (1, Duration::ZERO),
                };
                for _ in 0..count {
                    let (host, site) = (Arc::clone(&self), Arc::clone(site));
                    drop(self.spawn(async move {
                        tokio::time::sleep(delay).await;
                        let name = host.next_execution();
                        drop(host.execute(&site, machine, name, json!({})));
                    }));
                }
            }
            next += SCHEDULE;
            site.time.until(next).await;
        }
    }

    /// A record of the outbox's stream, on its way to this instance.
    pub(crate) fn changed(self: &Arc<Self>, site: &Site, record: &Value) {
        if !self.is_alive() {
            return;
        }
        let course = self.platform_course(site, platform::STREAM);
        match course.fault {
            Some(CallFault::Missing) => {}
            Some(CallFault::Twice) => {
                self.change(record.clone());
                self.change(record.clone());
            }
            Some(CallFault::Slow { ms }) => {
                let (host, record) = (Arc::clone(self), record.clone());
                drop(self.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    host.change(record);
                }));
            }
            _ => self.change(record.clone()),
        }
    }

    /// The event source mapping between the outbox's stream and the drainer: one batch at a time, few tries.
    async fn pump_stream(self: Arc<Self>, site: &Arc<Site>, mut changes: mpsc::UnboundedReceiver<Value>) {
        let mut records = Vec::new();
        let mut number = 0_u64;
        while changes.recv_many(&mut records, STREAM_BATCH).await > 0 {
            let batch = json!({ "Records": std::mem::take(&mut records) });
            number += 1;
            for _ in 0..STREAM_TRIES {
                let scope = format!("{}-stream-{number}", self.name);
                if self.invoke_apart(site, Function::Drainer, batch.clone(), scope).await.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Invokes a function as a task of its own: who waits for it may go, it goes on.
    pub(crate) async fn invoke_apart(
        self: &Arc<Self>,
        site: &Arc<Site>,
        function: Function,
        payload: Value,
        scope: String,
    ) -> Result<Value, TaskError> {
        let (reply, answer) = oneshot::channel();
        let (host, site) = (Arc::clone(self), Arc::clone(site));
        drop(self.spawn(async move {
            drop(reply.send(host.invoke(&site, function, payload, scope).await));
        }));
        answer.await.unwrap_or_else(|_| Err(TaskError::new("Lambda.Unknown", "the instance is gone")))
    }

    /// Runs a function to its answer, its failure, its death or its time limit.
    async fn invoke(
        self: Arc<Self>,
        site: &Arc<Site>,
        function: Function,
        payload: Value,
        scope: String,
    ) -> Result<Value, TaskError> {
        let operation = match function {
            Function::Ingest => platform::INVOKE_INGEST,
            Function::Lease => platform::INVOKE_LEASE,
            Function::Drainer => platform::INVOKE_DRAINER,
        };
        let course = self.platform_course(site, operation);
        tokio::time::sleep(course.before).await;
        match course.fault {
            Some(CallFault::Throttled) => return Err(TaskError::new("Lambda.TooManyRequestsException", "as told")),
            Some(CallFault::Slow { ms }) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Some(CallFault::CrashBefore) => return Err(TaskError::new("Runtime.ExitError", "as told")),
            Some(_) => return Err(TaskError::new("Lambda.ServiceException", "as told")),
            None => {}
        }
        let is_tick = function == Function::Lease && payload["command"] == "tick";
        let outcome = self.work(site, function, payload, scope).await;
        match &outcome {
            Ok(reply) if is_tick => self.look_at_tick(site, reply),
            Ok(reply) => self.look_at_reply(site, function, reply),
            Err(error) => {
                site.tell(self.index, format!("{} fails: {} ({})", function.as_str(), error.error, error.cause));
            }
        }
        outcome
    }

    async fn work(
        &self,
        site: &Arc<Site>,
        function: Function,
        payload: Value,
        scope: String,
    ) -> Result<Value, TaskError> {
        let Some(functions) = self.functions() else {
            return Err(TaskError::new("Lambda.Unknown", "the instance is gone"));
        };
        let whole = time_limit(function, &self.settings);
        let invocation = Invocation::new(scope);
        let handler = |limit| async move {
            match function {
                Function::Ingest => functions.ingest.handle(payload, &limit).await,
                Function::Lease => functions.lease.handle(payload, &limit).await,
                Function::Drainer => functions.drainer.handle(payload, &limit).await,
            }
        };
        tokio::select! {
            biased;
            ended = invocation.of(guard(&*self.clock, whole, handler)) => {
                match &ended {
                    Ended::Answered(_) => {}
                    Ended::Panicked => {
                        let what = format!("the {} function of {} panicked", function.as_str(), self.name);
                        site.observer().break_rule(site.now(), "panic", what);
                    }
                    Ended::TooLate(_) => site.reach(Sometimes::TimeLimit),
                }
                Result::from(ended).map_err(|error| TaskError::new(error.error_type.as_str(), error.message))
            }
            () = invocation.died() => {
                site.reach(Sometimes::Crash);
                Err(TaskError::new("Runtime.ExitError", "the process died"))
            }
            () = tokio::time::sleep(whole) => {
                site.reach(Sometimes::TimeLimit);
                Err(TaskError::new("Sandbox.Timedout", "the function was ended at its time limit"))
            }
        }
    }

    fn look_at_tick(&self, site: &Site, reply: &Value) {
        self.ticked();
        if !reply["refused"].is_null() {
            site.reach(Sometimes::Refused);
        }
        if reply["role"] == "abstaining" {
            site.reach(Sometimes::Abstention);
        }
        if reply["end"] == true {
            site.reach(Sometimes::NewerLoops);
        }
        if reply["takeover"]["input"]["try"].as_u64().is_some_and(|number| number > 0) {
            site.reach(Sometimes::TakeoverRetried);
        }
    }

    fn look_at_reply(&self, site: &Site, function: Function, reply: &Value) {
        if function != Function::Drainer {
            return;
        }
        if reply["stopped_by"] == "queue" {
            site.reach(Sometimes::StoppedByQueue);
        }
        if site.options.fifo && reply["counts"]["skipped"].as_u64().is_some_and(|skipped| skipped > 0) {
            site.reach(Sometimes::KeptOrder);
        }
    }

    /// Starts an execution. It goes on when the receiver is dropped, and is gone where the receiver hears nothing.
    ///
    /// # Errors
    /// `ExecutionAlreadyExists` for a name that a Standard machine has used.
    pub(crate) fn start_execution(
        self: &Arc<Self>,
        site: &Arc<Site>,
        machine: Machine,
        name: String,
        input: Value,
    ) -> Result<oneshot::Receiver<Outcome>, TaskError> {
        if !self.take_name(machine, &name) {
            return Err(TaskError::new("ExecutionAlreadyExists", format!("{} {name} was started", machine.name())));
        }
        Ok(self.execute(site, machine, name, input))
    }

    pub(crate) fn execute(
        self: &Arc<Self>,
        site: &Arc<Site>,
        machine: Machine,
        name: String,
        input: Value,
    ) -> oneshot::Receiver<Outcome> {
        let (reply, outcome) = oneshot::channel();
        let (host, site) = (Arc::clone(self), Arc::clone(site));
        let handle = self.spawn(async move { drop(reply.send(host.run(&site, machine, &name, input).await)) });
        if let Some(handle) = handle {
            self.runs(machine, handle);
        }
        outcome
    }

    async fn run(self: Arc<Self>, site: &Arc<Site>, machine: Machine, name: &str, input: Value) -> Outcome {
        if machine.is_standard() {
            site.tell(self.index, format!("{} {name} starts", machine.name()));
        }
        if machine == Machine::LeaseCycle {
            self.loop_begins(site.now());
        }
        let definition = definition(machine);
        let resources =
            InstanceResources { site: Arc::clone(site), host: Arc::clone(&self), execution: name.to_owned() };
        let time = MachineTime(Arc::clone(site));
        let outcome = Execution::new(&definition, &machine.arn(), name, input).run(&resources, &time, &()).await;
        match &outcome {
            Outcome::Failed { error, cause } => {
                site.tell(self.index, format!("{} {name} fails: {error}: {cause}", machine.name()));
                if machine == Machine::Takeover {
                    site.reach(Sometimes::TakeoverFailed);
                }
            }
            Outcome::Succeeded(output) if machine.is_standard() => {
                site.tell(self.index, format!("{} {name} ends: {output}", machine.name()));
            }
            Outcome::Succeeded(_) => {}
        }
        outcome
    }
}

/// The clock of Step Functions, which is right.
struct MachineTime(Arc<Site>);

#[async_trait]
impl Time for MachineTime {
    fn now_ms(&self) -> u64 {
        self.0.time.wall().as_ms()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The resources of an execution.
struct InstanceResources {
    site: Arc<Site>,
    host: Arc<Host>,
    execution: String,
}

#[async_trait]
impl Resources for InstanceResources {
    async fn call(&self, resource: &str, mut arguments: Value, _timeout: Duration) -> Result<Value, TaskError> {
        match resource {
            "arn:aws:states:::lambda:invoke" => {
                let arn = arguments["FunctionName"].as_str().unwrap_or_default();
                let function = function_of(arn)
                    .ok_or_else(|| TaskError::new("Lambda.ResourceNotFoundException", format!("no function {arn}")))?;
                let payload = arguments["Payload"].take();
                let payload = self.host.invoke_apart(&self.site, function, payload, self.execution.clone()).await?;
                Ok(json!({ "StatusCode": 200, "ExecutedVersion": "1", "Payload": payload }))
            }
            "arn:aws:states:::events:putEvents" => self.put_events(&arguments).await,
            "arn:aws:states:::states:startExecution" => self.start_execution(&arguments).await,
            other => Err(TaskError::new("States.Runtime", format!("this world has no resource {other}"))),
        }
    }
}

impl InstanceResources {
    async fn put_events(&self, arguments: &Value) -> Result<Value, TaskError> {
        let course = self.host.platform_course(&self.site, platform::PUT_EVENTS);
        tokio::time::sleep(course.before).await;
        let entries = arguments["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let applied = matches!(course.fault, None | Some(CallFault::ErrorAfter | CallFault::TimeoutAfter));
        if applied {
            for entry in entries {
                let detail_type = entry["DetailType"].as_str().unwrap_or_default();
                self.site.put_event(self.host.index, detail_type, &entry["Detail"]);
            }
        }
        match course.fault {
            None => {
                let each: Vec<Value> = entries.iter().map(|_| json!({})).collect();
                Ok(json!({ "FailedEntryCount": 0, "Entries": each }))
            }
            Some(CallFault::TimeoutBefore | CallFault::TimeoutAfter) => std::future::pending().await,
            Some(CallFault::Throttled) => Err(TaskError::new("EventBridge.ThrottlingException", "as told")),
            Some(CallFault::Denied) => Err(TaskError::new("EventBridge.AccessDeniedException", "as told")),
            Some(_) => Err(TaskError::new("EventBridge.InternalException", "as told")),
        }
    }

    async fn start_execution(&self, arguments: &Value) -> Result<Value, TaskError> {
        let course = self.host.platform_course(&self.site, platform::START_EXECUTION);
        tokio::time::sleep(course.before).await;
        let arn = arguments["StateMachineArn"].as_str().unwrap_or_default();
        let machine = Machine::of_arn(arn).ok_or_else(|| {
            TaskError::new("StepFunctions.StateMachineDoesNotExistException", format!("there is no machine {arn}"))
        })?;
        let name = arguments["Name"].as_str().unwrap_or_default().to_owned();
        let start = || self.host.start_execution(&self.site, machine, name.clone(), arguments["Input"].clone());
        match course.fault {
            None | Some(CallFault::Slow { .. }) => drop(start()?),
            Some(CallFault::TimeoutBefore) => std::future::pending().await,
            Some(CallFault::TimeoutAfter) => {
                drop(start());
                std::future::pending::<()>().await;
            }
            Some(CallFault::ErrorAfter) => {
                drop(start());
                return Err(TaskError::new("StepFunctions.InternalServerException", "as told"));
            }
            Some(_) => return Err(TaskError::new("StepFunctions.ThrottlingException", "as told")),
        }
        let started_seconds = self.site.time.wall().as_ms() / 1_000;
        let execution = format!("{}:{name}", arn.replacen(":stateMachine:", ":execution:", 1));
        Ok(json!({ "ExecutionArn": execution, "StartDate": started_seconds }))
    }
}
