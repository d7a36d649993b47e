//! Step 7: what each row of a request becomes once the queue has answered, or has not.

use crate::drain::send::Load;
use crate::drain::{Batch, Burial, CallTerms, ClaimedRow, HandBack, Notes, Sending, Stop};
use crate::failure::FailureKind;
use crate::limits;
use crate::outbox::{DeadRow, DeathReason};
use crate::time::Timestamp;

/// Codes by which SQS says that an entry can never be accepted as it is. Everything else may be a condition of the queue, of
/// a key or of a policy, and is tried again; that the sender is at fault (`SenderFault`) alone proves nothing.
///
/// `InvalidMessageContents`: the body has a character outside the allowed set (SendMessage, "Errors").
pub const PERMANENT_CODES: &[&str] = &["InvalidMessageContents"];

/// Requests of one entry that may be invalid, with nothing accepted, before the queue itself is held to be at fault.
const INVALID_ALONE_MAX: u64 = 3;

/// An entry that the queue refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueRefusal {
    /// The entry.
    pub entry_id: String,
    /// The queue's stable code.
    pub code: String,
    /// Its words.
    pub message: String,
}

/// What the queue answered to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct QueueReply {
    /// Entry ids that it says it accepted.
    pub accepted: Vec<String>,
    /// Entries that it says it refused.
    pub refused: Vec<QueueRefusal>,
}

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryOutcome {
    /// Accepted: a known id, in this list only.
    Sent,
    /// Refused; by the code and its words.
    Refused(QueueRefusal),
    /// In neither list, or in both.
    Unknown,
}

/// What becomes of the rows of one request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Settlement {
    /// Accepted: tombstones, then commits.
    pub accepted: Vec<ClaimedRow>,
    /// To be handed back, or kept under their claim with the attempt restored.
    pub changes: Vec<HandBack>,
    /// Refused for good.
    pub burials: Vec<Burial>,
}

/// What the reply says of entry `entry_id`.
pub fn entry_outcome(reply: &QueueReply, entry_id: &str) -> EntryOutcome {
    let accepted = reply.accepted.iter().any(|id| id == entry_id);
    let refusal = reply.refused.iter().find(|refusal| refusal.entry_id == entry_id);
    match (accepted, refusal) {
        (true, None) => EntryOutcome::Sent,
        (false, Some(refusal)) => EntryOutcome::Refused(refusal.clone()),
        (true, Some(_)) | (false, None) => EntryOutcome::Unknown,
    }
}

/// At most [`limits::LAST_ERROR_BYTES_MAX`] bytes of `text`, without control characters.
pub fn last_error(text: &str) -> String {
    let mut short = String::new();
    for character in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if short.len() + character.len_utf8() > limits::LAST_ERROR_BYTES_MAX {
            break;
        }
        short.push(character);
    }
    short
}

impl Sending {
    /// Settles a request. `roll` is a uniformly random number for the back-off; each row mixes its own from it.
    ///
    /// - Accepted → [`Settlement::accepted`].
    /// - Refused by an allow-listed permanent code → buried; refused otherwise → pending with back-off, and the attempt counts.
    /// - Whole request failed, certainly not applied → handed back, attempts restored, and the call stops: an outage poisons
    ///   nothing. An *invalid* request is first tried entry by entry, so that one bad entry holds nobody back.
    /// - Outcome unknown → attempts restored, the claim stays and ages.
    pub fn answered(
        &mut self,
        batch: Batch,
        reply: &Result<QueueReply, FailureKind>,
        terms: &CallTerms,
        now: Timestamp,
        roll: u64,
        notes: &mut Notes,
    ) -> Settlement {
        match reply {
            Ok(reply) => self.by_entry(batch, reply, terms, now, roll, notes),
            Err(kind) => {
                notes.counts.send_failures += 1;
                match kind {
                    FailureKind::Invalid if batch.loads.len() > 1 => {
                        self.put_back(batch, true);
                        Settlement::default()
                    }
                    FailureKind::Invalid => self.invalid_alone(batch, terms, now, roll, notes),
                    FailureKind::Throttled | FailureKind::Denied => self.not_applied(batch, *kind, notes),
                    FailureKind::Unavailable | FailureKind::TimedOut => self.perhaps_applied(batch, *kind, notes),
                }
            }
        }
    }

    fn by_entry(
        &mut self,
        batch: Batch,
        reply: &QueueReply,
        terms: &CallTerms,
        now: Timestamp,
        roll: u64,
        notes: &mut Notes,
    ) -> Settlement {
        let mut settlement = Settlement::default();
        for (index, (load, entry)) in batch.loads.into_iter().zip(batch.entries).enumerate() {
            let outcome = entry_outcome(reply, &entry.entry_id);
            let maybe_sent = !matches!(outcome, EntryOutcome::Refused(_));
            notes.counts.duplicate_risk += u64::from(load.claimed.resend && maybe_sent);
            match outcome {
                EntryOutcome::Sent => {
                    notes.counts.sent += 1;
                    self.accepted += 1;
                    settlement.accepted.push(load.claimed);
                }
                EntryOutcome::Refused(refusal) => {
                    notes.counts.refused += 1;
                    self.end_lane(&load, notes);
                    let roll = mix(roll, index);
                    refused(load.claimed, &refusal, terms, now, roll, &mut settlement);
                }
                EntryOutcome::Unknown => {
                    notes.counts.unknown += 1;
                    self.end_lane(&load, notes);
                    settlement.changes.push(load.claimed.keep_claim());
                }
            }
        }
        settlement
    }

    fn end_lane(&mut self, load: &Load, notes: &mut Notes) {
        self.close(load);
        notes.blocked.block(load.claimed.row.ordering_key());
    }

    fn not_applied(&mut self, batch: Batch, kind: FailureKind, notes: &mut Notes) -> Settlement {
        self.close_all();
        notes.stop_for(Stop::Queue(kind));
        let changes = batch.loads.iter().map(|load| {
            notes.blocked.block(load.claimed.row.ordering_key());
            load.claimed.hand_back()
        });
        Settlement { changes: changes.collect(), ..Settlement::default() }
    }

    fn perhaps_applied(&mut self, batch: Batch, kind: FailureKind, notes: &mut Notes) -> Settlement {
        self.close_all();
        notes.stop_for(Stop::Queue(kind));
        let changes = batch.loads.iter().map(|load| {
            notes.counts.unknown += 1;
            notes.counts.duplicate_risk += u64::from(load.claimed.resend);
            notes.blocked.block(load.claimed.row.ordering_key());
            load.claimed.keep_claim()
        });
        Settlement { changes: changes.collect(), ..Settlement::default() }
    }

    /// One entry by itself makes its request invalid. It waits and loses no attempt: it may as well be the queue that is
    /// missing. Where that is likely, the call stops.
    fn invalid_alone(
        &mut self,
        batch: Batch,
        terms: &CallTerms,
        now: Timestamp,
        roll: u64,
        notes: &mut Notes,
    ) -> Settlement {
        self.invalid_alone += 1;
        if self.accepted == 0 && self.invalid_alone >= INVALID_ALONE_MAX {
            return self.not_applied(batch, FailureKind::Invalid, notes);
        }
        let mut settlement = Settlement::default();
        for load in &batch.loads {
            notes.counts.refused += 1;
            self.end_lane(load, notes);
            let mut back = load.claimed.hand_back();
            back.not_before = Some(now.plus(terms.policy.backoff(load.claimed.row.attempts, roll)));
            back.last_error = Some(last_error("the queue calls a request with this entry alone invalid"));
            settlement.changes.push(back);
        }
        settlement
    }
}

/// A refused entry: dead at once, or pending with back-off.
fn refused(
    claimed: ClaimedRow,
    refusal: &QueueRefusal,
    terms: &CallTerms,
    now: Timestamp,
    roll: u64,
    settlement: &mut Settlement,
) {
    let words = last_error(&format!("{}: {}", refusal.code, refusal.message));
    if PERMANENT_CODES.contains(&refusal.code.as_str()) {
        let mut row = claimed.row;
        row.last_error = Some(words);
        let (seen, seen_stamp) = (row.status.clone(), row.stamp);
        let dead = DeadRow { row, reason: DeathReason::Refused, died_at: now };
        settlement.burials.push(Burial { dead, seen, seen_stamp });
        return;
    }
    settlement.changes.push(HandBack {
        attempts: claimed.row.attempts,
        not_before: Some(now.plus(terms.policy.backoff(claimed.row.attempts, roll))),
        last_error: Some(words),
        ..claimed.hand_back()
    });
}

/// Another uniformly random number for each row of a request (the finalizer of SplitMix64).
pub(super) fn mix(roll: u64, index: usize) -> u64 {
    let step = u64::try_from(index).unwrap_or(0).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut mixed = roll.wrapping_add(step);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
