//! The instances of a world: which there are, which live, and to which a device connects.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_protocol::ids::{InstanceName, LeaseName, Shard};
use fencepost_runtime::settings::Settings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::WorldError;
use super::event::WorldEvent;
use super::process::{Door, Process};
use super::site::Site;

/// The pause after a call whose region died.
const SETTLE_PAUSE: Duration = Duration::from_millis(10);

/// An instance and whether its process runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceState {
    /// Its name.
    pub name: InstanceName,
    /// Does its process run?
    pub alive: bool,
}

/// The instances of a world.
pub(super) struct Regions {
    site: Arc<Site>,
    slots: Mutex<Vec<Slot>>,
    /// Counts starts, so that whoever waits for a living instance hears of one.
    starts: watch::Sender<u64>,
}

struct Slot {
    settings: Settings,
    state: State,
}

enum State {
    Dead,
    Starting,
    Alive(Process),
    /// A test's own process.
    #[cfg(test)]
    Played(Door),
}

impl Slot {
    fn name(&self) -> &InstanceName {
        &self.settings.identity.name
    }

    fn door(&self) -> Option<Door> {
        match &self.state {
            State::Alive(process) => Some(process.door()),
            #[cfg(test)]
            State::Played(door) => Some(door.clone()),
            State::Dead | State::Starting => None,
        }
    }
}

impl Regions {
    /// Dead instances with these settings, one for each.
    pub(super) fn new(site: Arc<Site>, settings: Vec<Settings>) -> Self {
        let slots = settings.into_iter().map(|settings| Slot { settings, state: State::Dead }).collect();
        Self { site, slots: Mutex::new(slots), starts: watch::Sender::new(0) }
    }

    /// Lets a test play the process of an instance; `None` is its death.
    #[cfg(test)]
    pub(super) fn play(&self, name: &str, door: Option<Door>) {
        self.change(name, |slot| slot.state = door.map_or(State::Dead, State::Played)).unwrap();
        self.starts.send_modify(|starts| *starts += 1);
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All names.
    pub(super) fn names(&self) -> Vec<InstanceName> {
        self.slots().iter().map(|slot| slot.name().clone()).collect()
    }

    /// Which live.
    pub(super) fn states(&self) -> Vec<InstanceState> {
        let state =
            |slot: &Slot| InstanceState { name: slot.name().clone(), alive: matches!(slot.state, State::Alive(_)) };
        self.slots().iter().map(state).collect()
    }

    /// Can any instance be asked, now or when its start is done?
    pub(super) fn any_lives(&self) -> bool {
        self.slots().iter().any(|slot| !matches!(slot.state, State::Dead))
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut Slot) -> T) -> Result<T, WorldError> {
        let mut slots = self.slots();
        match slots.iter_mut().find(|slot| slot.name().as_str() == name) {
            Some(slot) => Ok(change(slot)),
            None => {
                let known = slots.iter().map(|slot| slot.name().to_string()).collect();
                Err(WorldError::UnknownInstance { name: name.to_owned(), known })
            }
        }
    }

    /// Starts a dead instance, cold.
    pub(super) async fn start(&self, name: &str) -> Result<(), WorldError> {
        let settings = self.change(name, |slot| match slot.state {
            State::Dead => {
                slot.state = State::Starting;
                Some(slot.settings.clone())
            }
            _ => None,
        })?;
        let settings = settings.ok_or_else(|| WorldError::AlreadyRunning { name: name.to_owned() })?;
        let instance = settings.identity.name.clone();
        let started = Process::start(Arc::clone(&self.site), settings).await;
        let (state, outcome) = match started {
            Ok(process) => (State::Alive(process), Ok(())),
            Err(error) => (State::Dead, Err(error)),
        };
        self.change(name, |slot| slot.state = state)?;
        if outcome.is_ok() {
            self.starts.send_modify(|starts| *starts += 1);
            self.site.tell(&WorldEvent::Started { instance });
        }
        outcome
    }

    /// Kills a living instance. It is dead when this returns.
    pub(super) async fn kill(&self, name: &str) -> Result<(), WorldError> {
        let taken = self.change(name, |slot| match std::mem::replace(&mut slot.state, State::Dead) {
            State::Alive(process) => Some((process, slot.name().clone())),
            other => {
                slot.state = other;
                None
            }
        })?;
        let (process, instance) = taken.ok_or_else(|| WorldError::NotRunning { name: name.to_owned() })?;
        process.kill().await;
        self.site.tell(&WorldEvent::Killed { instance });
        Ok(())
    }

    /// The way to a living instance.
    pub(super) fn door(&self, name: &str) -> Result<Door, WorldError> {
        self.change(name, |slot| slot.door())?.ok_or_else(|| WorldError::NotRunning { name: name.to_owned() })
    }

    /// The instance that a device connects to: always the same while it lives, else the next one that does. Waits while none
    /// lives.
    pub(super) async fn home(&self, lease: &LeaseName, device: &str) -> (InstanceName, Door) {
        let mut starts = self.starts.subscribe();
        loop {
            starts.mark_unchanged();
            if let Some(found) = self.living_home(lease, device) {
                return found;
            }
            if starts.changed().await.is_err() {
                // The sender lives as long as this; without it nothing would ever start again.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Gives a death in progress its time, after a call whose region died.
    pub(super) async fn settle(&self) {
        tokio::task::yield_now().await;
        self.site.clock.sleep(SETTLE_PAUSE).await;
    }

    fn living_home(&self, lease: &LeaseName, device: &str) -> Option<(InstanceName, Door)> {
        let slots = self.slots();
        let first = usize::from(Shard::of_key(lease, device, u16::try_from(slots.len()).ok()?).index());
        let (before, from) = slots.split_at(first);
        from.iter().chain(before).find_map(|slot| slot.door().map(|door| (slot.name().clone(), door)))
    }

    /// Hands a record of the outbox's stream to every living instance.
    pub(super) fn changed(&self, record: &Value) {
        for door in self.slots().iter().filter_map(Slot::door) {
            door.changed(record.clone());
        }
    }
}
