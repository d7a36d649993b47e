//! Whole histories: two instances, calls that interleave, die and lose replies, a queue that refuses and forgets to answer;
//! every step is observed by the audit of the invariants, and at the end nothing may be missing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::failure::FailureKind;
use crate::ids::PayloadDigest;
use crate::invariants::{Audit, AuditTerms, Observation};
use crate::outbox::{DeadRow, Tombstone};

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
        let mut audit = Audit::new(AuditTerms { ordered, vacancy_max: None });
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

    fn page(&mut self, call: &mut Call) -> Phase {
        if !call.shard.goes_on() {
            return Phase::Ended;
        }
        self.ids += 1;
        let claim = claim_id(&format!("{}.p{}", call.name(), self.ids));
        let after = call.shard.after.clone();
        let rest = self.rows.values().filter(|row| after.as_ref().is_none_or(|after| row.key.position > *after));
        let rows: Vec<OutboxRow> = rest.take(PAGE_ROWS).cloned().collect();
        let next = if rows.len() == PAGE_ROWS { rows.last().map(|row| row.key.position.clone()) } else { None };
        self.audit.observe(Observation::PageRead {
            shard: shard(0),
            claim: claim.clone(),
            pass: call.pass.get_or_insert_with(|| claim.clone()).clone(),
            after,
        });
        let now = self.now();
        let (mut choice, notes) = choose(&mut call.shard, &call.terms, &call.permit, slots(&rows), next, &claim, now);
        call.notes = notes;
        if let Some(above) = choice.above {
            call.notes.stop_for(tokens_above(Ok(&Slot::Present(self.lease.clone())), above));
            assert_eq!(call.notes.stop(), Some(&Stop::FormerHolder));
            return self.absorb(call);
        }
        let stones = self.read_stones(&choice.exhausted_ids(&call.terms));
        for burial in choice.settle_exhausted(Ok(&stones), &call.permit, &mut call.notes, now) {
            self.bury(call, &burial);
        }
        Phase::Claim(choice)
    }

    fn claim(&mut self, call: &mut Call, choice: Choice) -> Phase {
        call.claims_started = self.now();
        let mut answers = Vec::new();
        for claim in &choice.claims {
            if self.fault(10) {
                answers.push(Err(FailureKind::Throttled));
                continue;
            }
            let answer = match self.rows.get_mut(&claim.key) {
                Some(row)
                    if row.status == claim.seen
                        && row.attempts == claim.seen_attempts
                        && !row.stamp.is_above(claim.token) =>
                {
                    row.status = Status::Claimed(claim.claim.clone());
                    row.stamp = claim.token.into();
                    (row.attempts, row.stale) = (claim.attempts, claim.stale);
                    row.first_attempt_at = Some(claim.first_attempt_at);
                    self.audit.observe(Observation::Claimed {
                        key: claim.key.clone(),
                        claim: claim.claim.clone(),
                        token: claim.token,
                        decided_at: at(self.now_ms),
                        deadline: call.permit.deadline(),
                    });
                    ClaimAnswer::Claimed
                }
                Some(row) => ClaimAnswer::Refused(Slot::Present(row.clone())),
                None => ClaimAnswer::Refused(Slot::Absent),
            };
            // A lost reply is either found out by a second try inside the store, or stays unknown.
            let answer = match (self.roll(12), answer) {
                (0, ClaimAnswer::Claimed) if self.faults => {
                    Ok(ClaimAnswer::Refused(Slot::Present(self.rows[&claim.key].clone())))
                }
                (1, _) if self.faults => Err(FailureKind::TimedOut),
                (_, answer) => Ok(answer),
            };
            answers.push(answer);
        }
        let claimed = after_claims(choice, &answers, &call.terms, &mut call.notes);
        if let Some(above) = claimed.above {
            call.notes.stop_for(tokens_above(Ok(&Slot::Present(self.lease.clone())), above));
        }
        self.change(call, &claimed.hand_back);
        Phase::Confirm(claimed.mine)
    }

    fn confirm(&mut self, call: &mut Call, mine: Vec<ClaimedRow>) -> Phase {
        let stones = self.read_stones(&tombstone_ids(&mine, &call.terms));
        let lease = Slot::Present(self.lease.clone());
        let tombstones = if self.fault(20) { Err(FailureKind::TimedOut) } else { Ok(&stones[..]) };
        let reread = Reread { lease: Ok(&lease), tombstones, claims_started: call.claims_started, now: self.now() };
        let confirmed = confirm(mine, &call.permit, &reread, &call.terms, &mut call.notes);
        self.change(call, &confirmed.hand_back);
        if let Some(permit) = confirmed.permit {
            call.permit = permit;
        }
        let (sending, burials) = Sending::new(confirmed.send, &call.terms, at(self.now_ms), &mut call.notes);
        assert!(burials.is_empty());
        call.sending = Some((sending, Vec::new()));
        Phase::Stones(Vec::new(), confirmed.commit_only)
    }

    fn send(&mut self, call: &mut Call) -> Phase {
        let Some((mut sending, mut wave)) = call.sending.take() else { return self.absorb(call) };
        if wave.is_empty() {
            wave = sending.wave();
        }
        if wave.is_empty() {
            let back = sending.rest(&mut call.notes);
            self.change(call, &back);
            return self.absorb(call);
        }
        let batch = wave.remove(0);
        if let Err(stop) = may_send(&call.permit, call.claims_started, &call.terms, self.now()) {
            call.notes.stop_for(stop);
            sending.hold(batch);
            call.sending = Some((sending, wave));
            return Phase::Send;
        }
        let reply = self.queue(&batch, call);
        let roll = self.roll(1 << 20);
        let settlement = sending.answered(batch, &reply, &call.terms, at(self.now_ms), roll, &mut call.notes);
        call.sending = Some((sending, wave));
        self.change(call, &settlement.changes);
        for burial in &settlement.burials {
            self.bury(call, burial);
        }
        Phase::Stones(settlement.accepted, Vec::new())
    }

    /// The queue: takes all, refuses one, fails as a whole, or loses its answer.
    fn queue(&mut self, batch: &Batch, call: &Call) -> Result<QueueReply, FailureKind> {
        let fate = if self.faults { self.roll(10) } else { 9 };
        let mut reply = QueueReply::default();
        for (index, entry) in batch.entries.iter().enumerate() {
            let claimed = &batch.loads[index].claimed;
            self.audit.observe(Observation::SendStarted {
                key: claimed.row.key.clone(),
                claim: claimed.claim.clone(),
                decided_at: at(self.now_ms),
                ends_by: at(self.now_ms).plus(call.terms.policy.timing.send_timeout),
                deadline: call.permit.deadline(),
            });
            if matches!(fate, 0..=2) {
                continue;
            }
            if matches!(fate, 4 | 5) && index == 0 {
                let code = if fate == 4 { "Busy" } else { PERMANENT_CODES[0] };
                let (entry_id, message) = (entry.entry_id.clone(), String::new());
                reply.refused.push(QueueRefusal { entry_id, code: code.to_owned(), message });
                continue;
            }
            self.deliveries.push(claimed.row.id().clone());
            let digest = PayloadDigest::of(entry.body.as_bytes());
            self.audit.observe(Observation::Accepted { id: claimed.row.id().clone(), digest });
            reply.accepted.push(entry.entry_id.clone());
        }
        match fate {
            0 => Err(FailureKind::Throttled),
            1 => Err(FailureKind::TimedOut),
            2 => Err(FailureKind::Invalid),
            3 => Err(FailureKind::Unavailable),
            _ => Ok(reply),
        }
    }

    fn write_stones(&mut self, call: &mut Call, accepted: Vec<ClaimedRow>, proven: Vec<ClaimedRow>) -> Phase {
        let mut acknowledged = Vec::new();
        for stone in tombstones(&accepted, &call.terms, at(self.now_ms)) {
            let applied = !self.fault(15);
            if applied {
                self.stones.insert(stone.id.clone(), stone);
            }
            let lost = self.fault(15);
            acknowledged.push(if applied && !lost { Ok(()) } else { Err(FailureKind::TimedOut) });
        }
        let committing = commits(accepted, &acknowledged, proven, &call.terms, &mut call.notes);
        self.change(call, &committing.keep);
        Phase::Commit(committing)
    }

    fn commit(&mut self, call: &mut Call, committing: Committing) -> Phase {
        let mut answers = Vec::new();
        for commit in &committing.commits {
            if self.fault(12) {
                answers.push(Err(FailureKind::TimedOut));
                continue;
            }
            let answer = match self.rows.get(&commit.key) {
                Some(row) if row.claim() == Some(&commit.claim) && row.stamp == commit.token.into() => {
                    self.audit.observe(Observation::Committed { key: commit.key.clone(), token: commit.token });
                    self.rows.remove(&commit.key);
                    ChangeAnswer::Done
                }
                Some(row) => ChangeAnswer::Fenced(Slot::Present(row.clone())),
                None => ChangeAnswer::Absent,
            };
            answers.push(if self.fault(12) { Err(FailureKind::Unavailable) } else { Ok(answer) });
        }
        match committing.answered(&answers, &mut call.notes) {
            Some(again) => Phase::Commit(again),
            None => Phase::Send,
        }
    }

    fn absorb(&mut self, call: &mut Call) -> Phase {
        let notes = std::mem::replace(&mut call.notes, notes(self.ordered));
        call.shard.absorb(notes);
        Phase::Page
    }

    fn read_stones(&self, ids: &[MessageId]) -> Vec<Slot<Tombstone>> {
        ids.iter().filter_map(|id| self.stones.get(id)).cloned().map(Slot::Present).collect()
    }

    fn change(&mut self, call: &mut Call, changes: &[HandBack]) {
        for back in changes {
            if self.fault(15) {
                continue;
            }
            let mine = |row: &&mut OutboxRow| row.claim() == Some(&back.claim) && row.stamp == back.token.into();
            if let Some(row) = self.rows.get_mut(&back.key).filter(mine) {
                row.attempts = back.attempts;
                row.not_before = back.not_before.or(row.not_before);
                if back.free {
                    row.status = Status::Pending;
                    call.notes.counts.handed_back(&[Ok(ChangeAnswer::Done)]);
                }
            }
        }
    }

    fn bury(&mut self, call: &mut Call, burial: &Burial) {
        let key = burial.dead.row.key.clone();
        if self.dead.get(&key).is_none_or(|dead| dead.row.redriven <= burial.dead.row.redriven) {
            self.dead.insert(key.clone(), burial.dead.clone());
        }
        if self.fault(10) {
            return;
        }
        let as_seen = |row: &&OutboxRow| row.status == burial.seen && row.stamp == burial.seen_stamp;
        if self.rows.get(&key).filter(as_seen).is_some() {
            self.rows.remove(&key);
            self.audit.observe(Observation::Died { key });
            call.notes.counts.buried(&Ok(ChangeAnswer::Done));
        }
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
