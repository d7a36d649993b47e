//! Whole histories: two instances, calls that interleave, die and lose replies, a queue that refuses and forgets to answer;
//! every step is observed by the audit of the invariants, and at the end nothing may be missing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::ids::PayloadDigest;
use crate::invariants::{Audit, AuditTerms, Observation};
use crate::outbox::{DeadRow, Tombstone};

mod steps;

const PAGE_ROWS: usize = 5;

enum Phase {
    Page,
    Claim(Choice),
    Confirm(Vec<ClaimedRow>),
    Send,
    Stones(Vec<ClaimedRow>, Vec<ClaimedRow>),
    Commit(Committing),
    Ended,
}

struct Call {
    number: u64,
    pass: Option<ClaimId>,
    terms: CallTerms,
    shard: ShardState,
    permit: Permit,
    notes: Notes,
    claims_started: Reading,
    sending: Option<(Sending, Vec<Batch>)>,
    phase: Phase,
}

struct World {
    random: u64,
    faults: bool,
    ordered: bool,
    /// May a claimer come back whose claim was settled? Its second send is one that nobody can know of.
    frozen: bool,
    now_ms: u64,
    ids: u64,
    lease: LeaseRecord,
    rows: BTreeMap<RowKey, OutboxRow>,
    dead: BTreeMap<RowKey, DeadRow>,
    stones: BTreeMap<MessageId, Tombstone>,
    deliveries: Vec<MessageId>,
    calls: Vec<Call>,
    ended_claims: BTreeSet<ClaimId>,
    counts: Counts,
    audit: Audit,
}

impl World {
    fn new(seed: u64, ordered: bool, frozen: bool) -> Self {
        let mut audit = Audit::new(AuditTerms { ordered, ..AuditTerms::default() });
        audit.observe(Observation::Acquired { token: token(1), owner: identity("east") });
        Self {
            random: seed,
            faults: true,
            ordered,
            frozen,
            now_ms: 0,
            ids: 0,
            lease: lease(1),
            rows: BTreeMap::new(),
            dead: BTreeMap::new(),
            stones: BTreeMap::new(),
            deliveries: Vec::new(),
            calls: Vec::new(),
            ended_claims: BTreeSet::new(),
            counts: Counts::default(),
            audit,
        }
    }

    /// A number below `below`, from the seed alone.
    fn roll(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// Does something go wrong here? One time in `of`.
    fn fault(&mut self, of: u64) -> bool {
        self.roll(of) == 0 && self.faults
    }

    fn now(&self) -> Reading {
        reading(self.now_ms)
    }

    fn ingest(&mut self) {
        self.ids += 1;
        // Asynchronous deliveries overtake one another: the time of receipt is not the order of arrival.
        let before = 50 - self.roll(50);
        let device = format!("d{}", self.roll(3));
        let mut row = row(&device, before, &format!("m{}", self.ids));
        row.key.position =
            Position::new(at(self.now_ms).minus(Duration::from_millis(before)), row.id().clone()).unwrap();
        row.stamp = if self.roll(3) == 0 { Stamp::NONE } else { self.lease.token.into() };
        self.audit.observe(Observation::Ingested {
            key: row.key.clone(),
            digest: PayloadDigest::of(&row.payload),
            stamp: row.stamp,
            ordering_key: device,
        });
        self.rows.insert(row.key.clone(), row);
    }

    fn take_over(&mut self) {
        let next = if self.lease.is_owned_by(&identity("east")) { "west" } else { "east" };
        self.lease.owner = Some(identity(next));
        self.lease.token = self.lease.token.next().unwrap();
        self.lease.confirmed_at = at(self.now_ms);
        self.audit.observe(Observation::Acquired { token: self.lease.token, owner: identity(next) });
    }

    /// The holder begins a call; the ids of calls that have ended count as settled, as after the workflow's wait.
    fn begin(&mut self, alone: Option<Alone>, takeover: bool) {
        let key = row("a", 1, "x").key;
        if self.frozen && self.fault(6) {
            // A frozen claimer that the platform did not end after all.
            self.ended_claims.extend(self.rows.values().filter_map(|row| row.claim().cloned()));
        }
        let settled = self.ended_claims.iter().map(|claim| SettledClaim { key: key.clone(), claim: claim.clone() });
        let mode = Mode::Takeover { token: self.lease.token, cut: Cut::at(at(self.now_ms)) };
        let mode = if takeover { mode } else { Mode::Scheduled };
        let request = DrainRequest { settled: settled.rev().take(100).collect(), alone, ..request(mode) };
        let mut policy = policy(self.ordered);
        policy.page_rows = PAGE_ROWS;
        policy.max_attempts = 3;
        policy.max_age = Duration::from_millis(200);
        policy.backoff_base = Duration::from_millis(10);
        policy.backoff_max = Duration::from_millis(100);
        let me = self.lease.owner.clone().unwrap();
        let (terms, mut shards) = request.start(me, policy).unwrap();
        self.lease.confirmed_at = at(self.now_ms);
        let permit = permit(Ok(&Slot::Present(self.lease.clone())), &terms, self.now()).unwrap();
        let notes = notes(self.ordered);
        let claims_started = self.now();
        self.ids += 1;
        let number = self.ids;
        self.calls.push(Call {
            number,
            pass: None,
            terms,
            shard: shards.remove(0),
            permit,
            notes,
            claims_started,
            sending: None,
            phase: Phase::Page,
        });
    }

    /// The platform ends a call, wherever it stands.
    fn end(&mut self, index: usize) -> Vec<Alone> {
        let call = self.calls.remove(index);
        self.counts.add(&call.shard.counts);
        self.counts.add(&call.notes.counts);
        // Only from now on are its claims settled: none of them can be worked on any more.
        let held = self.rows.values().filter_map(|row| row.claim().cloned());
        let alive: BTreeSet<String> = self.calls.iter().map(|call| call.name()).collect();
        let ended = held.filter(|claim| !alive.contains(&owner_of(claim)));
        self.ended_claims = ended.collect();
        call.shard.alone
    }

    fn step(&mut self, index: usize) {
        let mut call = self.calls.remove(index);
        let phase = std::mem::replace(&mut call.phase, Phase::Ended);
        call.phase = match phase {
            Phase::Page => self.page(&mut call),
            Phase::Claim(choice) => self.claim(&mut call, choice),
            Phase::Confirm(mine) => self.confirm(&mut call, mine),
            Phase::Send => self.send(&mut call),
            Phase::Stones(accepted, proven) => self.write_stones(&mut call, accepted, proven),
            Phase::Commit(committing) => self.commit(&mut call, committing),
            Phase::Ended => Phase::Ended,
        };
        self.calls.insert(index, call);
    }

    /// An operator puts a dead record back.
    fn redrive(&mut self) {
        let Some(key) = self.dead.keys().next().cloned() else { return };
        let dead = self.dead[&key].clone();
        let live = self.rows.get(&key).cloned().map_or(Slot::Absent, Slot::Present);
        let stone = self.stones.get(dead.row.id()).cloned().map(Slot::Present);
        match redrive(&dead, &live, stone.as_ref(), self.lease.token.into()) {
            RedriveDecision::Redrive(plan) => {
                self.counts.duplicate_risk += u64::from(redrive_is_a_risk(&dead));
                self.audit.observe(Observation::Redriven { key: key.clone(), stamp: plan.row.stamp });
                self.rows.insert(key.clone(), plan.row);
                if !self.fault(3) {
                    self.dead.remove(&key);
                }
            }
            RedriveDecision::DeleteDead { .. } => {
                self.dead.remove(&key);
            }
            RedriveDecision::Phantom | RedriveDecision::Skip(_) => {}
        }
    }

    fn act(&mut self) {
        self.now_ms += self.roll(8);
        let calls = self.calls.len() as u64;
        match self.roll(16) {
            0..=2 => self.ingest(),
            3 if calls < 3 => {
                let takeover = self.roll(4) == 0;
                self.begin(None, takeover);
            }
            4 if self.fault(3) => self.take_over(),
            5 if calls > 0 && self.fault(2) => {
                let index = self.roll(calls);
                self.end(usize::try_from(index).unwrap());
            }
            6 if self.fault(3) => self.redrive(),
            _ if calls > 0 => {
                let index = usize::try_from(self.roll(calls)).unwrap();
                self.step(index);
                if matches!(self.calls[index].phase, Phase::Ended) {
                    self.end(index);
                }
            }
            _ => {}
        }
    }

    /// No more faults: all calls are ended, and the holder drains until nothing is left.
    fn settle(&mut self) {
        self.faults = false;
        while !self.calls.is_empty() {
            self.end(0);
        }
        let mut alone = Vec::new();
        for _ in 0..300 {
            if self.rows.is_empty() {
                break;
            }
            self.now_ms += 120;
            self.begin(alone.pop(), false);
            while !matches!(self.calls[0].phase, Phase::Ended) {
                self.step(0);
            }
            alone.extend(self.end(0));
        }
    }
}

impl Call {
    /// Tells one call's claims from another's.
    fn name(&self) -> String {
        format!("c{}", self.number)
    }
}

fn owner_of(claim: &ClaimId) -> String {
    claim.as_str().split('.').next().unwrap_or_default().to_owned()
}

fn play(seed: u64, ordered: bool, frozen: bool) -> World {
    let mut world = World::new(seed, ordered, frozen);
    for _ in 0..400 {
        world.act();
    }
    world.settle();
    world
}

fn judge(world: World) -> Result<(), TestCaseError> {
    prop_assert!(world.rows.is_empty(), "outstanding for good: {:?}", world.rows.keys().collect::<Vec<_>>());
    let delivered: BTreeSet<_> = world.deliveries.iter().collect();
    let again = world.deliveries.len() - delivered.len();
    let counted = world.counts.duplicate_risk;
    prop_assert!(world.frozen || again as u64 <= counted, "{again} second sends, {counted} counted");
    let dead: Vec<_> = world.dead.keys().cloned().collect();
    let violations = world.audit.finish(at(world.now_ms), &[], &dead);
    prop_assert!(violations.is_empty(), "{violations:#?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_history_breaks_an_invariant(seed in any::<u64>(), ordered in any::<bool>(), frozen in any::<bool>()) {
        judge(play(seed, ordered, frozen))?;
    }
}

#[test]
fn histories_reach_the_corners() {
    let mut sum = Counts::default();
    for seed in 0..60 {
        sum.add(&play(seed, seed % 2 == 0, seed % 3 == 0).counts);
    }
    let reached = [
        ("committed", sum.committed),
        ("fenced", sum.fenced),
        ("handed back", sum.handed_back),
        ("dead", sum.dead),
        ("conflicts", sum.conflicts),
        ("refused", sum.refused),
        ("unknown", sum.unknown),
        ("stale claims", sum.stale_claims),
        ("duplicate risk", sum.duplicate_risk),
    ];
    for (name, count) in reached {
        assert!(count > 0, "no history has {name}: {sum:?}");
    }
}
