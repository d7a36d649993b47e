//! The end of a run: everything is mended, everything must drain, and what the stores and the queue hold is compared with what
//! was published.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_protocol::body::{MESSAGE_ID, attribute, decode_body};
use fencepost_protocol::ids::{PayloadDigest, RowKey};
use fencepost_protocol::invariants::Conservation;
use fencepost_protocol::lease::{LeaseRecord, SourceMode};
use fencepost_protocol::outbox::Slot;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::records::Table;

use super::act::Act;
use super::ledger::Published;
use super::observer::Broken;
use super::reached::Sometimes;
use super::region::Host;
use super::world::World;

/// How long everything may take to drain once nothing is wrong any more: retries of ingest, a stale wait, a takeover's tries.
const QUIET_MAX: Duration = Duration::from_secs(40 * 60);

/// How many of the rows that did not drain are named.
const LEFT_SHOWN_MAX: usize = 10;

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Rules that were broken. Empty: all is well.
    pub broken: Vec<Broken>,
    /// Where the rows went.
    pub conservation: Conservation,
    /// Messages that were published.
    pub published: usize,
    /// Messages in the queue, second copies included.
    pub delivered: usize,
    /// First sends that came after one of a later row of their key (FIFO).
    pub inversions: u64,
    /// How long it took until nothing was outstanding once everything was mended.
    pub drained_after: Option<Duration>,
}

impl Verdict {
    /// Fails the test where a rule was broken, with the history's end.
    ///
    /// # Panics
    /// Where a rule was broken.
    pub fn assert_sound(&self, world: &World) {
        let broken: Vec<String> = self.broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{}\n{}", broken.join("\n"), world.history().text());
    }
}

impl World {
    /// Mends everything: no fault is met any more, all instances live, clocks are right, what was damaged is put back.
    pub fn mend(&mut self) {
        let names: Vec<String> = self.site.hosts().iter().map(|host| host.name.clone()).collect();
        self.site.book().calm();
        let mut acts = vec![Act::RepairLease, Act::RepairFence, Act::RepairRows];
        for instance in names {
            let host = self.site.host(&instance);
            if host.gate.is_shut() {
                acts.push(Act::Thaw { instance: instance.clone() });
            }
            if !host.is_alive() {
                acts.push(Act::Start { instance: instance.clone() });
            }
            acts.push(Act::SetClockRight { instance: instance.clone() });
            acts.push(Act::StartSchedules { instance });
        }
        self.carry_out(&acts);
    }

    fn carry_out(&mut self, acts: &[Act]) {
        self.entered(|site| acts.iter().for_each(|act| site.carry_out(act)));
    }

    /// Mends everything, lets it drain, and judges the whole run. Dead records stay dead.
    pub fn finish(&mut self) -> Verdict {
        self.mend();
        let from = self.now();
        let drained = self.run_until_that(QUIET_MAX, |world| {
            world.site.ledger().open() == 0 && world.is_drained() && world.astray_source().is_none()
        });
        let drained_after = drained.then(|| self.now().saturating_sub(from));
        self.judge(drained_after)
    }

    /// Judges what happened so far, without mending or waiting: what is outstanding may stay so.
    pub fn judge_now(&mut self) -> Verdict {
        self.judge(Some(Duration::ZERO))
    }

    fn judge(&mut self, drained_after: Option<Duration>) -> Verdict {
        let at = self.now();
        let keys: Vec<RowKey> = self.keys();
        let dead: Vec<RowKey> = self.dead().into_iter().map(|dead| dead.row.key).collect();
        let problems = self.compare(drained_after);
        let delivered = self.queue().len();
        let published = self.published().len();
        let risk = self.metric_sum(Metric::DuplicateRisk);
        let held = self.metric_sum(Metric::Held);
        let mut observer = self.site.observer();
        observer.reached.add(Sometimes::DuplicateRisk, u64::from(risk > 0.0));
        observer.reached.add(Sometimes::Held, u64::from(held > 0.0));
        for (rule, what) in problems {
            observer.break_rule(at, rule, what);
        }
        observer.finish(at, &keys, &dead);
        Verdict {
            broken: observer.broken().to_vec(),
            conservation: observer.conservation(),
            published,
            delivered,
            inversions: observer.inversions(),
            drained_after,
        }
    }

    /// The keys of everything outstanding, damaged rows too.
    fn keys(&self) -> Vec<RowKey> {
        let standing = self.tables().dump(Table::Outbox);
        let stands = |key: &_| standing.iter().any(|item| Table::Outbox.key_of(item).as_ref() == Some(key));
        let damaged = self.site.by_hand().rows.clone();
        let by_hand: Vec<_> = damaged.into_iter().filter(|(key, _)| stands(key)).map(|(_, item)| item).collect();
        let hidden = by_hand.iter().filter_map(|item| fencepost_storage::records::outstanding::decode(item).ok());
        self.rows().into_iter().chain(hidden).map(|row| row.key).collect()
    }

    /// The ledger against the queue and the tables.
    fn compare(&self, drained_after: Option<Duration>) -> Vec<(&'static str, String)> {
        let published = self.published();
        let (copies, mut problems) = self.compare_queue(&published);
        self.site.observer().reached.add(Sometimes::SentTwice, u64::from(copies.values().any(|copies| *copies > 1)));
        let waiting: BTreeMap<String, ()> = self.rows().iter().map(|row| (row.id().to_string(), ())).collect();
        let dead: BTreeMap<String, ()> = self.dead().iter().map(|dead| (dead.row.id().to_string(), ())).collect();
        for message in published.iter().filter(|message| message.acknowledged.is_some()) {
            let is_somewhere =
                copies.contains_key(&message.id) || waiting.contains_key(&message.id) || dead.contains_key(&message.id);
            if !is_somewhere && self.site.by_hand().rows.is_empty() {
                problems.push(("P1", format!("{} was acknowledged and is nowhere", message.id)));
            }
        }
        if drained_after.is_none() {
            let open = self.site.ledger().open();
            let left: Vec<String> = self.outstanding().iter().take(LEFT_SHOWN_MAX).map(describe).collect();
            if open > 0 || !left.is_empty() {
                let what = format!("{open} messages unacknowledged, outstanding after all: {}", left.join(", "));
                problems.push(("drain", what));
            }
            problems.extend(self.astray_source().map(|what| ("source", what)));
        }
        problems
    }

    /// A gated source that does not follow the lease, in words: only the leader's topic rule is enabled.
    fn astray_source(&self) -> Option<String> {
        let lease = self.lease();
        let leads = |host: &Host| {
            let mine = |record: &&LeaseRecord| record.is_owned_by(&host.settings.identity);
            lease.present().filter(mine).is_some_and(|record| record.stepping_down.is_none())
        };
        let hosts = self.site.hosts().iter().map(AsRef::as_ref);
        let gated = hosts.filter(|host: &&Host| host.settings.source == SourceMode::Gated);
        let astray = gated.filter(|host| host.source() != leads(host)).map(|host| {
            let (rule, leads) = (if host.source() { "enabled" } else { "disabled" }, leads(host));
            format!("the topic rule of {} is {rule}, and that it leads is {leads}", host.name)
        });
        astray.reduce(|first, second| format!("{first}; {second}"))
    }

    /// What the queue holds: how often each id, and what is wrong with it.
    fn compare_queue(&self, published: &[Published]) -> (BTreeMap<String, u64>, Vec<(&'static str, String)>) {
        let mut digests: BTreeMap<&str, Vec<&PayloadDigest>> = BTreeMap::new();
        for message in published {
            digests.entry(&message.id).or_default().push(&message.digest);
        }
        let format = self.site.hosts()[0].settings.body_format;
        let met_damage = self.site.by_hand().met_damage.clone();
        let (mut copies, mut problems) = (BTreeMap::new(), Vec::new());
        for entry in self.queue() {
            let id = attribute(&entry.attributes, MESSAGE_ID).ok().flatten().unwrap_or_default();
            // A message whose id another one has gets a suffix.
            let cut = if digests.contains_key(id.as_str()) { None } else { id.rsplit_once('.') };
            let (base, suffixed) = cut.map_or((id.as_str(), false), |(base, _)| (base, true));
            let known = digests.get(base).map_or(&[][..], Vec::as_slice);
            match decode_body(format, &entry.body, &entry.attributes).map(|payload| PayloadDigest::of(&payload)) {
                Err(malformed) => problems.push(("body", format!("{id} does not decode: {malformed}"))),
                Ok(_) if known.is_empty() => {
                    problems.push(("ledger", format!("{id} was delivered and never published")));
                }
                Ok(digest) if !known.contains(&&digest) => {
                    problems.push(("ledger", format!("{id} was delivered with other bytes")));
                }
                Ok(_) if suffixed && known.len() < 2 && !met_damage.contains(base) => {
                    problems.push(("ledger", format!("{id} is a second record of one message")));
                }
                Ok(_) => {}
            }
            *copies.entry(id).or_default() += 1;
        }
        (copies, problems)
    }
}

fn describe(slot: &Slot<fencepost_protocol::outbox::OutboxRow>) -> String {
    match slot {
        Slot::Present(row) => format!("{} ({:?}, attempts {})", row.id(), row.status, row.attempts),
        Slot::Damaged(damage) => damage.to_string(),
        Slot::Absent => "nothing".to_owned(),
    }
}
