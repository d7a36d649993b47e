//! The steps of one call, with what may go wrong in each.

use super::*;
use crate::failure::FailureKind;

impl World {
    pub(super) fn page(&mut self, call: &mut Call) -> Phase {
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

    pub(super) fn claim(&mut self, call: &mut Call, choice: Choice) -> Phase {
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
                        && row.redriven == claim.seen_redriven
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

    pub(super) fn confirm(&mut self, call: &mut Call, mine: Vec<ClaimedRow>) -> Phase {
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

    pub(super) fn send(&mut self, call: &mut Call) -> Phase {
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

    pub(super) fn write_stones(
        &mut self,
        call: &mut Call,
        accepted: Vec<ClaimedRow>,
        proven: Vec<ClaimedRow>,
    ) -> Phase {
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

    pub(super) fn commit(&mut self, call: &mut Call, committing: Committing) -> Phase {
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
}
