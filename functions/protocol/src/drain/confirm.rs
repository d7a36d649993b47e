//! Step 4: between claim and send, the lease is read again and the tombstones are read.

use std::collections::BTreeSet;

use crate::drain::permit::permit_again;
use crate::drain::{CallTerms, ClaimedRow, HandBack, Notes, Permit, Stop, may_send};
use crate::failure::FailureKind;
use crate::ids::MessageId;
use crate::lease::LeaseRecord;
use crate::outbox::{Damage, Slot, Tombstone};
use crate::time::Reading;

/// What was read between claim and send.
#[derive(Debug, Clone, Copy)]
pub struct Reread<'a> {
    /// The lease row, read strongly after the last claim was answered.
    pub lease: Result<&'a Slot<LeaseRecord>, FailureKind>,
    /// The tombstones of [`tombstone_ids`], read strongly.
    pub tombstones: Result<&'a [Slot<Tombstone>], FailureKind>,
    /// The clocks from before the page's first claim write.
    pub claims_started: Reading,
    /// The clocks after both reads.
    pub now: Reading,
}

/// What a page may do now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Confirmed {
    /// The permit as read again; `None` where there is none: then nothing is to be sent.
    pub permit: Option<Permit>,
    /// Proven by a tombstone: commit without sending.
    pub commit_only: Vec<ClaimedRow>,
    /// To be sent, oldest first.
    pub send: Vec<ClaimedRow>,
    /// To be handed back: certainly not sent.
    pub hand_back: Vec<HandBack>,
}

/// The ids whose tombstones are to be read; none (no read) where no tombstones are kept.
pub fn tombstone_ids(mine: &[ClaimedRow], terms: &CallTerms) -> Vec<MessageId> {
    if !terms.policy.keeps_tombstones() {
        return Vec::new();
    }
    mine.iter().map(|claimed| claimed.row.id().clone()).collect()
}

/// Decides what becomes of the claimed rows: owner, stack **and token** as in step 1, not stepping down, claim budget not
/// spent, and a send that ends before the deadline. Else everything not proven is handed back and the notes say why.
pub fn confirm(
    mine: Vec<ClaimedRow>,
    earlier: &Permit,
    reread: &Reread<'_>,
    terms: &CallTerms,
    notes: &mut Notes,
) -> Confirmed {
    let permit = leave(earlier, reread, terms, notes);
    let (tombstones, readable) = match reread.tombstones {
        Ok(tombstones) => (tombstones, true),
        Err(kind) => {
            notes.stop_for(Stop::Store(kind));
            (&[][..], false)
        }
    };
    let may_go = readable && permit.is_some();
    let mut confirmed = Confirmed {
        permit: if may_go { permit } else { None },
        commit_only: Vec::new(),
        send: Vec::new(),
        hand_back: Vec::new(),
    };
    let evidence = Evidence::of(tombstones);
    let mut held_keys: BTreeSet<String> = BTreeSet::new();
    for claimed in mine {
        let key = claimed.row.ordering_key().to_owned();
        if evidence.proves(&claimed) {
            confirmed.commit_only.push(claimed);
            continue;
        }
        let damage = evidence.damage(&claimed);
        let behind_a_held_one = terms.policy.ordered && held_keys.contains(&key);
        if may_go && damage.is_none() && !behind_a_held_one {
            confirmed.send.push(claimed);
            continue;
        }
        let mut back = claimed.hand_back();
        if let Some(damage) = damage {
            notes.counts.held += 1;
            back.not_before = Some(earlier.clock(reread.now).plus(terms.policy.backoff_max));
            back.last_error = Some(crate::drain::last_error(&damage.to_string()));
        }
        confirmed.hand_back.push(back);
        notes.blocked.block(&key);
        held_keys.insert(key);
    }
    confirmed
}

/// The permit for the sends, or a reason in the notes.
fn leave(earlier: &Permit, reread: &Reread<'_>, terms: &CallTerms, notes: &mut Notes) -> Option<Permit> {
    let permit = match permit_again(reread.lease, earlier, terms, reread.now) {
        Ok(permit) => permit,
        Err(reason) => {
            notes.stop_for(Stop::NotPermitted(reason));
            return None;
        }
    };
    if let Err(stop) = may_send(&permit, reread.claims_started, terms, reread.now) {
        notes.stop_for(stop);
    }
    notes.stop().is_none().then_some(permit)
}

/// The tombstones of a page.
struct Evidence<'a> {
    proofs: Vec<&'a Tombstone>,
    damaged: Vec<&'a Damage>,
}

impl<'a> Evidence<'a> {
    fn of(tombstones: &'a [Slot<Tombstone>]) -> Self {
        let damaged = tombstones.iter().filter_map(|slot| match slot {
            Slot::Damaged(damage) => Some(damage),
            Slot::Absent | Slot::Present(_) => None,
        });
        Self { proofs: tombstones.iter().filter_map(Slot::present).collect(), damaged: damaged.collect() }
    }

    fn proves(&self, claimed: &ClaimedRow) -> bool {
        self.proofs.iter().any(|tombstone| tombstone.proves(&claimed.row))
    }

    /// A tombstone of this row that does not decode: it may be proof, so the row is neither sent nor committed.
    fn damage(&self, claimed: &ClaimedRow) -> Option<&'a Damage> {
        self.damaged.iter().find(|damage| damage.record.contains(claimed.row.id().as_str())).copied()
    }
}
