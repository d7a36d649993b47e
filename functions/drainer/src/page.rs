//! One page: choose, claim, confirm, send, commit, and put the rest back.

use fencepost_protocol::drain::{
    Burial, CallTerms, ChangeAnswer, ClaimedRow, Committing, HandBack, Notes, Reread, Sending, Settlement, ShardState,
    Stop, after_claims, choose, commits, confirm, may_claim, may_send, tokens_above, tombstone_ids, tombstones,
};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::{MessageId, Stamp};
use fencepost_protocol::outbox::{OutboxRow, Slot, Tombstone};
use fencepost_protocol::time::Reading;
use fencepost_runtime::lambda::Limit;
use fencepost_storage::{Page, StoreError};
use futures::future::join_all;

use crate::DrainerFunction;
use crate::call::{Leave, lease_kind};
use crate::measure::Measures;

/// A page in work.
struct Work<'a> {
    terms: &'a CallTerms,
    limit: &'a Limit,
    claims_started: Reading,
    notes: Notes,
    /// Rows to put back or to keep under their claim, collected until the end of the page.
    back: Vec<HandBack>,
    /// Records that die.
    burials: Vec<Burial>,
}

impl DrainerFunction {
    pub(crate) async fn drain_page(
        &self,
        terms: &CallTerms,
        shard: &mut ShardState,
        leave: &mut Leave,
        page: Page<OutboxRow>,
        limit: &Limit,
        measures: &mut Measures,
    ) {
        measures.saw_page(shard.after.is_none(), &page, self.clock.now().wall);
        for stray in &page.strays {
            tracing::error!(shard = %shard.shard, %stray, "an item of the outbox has no position and was left alone");
        }
        let claim = self.ids.claim();
        let now = self.clock.now();
        let (mut choice, mut notes) = choose(shard, terms, &leave.permit, page.rows, page.next, &claim, now);
        for damage in &choice.damaged {
            let field = &damage.malformed.field;
            tracing::error!(shard = %shard.shard, field, %damage, "an outbox row does not decode and was left alone");
        }
        if let Some(above) = choice.above {
            self.explain_token_above(above, &mut notes).await;
            shard.absorb(notes);
            return;
        }
        let exhausted = self.read_tombstones(&choice.exhausted_ids(terms)).await;
        let exhausted = exhausted.as_deref().map_err(|kind| *kind);
        let burials = choice.settle_exhausted(exhausted, &leave.permit, &mut notes, self.clock.now());
        let claims_started = self.clock.now();
        let mut work = Work { terms, limit, claims_started, notes, back: Vec::new(), burials };
        if choice.claims.is_empty() {
            // Nothing to take.
        } else if let Err(stop) = self.may_claim(terms, leave, limit) {
            work.notes.stop_for(stop);
        } else {
            let answers = kinds(self.outbox.claim(&choice.claims).await);
            let claimed = after_claims(choice, &answers, terms, &mut work.notes);
            work.back.extend(claimed.hand_back);
            if let Some(above) = claimed.above {
                self.explain_token_above(above, &mut work.notes).await;
            }
            if !claimed.mine.is_empty() {
                tracing::debug!(
                    shard = %shard.shard,
                    token = leave.permit.token().get(),
                    %claim,
                    rows = claimed.mine.len(),
                    "claimed"
                );
                self.deliver(&mut work, leave, claimed.mine, measures).await;
            }
        }
        self.put_back(&mut work, measures).await;
        shard.absorb(work.notes);
    }

    /// May the claims of a page start, by the lease's deadline and by the time that this call has left?
    fn may_claim(&self, terms: &CallTerms, leave: &Leave, limit: &Limit) -> Result<(), Stop> {
        if !self.has_time_for_a_page(limit) {
            return Err(Stop::TooLate);
        }
        may_claim(&leave.permit, terms, self.clock.now())
    }

    /// A row bears a token above mine: read the lease again, and stop either way.
    async fn explain_token_above(&self, above: Stamp, notes: &mut Notes) {
        let lease = self.leases.read_lease(&self.lease).await;
        let stop = tokens_above(lease_kind(&lease), above);
        tracing::warn!(token = above.get(), reason = %stop, "an outbox row bears a token above the lease's");
        notes.stop_for(stop);
    }

    /// Steps 4 to 6: the lease and the tombstones once more, then sends and commits.
    async fn deliver(&self, work: &mut Work<'_>, leave: &mut Leave, mine: Vec<ClaimedRow>, measures: &mut Measures) {
        let ids = tombstone_ids(&mine, work.terms);
        let (lease, stones) = futures::join!(self.leases.read_lease(&self.lease), self.read_tombstones(&ids));
        let now = self.clock.now();
        let reread = Reread {
            lease: lease_kind(&lease),
            tombstones: stones.as_deref().map_err(|kind| *kind),
            claims_started: work.claims_started,
            now,
        };
        let confirmed = confirm(mine, &leave.permit, &reread, work.terms, &mut work.notes);
        work.back.extend(confirmed.hand_back);
        let Some(permit) = confirmed.permit else {
            self.commit(work, Vec::new(), confirmed.commit_only, measures).await;
            return;
        };
        *leave = Leave { permit, read_at: now };
        let (mut sending, oversize) = Sending::new(confirmed.send, work.terms, now.wall, &mut work.notes);
        work.burials.extend(oversize);
        let mut proven = confirmed.commit_only;
        loop {
            let wave = sending.wave();
            if wave.is_empty() {
                break;
            }
            let settlement = self.send_wave(work, leave, &mut sending, wave).await;
            work.back.extend(settlement.changes);
            work.burials.extend(settlement.burials);
            self.commit(work, settlement.accepted, std::mem::take(&mut proven), measures).await;
        }
        if !proven.is_empty() {
            self.commit(work, Vec::new(), proven, measures).await;
        }
        let rest = sending.rest(&mut work.notes);
        work.back.extend(rest);
    }

    /// Sends the requests of a wave side by side; each is asked for just before it starts.
    async fn send_wave(
        &self,
        work: &mut Work<'_>,
        leave: &Leave,
        sending: &mut Sending,
        wave: Vec<fencepost_protocol::drain::Batch>,
    ) -> Settlement {
        let mut started = Vec::with_capacity(wave.len());
        for batch in wave {
            match may_send(&leave.permit, work.claims_started, work.terms, self.clock.now()) {
                Ok(()) => started.push(batch),
                Err(stop) => {
                    work.notes.stop_for(stop);
                    sending.hold(batch);
                }
            }
        }
        let replies = join_all(started.iter().map(|batch| self.queue.send(&batch.entries))).await;
        let mut settlement = Settlement::default();
        for (batch, reply) in started.into_iter().zip(replies) {
            if let Err(error) = &reply {
                tracing::warn!(kind = error.kind.as_str(), %error, "a send failed");
            }
            let reply = reply.map_err(|error| error.kind);
            let now = self.clock.now().wall;
            let one = sending.answered(batch, &reply, work.terms, now, self.ids.roll(), &mut work.notes);
            settlement.accepted.extend(one.accepted);
            settlement.changes.extend(one.changes);
            settlement.burials.extend(one.burials);
        }
        settlement
    }

    /// Step 6: tombstones, and only after they were acknowledged the conditional deletes; those of unknown outcome once more.
    async fn commit(
        &self,
        work: &mut Work<'_>,
        accepted: Vec<ClaimedRow>,
        proven: Vec<ClaimedRow>,
        measures: &mut Measures,
    ) {
        let stones = tombstones(&accepted, work.terms, self.clock.now().wall);
        let acknowledged =
            if stones.is_empty() { Vec::new() } else { kinds(self.outbox.write_tombstones(&stones).await) };
        measures.saw_accepted(&accepted, self.clock.now().wall);
        let mut committing: Committing = commits(accepted, &acknowledged, proven, work.terms, &mut work.notes);
        work.back.append(&mut committing.keep);
        if committing.commits.is_empty() {
            return;
        }
        let answers = kinds(self.outbox.commit(&committing.commits).await);
        let Some(again) = committing.answered(&answers, &mut work.notes) else { return };
        if work.limit.is_over(self.clock.now()) {
            again.give_up(&mut work.notes);
            return;
        }
        let answers = kinds(self.outbox.commit(&again.commits).await);
        if let Some(open) = again.answered(&answers, &mut work.notes) {
            open.give_up(&mut work.notes);
        }
    }

    /// Step 7: the rest. What cannot be put back ages under its claim: nothing is lost by a failure here.
    async fn put_back(&self, work: &mut Work<'_>, measures: &mut Measures) {
        let back = std::mem::take(&mut work.back);
        if !back.is_empty() {
            let answers = kinds(self.outbox.hand_back(&back).await);
            let freed: Vec<Result<ChangeAnswer, FailureKind>> =
                back.iter().zip(answers).filter(|(row, _)| row.free).map(|(_, answer)| answer).collect();
            work.notes.counts.handed_back(&freed);
        }
        for burial in std::mem::take(&mut work.burials) {
            // Two writes each, one after the other: what the call's time does not hold dies in a later pass.
            if work.limit.is_over(self.clock.now()) {
                work.notes.counts.skipped += 1;
                continue;
            }
            let answer = self.outbox.kill(&burial).await.map_err(|error| error.kind);
            work.notes.counts.buried(&answer);
            let (id, reason) = (burial.dead.row.id(), burial.dead.reason.as_str());
            tracing::warn!(message_id = %id, shard = %burial.dead.row.key.shard, reason, ?answer, "a record dies");
            if answer == Ok(ChangeAnswer::Done) {
                measures.buried(burial.dead.reason);
            }
        }
    }

    pub(crate) async fn read_tombstones(&self, ids: &[MessageId]) -> Result<Vec<Slot<Tombstone>>, FailureKind> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.outbox.tombstones(ids).await.map_err(|error| {
            tracing::warn!(kind = error.kind.as_str(), %error, "tombstones cannot be read");
            error.kind
        })
    }
}

/// The answers with their failures reduced to what decisions need, each told in the log once a kind.
fn kinds<T>(answers: Vec<Result<T, StoreError>>) -> Vec<Result<T, FailureKind>> {
    let mut told: Vec<FailureKind> = Vec::new();
    let reduce = |error: StoreError| {
        if !told.contains(&error.kind) {
            told.push(error.kind);
            tracing::warn!(operation = error.operation, kind = error.kind.as_str(), %error, "a write failed");
        }
        error.kind
    };
    let mut reduce = reduce;
    answers.into_iter().map(|answer| answer.map_err(&mut reduce)).collect()
}
