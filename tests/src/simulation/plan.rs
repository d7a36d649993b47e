//! What a seed means: settings, workload, storms, and acts at their times.
//!
//! Times of trouble alternate with calm ones that are long enough for I10 to be judged.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_storage::operation;

use super::act::{Act, Damage, Outage};
use super::book::Storm;
use super::fault::CallFault;
use super::intake::Message;
use super::options::Options;
use super::time::ms;
use super::workload::workload;
use crate::chance::Chance;

/// How long a random run goes on before everything is mended.
const LENGTH: Duration = Duration::from_secs(600);

/// How long it takes until a record has gone stale three times, a minute each, and some more.
const POISON: Duration = Duration::from_secs(270);

/// How patient the durations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Fast,
    Minute,
    Durable,
}

impl Pace {
    const fn ttl(self) -> Duration {
        match self {
            Self::Fast => Duration::from_secs(14),
            Self::Minute => Duration::from_secs(60),
            Self::Durable => Duration::from_secs(300),
        }
    }
}

/// A random run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) options: Options,
    pub(crate) length: Duration,
    pub(crate) messages: Vec<(Duration, Message)>,
    pub(crate) storms: Vec<Storm>,
    pub(crate) acts: Vec<(Duration, Act)>,
}

impl Plan {
    /// The run of `seed`.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::keyed(seed, &[1]);
        let pace = match chance.below(20) {
            0..8 => Pace::Fast,
            8..18 => Pace::Minute,
            _ => Pace::Durable,
        };
        let options = options(seed, pace, &mut chance);
        let messages = workload(&mut Chance::keyed(seed, &[2]), LENGTH);
        let mut trouble = Trouble {
            chance: Chance::keyed(seed, &[3]),
            pace,
            regions: options.regions.clone(),
            storms: Vec::new(),
            acts: Vec::new(),
        };
        trouble.make();
        let Trouble { storms, mut acts, .. } = trouble;
        acts.sort_by_key(|(at, _)| *at);
        Self { options, length: LENGTH, messages, storms, acts }
    }

    /// The instances of its world, by name.
    #[must_use]
    pub fn instances(&self) -> &[String] {
        &self.options.regions
    }
}

fn options(seed: u64, pace: Pace, chance: &mut Chance) -> Options {
    let mut options = Options::new(seed).latency_up_to_ms(*chance.pick(&[2, 8, 20, 80]));
    if chance.in_thousand(250) {
        options = options.regions(["east", "west", "north"]);
    }
    options = match pace {
        Pace::Fast => options.setting("TICK_INTERVAL", chance.pick::<&str>(&["1s", "2s", "2s"])),
        Pace::Minute => options.setting("PROFILE", "durable").setting("LEASE_TTL", "60s"),
        Pace::Durable => options.setting("PROFILE", "durable"),
    };
    if pace == Pace::Fast && chance.in_thousand(300) {
        options = options.setting("RENEW_FAILURE_POLICY", "verify");
    }
    if chance.in_thousand(400) {
        options = options.fifo();
    }
    if chance.in_thousand(200) {
        options = options.without_stream().setting("TOPOLOGY", "home").setting("TABLE_REGION", "eu-central-1");
    }
    options = options
        .setting("SHARDS", chance.pick::<&str>(&["1", "2", "4"]))
        .setting("PAGE_ROWS", chance.pick::<&str>(&["4", "10", "100"]))
        .setting("REQUEST_BYTES_MAX", chance.pick::<&str>(&["4096", "1048576", "1048576"]))
        .setting("BACKOFF_MAX", chance.pick::<&str>(&["4s", "20s"]));
    if chance.in_thousand(300) {
        options = options.setting("MAX_ATTEMPTS", "2").setting("MAX_AGE", "15s");
    }
    if chance.in_thousand(200) {
        options = options.setting("BODY_FORMAT", "cloudevents");
    }
    if chance.in_thousand(60) {
        options = options.setting("DEDUPE_WINDOW", "0s");
    }
    if chance.in_thousand(200) {
        options = options.setting("SOURCE", "gated");
    }
    options
}

/// What goes wrong, as it is made up.
struct Trouble {
    chance: Chance,
    pace: Pace,
    regions: Vec<String>,
    storms: Vec<Storm>,
    acts: Vec<(Duration, Act)>,
}

impl Trouble {
    fn make(&mut self) {
        if self.pace == Pace::Fast && self.chance.in_thousand(80) {
            self.poison();
        }
        let calm_ms = ms(self.pace.ttl()) * 5 / 2;
        let mut at_ms = self.chance.between(10_000, 40_000);
        let end_ms = ms(LENGTH);
        while at_ms < end_ms {
            let length_ms = self.chance.between(20_000, 90_000);
            self.episode(at_ms, length_ms);
            let calm = if self.chance.in_thousand(600) { calm_ms } else { 5_000 };
            at_ms += length_ms + self.chance.between(calm, calm + 20_000);
        }
    }

    /// For minutes every drainer dies in the middle of its send.
    fn poison(&mut self) {
        let from = Duration::from_millis(self.chance.between(60_000, 200_000));
        let storm = Storm {
            from,
            to: from + POISON,
            per_mille: 1_000,
            instance: None,
            slow_ms_max: 0,
            crashes: true,
            only: Some((operation::SEND, CallFault::CrashBefore)),
        };
        self.storms.insert(0, storm);
    }

    /// A time of trouble: a storm, a few acts, or both.
    fn episode(&mut self, from_ms: u64, length_ms: u64) {
        let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(from_ms + length_ms));
        if self.chance.in_thousand(600) {
            let instance = self.chance.in_thousand(300).then(|| {
                let count = u64::try_from(self.regions.len()).unwrap_or(1);
                usize::try_from(self.chance.below(count)).unwrap_or(0)
            });
            let storm = Storm {
                from,
                to,
                per_mille: *self.chance.pick(&[5, 20, 60, 150]),
                instance,
                slow_ms_max: ms(self.pace.ttl()) * 4 / 5,
                crashes: self.chance.in_thousand(700),
                only: None,
            };
            self.storms.push(storm);
        }
        for _ in 0..self.chance.between(0, 3) {
            let at = from_ms + self.chance.below(length_ms);
            self.mishap(at);
        }
    }

    fn region(&mut self) -> String {
        self.chance.pick(&self.regions).clone()
    }

    fn push(&mut self, at_ms: u64, act: Act) {
        self.acts.push((Duration::from_millis(at_ms), act));
    }

    /// Something bad, and where it must end its end.
    fn mishap(&mut self, at: u64) {
        let (instance, ttl) = (self.region(), ms(self.pace.ttl()));
        let for_ms = self.chance.between(500, ttl * 2);
        match self.chance.below(25) {
            0..4 => {
                self.push(at, Act::Kill { instance: instance.clone() });
                self.push(at + for_ms, Act::Start { instance });
            }
            4..6 => {
                self.push(at, Act::Freeze { instance: instance.clone() });
                self.push(at + for_ms, Act::Thaw { instance });
            }
            6..8 => self.clock(at, for_ms, instance),
            8..13 => self.outage(at, for_ms, instance),
            13..16 => {
                self.push(at, Act::StepDown { instance: instance.clone() });
                if self.chance.in_thousand(300) {
                    self.push(at + self.chance.clone().between(100, ttl), Act::Resume { instance });
                }
            }
            16 => self.push(at, Act::Release { instance }),
            17..19 => self.push(at, Act::Redrive { instance }),
            19 => {
                let machine = *self.chance.pick(&[super::Machine::Takeover, super::Machine::LeaseCycle]);
                self.push(at, Act::StopMachine { instance, machine });
            }
            20 => {
                self.push(at, Act::StopSchedules { instance: instance.clone() });
                self.push(at + for_ms, Act::StartSchedules { instance });
            }
            21 => self.table(at),
            22 => self.damage(at, for_ms),
            23 => self.takeover_into_an_outage(at, instance),
            _ => {
                let row = self.chance.number();
                self.push(at, Act::DamageRow { row });
                self.push(at + for_ms, Act::RepairRows);
            }
        }
    }

    /// The leader is gone, and so is the queue when its successor takes over.
    fn takeover_into_an_outage(&mut self, at: u64, instance: String) {
        let (ttl, failure) = (ms(self.pace.ttl()), FailureKind::Unavailable);
        self.push(at, Act::Begin { outage: Outage::Queue, instance: None, failure });
        self.push(at + 3_000, Act::Kill { instance: instance.clone() });
        self.push(at + 3_000 + ttl * 2, Act::Start { instance });
        self.push(at + 100_000 + ttl * 2, Act::End { outage: Outage::Queue, instance: None });
    }

    fn clock(&mut self, at: u64, for_ms: u64, instance: String) {
        if self.chance.in_thousand(400) {
            let ppm = *self.chance.pick(&[-10_000, -2_000, 2_000, 10_000]);
            self.push(at, Act::DriftClock { instance: instance.clone(), ppm });
        } else {
            let by_ms = *self.chance.pick(&[-600_000, -20_000, -3_000, 3_000, 20_000, 600_000]);
            self.push(at, Act::StepClock { instance: instance.clone(), by_ms });
        }
        self.push(at + for_ms, Act::SetClockRight { instance });
    }

    fn outage(&mut self, at: u64, for_ms: u64, instance: String) {
        let outages = [
            Outage::Tables,
            Outage::Tables,
            Outage::Lease,
            Outage::LeaseWrites,
            Outage::LeaseWrites,
            Outage::Outbox,
            Outage::Queue,
            Outage::Queue,
            Outage::Bus,
        ];
        let outage = *self.chance.pick(&outages);
        let failure = *self.chance.pick(&[
            FailureKind::Throttled,
            FailureKind::Unavailable,
            FailureKind::Unavailable,
            FailureKind::TimedOut,
            FailureKind::TimedOut,
            FailureKind::Denied,
        ]);
        // A queue may be down for minutes.
        let for_ms = if outage == Outage::Queue { for_ms * 3 } else { for_ms };
        let instance = self.chance.in_thousand(600).then_some(instance);
        self.push(at, Act::Begin { outage, instance: instance.clone(), failure });
        self.push(at + for_ms, Act::End { outage, instance });
    }

    fn table(&mut self, at: u64) {
        let age_ms = self.chance.between(ms(self.pace.ttl()), ms(self.pace.ttl()) * 4);
        let act = if self.chance.in_thousand(500) { Act::LoseLeaseTable } else { Act::RestoreLeaseTable { age_ms } };
        self.push(at, act);
    }

    fn damage(&mut self, at: u64, for_ms: u64) {
        let damages =
            [Damage::TokenZero, Damage::TokenMax, Damage::FieldMissing, Damage::FieldOfWrongKind, Damage::NewerSchema];
        if self.chance.in_thousand(200) {
            self.push(at, Act::DamageFence);
            self.push(at + for_ms, Act::RepairFence);
        } else {
            let damage = *self.chance.pick(&damages);
            self.push(at, Act::DamageLease { damage });
            self.push(at + for_ms, Act::RepairLease);
        }
    }
}
