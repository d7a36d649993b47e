//! What happens in the demonstration, in its order: steady flow, a crash in mid-drain, the takeover, the return of the
//! crashed instance, a planned handover, the rest.

use std::time::Duration;

use fencepost_local::world::World;
use fencepost_protocol::ids::InstanceName;
use fencepost_protocol::time::{Timestamp, duration_ms};

use super::fleet::Fleet;
use super::verdict::Times;
use super::watch::Acquisition;
use super::{LEASE_CALL, Stage, between_ms};
use crate::failure::CommandError;
use crate::timeline::{Topic, grouped, seconds};

/// Hundredths of all messages that are published in the steady beginning, in the burst that the leader dies in, and while
/// nobody leads. The rest follows the handover.
const STEADY_SHARE: u32 = 35;
const BURST_SHARE: u32 = 25;
const OUTAGE_SHARE: u32 = 30;
/// How long each of them takes, if the machine keeps up. The burst takes no time of its own.
const STEADY_TIME: Duration = Duration::from_secs(3);
const OUTAGE_TIME: Duration = Duration::from_secs(12);
const REST_TIME: Duration = Duration::from_secs(2);
/// Claims that are under way when the leader dies.
const CLAIMS_IN_FLIGHT: u64 = 5;
/// How long to wait for such a moment, and for the first leader.
const MOMENT_LIMIT: Duration = Duration::from_secs(10);
/// Before the crashed instance comes back.
const RETURN_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks whether everything is at rest.
const REST_STEP: Duration = Duration::from_millis(250);
/// What a wait may take beyond what it should: it ends a run that hangs, it judges nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// And the part of it that a message may take on a slow machine.
const PATIENCE_PER_MESSAGE: Duration = Duration::from_millis(5);

/// A story with its actors.
pub(super) struct Story<'a> {
    pub(super) stage: &'a Stage,
    pub(super) world: &'a World,
    pub(super) fleet: &'a Fleet,
    pub(super) messages: u32,
}

/// The death of a leader.
struct Crash {
    at: Timestamp,
    /// When the dead leader last renewed its lease, by the lease row.
    last_renewal: Timestamp,
}

impl Story<'_> {
    /// Tells the story to its end. The times are those that could be measured: what should have happened and did not is
    /// missing, and the verdict says so.
    pub(super) async fn tell(&self) -> Result<Times, CommandError> {
        let timing = self.world.timing();
        let mut times = Times {
            takeover_bound: duration_ms(timing.warm_takeover_bound(LEASE_CALL)),
            handover_bound: duration_ms(timing.handover_bound(true, LEASE_CALL)),
            ..Times::default()
        };
        let share = |hundredths: u32| self.messages * hundredths / 100;
        let first = self.acquisition_above(0, MOMENT_LIMIT).await.ok_or_else(|| {
            CommandError::PromiseBroken(vec![format!("nobody took the free lease in {}", seconds(MOMENT_LIMIT))])
        })?;
        self.fleet.publish(share(STEADY_SHARE), STEADY_TIME).await;
        let burst = self.fleet.publish(share(BURST_SHARE), Duration::ZERO);
        let ((), crash) = tokio::join!(burst, self.kill_in_mid_drain(&first.instance));
        let crash = crash?;
        let outage = self.fleet.publish(share(OUTAGE_SHARE), OUTAGE_TIME);
        let ((), second) = tokio::join!(outage, self.takeover(&first, &crash, &mut times));
        let Some(second) = second else { return Ok(times) };
        self.bring_back(&first.instance).await?;
        self.takeover_end(&second).await;
        self.come_to_rest("before the planned handover").await?;
        self.hand_over(&second, &mut times).await?;
        let published = share(STEADY_SHARE) + share(BURST_SHARE) + share(OUTAGE_SHARE);
        self.fleet.publish(self.messages - published, REST_TIME).await;
        self.come_to_rest("at the end").await?;
        Ok(times)
    }

    async fn kill_in_mid_drain(&self, leader: &InstanceName) -> Result<Crash, CommandError> {
        let busy = self.stage.watch.wait_for(&*self.stage.clock, MOMENT_LIMIT, |seen| {
            (seen.in_flight(leader) >= CLAIMS_IN_FLIGHT).then_some(())
        });
        let met = busy.await.is_some();
        let at = self.stage.clock.now().wall;
        self.world.kill(leader.as_str()).await?;
        let last_renewal = self.world.lease().await?.map_or(at, |lease| Timestamp::from_ms(lease.confirmed_at_ms));
        let in_flight = self.stage.watch.seen().in_flight(leader);
        let moment = if met { "in mid-drain" } else { "while it had little to drain" };
        let renewed = seconds(at.since(last_renewal));
        let text = format!(
            "{leader} died {moment}: {in_flight} claimed rows without a commit; it had renewed its lease {renewed} before"
        );
        self.stage.say(Topic::Kill, &text);
        Ok(Crash { at, last_renewal })
    }

    async fn takeover(&self, first: &Acquisition, crash: &Crash, times: &mut Times) -> Option<Acquisition> {
        let bound = Duration::from_millis(times.takeover_bound);
        let text = format!(
            "a standby must see the lease unchanged for {} on its own clock; the bound is {} from the last renewal",
            seconds(self.world.timing().lease_ttl + self.world.timing().clock_margin),
            seconds(bound)
        );
        self.stage.say(Topic::Wait, &text);
        let second = self.acquisition_above(first.token, bound + PATIENCE).await?;
        times.takeover = Some(between_ms(crash.last_renewal, second.at));
        times.takeover_from_kill = Some(between_ms(crash.at, second.at));
        let (took, since_kill) = (second.at.since(crash.last_renewal), second.at.since(crash.at));
        let text = format!(
            "{} leads {} after the last renewal, {} after the kill (bound {})",
            second.instance,
            seconds(took),
            seconds(since_kill),
            seconds(bound)
        );
        self.stage.say(Topic::Takeover, &text);
        Some(second)
    }

    async fn bring_back(&self, instance: &InstanceName) -> Result<(), CommandError> {
        self.stage.clock.sleep(RETURN_PAUSE).await;
        self.world.start_instance(instance.as_str()).await?;
        Ok(())
    }

    /// Waits for the takeover workflow. Where it does not end, rows that the dead leader had claimed stay, and the audit
    /// tells them.
    async fn takeover_end(&self, second: &Acquisition) {
        let stale_wait = self.world.timing().stale_claim_duration;
        let text = format!(
            "the takeover sends claims of the dead leader again once they are surely stale, {} after it saw them",
            seconds(stale_wait)
        );
        self.stage.say(Topic::Wait, &text);
        let done = |seen: &super::watch::Seen| seen.takeovers.contains(&second.token).then_some(());
        self.stage.watch.wait_for(&*self.stage.clock, stale_wait + PATIENCE, done).await;
    }

    async fn hand_over(&self, second: &Acquisition, times: &mut Times) -> Result<(), CommandError> {
        let bound = Duration::from_millis(times.handover_bound);
        let text =
            format!("{} is asked to step down, with an idle outbox; the bound is {}", second.instance, seconds(bound));
        self.stage.say(Topic::Wait, &text);
        let asked_at = self.stage.clock.now().wall;
        let successor = async {
            let third = self.acquisition_above(second.token, bound + PATIENCE).await?;
            let took = third.at.since(asked_at);
            let text =
                format!("{} leads {} after the request (bound {})", third.instance, seconds(took), seconds(bound));
            self.stage.say(Topic::Handover, &text);
            Some(duration_ms(took))
        };
        let (machine, took) = tokio::join!(self.world.step_down(second.instance.as_str()), successor);
        machine?;
        times.handover = took;
        Ok(())
    }

    /// Waits until every message was acknowledged, stored and drained, or until patience ends: the audit then tells what is
    /// left.
    async fn come_to_rest(&self, when: &str) -> Result<(), CommandError> {
        let limit = self.world.timing().stale_claim_duration * 2 + PATIENCE + PATIENCE_PER_MESSAGE * self.messages;
        let at_rest = async {
            while !self.is_at_rest().await? {
                self.stage.clock.sleep(REST_STEP).await;
            }
            Ok::<(), CommandError>(())
        };
        tokio::select! {
            rested = at_rest => rested,
            () = self.stage.clock.sleep(limit) => {
                let left = self.world.outstanding().await?;
                self.stage.say(Topic::Trouble, &format!("no rest {when}: {} rows are outstanding after {}", grouped(left), seconds(limit)));
                Ok(())
            }
        }
    }

    async fn is_at_rest(&self) -> Result<bool, CommandError> {
        let all_acknowledged = self.stage.ledger.acknowledged() == self.stage.ledger.published();
        Ok(all_acknowledged && self.world.counts().rule_waiting == 0 && self.world.outstanding().await? == 0)
    }

    async fn acquisition_above(&self, token: u64, limit: Duration) -> Option<Acquisition> {
        self.stage.watch.wait_for(&*self.stage.clock, limit, |seen| seen.acquisition_above(token).cloned()).await
    }
}
