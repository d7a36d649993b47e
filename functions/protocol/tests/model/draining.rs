//! One drain call, as the drainer takes it: permit, page, choose, claim, confirm, send, tombstones, commit, put back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::drain::{
    Burial, CallTerms, Choice, ClaimAnswer, ClaimedRow, Committing, Counts, DrainRequest, HandBack, Notes,
    PERMANENT_CODES, Permit, QueueRefusal, QueueReply, Reread, Sending, SettledClaim, ShardState, Stop, after_claims,
    choose, commits, confirm, may_claim, may_send, permit, permit_again, tokens_above, tombstone_ids,
};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::{ClaimId, PayloadDigest, RowKey};
use fencepost_protocol::invariants::Observation;
use fencepost_protocol::lease::LeaseRecord;
use fencepost_protocol::outbox::{Slot, Status};
use fencepost_protocol::time::{Reading, Timestamp};

use crate::bounds::{Bounds, policy};
use crate::ends::{End, Reached};
use crate::rules;
use crate::steps::{Fate, SendFate};
use crate::store::Write;
use crate::world::World;

mod committing;

/// A drain call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) who: usize,
    /// Which call of the history: 0 where ids may be used again.
    pub(crate) number: u8,
    /// Pages read so far; counted only where ids are used once.
    pub(crate) pages: u8,
    pub(crate) terms: CallTerms,
    /// The claims that count as settled.
    pub(crate) settled: BTreeSet<ClaimId>,
    /// The present page's claim.
    pub(crate) claim: Option<ClaimId>,
    pub(crate) phase: Phase,
    first_claim: Option<ClaimId>,
    shard: ShardState,
    permit: Permit,
    /// The deadline by the specification, of the lease row that the permit comes from.
    deadline: Timestamp,
    looked_at: Reading,
    claims_started: Reading,
    notes: Option<Notes>,
    sending: Option<Sending>,
    proven: Vec<ClaimedRow>,
    back: Vec<HandBack>,
    burials: Vec<Burial>,
    /// Rows whose send may have happened, for all that this call knows.
    maybe_sent: BTreeSet<RowKey>,
}

/// What a call does next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Page,
    Claim(Choice),
    Confirm(Vec<ClaimedRow>),
    Send,
    Stones(Vec<ClaimedRow>),
    Commit { committing: Committing, second: bool },
    PutBack,
    EndBuried(Burial),
    Ended,
}

impl World {
    /// A call begins, where the instance has leave. Claims of calls that have ended count as settled if `settled`.
    pub(crate) fn begin_call(&mut self, bounds: &Bounds, who: usize, settled: bool) -> bool {
        let settled = if settled { self.settled(bounds) } else { BTreeSet::new() };
        let shard = bounds.rows()[0].key.shard.clone();
        let of_key = bounds.rows()[0].key.clone();
        let request = DrainRequest {
            settled: settled.iter().map(|claim| SettledClaim { key: of_key.clone(), claim: claim.clone() }).collect(),
            ..DrainRequest::scheduled(vec![shard])
        };
        let (terms, mut shards) = request.start(bounds.cast[who].me.clone(), policy(bounds, who)).unwrap();
        let now = self.reading(who, Duration::ZERO);
        let Ok(permit) = permit(Ok(&self.store.lease), &terms, now) else { return false };
        let ordered = terms.policy.ordered;
        self.calls.push(Arc::new(Call {
            who,
            number: if ordered { self.left.calls } else { 0 },
            pages: 0,
            terms,
            settled,
            claim: None,
            phase: Phase::Page,
            first_claim: None,
            shard: shards.remove(0),
            permit,
            deadline: self.deadline_of(bounds, who),
            looked_at: now,
            claims_started: now,
            notes: None,
            sending: None,
            proven: Vec::new(),
            back: Vec::new(),
            burials: Vec::new(),
            maybe_sent: BTreeSet::new(),
        }));
        true
    }

    /// Claims that may be taken over: of calls that are over, or of any where a claimer may come back.
    pub(crate) fn settled(&self, bounds: &Bounds) -> BTreeSet<ClaimId> {
        let frozen = bounds.drains.is_some_and(|drains| drains.frozen);
        let held = self.store.rows.values().filter_map(|row| row.claim());
        let over = |claim: &&ClaimId| frozen || self.calls.iter().all(|call| call.claim.as_ref() != Some(claim));
        held.filter(over).cloned().collect()
    }

    fn deadline_of(&self, bounds: &Bounds, who: usize) -> Timestamp {
        self.store.lease.present().map_or(Timestamp::default(), |record| rules::deadline(&bounds.cast[who], record))
    }

    /// The next step of call `index`.
    pub(crate) fn step_call(&mut self, bounds: &Bounds, index: usize, fate: Fate, send: SendFate, reached: &Reached) {
        let mut call = Arc::unwrap_or_clone(self.calls.remove(index));
        let phase = std::mem::replace(&mut call.phase, Phase::Ended);
        call.phase = match phase {
            Phase::Page => self.page(bounds, &mut call, fate),
            Phase::Claim(choice) => self.make_claims(&mut call, choice, fate, reached),
            Phase::Confirm(mine) => self.confirm_claims(bounds, &mut call, mine, fate, reached),
            Phase::Send => self.send(bounds, &mut call, send, reached),
            Phase::Stones(accepted) => self.write_stones(&mut call, accepted, fate),
            Phase::Commit { committing, second } => self.make_commits(&mut call, committing, second, fate, reached),
            Phase::PutBack => self.put_back(&mut call, fate, reached),
            Phase::EndBuried(burial) => self.end_burial(&mut call, burial, fate, reached),
            Phase::Ended => Phase::Ended,
        };
        call.harvest(reached);
        if call.phase != Phase::Ended {
            self.calls.insert(index, Arc::new(call));
        }
    }

    fn page(&mut self, bounds: &Bounds, call: &mut Call, fate: Fate) -> Phase {
        if !call.shard.goes_on() {
            return Phase::Ended;
        }
        let now = self.reading(call.who, Duration::ZERO);
        if now.monotonic.saturating_sub(call.looked_at.monotonic) >= Duration::from_secs(1) {
            match permit_again(Ok(&self.store.lease), &call.permit, &call.terms, now) {
                Ok(fresh) => self.renew_leave(bounds, call, fresh, now),
                Err(_) => return Phase::Ended,
            }
        }
        if fate == Fate::Throttled {
            return Phase::Ended;
        }
        if call.terms.policy.ordered {
            call.pages += 1;
        }
        let claim = self.fresh_claim(call);
        let after = call.shard.after.clone();
        let ahead = self.store.rows.values().filter(|row| after.as_ref().is_none_or(|after| row.key.position > *after));
        let rows: Vec<_> = ahead.take(call.terms.policy.page_rows).cloned().collect();
        let full = rows.len() == call.terms.policy.page_rows;
        let next = if full { rows.last().map(|row| row.key.position.clone()) } else { None };
        self.observe(Observation::PageRead {
            shard: call.shard.shard.clone(),
            claim: claim.clone(),
            pass: call.first_claim.get_or_insert_with(|| claim.clone()).clone(),
            after,
        });
        if !call.terms.policy.ordered {
            call.first_claim = None;
        }
        let slots = rows.iter().map(|row| (row.key.position.clone(), Slot::Present((**row).clone()))).collect();
        let (mut choice, mut notes) = choose(&mut call.shard, &call.terms, &call.permit, slots, next, &claim, now);
        call.claim = Some(claim);
        call.claims_started = now;
        if let Some(above) = choice.above {
            notes.stop_for(tokens_above(Ok(&self.store.lease), above));
            call.notes = Some(notes);
            return Phase::PutBack;
        }
        let exhausted = self.store.read_stones(&choice.exhausted_ids(&call.terms));
        call.burials = choice.settle_exhausted(Ok(&exhausted), &call.permit, &mut notes, now);
        let nothing_to_claim = choice.claims.is_empty();
        call.notes = Some(notes);
        if nothing_to_claim { Phase::PutBack } else { Phase::Claim(choice) }
    }

    fn renew_leave(&self, bounds: &Bounds, call: &mut Call, permit: Permit, now: Reading) {
        call.permit = permit;
        // Whichever clock is further on decides, over the whole call.
        call.looked_at = Reading { wall: call.looked_at.later_of(now), ..now };
        call.deadline = self.deadline_of(bounds, call.who);
    }

    fn make_claims(&mut self, call: &mut Call, choice: Choice, fate: Fate, reached: &Reached) -> Phase {
        let now = self.reading(call.who, Duration::ZERO);
        let mut notes = call.take_notes();
        call.claims_started = now;
        if let Err(stop) = may_claim(&call.permit, &call.terms, now) {
            reached.note(End::TooLate);
            notes.stop_for(stop);
            call.notes = Some(notes);
            return Phase::PutBack;
        }
        let decided_at = call.looked_at.later_of(now);
        let mut answers = Vec::new();
        for claim in &choice.claims {
            let apply = |world: &mut Self| world.claim(claim, decided_at, call.deadline);
            let late = Write::Claim { claim: claim.clone(), decided_at, deadline: call.deadline };
            let answer = match fate {
                Fate::Fine => Ok(apply(self)),
                Fate::Lost => {
                    apply(self);
                    Err(FailureKind::TimedOut)
                }
                // The store's own second try finds the claim, and answers with the row that refuses it.
                Fate::Twice => match apply(self) {
                    ClaimAnswer::Claimed => Ok(ClaimAnswer::Refused(self.store.row(&claim.key))),
                    refused => Ok(refused),
                },
                Fate::Late => {
                    self.late.push(Arc::new(late));
                    Err(FailureKind::TimedOut)
                }
                Fate::Throttled => Err(FailureKind::Throttled),
            };
            if matches!(answer, Ok(ClaimAnswer::Claimed)) && matches!(claim.seen, Status::Claimed(_)) {
                reached.note(End::StaleReclaim);
            }
            answers.push(answer);
        }
        let conflicts = notes.counts.conflicts;
        let claimed = after_claims(choice, &answers, &call.terms, &mut notes);
        if notes.counts.conflicts > conflicts {
            reached.note(End::ClaimConflict);
        }
        if fate == Fate::Twice && !claimed.mine.is_empty() {
            reached.note(End::ClaimFound);
        }
        if let Some(above) = claimed.above {
            notes.stop_for(tokens_above(Ok(&self.store.lease), above));
        }
        call.back.extend(claimed.hand_back);
        call.notes = Some(notes);
        if claimed.mine.is_empty() { Phase::PutBack } else { Phase::Confirm(claimed.mine) }
    }

    fn confirm_claims(
        &mut self,
        bounds: &Bounds,
        call: &mut Call,
        mine: Vec<ClaimedRow>,
        fate: Fate,
        reached: &Reached,
    ) -> Phase {
        let now = self.reading(call.who, Duration::ZERO);
        let mut notes = call.take_notes();
        let stones = self.store.read_stones(&tombstone_ids(&mine, &call.terms));
        let lease = Arc::clone(&self.store.lease);
        let read = |slot| if fate == Fate::Throttled { Err(FailureKind::Throttled) } else { Ok(slot) };
        let reread = Reread {
            lease: read(&*lease),
            tombstones: if fate == Fate::Lost { Err(FailureKind::TimedOut) } else { Ok(&stones[..]) },
            claims_started: call.claims_started,
            now,
        };
        let confirmed = confirm(mine, &call.permit, &reread, &call.terms, &mut notes);
        call.back.extend(confirmed.hand_back);
        if !confirmed.commit_only.is_empty() {
            reached.note(End::Proven);
        }
        call.proven = confirmed.commit_only;
        match confirmed.permit {
            Some(fresh) => {
                let decided_at = call.looked_at.later_of(now);
                rules::judge_sends(self, &bounds.cast[call.who], call.permit.token(), &confirmed.send, decided_at);
                self.renew_leave(bounds, call, fresh, now);
                let (sending, oversize) = Sending::new(confirmed.send, &call.terms, now.wall, &mut notes);
                call.burials.extend(oversize);
                call.sending = Some(sending);
                call.notes = Some(notes);
                Phase::Send
            }
            None => {
                if matches!(notes.stop(), Some(Stop::NotPermitted(_))) {
                    reached.note(End::NotPermitted);
                }
                call.notes = Some(notes);
                call.settle_proven()
            }
        }
    }

    /// The next wave, whole: in this model it is one request.
    fn send(&mut self, bounds: &Bounds, call: &mut Call, fate: SendFate, reached: &Reached) -> Phase {
        let mut notes = call.take_notes();
        let Some(mut sending) = call.sending.take() else {
            call.notes = Some(notes);
            return call.settle_proven();
        };
        let mut accepted = Vec::new();
        let wave = sending.wave();
        if wave.is_empty() {
            call.back.extend(sending.rest(&mut notes));
            call.notes = Some(notes);
            return call.settle_proven();
        }
        for batch in wave {
            let now = self.reading(call.who, Duration::ZERO);
            if let Err(stop) = may_send(&call.permit, call.claims_started, &call.terms, now) {
                reached.note(End::TooLate);
                notes.stop_for(stop);
                sending.hold(batch);
                continue;
            }
            let reply = self.queue(bounds, call, &batch.entries, fate);
            let settlement = sending.answered(batch, &reply, &call.terms, now.wall, 0, &mut notes);
            call.back.extend(settlement.changes);
            call.burials.extend(settlement.burials);
            accepted.extend(settlement.accepted);
        }
        call.sending = Some(sending);
        call.notes = Some(notes);
        if accepted.is_empty() { Phase::Send } else { Phase::Stones(accepted) }
    }

    /// The queue takes the entries, refuses them, or loses its answer.
    fn queue(
        &mut self,
        bounds: &Bounds,
        call: &mut Call,
        entries: &[QueueEntry],
        fate: SendFate,
    ) -> Result<QueueReply, FailureKind> {
        let now = self.reading(call.who, Duration::ZERO);
        let decided_at = call.looked_at.later_of(now);
        let mut reply = QueueReply::default();
        for entry in entries {
            let key = bounds.key_of(&entry.body);
            let id = key.position.id().clone();
            let frozen = bounds.drains.is_some_and(|drains| drains.frozen);
            // A claimer that stood still since it read the tombstones sends what was committed meanwhile: nobody can know.
            if self.committed.contains(&id) && !frozen {
                self.breach(rules::SENT_AGAIN, format!("{key} by instance {}", call.who));
            }
            self.observe(Observation::SendStarted {
                key: key.clone(),
                claim: call.claim.clone().unwrap(),
                decided_at,
                ends_by: decided_at.plus(call.terms.policy.timing.send_timeout),
                deadline: call.deadline,
            });
            if matches!(fate, SendFate::Accepted | SendFate::Lost | SendFate::Dropped | SendFate::Forgotten) {
                call.maybe_sent.insert(key);
            }
            if matches!(fate, SendFate::Accepted | SendFate::Lost | SendFate::Forgotten) {
                let digest = PayloadDigest::of(entry.body.as_bytes());
                self.observe(Observation::Accepted { id, digest });
            }
            let code = match fate {
                SendFate::Busy => "Busy",
                SendFate::Permanent => PERMANENT_CODES[0],
                SendFate::Forgotten => continue,
                _ => {
                    reply.accepted.push(entry.entry_id.clone());
                    continue;
                }
            };
            let (entry_id, code, message) = (entry.entry_id.clone(), code.to_owned(), String::new());
            reply.refused.push(QueueRefusal { entry_id, code, message });
        }
        match fate {
            SendFate::Throttled => Err(FailureKind::Throttled),
            SendFate::Lost | SendFate::Dropped => Err(FailureKind::TimedOut),
            _ => Ok(reply),
        }
    }
}

impl Call {
    fn take_notes(&mut self) -> Notes {
        self.notes.take().unwrap()
    }

    /// Proven rows that no wave took along.
    fn settle_proven(&mut self) -> Phase {
        let proven = std::mem::take(&mut self.proven);
        if proven.is_empty() {
            return Phase::PutBack;
        }
        let mut notes = self.take_notes();
        let committing = commits(Vec::new(), &[], proven, &self.terms, &mut notes);
        self.notes = Some(notes);
        self.commit_next(committing)
    }

    fn commit_next(&mut self, mut committing: Committing) -> Phase {
        self.back.append(&mut committing.keep);
        if committing.commits.is_empty() { Phase::Send } else { Phase::Commit { committing, second: false } }
    }

    /// The first half of the next burial, or the end of the page.
    fn bury_next(&mut self, world: &mut World, fate: Fate, reached: &Reached) -> Phase {
        if !self.burials.is_empty() {
            let burial = self.burials.remove(0);
            if fate == Fate::Throttled {
                return self.bury_next(world, fate, reached);
            }
            world.bury(&burial.dead);
            return Phase::EndBuried(burial);
        }
        let notes = self.take_notes();
        match notes.stop() {
            Some(Stop::FormerHolder) => reached.note(End::FormerHolder),
            Some(Stop::TooLate | Stop::BudgetSpent) => reached.note(End::TooLate),
            _ => {}
        }
        self.shard.absorb(notes);
        self.claim = None;
        self.sending = None;
        self.maybe_sent.clear();
        if self.shard.goes_on() { Phase::Page } else { Phase::Ended }
    }

    /// Takes the counts out: they decide nothing, and states that differ in them alone are the same.
    fn harvest(&mut self, reached: &Reached) {
        let mut seen = std::mem::take(&mut self.shard.counts);
        if let Some(notes) = &mut self.notes {
            seen.add(&std::mem::take(&mut notes.counts));
        }
        let Counts { committed, fenced, duplicate_risk, skipped, .. } = seen;
        let ends = [
            (committed, End::Committed),
            (fenced, End::Fenced),
            (duplicate_risk, End::DuplicateRisk),
            (if self.terms.policy.ordered { skipped } else { 0 }, End::KeyBlocked),
        ];
        for (_, end) in ends.into_iter().filter(|(count, _)| *count > 0) {
            reached.note(end);
        }
    }
}

/// Does an instance's drainer have leave to begin, by the row alone? Used to offer fewer steps.
pub(crate) fn leads(record: Option<&LeaseRecord>, bounds: &Bounds, who: usize) -> bool {
    record.is_some_and(|record| record.is_owned_by(&bounds.cast[who].me))
}
