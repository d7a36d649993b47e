//! The way to the services and back, as the AWS adapters go it: time-outs of a try and of the whole call, tries inside, one
//! outcome a row, and a failure that is as uncertain as its least certain try. Here the faults strike.

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::drain::{ChangeAnswer, ClaimAnswer};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::lease::GroupRecords;
use fencepost_protocol::outbox::Slot;
use fencepost_runtime::clock::Clock as _;
use fencepost_storage::{CallPolicy, Page, PutAnswer, StoreError, WriteAnswer};

use super::book::{Asked, Course};
use super::fault::{CallFault, has_row};
use super::invocation::{Caller, Invocation};
use super::reached::Sometimes;
use super::region::Host;
use super::site::Site;

/// The pause before the second try; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A port's way to its service, from one instance.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) site: Arc<Site>,
    pub(crate) host: Arc<Host>,
    pub(crate) policy: CallPolicy,
}

/// How a try failed on its way.
#[derive(Debug, Clone, Copy)]
struct Lost {
    kind: FailureKind,
    /// Was it applied all the same?
    applied: bool,
}

/// What a try of a call came to.
type Tried<T> = Result<T, Lost>;

/// Does an answer say that the write is the asker's own?
pub(crate) trait Own {
    /// Whether it does; a read never does.
    fn is_own(&self) -> bool {
        false
    }
}

impl<T> Own for WriteAnswer<T> {
    fn is_own(&self) -> bool {
        matches!(self, Self::Written)
    }
}

impl Own for ClaimAnswer {
    fn is_own(&self) -> bool {
        matches!(self, Self::Claimed)
    }
}

impl Own for ChangeAnswer {
    fn is_own(&self) -> bool {
        matches!(self, Self::Done)
    }
}

impl Own for PutAnswer {}
impl Own for GroupRecords {}
impl Own for bool {}
impl Own for () {}
impl<T> Own for Slot<T> {}
impl<T> Own for Page<T> {}
impl<T> Own for Vec<T> {}

impl Wire {
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            instance: self.host.index,
            wall: self.host.clock.now().wall,
            entered: self.site.now(),
            timing: self.host.settings.timing,
            clock: Arc::clone(&self.host.clock),
            invocation: Invocation::current(),
        }
    }

    pub(crate) fn course(&self, caller: &Caller, operation: &'static str) -> Course {
        let course = self.site.book().course(Asked {
            at: self.site.now(),
            instance: self.host.index,
            operation,
            in_process: caller.invocation.is_some(),
        });
        self.site.note_call(self.host.index, operation, &course);
        course
    }

    async fn wait(&self, duration: Duration) {
        self.host.clock.sleep(duration).await;
    }

    /// A call answered as a whole, tried as often as `policy` says.
    pub(crate) async fn call<T, W>(&self, operation: &'static str, policy: CallPolicy, work: W) -> Result<T, StoreError>
    where
        T: Own + Send + 'static,
        W: Fn(&Site, &Caller) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let plans = vec![()];
        let one = move |site: &Site, caller: &Caller, (): &()| work(site, caller);
        let mut answers = self.many(operation, policy, plans, one).await;
        answers.pop().unwrap_or_else(|| Err(failed(FailureKind::Unavailable, operation)))
    }

    /// A call of many rows, each answered and tried again by itself.
    pub(crate) async fn many<P, T, W>(
        &self,
        operation: &'static str,
        policy: CallPolicy,
        plans: Vec<P>,
        work: W,
    ) -> Vec<Result<T, StoreError>>
    where
        P: Clone + Send + Sync + 'static,
        T: Own + Send + 'static,
        W: Fn(&Site, &Caller, &P) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        let (work, caller) = (Arc::new(work), self.caller());
        let started = self.host.clock.now().monotonic;
        let mut answers: Vec<Option<Result<T, StoreError>>> = plans.iter().map(|_| None).collect();
        let mut doubts: Vec<Option<FailureKind>> = vec![None; plans.len()];
        let mut unheard = vec![false; plans.len()];
        let mut open: Vec<usize> = (0..plans.len()).collect();
        for attempt in 1..=policy.max_attempts.max(1) {
            let spent = self.host.clock.now().monotonic.saturating_sub(started);
            let left = policy.call_timeout.saturating_sub(spent);
            if open.is_empty() || left.is_zero() {
                break;
            }
            let rows: Vec<P> = open.iter().map(|index| plans[*index].clone()).collect();
            let limit = policy.attempt_timeout.min(left);
            let tried = self.attempt(operation, limit, &caller, rows, &work).await;
            let mut again = Vec::new();
            for (index, outcome) in open.drain(..).zip(tried) {
                match outcome {
                    Ok(answer) => {
                        if unheard[index] && answer.as_ref().is_ok_and(Own::is_own) {
                            self.site.reach(Sometimes::LostReplyOwn);
                        }
                        answers[index] = Some(answer);
                    }
                    Err(Lost { kind, applied }) => {
                        unheard[index] |= applied;
                        let failure = least_certain(kind, doubts[index], operation);
                        doubts[index] = doubts[index].or((!kind.certainly_not_applied()).then_some(kind));
                        answers[index] = Some(Err(failure));
                        if kind.is_transient() && attempt < policy.max_attempts {
                            again.push(index);
                        }
                    }
                }
            }
            open = again;
            if !open.is_empty() {
                self.wait(FIRST_PAUSE * 2_u32.saturating_pow(attempt - 1)).await;
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|| Err(failed(FailureKind::TimedOut, operation))))
            .collect()
    }

    /// One request with `rows`; each is answered by the service or fails on the way.
    async fn attempt<P, T, W>(
        &self,
        operation: &'static str,
        limit: Duration,
        caller: &Caller,
        rows: Vec<P>,
        work: &Arc<W>,
    ) -> Vec<Tried<Result<T, StoreError>>>
    where
        P: Clone + Send + Sync + 'static,
        T: Own + Send + 'static,
        W: Fn(&Site, &Caller, &P) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        let course = self.course(caller, operation);
        let count = rows.len();
        let every = |kind, applied| (0..count).map(|_| Err(Lost { kind, applied })).collect::<Vec<_>>();
        let all = |kind| every(kind, false);
        let apply = |rows: &[P]| rows.iter().map(|row| Ok(work(&self.site, caller, row))).collect::<Vec<_>>();
        self.wait(course.before).await;
        let Some(fault) = course.fault else {
            let answers = apply(&rows);
            self.wait(course.after).await;
            return answers;
        };
        match fault {
            CallFault::Throttled => all(FailureKind::Throttled),
            CallFault::Denied => all(FailureKind::Denied),
            CallFault::ErrorBefore => all(FailureKind::Unavailable),
            CallFault::ErrorAfter => {
                drop(apply(&rows));
                self.wait(course.after).await;
                every(FailureKind::Unavailable, true)
            }
            CallFault::TimeoutBefore => {
                self.wait(limit).await;
                all(FailureKind::TimedOut)
            }
            CallFault::TimeoutAfter => {
                drop(apply(&rows));
                self.wait(limit).await;
                every(FailureKind::TimedOut, true)
            }
            CallFault::Slow { ms } => {
                let delay = Duration::from_millis(ms);
                if delay < limit {
                    self.wait(delay).await;
                    return apply(&rows);
                }
                self.apply_late(delay, caller, rows, work);
                self.wait(limit).await;
                all(FailureKind::TimedOut)
            }
            CallFault::CrashBefore | CallFault::CrashAfter => {
                if fault == CallFault::CrashAfter {
                    drop(apply(&rows));
                }
                match &caller.invocation {
                    Some(invocation) => invocation.die().await,
                    None => all(FailureKind::Unavailable),
                }
            }
            CallFault::RowsBefore { rows: which } => self.apply_some(caller, &rows, work, which, false),
            CallFault::RowsAfter { rows: which } => self.apply_some(caller, &rows, work, which, true),
            _ => {
                let answers = apply(&rows);
                self.wait(course.after).await;
                answers
            }
        }
    }

    /// The rows of `which` fail; `applied` says whether they were applied all the same.
    fn apply_some<P, T, W>(
        &self,
        caller: &Caller,
        rows: &[P],
        work: &Arc<W>,
        which: u32,
        applied: bool,
    ) -> Vec<Tried<Result<T, StoreError>>>
    where
        W: Fn(&Site, &Caller, &P) -> Result<T, StoreError>,
    {
        let one = |(index, row)| match (has_row(which, index), applied) {
            (false, _) => Ok(work(&self.site, caller, row)),
            (true, false) => Err(Lost { kind: FailureKind::Throttled, applied }),
            (true, true) => {
                drop(work(&self.site, caller, row));
                Err(Lost { kind: FailureKind::Unavailable, applied })
            }
        };
        rows.iter().enumerate().map(one).collect()
    }

    /// The request is on its way and will be applied, whoever waits for it.
    fn apply_late<P, T, W>(&self, delay: Duration, caller: &Caller, rows: Vec<P>, work: &Arc<W>)
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
        W: Fn(&Site, &Caller, &P) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        let (site, caller, work) = (Arc::clone(&self.site), caller.clone(), Arc::clone(work));
        drop(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            site.reach(Sometimes::AppliedLate);
            rows.iter().for_each(|row| drop(work(&site, &caller, row)));
        }));
    }
}

/// A failure of the way.
pub(crate) fn failed(kind: FailureKind, operation: &'static str) -> StoreError {
    StoreError::new(kind, operation, "injected fault")
}

/// The failure of the last try, as uncertain as an earlier one was.
fn least_certain(kind: FailureKind, earlier: Option<FailureKind>, operation: &'static str) -> StoreError {
    match earlier {
        Some(doubt) if kind.certainly_not_applied() => failed(doubt, operation),
        _ => failed(kind, operation),
    }
}
