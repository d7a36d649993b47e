//! The thread of the topic rule, the failures list and the control port, and how it ends: once the broker takes nothing any
//! more, what it acknowledged goes to ingest first.
//!
//! Guarantee of [`Intake::finish`]: every message that the broker handed over is either acknowledged by ingest, or told as
//! dropped, by number. It waits for as long as ingest goes on: until nothing was acknowledged for [`QUIET_MAX`]. It does not
//! wait where no instance lives, and no longer once its caller gives up.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost_protocol::time::duration_ms;
use tokio::sync::{mpsc, oneshot};

use super::command::Commands;
use super::control;
use super::event::WorldEvent;
use super::failures::{Failures, PAUSE_MAX};
use super::rule::TopicRule;
use super::site::Site;
use super::topic::TopicFilter;
use crate::StartError;
use crate::broker::Published;
use crate::endpoint::{EndpointThread, StopSignal};
use crate::shipped::INGEST_LIMIT;

/// How long an end waits for the next acknowledgement of ingest: the failures list's longest pause, and then one call.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(PAUSE_MAX.as_secs() + INGEST_LIMIT.as_secs());
/// Between two looks whether ingest has everything.
const FINISH_STEP: Duration = Duration::from_millis(20);
/// Between two words about how much is left.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The running thread.
pub(super) struct Intake {
    thread: EndpointThread,
    commands: Arc<Commands>,
    /// Dropped when the broker is gone.
    open: oneshot::Sender<()>,
    /// The rule has taken and counted everything that the broker left.
    all_taken: Arc<AtomicBool>,
}

impl Intake {
    /// Starts it on what the broker publishes.
    pub(super) fn start(
        commands: Arc<Commands>,
        control: TcpListener,
        filter: TopicFilter,
        published: mpsc::Receiver<Published>,
    ) -> Result<Self, StartError> {
        let all_taken = Arc::new(AtomicBool::new(false));
        let (open, closed) = oneshot::channel();
        let (served, taken) = (Arc::clone(&commands), Arc::clone(&all_taken));
        let thread = EndpointThread::spawn("topic rule", move |stop| {
            let (site, regions) = (Arc::clone(&served.site), Arc::clone(&served.regions));
            let failures = Arc::new(Failures::new(Arc::clone(&site), Arc::clone(&regions)));
            let rule = Arc::new(TopicRule {
                site: Arc::clone(&site),
                regions,
                failures: Arc::clone(&failures),
                filter,
                all_taken: taken,
            });
            async move {
                tokio::spawn(failures.feed());
                tokio::spawn(async move {
                    if let Err(error) = control::serve(control, served).await {
                        site.trouble(format!("the control port ended: {error}"));
                    }
                });
                take_until_stopped(&rule, published, closed, stop).await;
            }
        })?;
        Ok(Self { thread, commands, open, all_taken })
    }

    /// Lets ingest have everything that was acknowledged, then ends the thread. Gives how many messages ingest did not
    /// acknowledge. To be called when the broker has stopped. Once `given_up` is ready, it waits no longer.
    pub(super) async fn finish(self, given_up: impl Future<Output = ()>) -> u64 {
        let Self { thread, commands, open, all_taken } = self;
        drop(open);
        let site = &commands.site;
        let reason = tokio::select! {
            reason = wait_for_ingest(site, || commands.regions.any_lives(), &all_taken) => reason,
            () = given_up => Some("the wait for ingest was cut short".to_owned()),
        };
        thread.stop().await;
        let messages = site.counters.counts().rule_waiting;
        if messages > 0 {
            site.tell(&WorldEvent::Dropped { messages, reason: reason.unwrap_or_default() });
        }
        messages
    }
}

/// Waits until ingest has everything; gives the reason where it does not come to that.
pub(super) async fn wait_for_ingest(
    site: &Site,
    any_lives: impl Fn() -> bool,
    all_taken: &AtomicBool,
) -> Option<String> {
    let mut next_word = site.clock.now().monotonic;
    let mut acknowledged = 0;
    // Counted in looks, not on the clock: a process that was stopped for a minute has not given ingest that minute.
    let mut quiet_looks = 0;
    loop {
        // In this order: once all is taken, nothing more begins to wait, and the number is exact.
        let all_taken = all_taken.load(Ordering::SeqCst);
        let counts = site.counters.counts();
        let waiting = counts.rule_waiting;
        if all_taken && waiting == 0 {
            return None;
        }
        if !any_lives() {
            return Some("no instance lives that could store them".to_owned());
        }
        if counts.acknowledged() > acknowledged {
            (acknowledged, quiet_looks) = (counts.acknowledged(), 0);
        }
        let quiet_left = QUIET_MAX.saturating_sub(FINISH_STEP * quiet_looks);
        if quiet_left.is_zero() {
            return Some(format!("ingest acknowledged none of them for {} s", QUIET_MAX.as_secs()));
        }
        let now = site.clock.now().monotonic;
        if all_taken && now >= next_word {
            site.tell(&WorldEvent::Stopping { waiting, quiet_ms_left: duration_ms(quiet_left) });
            next_word = now + PROGRESS_INTERVAL;
        }
        site.clock.sleep(FINISH_STEP).await;
        quiet_looks += 1;
    }
}

async fn take_until_stopped(
    rule: &Arc<TopicRule>,
    mut published: mpsc::Receiver<Published>,
    closed: oneshot::Receiver<()>,
    stop: StopSignal,
) {
    // The sender is only ever dropped: an error is the signal.
    let closed = async { drop(closed.await) };
    let stopped = stop.stopped();
    tokio::pin!(stopped);
    tokio::select! {
        () = rule.run(&mut published, closed) => return stopped.await,
        () = &mut stopped => {}
    }
    // Counted and told, so that whoever reads the events knows of each message that is dropped here.
    while let Ok(message) = published.try_recv() {
        drop(rule.take(&message));
    }
}
