//! What is done to the world in a round: processes killed and frozen at a chance moment or at a chosen request, whole
//! instances crashed, frozen or cut off, the queue broken, the holder asked to step down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_runtime::settings::Function;
use serde_json::json;
use tokio::task::JoinSet;

use super::LEASE_TTL;
use super::instance::{Instance, Mode};
use super::ledger::Ledger;
use super::sandbox::Sandbox;
use crate::chance::Chance;
use crate::proxy::{Fault, Match, Placement, Times};

/// How long a chosen request is waited for.
const AIM: Duration = Duration::from_millis(1_500);
/// How long a process that was frozen lives on as a late writer.
const AFTERLIFE: Duration = Duration::from_secs(3);

/// What was done, by kind.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// SIGKILL of a process in mid-invocation.
    pub(super) kills: AtomicU64,
    /// SIGSTOP of a process, or of all of an instance, past the TTL.
    pub(super) freezes: AtomicU64,
    /// All processes of an instance killed.
    pub(super) crashes: AtomicU64,
    /// An instance without its tables for seconds.
    pub(super) cuts: AtomicU64,
    /// A queue that fails for seconds.
    pub(super) outages: AtomicU64,
    /// A holder asked to step down.
    pub(super) step_downs: AtomicU64,
}

/// The one who does it.
pub(super) struct Trouble {
    pub(super) dice: Chance,
    pub(super) instances: Vec<Arc<Instance>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) tally: Arc<Tally>,
    /// What ends by itself later.
    pub(super) pending: JoinSet<()>,
}

/// A request at which something happens: the function that makes it, whether to the queue, and which.
type Target = (Function, bool, Match);

fn target(dice: &mut Chance) -> Target {
    let batch = || Match::operation("BatchExecuteStatement");
    match dice.below(8) {
        0 | 1 => (Function::Drainer, true, Match::operation("SendMessageBatch")),
        2 | 3 => (Function::Drainer, false, batch().containing("DELETE FROM")),
        4 => (Function::Drainer, false, batch().containing("sent#")),
        5 => (Function::Drainer, false, batch().containing("UPDATE")),
        6 => (Function::Lease, false, Match::operation("UpdateItem")),
        _ => (Function::Ingest, false, Match::operation("PutItem")),
    }
}

impl Trouble {
    /// One round's trouble.
    pub(super) async fn strike(&mut self) {
        let up: Vec<_> = self.instances.iter().filter(|instance| instance.mode() == Mode::Up).cloned().collect();
        let Some(victim) = pick(&mut self.dice, &up).cloned() else { return };
        // Somebody must be left who can take the lease over.
        let whole = up.len() > 1;
        match self.dice.below(100) {
            0..36 => self.kill_one(&victim).await,
            36..56 => self.freeze_one(&victim).await,
            56..68 if whole => self.freeze_all(&victim),
            68..80 if whole => self.crash(&victim),
            80..87 => self.cut(&victim),
            87..93 => self.break_queue(),
            93..97 => self.step_down(&victim),
            _ => {}
        }
    }

    /// Places `fault` at the first chosen request of the victim, and gives the process that made it.
    async fn aim(&mut self, victim: &Instance, fault: &Fault) -> Option<Arc<Sandbox>> {
        let (function, queue, request) = target(&mut self.dice);
        let place = |sandbox: Arc<Sandbox>| {
            let proxy = if queue { &sandbox.queue } else { &sandbox.tables };
            let placed = proxy.place(request.clone(), Times::Nth(1), fault.clone());
            (sandbox, placed)
        };
        let aimed: Vec<(Arc<Sandbox>, Placement)> = victim.sandboxes(Some(function)).into_iter().map(place).collect();
        let limit = tokio::time::Instant::now() + AIM;
        let hit = loop {
            let hit = aimed.iter().find(|(_, placed)| placed.hits() > 0).map(|(sandbox, _)| Arc::clone(sandbox));
            if hit.is_some() || tokio::time::Instant::now() > limit {
                break hit;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        for (sandbox, _) in
            aimed.iter().filter(|(sandbox, _)| hit.as_ref().is_none_or(|hit| !Arc::ptr_eq(hit, sandbox)))
        {
            victim.spoil(sandbox);
        }
        hit
    }

    /// A process that is in an invocation.
    fn busy(&mut self, victim: &Instance) -> Option<Arc<Sandbox>> {
        let busy: Vec<_> = victim.sandboxes(None).into_iter().filter(|sandbox| sandbox.is_busy()).collect();
        pick(&mut self.dice, &busy).cloned()
    }

    async fn kill_one(&mut self, victim: &Instance) {
        let fault = if self.dice.below(2) == 0 { Fault::BlackHole } else { Fault::BlackHoleAfter };
        let aimed = if self.dice.below(4) == 0 { None } else { self.aim(victim, &fault).await };
        let Some(sandbox) = aimed.or_else(|| self.busy(victim)) else { return };
        self.ledger.note(&format!("kill {} at {}", sandbox.name, fault.kind()));
        sandbox.kill();
        self.tally.kills.fetch_add(1, Ordering::SeqCst);
    }

    /// Frozen while its request is on the wire; thawed when others have had the time to take over.
    async fn freeze_one(&mut self, victim: &Instance) {
        let aimed = self.aim(victim, &Fault::DelayAfter(Duration::from_millis(400))).await;
        let Some(sandbox) = aimed.or_else(|| self.busy(victim)) else { return };
        self.ledger.note(&format!("freeze {}", sandbox.name));
        self.ledger.froze(&sandbox.name);
        sandbox.stop();
        self.tally.freezes.fetch_add(1, Ordering::SeqCst);
        let (pause, ledger) = (self.past_the_stale_wait(), Arc::clone(&self.ledger));
        self.pending.spawn(async move {
            tokio::time::sleep(pause).await;
            thaw(&ledger, &[sandbox]).await;
        });
    }

    fn freeze_all(&mut self, victim: &Arc<Instance>) {
        self.ledger.note(&format!("freeze {}", victim.name));
        let stopped = victim.freeze();
        stopped.iter().for_each(|sandbox| self.ledger.froze(&sandbox.name));
        self.tally.freezes.fetch_add(1, Ordering::SeqCst);
        let pause = LEASE_TTL + Duration::from_millis(1_000 + self.dice.below(4_000));
        let (victim, ledger) = (Arc::clone(victim), Arc::clone(&self.ledger));
        self.pending.spawn(async move {
            tokio::time::sleep(pause).await;
            victim.revive();
            thaw(&ledger, &stopped).await;
        });
    }

    fn crash(&mut self, victim: &Arc<Instance>) {
        let workflows = self.dice.below(2) == 0;
        self.ledger.note(&format!("crash {}, workflows too: {workflows}", victim.name));
        victim.crash(workflows);
        self.tally.crashes.fetch_add(1, Ordering::SeqCst);
        let (pause, victim) = (Duration::from_millis(self.dice.below(9_000)), Arc::clone(victim));
        self.pending.spawn(async move {
            tokio::time::sleep(pause).await;
            victim.revive();
        });
    }

    fn cut(&mut self, victim: &Arc<Instance>) {
        let fault = if self.dice.below(2) == 0 { Fault::DropBefore } else { Fault::BlackHole };
        self.ledger.note(&format!("cut {} off its tables, {}", victim.name, fault.kind()));
        self.tally.cuts.fetch_add(1, Ordering::SeqCst);
        for sandbox in victim.sandboxes(None) {
            sandbox.tables.place(Match::any(), Times::Always, fault.clone());
        }
        self.mend_later(vec![Arc::clone(victim)], 1_000, 5_000);
    }

    fn break_queue(&mut self) {
        let faults = [Fault::Throttle, Fault::FailBefore, Fault::FailAfter, Fault::BlackHole, Fault::Deny];
        let Some(fault) = pick(&mut self.dice, &faults).cloned() else { return };
        self.ledger.note(&format!("the queue is broken, {}", fault.kind()));
        self.tally.outages.fetch_add(1, Ordering::SeqCst);
        for sandbox in self.instances.iter().flat_map(|instance| instance.sandboxes(Some(Function::Drainer))) {
            sandbox.queue.place(Match::any(), Times::Always, fault.clone());
        }
        self.mend_later(self.instances.clone(), 1_000, 3_000);
    }

    fn step_down(&mut self, victim: &Arc<Instance>) {
        self.ledger.note(&format!("ask {} to step down", victim.name));
        self.tally.step_downs.fetch_add(1, Ordering::SeqCst);
        let victim = Arc::clone(victim);
        self.pending.spawn(async move {
            // A standby refuses; a holder may be killed over it. Both are answers.
            drop(victim.invoke(Function::Lease, json!({ "command": "step_down", "reason": "step_down" })).await);
        });
    }

    fn mend_later(&mut self, instances: Vec<Arc<Instance>>, least_ms: u64, more_ms: u64) {
        let pause = Duration::from_millis(least_ms + self.dice.below(more_ms));
        self.pending.spawn(async move {
            tokio::time::sleep(pause).await;
            for instance in instances {
                instance.sandboxes(None).iter().for_each(|sandbox| instance.spoil(sandbox));
            }
        });
    }

    /// Longer than the TTL, and half the time longer than the stale wait, when others have taken over its claims.
    fn past_the_stale_wait(&mut self) -> Duration {
        LEASE_TTL + Duration::from_millis(1_000 + self.dice.below(11_000))
    }
}

async fn thaw(ledger: &Ledger, stopped: &[Arc<Sandbox>]) {
    for sandbox in stopped {
        ledger.note(&format!("thaw {}", sandbox.name));
        sandbox.go_on();
    }
    tokio::time::sleep(AFTERLIFE).await;
    stopped.iter().for_each(|sandbox| sandbox.kill());
}

fn pick<'a, T>(dice: &mut Chance, from: &'a [T]) -> Option<&'a T> {
    let index = dice.below(u64::try_from(from.len()).unwrap_or(0));
    from.get(usize::try_from(index).unwrap_or(0))
}
