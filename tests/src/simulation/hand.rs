//! What a hand from outside does to a world: the acts, each carried out at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_local::shipped::Machine;
use fencepost_protocol::outbox::Slot;
use fencepost_runtime::settings::Function;
use fencepost_storage::item::{Item, Value as Attribute};
use fencepost_storage::records::{SCHEMA_ATTRIBUTE, Table, fence, lease, outstanding};
use serde_json::{Value, json};

use super::act::{Act, Damage};
use super::fault::Fault;
use super::region::Host;
use super::site::Site;
use super::time::ms;

/// How many records a call of a redrive by an act takes at most.
const REDRIVE_MAX: u32 = 1_000;
/// A schema that nobody knows.
const NEWER_SCHEMA: u64 = 999;

impl Site {
    /// Does it, and writes it down as a fault that was met. Inside the runtime only.
    pub(crate) fn act(self: &Arc<Self>, act: &Act) {
        self.book().note(Fault::At { ms: ms(self.now()), act: act.clone() });
        self.carry_out(act);
    }

    pub(crate) fn carry_out(self: &Arc<Self>, act: &Act) {
        match act {
            Act::Kill { instance } => self.with(instance, |host| host.kill().then(|| "is killed".to_owned())),
            Act::Start { instance } => self.with(instance, |host| {
                let started = host.start(self);
                started.then(|| "starts".to_owned())
            }),
            Act::Freeze { instance } => self.with(instance, |host| {
                host.clock.set_frozen(true);
                host.gate.shut();
                Some("freezes".to_owned())
            }),
            Act::Thaw { instance } => self.with(instance, |host| {
                host.clock.set_frozen(false);
                host.gate.open();
                Some("thaws".to_owned())
            }),
            Act::StepClock { instance, by_ms } => self.with(instance, |host| {
                host.clock.step(*by_ms);
                Some(format!("clock stepped by {by_ms}ms"))
            }),
            Act::DriftClock { instance, ppm } => self.with(instance, |host| {
                host.clock.drift(*ppm);
                Some(format!("clock drifts by {ppm}ppm"))
            }),
            Act::SetClockRight { instance } => self.with(instance, |host| {
                host.clock.set_right();
                Some("clock set right".to_owned())
            }),
            Act::Begin { outage, instance, failure } => {
                let who = instance.as_ref().map(|name| self.host(name).index);
                self.book().begin(*outage, who, *failure);
                self.tell_of(instance.as_deref(), format!("{} ({})", act.kind().replace('_', " "), failure.as_str()));
            }
            Act::End { outage, instance } => {
                let who = instance.as_ref().map(|name| self.host(name).index);
                self.book().end(*outage, who);
                self.tell_of(instance.as_deref(), format!("{outage:?} works again"));
            }
            Act::StopSchedules { instance } | Act::StartSchedules { instance } => {
                let on = matches!(act, Act::StartSchedules { .. });
                self.with(instance, |host| {
                    host.schedules.store(on, Ordering::SeqCst);
                    Some(format!("schedules {}", if on { "on" } else { "off" }))
                });
            }
            Act::StepDown { .. }
            | Act::Resume { .. }
            | Act::Release { .. }
            | Act::Redrive { .. }
            | Act::StartMachine { .. }
            | Act::StopMachine { .. } => self.operate(act),
            _ => self.tamper(act),
        }
        self.look_at_leadership();
    }

    /// Changes an instance, whose ticks it may disturb, and tells what became of it.
    fn with(&self, name: &str, change: impl FnOnce(&Arc<Host>) -> Option<String>) {
        let host = Arc::clone(self.host(name));
        if let Some(words) = change(&host) {
            host.trouble(self.now());
            self.tell(host.index, words);
        }
    }

    fn tell_of(&self, instance: Option<&str>, words: String) {
        match instance {
            Some(name) => self.tell(self.host(name).index, words),
            None => self.tell_all(words),
        }
    }

    /// What an operator asks for.
    fn operate(self: &Arc<Self>, act: &Act) {
        let (instance, what) = match act {
            Act::StepDown { instance } => (instance, Ask::Machine(Machine::StepDown, json!({}))),
            Act::Redrive { instance } => {
                (instance, Ask::Machine(Machine::Redrive, json!({ "limit_per_call": REDRIVE_MAX })))
            }
            Act::StartMachine { instance, machine } => (instance, Ask::Machine(*machine, json!({}))),
            Act::StopMachine { instance, machine } => (instance, Ask::Stop(*machine)),
            Act::Resume { instance } => (instance, Ask::Command(json!({ "command": "resume" }))),
            Act::Release { instance } => (instance, Ask::Command(json!({ "command": "release" }))),
            _ => return,
        };
        let host = Arc::clone(self.host(instance));
        let words = match what {
            Ask::Machine(machine, input) => {
                let name = host.next_execution();
                drop(host.execute(self, machine, name, input));
                format!("operator starts {}", machine.name())
            }
            Ask::Stop(machine) => format!("operator stops {} of {}", host.stop(machine), machine.name()),
            Ask::Command(command) => {
                let words = format!("operator asks for {}", command["command"].as_str().unwrap_or_default());
                let (site, host) = (Arc::clone(self), Arc::clone(&host));
                drop(tokio::spawn(async move {
                    drop(host.invoke_apart(&site, Function::Lease, command, "operator".to_owned()).await);
                }));
                words
            }
        };
        self.tell(host.index, words);
    }

    /// What is changed in the tables by hand.
    fn tamper(self: &Arc<Self>, act: &Act) {
        let tables = &self.server.tables;
        let mut by_hand = self.by_hand();
        match act {
            Act::LoseLeaseTable => {
                by_hand.lease = None;
                tables.clear(Table::Lease);
            }
            Act::RestoreLeaseTable { age_ms } => {
                let wanted = self.now().saturating_sub(Duration::from_millis(*age_ms));
                let items = by_hand.copies.iter().rev().find(|(at, _)| *at <= wanted).map(|(_, items)| items.clone());
                by_hand.lease = None;
                tables.clear(Table::Lease);
                items.into_iter().flatten().for_each(|item| plant(self, Table::Lease, item));
            }
            Act::DamageLease { damage } => {
                if by_hand.lease.is_none()
                    && let Some(item) = tables.remove(Table::Lease, &lease::key(&self.lease))
                {
                    plant(self, Table::Lease, damaged(&item, *damage));
                    by_hand.lease = Some(item);
                }
            }
            Act::RepairLease => {
                let is_damaged = matches!(self.server.lease(&self.lease), Slot::Damaged(_));
                if let Some(item) = by_hand.lease.take().filter(|_| is_damaged) {
                    plant(self, Table::Lease, item);
                }
            }
            Act::DamageFence => {
                if by_hand.fence.is_none()
                    && let Some(item) = tables.remove(Table::Outbox, &fence::key(&self.lease))
                {
                    let mut broken = item.clone();
                    broken.insert(fence::FENCING_TOKEN.to_owned(), Attribute::text("seven"));
                    plant(self, Table::Outbox, broken);
                    by_hand.fence = Some(item);
                }
            }
            Act::RepairFence => {
                if let Some(item) = by_hand.fence.take() {
                    plant(self, Table::Outbox, item);
                }
            }
            Act::DamageRow { row } => {
                let rows: Vec<Item> = outstanding_items(self);
                let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
                let chosen = usize::try_from(row.checked_rem(count).unwrap_or(0)).ok().and_then(|row| rows.get(row));
                if let Some(item) = chosen
                    && let Some(key) = Table::Outbox.key_of(item)
                    && !by_hand.rows.contains_key(&key)
                {
                    let mut broken = item.clone();
                    broken.insert(SCHEMA_ATTRIBUTE.to_owned(), Attribute::number(NEWER_SCHEMA));
                    plant(self, Table::Outbox, broken);
                    by_hand.rows.insert(key, item.clone());
                }
            }
            Act::RepairRows => {
                for (key, original) in std::mem::take(&mut by_hand.rows) {
                    // A drainer that held the row may have ended it meanwhile: then there is nothing to repair.
                    if let (Some(mut standing), Some(schema)) =
                        (tables.remove(Table::Outbox, &key), original.get(SCHEMA_ATTRIBUTE))
                    {
                        standing.insert(SCHEMA_ATTRIBUTE.to_owned(), schema.clone());
                        plant(self, Table::Outbox, standing);
                    }
                }
            }
            Act::ForgetDeduplication => self.server.queue.forget_deduplication(),
            _ => {}
        }
        drop(by_hand);
        if matches!(act, Act::LoseLeaseTable | Act::RestoreLeaseTable { .. }) {
            self.observer().leadership.forget();
        }
        if !matches!(act, Act::DamageRow { .. } | Act::RepairRows | Act::ForgetDeduplication) {
            self.hosts().iter().for_each(|host| host.trouble(self.now()));
        }
        self.tell_all(act.kind().replace('_', " "));
    }
}

/// What an operator asks for, and how.
enum Ask {
    Machine(Machine, Value),
    Stop(Machine),
    Command(Value),
}

fn plant(site: &Site, table: Table, item: Item) {
    site.server.tables.plant(table, item).expect("an item that a table held before");
}

/// Items in the shards of the outbox, oldest first within each.
fn outstanding_items(site: &Site) -> Vec<Item> {
    let of_shard = |item: &Item| match item.get(Table::Outbox.partition_attribute()) {
        Some(Attribute::Text(partition)) => partition.starts_with(&format!("{}#", site.lease)),
        _ => false,
    };
    let plain = |item: &Item| item.contains_key(outstanding::PAYLOAD);
    site.server.tables.dump(Table::Outbox).into_iter().filter(|item| of_shard(item) && plain(item)).collect()
}

fn damaged(item: &Item, damage: Damage) -> Item {
    let mut item = item.clone();
    match damage {
        Damage::TokenZero => item.insert(lease::FENCING_TOKEN.to_owned(), Attribute::number(0)),
        Damage::TokenMax => item.insert(lease::FENCING_TOKEN.to_owned(), Attribute::number(u64::MAX)),
        Damage::FieldMissing => item.remove(lease::CONFIRMED_AT),
        Damage::FieldOfWrongKind => item.insert(lease::LEASE_TTL_MS.to_owned(), Attribute::text("a while")),
        Damage::NewerSchema => item.insert(SCHEMA_ATTRIBUTE.to_owned(), Attribute::number(NEWER_SCHEMA)),
    };
    item
}
