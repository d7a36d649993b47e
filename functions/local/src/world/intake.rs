//! The thread of the topic rule, the failures list and the control port, and how it ends: once the broker takes nothing any
//! more, what it acknowledged goes to ingest first.
//!
//! Guarantee of [`Intake::finish`]: every message that the broker handed over is either acknowledged by ingest, or told as
//! dropped, by number. It waits for ingest at most [`FINISH_MAX`], and not at all where no instance lives.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::command::Commands;
use super::control;
use super::event::WorldEvent;
use super::failures::Failures;
use super::rule::TopicRule;
use super::topic::TopicFilter;
use crate::StartError;
use crate::broker::Published;
use crate::endpoint::{EndpointThread, StopSignal};

/// How long an end waits for ingest.
pub(super) const FINISH_MAX: Duration = Duration::from_secs(10);
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
    /// acknowledge. To be called when the broker has stopped.
    pub(super) async fn finish(self) -> u64 {
        let Self { thread, commands, open, all_taken } = self;
        drop(open);
        let reason = wait_for_ingest(&commands, &all_taken).await;
        thread.stop().await;
        let site = &commands.site;
        let messages = site.counters.counts().rule_waiting;
        if messages > 0 {
            site.tell(&WorldEvent::Dropped { messages, reason: reason.unwrap_or_default() });
        }
        messages
    }
}

/// Waits until ingest has everything; gives the reason where it does not come to that.
async fn wait_for_ingest(commands: &Commands, all_taken: &AtomicBool) -> Option<String> {
    let site = &commands.site;
    let start = site.clock.now().monotonic;
    let mut next_word = Duration::ZERO;
    loop {
        // In this order: once all is taken, nothing more begins to wait, and the number is exact.
        let all_taken = all_taken.load(Ordering::SeqCst);
        let waiting = site.counters.counts().rule_waiting;
        if all_taken && waiting == 0 {
            return None;
        }
        if !commands.regions.any_lives() {
            return Some("no instance lives that could store them".to_owned());
        }
        let waited = site.clock.now().monotonic.saturating_sub(start);
        if waited >= FINISH_MAX {
            return Some(format!("ingest did not store them in {} s", FINISH_MAX.as_secs()));
        }
        if all_taken && waited >= next_word {
            site.tell(&WorldEvent::Stopping { waiting, wait_ms_max: wait_ms_max(waited) });
            next_word = waited + PROGRESS_INTERVAL;
        }
        site.clock.sleep(FINISH_STEP).await;
    }
}

/// What is left of the wait.
fn wait_ms_max(waited: Duration) -> u64 {
    fencepost_protocol::time::duration_ms(FINISH_MAX.saturating_sub(waited))
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
