//! What the demonstration has seen so far, and a way to wait for more.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_local::world::WorldEvent;
use fencepost_protocol::ids::InstanceName;
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::clock::Clock;
use tokio::sync::watch;

/// An acquisition of the lease, in whichever of its three ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acquisition {
    pub(crate) at: Timestamp,
    pub(crate) instance: InstanceName,
    pub(crate) token: u64,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// In order.
    pub(crate) acquisitions: Vec<Acquisition>,
    /// Tokens whose takeover was completed.
    pub(crate) takeovers: Vec<u64>,
    /// Rows of each instance that it claimed and did not commit.
    in_flight: BTreeMap<InstanceName, u64>,
}

impl Seen {
    /// Rows that this instance claimed and has not committed, as far as events tell: what it handed back counts too.
    pub(crate) fn in_flight(&self, instance: &InstanceName) -> u64 {
        self.in_flight.get(instance).copied().unwrap_or_default()
    }

    /// The first acquisition above `token`.
    pub(crate) fn acquisition_above(&self, token: u64) -> Option<&Acquisition> {
        self.acquisitions.iter().find(|acquisition| acquisition.token > token)
    }

    fn note(&mut self, at: Timestamp, event: &WorldEvent) -> bool {
        match event {
            WorldEvent::Lease { instance, transition, token: Some(token), .. }
                if matches!(transition.as_str(), "Lease Acquired" | "Lease Seized" | "Lease Reclaimed") =>
            {
                self.acquisitions.push(Acquisition { at, instance: instance.clone(), token: *token });
            }
            WorldEvent::TakeoverCompleted { token, .. } => self.takeovers.push(*token),
            WorldEvent::Claimed { instance, rows, .. } => *self.in_flight.entry(instance.clone()).or_default() += rows,
            WorldEvent::Committed { instance, rows, .. } => {
                let claimed = self.in_flight.entry(instance.clone()).or_default();
                *claimed = claimed.saturating_sub(*rows);
            }
            _ => return false,
        }
        true
    }
}

/// The observer's end: takes events.
#[derive(Debug)]
pub(crate) struct Watch(watch::Sender<Seen>);

impl Watch {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Seen::default()))
    }

    pub(crate) fn note(&self, at: Timestamp, event: &WorldEvent) {
        self.0.send_if_modified(|seen| seen.note(at, event));
    }

    /// What was seen until now.
    pub(crate) fn seen(&self) -> Seen {
        self.0.borrow().clone()
    }

    /// Waits until `wanted` finds something, at most for `limit`.
    pub(crate) async fn wait_for<T>(
        &self,
        clock: &dyn Clock,
        limit: Duration,
        wanted: impl Fn(&Seen) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.0.subscribe();
        let found = async {
            loop {
                let found = wanted(&changes.borrow_and_update());
                // The sender is ours, so that a change can always come.
                if found.is_some() || changes.changed().await.is_err() {
                    return found;
                }
            }
        };
        tokio::select! {
            found = found => found,
            () = clock.sleep(limit) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_runtime::clock::SystemClock;

    use super::*;

    fn instance(name: &str) -> InstanceName {
        InstanceName::new(name).unwrap()
    }

    fn lease(name: &str, transition: &str, token: u64) -> WorldEvent {
        let (instance, transition) = (instance(name), transition.to_owned());
        WorldEvent::Lease { instance, transition, token: Some(token), reason: None, at_ms: 0 }
    }

    #[tokio::test]
    async fn acquisitions_are_told_apart_from_losses_and_found_by_token() {
        let watch = Watch::new();
        let at = Timestamp::from_ms(5);
        watch.note(at, &lease("east", "Lease Acquired", 1));
        watch.note(at, &lease("east", "Lease Lost", 1));
        watch.note(at, &lease("west", "Lease Seized", 2));
        assert_eq!(watch.seen().acquisitions.len(), 2);
        let found =
            watch.wait_for(&SystemClock::new(), Duration::ZERO, |seen| seen.acquisition_above(1).cloned()).await;
        assert_eq!(found, Some(Acquisition { at, instance: instance("west"), token: 2 }));
    }

    #[tokio::test]
    async fn waiting_ends_with_the_event_or_with_the_limit() {
        let watch = Watch::new();
        let clock = SystemClock::new();
        let in_flight =
            |seen: &Seen| (seen.in_flight(&instance("east")) >= 5).then(|| seen.in_flight(&instance("east")));
        assert_eq!(watch.wait_for(&clock, Duration::from_millis(1), in_flight).await, None);
        let claims = async {
            tokio::task::yield_now().await;
            watch.note(Timestamp::from_ms(1), &WorldEvent::Claimed { instance: instance("east"), token: 1, rows: 9 });
            watch.note(Timestamp::from_ms(2), &WorldEvent::Committed { instance: instance("east"), token: 1, rows: 2 });
        };
        let (found, ()) = tokio::join!(watch.wait_for(&clock, Duration::from_secs(60), in_flight), claims);
        assert_eq!(found, Some(7));
    }
}
