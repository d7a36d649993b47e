//! May this process drain now? The answer of step 1, and of every later look at the lease.
//!
//! A permit names a token and a deadline; it is never renewed by hope, only by reading the lease again. What must stay out:
//! any comparison with another instance's clock. `confirmed_at` was written by a host of this very instance.

use std::time::Duration;

use crate::drain::{CallTerms, Mode};
use crate::failure::FailureKind;
use crate::ids::{FencingToken, Identity, Stamp};
use crate::lease::{LeaseRecord, deadline, was_set_back};
use crate::outbox::{Damage, Slot};
use crate::time::{Reading, Timestamp};

/// Leave to drain under one token until a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permit {
    token: FencingToken,
    deadline: Timestamp,
    looked_at: Reading,
}

impl Permit {
    /// The token under which everything happens.
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The moment after which nothing may be decided.
    pub const fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The wall time of `now` as far as the deadline is concerned: by whichever clock is further on since the look.
    pub fn clock(&self, now: Reading) -> Timestamp {
        self.looked_at.later_of(now)
    }

    /// Is there still room for a call of `needed` before the deadline?
    pub fn has_room(&self, needed: Duration, now: Reading) -> bool {
        self.clock(now).plus(needed) <= self.deadline
    }

    /// Has the deadline come?
    pub fn is_over(&self, now: Reading) -> bool {
        self.clock(now) >= self.deadline
    }
}

/// Why there is no leave.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotPermitted {
    /// No row, or a released one.
    #[error("nobody holds the lease")]
    Unheld,
    /// Another instance, or another stack of my name, holds it.
    #[error("{0} holds the lease")]
    HeldBy(Identity),
    /// I hold it under another token than the one that this work began under.
    #[error("the lease is held under token {0} by now")]
    OtherToken(FencingToken),
    /// I am giving it up: nothing new begins.
    #[error("the lease is being stepped down from")]
    SteppingDown,
    /// My word has run out.
    #[error("the deadline of the lease has passed")]
    PastDeadline,
    /// The lease was confirmed in my future: my clock was set back and cannot tell the deadline.
    #[error("the lease was confirmed later than this host's clock allows; the clock is behind")]
    ClockBehind,
    /// The row must not be believed.
    #[error("{0}")]
    Damaged(Damage),
    /// The row could not be read.
    #[error("the lease could not be read ({})", .0.as_str())]
    Unreadable(FailureKind),
}

/// Step 1: holder (name and stack), not stepping down, before the deadline, and in a takeover still under its token?
///
/// `now` is read **after** the lease. A lease read less than a second ago will do here.
///
/// # Errors
/// [`NotPermitted`]: return, touching nothing.
pub fn permit(
    lease: Result<&Slot<LeaseRecord>, FailureKind>,
    terms: &CallTerms,
    now: Reading,
) -> Result<Permit, NotPermitted> {
    let permit = look(lease, terms, now)?;
    match &terms.mode {
        Mode::Takeover { token, .. } if *token != permit.token => Err(NotPermitted::OtherToken(permit.token)),
        Mode::Takeover { .. } | Mode::Scheduled => Ok(permit),
    }
}

/// The same look again later in one process, before a further page and in step 4: the token must still be that of `earlier`,
/// and the clock goes on from there, so that a wall clock set back in between makes no deadline later.
///
/// # Errors
/// [`NotPermitted`]: hand back what was not sent.
pub fn permit_again(
    lease: Result<&Slot<LeaseRecord>, FailureKind>,
    earlier: &Permit,
    terms: &CallTerms,
    now: Reading,
) -> Result<Permit, NotPermitted> {
    let permit = look(lease, terms, now)?;
    if permit.token != earlier.token {
        return Err(NotPermitted::OtherToken(permit.token));
    }
    let looked_at = Reading { wall: earlier.clock(now), ..now };
    let permit = Permit { looked_at, ..permit };
    if permit.is_over(now) { Err(NotPermitted::PastDeadline) } else { Ok(permit) }
}

fn look(
    lease: Result<&Slot<LeaseRecord>, FailureKind>,
    terms: &CallTerms,
    now: Reading,
) -> Result<Permit, NotPermitted> {
    let CallTerms { me, policy, .. } = terms;
    let record = match lease.map_err(NotPermitted::Unreadable)? {
        Slot::Absent => return Err(NotPermitted::Unheld),
        Slot::Damaged(damage) => return Err(NotPermitted::Damaged(damage.clone())),
        Slot::Present(record) => record,
    };
    match &record.owner {
        None => return Err(NotPermitted::Unheld),
        Some(owner) if owner != me => return Err(NotPermitted::HeldBy(owner.clone())),
        Some(_) => {}
    }
    if record.stepping_down.is_some() {
        return Err(NotPermitted::SteppingDown);
    }
    if was_set_back(&policy.timing, record.confirmed_at, now.wall) {
        return Err(NotPermitted::ClockBehind);
    }
    let permit = Permit {
        token: record.token,
        deadline: deadline(&policy.timing, record.confirmed_at, record.lease_ttl),
        looked_at: now,
    };
    if permit.is_over(now) { Err(NotPermitted::PastDeadline) } else { Ok(permit) }
}

/// Why work under a permit ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Stop {
    /// The lease is not mine to use any more.
    #[error("{0}")]
    NotPermitted(NotPermitted),
    /// A row bears a token above mine and the lease confirms it: I am a former holder.
    #[error("a later holder's token was seen: this instance is a former holder")]
    FormerHolder,
    /// A row bears a token above mine and the lease does not know it: the lease went back in time.
    #[error("an outbox row bears token {row}, above the lease's; the lease table has gone back in time")]
    TokenRegression {
        /// The row's token.
        row: Stamp,
    },
    /// A send would not end before the deadline.
    #[error("a send would not end before the lease's deadline")]
    TooLate,
    /// The page's claim budget is spent; the next page has its own.
    #[error("the page's claim budget is spent")]
    BudgetSpent,
    /// The queue took a whole request not at all, or perhaps.
    #[error("the queue failed ({})", .0.as_str())]
    Queue(FailureKind),
    /// The store answered no claim of the page, or no tombstone read.
    #[error("the outbox failed ({})", .0.as_str())]
    Store(FailureKind),
}

impl Stop {
    /// The stable name, as it stands in logs and in the drainer's answer.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Stop::NotPermitted(_) => "not_permitted",
            Stop::FormerHolder => "former_holder",
            Stop::TokenRegression { .. } => "token_regression",
            Stop::TooLate => "too_late",
            Stop::BudgetSpent => "budget_spent",
            Stop::Queue(_) => "queue",
            Stop::Store(_) => "store",
        }
    }

    /// Does the whole call end, or only the page?
    pub const fn ends_call(&self) -> bool {
        !matches!(self, Stop::BudgetSpent)
    }

    /// Does it mean that this instance does not lead? A lease that could not be read means only that nobody knows.
    pub const fn ends_leading(&self) -> bool {
        match self {
            Stop::NotPermitted(reason) => !matches!(reason, NotPermitted::Unreadable(_)),
            Stop::FormerHolder | Stop::TokenRegression { .. } => true,
            Stop::TooLate | Stop::BudgetSpent | Stop::Queue(_) | Stop::Store(_) => false,
        }
    }
}

/// A row bears `above`, a token above mine: what does the lease, read again, say?
///
/// At least that token → [`Stop::FormerHolder`], quietly. Lower, or no lease at all → [`Stop::TokenRegression`]: count, alarm.
/// Unreadable → [`Stop::NotPermitted`]. In each case nothing more is claimed.
pub fn tokens_above(lease: Result<&Slot<LeaseRecord>, FailureKind>, above: Stamp) -> Stop {
    match lease {
        Err(kind) => Stop::NotPermitted(NotPermitted::Unreadable(kind)),
        Ok(Slot::Damaged(damage)) => Stop::NotPermitted(NotPermitted::Damaged(damage.clone())),
        Ok(Slot::Present(record)) if !above.is_above(record.token) => Stop::FormerHolder,
        Ok(Slot::Present(_) | Slot::Absent) => Stop::TokenRegression { row: above },
    }
}

/// May the claims of a page start? Asked just before them: reads since the permit may have taken their time.
///
/// # Errors
/// [`Stop::TooLate`] where the claim budget does not fit before the deadline: leave the page as it is.
pub fn may_claim(permit: &Permit, terms: &CallTerms, now: Reading) -> Result<(), Stop> {
    if permit.has_room(terms.policy.timing.claim_budget, now) { Ok(()) } else { Err(Stop::TooLate) }
}

/// May another send request start? Asked before each one after the first of a page.
///
/// # Errors
/// The [`Stop`]: hand back all that was not sent.
pub fn may_send(permit: &Permit, claims_started: Reading, terms: &CallTerms, now: Reading) -> Result<(), Stop> {
    let policy = &terms.policy;
    let spent = claims_started.later_of(now).since(claims_started.wall);
    if spent > policy.timing.claim_budget {
        Err(Stop::BudgetSpent)
    } else if !permit.has_room(policy.timing.send_timeout, now) {
        Err(Stop::TooLate)
    } else {
        Ok(())
    }
}
