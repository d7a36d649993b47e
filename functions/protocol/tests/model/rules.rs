//! Rules that only somebody with all clocks in view can judge. They stand beside the invariants of the judge, which sees
//! what one world's tables show.

use std::time::Duration;

use fencepost_protocol::drain::ClaimedRow;
use fencepost_protocol::ids::FencingToken;
use fencepost_protocol::lease::{AcquiredAs, Conclusion, LeaseRecord, Purpose, Rules, Standing};
use fencepost_protocol::outbox::Slot;
use fencepost_protocol::time::Timestamp;

use crate::store::Memory;
use crate::world::World;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Breach {
    /// Which rule.
    pub(crate) rule: &'static str,
    /// What broke it.
    pub(crate) what: String,
}

/// Nobody seizes a lease before its holder's own deadline.
pub(crate) const SEIZED_TOO_EARLY: &str = "P5: no seizure before the holder's own deadline";
/// A tick that says that it holds the lease says so of a row that names it, before the deadline.
pub(crate) const HOLDER_TOO_LONG: &str = "I7: no holder past its own deadline";
/// Who released the lease leaves it alone for a TTL.
pub(crate) const NO_ABSTENTION: &str = "P7: no acquisition while abstaining";
/// A row tells of the release that its holder's acquisition followed, and of no earlier one.
pub(crate) const RELEASE_FORGOTTEN: &str = "a release is told through the acquisition that follows it";
/// What was committed is not sent again while its tombstone stands.
pub(crate) const SENT_AGAIN: &str = "P2: no send of a committed message";
/// Sends start only after the lease was read again and still named their sender, token and all.
pub(crate) const SENT_UNPERMITTED: &str = "P3: no send without the lease";
/// What is certainly not sent loses nothing; what may have been sent is never handed back as free.
pub(crate) const FREED_A_SENT_ROW: &str = "P1: no row is freed while its send may have happened";

/// A holder's deadline by the specification: `confirmed_at` + min(row's TTL, mine) − `clock_margin`.
pub(crate) fn deadline(rules: &Rules, record: &LeaseRecord) -> Timestamp {
    let ttl = record.lease_ttl.min(rules.timing.lease_ttl);
    record.confirmed_at.plus(ttl).minus(rules.timing.clock_margin)
}

/// Judges a lease write that is about to be applied over `standing`.
pub(crate) fn judge_lease_write(
    world: &mut World,
    purpose: Purpose,
    standing: Option<&LeaseRecord>,
    next: &LeaseRecord,
) {
    let Purpose::Acquire(how) = purpose else { return };
    let Some(standing) = standing else { return };
    if how == AcquiredAs::Seized {
        for who in 0..world.hosts.len() {
            let now = world.reading(who, Duration::ZERO).wall;
            let belief = world.hosts[who].belief;
            if let Some((token, until)) = belief.filter(|(token, until)| *token == standing.token && *until > now) {
                world.breach(SEIZED_TOO_EARLY, format!("instance {who} holds token {token} until {until}, at {now}"));
            }
        }
    }
    let released = standing.released.as_ref().filter(|released| Some(&released.by) == next.owner.as_ref());
    if let Some(released) = released.filter(|released| next.confirmed_at < released.at.plus(next.lease_ttl)) {
        world.breach(NO_ABSTENTION, format!("{} released at {} and took it back", released.by, released.at));
    }
    let told = next.last_release.as_ref().map(|last| (&last.by, last.token, last.reason));
    if told != standing.released.as_ref().map(|released| (&released.by, standing.token, released.reason)) {
        world.breach(RELEASE_FORGOTTEN, format!("{told:?} follows {:?} under {}", standing.released, standing.token));
    }
}

/// Judges the start of a page's sends, which follows from a read of the lease and of the tombstones in this very step.
pub(crate) fn judge_sends(world: &mut World, rules: &Rules, token: FencingToken, send: &[ClaimedRow], now: Timestamp) {
    if let Some(claimed) = send.iter().find(|claimed| world.committed.contains(claimed.row.id())) {
        world.breach(SENT_AGAIN, format!("{} by {}, which has just read the tombstones", claimed.row.key, rules.me));
    }
    let may = world.store.lease.present().is_some_and(|record| {
        record.is_owned_by(&rules.me)
            && record.token == token
            && record.stepping_down.is_none()
            && now < deadline(rules, record)
    });
    if !may {
        world.breach(SENT_UNPERMITTED, format!("{} under token {token} at {now}", rules.me));
    }
}

/// Judges what a tick says of itself at `now`, the later of its clocks.
pub(crate) fn judge_standing(world: &mut World, rules: &Rules, conclusion: &Conclusion, now: Timestamp) {
    let Standing::Holder { token, .. } = conclusion.standing else { return };
    let says_so = match &conclusion.record {
        Slot::Present(record) => {
            let until = deadline(rules, record);
            record.owner.as_ref() == Some(&rules.me)
                && record.token == token
                && now < until
                && conclusion.deadline.is_some_and(|deadline| deadline <= until)
        }
        Slot::Absent | Slot::Damaged(_) => false,
    };
    if !says_so {
        world.breach(HOLDER_TOO_LONG, format!("{} at {now}: {:?}", rules.me, conclusion.record));
    }
}

/// Is a namesake's generation part of this evidence?
pub(crate) fn counts_a_namesake(memory: &Memory) -> bool {
    memory.evidence.as_ref().is_some_and(|evidence| evidence.of.namesake_generation.is_some())
}
