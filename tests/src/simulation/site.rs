//! What all parts of a running world share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fencepost_protocol::body::{MESSAGE_ID, QueueEntry, attribute};
use fencepost_protocol::ids::{LeaseName, RowKey};
use fencepost_protocol::outbox::Slot;
use fencepost_storage::item::{Item, Key};
use fencepost_storage::memory::QueueKind;
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use serde_json::{Value, json};

use super::book::{Book, Course};
use super::fault::{CallFault, platform};
use super::history::History;
use super::ledger::Ledger;
use super::observer::Observer;
use super::options::{LEASE, Options};
use super::reached::Sometimes;
use super::region::Host;
use super::server::Server;
use super::time::TrueTime;
use crate::chance::number_of;

/// An event on the bus.
#[derive(Debug, Clone, PartialEq)]
pub struct BusEvent {
    /// When it was put, since the beginning of the run.
    pub at: Duration,
    /// By whom.
    pub instance: String,
    /// Its detail type, for example `Lease Seized`.
    pub detail_type: String,
    /// Its detail.
    pub detail: Value,
}

/// What a hand has changed and may put back.
#[derive(Debug, Default)]
pub(crate) struct ByHand {
    pub(crate) lease: Option<Item>,
    pub(crate) fence: Option<Item>,
    pub(crate) rows: BTreeMap<Key, Item>,
    /// The ids of messages that met their own row while it was damaged: they are kept beside it, since a row that does not
    /// decode proves nothing.
    pub(crate) met_damage: BTreeSet<String>,
    /// The lease table as it stood, each ten seconds.
    pub(crate) copies: Vec<(Duration, Vec<Item>)>,
}

/// The shared part of a world.
pub(crate) struct Site {
    pub(crate) options: Options,
    pub(crate) lease: LeaseName,
    pub(crate) time: TrueTime,
    pub(crate) server: Server,
    hosts: OnceLock<Vec<Arc<Host>>>,
    book: Mutex<Book>,
    history: Mutex<History>,
    observer: Mutex<Observer>,
    ledger: Mutex<Ledger>,
    events: Mutex<Vec<BusEvent>>,
    by_hand: Mutex<ByHand>,
    able_since: Mutex<Option<Duration>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    /// A world with its instances, all dead. Inside a paused runtime only.
    pub(crate) fn build(options: Options) -> Arc<Self> {
        let time = TrueTime::begin();
        let settings: Vec<_> = options.regions.iter().map(|name| options.settings_of(name)).collect();
        let first = settings.first().expect("a world has an instance");
        let kind = if options.fifo { QueueKind::Fifo } else { QueueKind::Standard };
        let book = Book::new(options.seed, options.regions.clone(), options.latency_ms_max);
        let observer = Observer::new(options.fifo, &first.timing, first.body_format);
        let site = Arc::new(Self {
            lease: LeaseName::new(LEASE).expect("a well-formed name"),
            time,
            server: Server::new(kind),
            hosts: OnceLock::new(),
            book: Mutex::new(book),
            history: Mutex::default(),
            observer: Mutex::new(observer),
            ledger: Mutex::default(),
            events: Mutex::default(),
            by_hand: Mutex::default(),
            able_since: Mutex::default(),
            options,
        });
        let hosts = settings.into_iter().enumerate().map(|(index, settings)| Host::dead(&site, index, settings));
        drop(site.hosts.set(hosts.collect()));
        site
    }

    pub(crate) fn hosts(&self) -> &[Arc<Host>] {
        self.hosts.get().map_or(&[], Vec::as_slice)
    }

    /// The instance of this name.
    pub(crate) fn host(&self, name: &str) -> &Arc<Host> {
        let known = || self.options.regions.join(", ");
        self.hosts()
            .iter()
            .find(|host| host.name == name)
            .unwrap_or_else(|| panic!("there is no instance {name}; there are {}", known()))
    }

    /// The true time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.time.elapsed()
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    pub(crate) fn observer(&self) -> MutexGuard<'_, Observer> {
        lock(&self.observer)
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(crate) fn events(&self) -> MutexGuard<'_, Vec<BusEvent>> {
        lock(&self.events)
    }

    pub(crate) fn by_hand(&self) -> MutexGuard<'_, ByHand> {
        lock(&self.by_hand)
    }

    pub(crate) fn reach(&self, what: Sometimes) {
        self.observer().reached.add(what, 1);
    }

    /// Tells the history what happened at an instance.
    pub(crate) fn tell(&self, instance: usize, what: String) {
        let who = self.hosts().get(instance).map_or("", |host| host.name.as_str());
        self.history().tell(self.now(), who, what);
    }

    /// Tells the history what happened to the world.
    pub(crate) fn tell_all(&self, what: String) {
        self.history().tell(self.now(), "", what);
    }

    /// A call was made, and this is how it goes.
    pub(crate) fn note_call(&self, instance: usize, operation: &'static str, course: &Course) {
        let fault = course.fault.as_ref().map_or(0, |fault| number_of(fault.name()));
        let who = u64::try_from(instance).unwrap_or(u64::MAX);
        self.history().call(self.now(), [who ^ fault, number_of(operation), course.number]);
        let Some(fault) = &course.fault else { return };
        if !course.outage {
            self.tell(instance, format!("fault: {operation} {} {}", course.number, fault_words(fault)));
        }
        if touches_ticks(operation)
            && let Some(host) = self.hosts().get(instance)
        {
            let lasts = if let CallFault::Slow { ms } = fault { Duration::from_millis(*ms) } else { Duration::ZERO };
            host.trouble(self.now() + lasts);
        }
    }

    /// An event was put on the bus.
    pub(crate) fn put_event(&self, instance: usize, detail_type: &str, detail: &Value) {
        let reason = detail["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let token = detail["token"].as_u64().map(|token| format!(" token {token}")).unwrap_or_default();
        self.tell(instance, format!("event: {detail_type}{token}{reason}"));
        let reached = match (detail_type, detail["reason"].as_str().unwrap_or_default()) {
            ("Takeover Completed", _) => Some(Sometimes::TakeoverCompleted),
            ("Lease Lost", "deadline") => Some(Sometimes::OwnDeadline),
            ("Lease Lost", "store_unreadable") => Some(Sometimes::UnreadableDemotion),
            ("Lease Lost", "superseded") => Some(Sometimes::Superseded),
            _ => None,
        };
        if let Some(what) = reached {
            self.reach(what);
        }
        let event = BusEvent {
            at: self.now(),
            instance: self.options.regions[instance].clone(),
            detail_type: detail_type.to_owned(),
            detail: detail.clone(),
        };
        self.events().push(event);
    }

    /// A row was inserted: the stream tells the living.
    pub(crate) fn stream(&self, key: &RowKey) {
        if !self.options.stream {
            return;
        }
        let record = json!({
            "eventName": "INSERT",
            "dynamodb": { "Keys": { "shard": { "S": key.shard }, "position": { "S": key.position } } },
        });
        for host in self.hosts() {
            host.changed(self, &record);
        }
    }

    pub(crate) fn is_enabled(&self, instance: usize) -> bool {
        self.hosts()[instance].source()
    }

    pub(crate) fn set_enabled(&self, instance: usize, enabled: bool) {
        self.hosts()[instance].set_source(enabled);
        self.reach(if enabled { Sometimes::SourceConnected } else { Sometimes::SourceDisconnected });
        self.tell(instance, format!("the topic rule is {}", if enabled { "enabled" } else { "disabled" }));
    }

    /// Looks at who leads and who could, and tells the judge.
    pub(crate) fn look_at_leadership(&self) {
        let now = self.now();
        let lease = self.server.lease(&self.lease);
        let row = lease.present();
        let damaged = matches!(lease, Slot::Damaged(_)) || self.by_hand().fence.is_some();
        let able = |host: &Arc<Host>| {
            let identity = &host.settings.identity;
            let since = host.healthy_since(self)?;
            let ttl = host.settings.timing.lease_ttl;
            if row.is_some_and(|record| record.is_owned_by(identity) && record.stepping_down.is_some()) {
                return None;
            }
            let released = row.and_then(|record| record.released.as_ref());
            let by_me = released.is_some_and(|released| released.by == *identity);
            // It abstains for one TTL, by its own clock.
            let since = if by_me { since.max(host.released_at() + ttl + ttl / 50) } else { since };
            (since <= now).then_some(since)
        };
        let since = if damaged { None } else { self.hosts().iter().filter_map(able).min() };
        let before = std::mem::replace(&mut *lock(&self.able_since), since);
        let mut observer = self.observer();
        observer.leadership.able_since(since);
        let leading = observer.leadership.leads(now);
        let troubled = match (before, since) {
            (Some(before), Some(since)) => since > before,
            _ => false,
        };
        observer.watch(now, leading, since.is_some(), troubled);
    }

    /// Keeps a copy of the lease table.
    pub(crate) fn copy_lease_table(&self) {
        let mut by_hand = self.by_hand();
        // What a hand has damaged is no copy to go back to.
        if by_hand.lease.is_none() {
            by_hand.copies.push((self.now(), self.server.tables.dump(Table::Lease)));
        }
    }
}

fn fault_words(fault: &CallFault) -> String {
    match fault {
        CallFault::Slow { ms } => format!("slow by {ms}ms"),
        other => other.name().replace('_', " "),
    }
}

/// Does a fault of this call keep a tick from what it needs?
fn touches_ticks(name: &str) -> bool {
    use operation::{PAGE, RAISE_FENCE, READ_FENCE, READ_GROUP, READ_LEASE, WRITE_INSTANCE, WRITE_LEASE};
    use platform::{INVOKE_LEASE, SCHEDULE_LEASE_CYCLE};
    [
        PAGE,
        RAISE_FENCE,
        READ_FENCE,
        READ_GROUP,
        READ_LEASE,
        WRITE_INSTANCE,
        WRITE_LEASE,
        INVOKE_LEASE,
        SCHEDULE_LEASE_CYCLE,
    ]
    .contains(&name)
}

/// The message that an entry carries, for the history.
pub(crate) fn id_of(entry: &QueueEntry) -> String {
    attribute(&entry.attributes, MESSAGE_ID).ok().flatten().unwrap_or_else(|| "an entry without an id".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::options::Options;
    use super::super::world::World;

    #[test]
    fn nothing_of_a_world_outlives_it() {
        let mut world = World::new(Options::new(7));
        world.publish_many("pump-1", 3);
        world.run_for(Duration::from_secs(20));
        let site = Arc::downgrade(&world.site);
        drop(world);
        assert!(site.upgrade().is_none(), "{} still hold it", site.strong_count());
    }
}
