//! What a drain call is asked, what it carries from one call to the next, and what it answers.
//!
//! The cursor is opaque to the state machine: it passes it back unchanged. A pass that begins without one starts at the head
//! of every shard and knows nothing of earlier passes, so nothing is blocked or forgotten for longer than a pass.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::drain::{BlockedKeys, Counts, DrainPolicy, Notes, Stop};
use crate::ids::{ClaimId, FencingToken, Identity, Malformed, MessageId, Position, RowKey, Shard, Stamp};
use crate::limits;
use crate::time::{Timestamp, duration_ms};

/// The upper end of a takeover: a position between all rows received up to a moment and all later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cut(Timestamp);

impl Cut {
    /// The cut just after everything received up to `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(now.min(Timestamp::MAX))
    }

    /// Does `position` lie below it?
    pub fn is_above(&self, position: &Position) -> bool {
        position.received_at() <= self.0
    }
}

impl From<Cut> for String {
    fn from(cut: Cut) -> String {
        // '~' sorts after every character of a message id.
        format!("{:013}#~", cut.0.as_ms())
    }
}

impl TryFrom<String> for Cut {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Self, Malformed> {
        let bad = || Malformed::new("mode.cut", format!("must be <13 digits>#~, as a plan gives it; it is {text:?}"));
        let digits = text.strip_suffix("#~").ok_or_else(bad)?;
        if digits.len() != 13 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        Ok(Self(Timestamp::from_ms(digits.parse().map_err(|_| bad())?)))
    }
}

/// Which rows a call may take.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Mode {
    /// Every due one.
    Scheduled,
    /// Orphans only: below the cut, and stamped below the token.
    Takeover {
        /// The token of the takeover.
        token: FencingToken,
        /// Where the takeover began.
        cut: Cut,
    },
}

/// A claim that somebody else holds: reported, waited for, and then passed back as settled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unsettled {
    /// The oldest row seen under it.
    #[serde(flatten)]
    pub key: RowKey,
    /// The claim.
    pub claim: ClaimId,
    /// The token it was made under.
    pub token: Stamp,
}

/// A claim that outlived the wait. One claim id stands for a page of rows, and all of them are settled with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SettledClaim {
    /// Where it was seen.
    #[serde(flatten)]
    pub key: RowKey,
    /// The claim.
    pub claim: ClaimId,
}

/// A record whose claims went stale too often: it is claimed in a call of its own, so that one that kills the drainer takes
/// no neighbours along. Passed back whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Alone {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// The claim that was settled when the row was reported; `None` where it was free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimId>,
}

/// Records reported as [`Alone`] by one pass over a group.
pub const ALONE_MAX: usize = 10;

/// The fields of the `drain` command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// The shards of the group.
    pub shards: Vec<Shard>,
    /// Which rows.
    pub mode: Mode,
    /// Where the earlier call ended.
    #[serde(default)]
    pub cursor: Option<Cursor>,
    /// Claims that outlived the wait.
    #[serde(default)]
    pub settled: Vec<SettledClaim>,
    /// The one row that this call is for.
    #[serde(default)]
    pub alone: Option<Alone>,
}

/// What a pass carries from one call to the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Cursor {
    shards: Vec<ShardCursor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unsettled: Vec<Unsettled>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alone: Vec<Alone>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    again_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ShardCursor {
    shard: Shard,
    after: Option<Position>,
    done: bool,
    blocked: BlockedKeys,
}

/// What holds for a whole call; shared by its shards.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallTerms {
    /// Who drains.
    pub me: Identity,
    /// By which settings.
    pub policy: DrainPolicy,
    /// Which rows.
    pub mode: Mode,
    pub(crate) settled: BTreeSet<ClaimId>,
    pub(crate) alone: Option<Alone>,
    carried_unsettled: Vec<Unsettled>,
    carried_alone: Vec<Alone>,
    carried_again_at: Option<Timestamp>,
}

/// How far a pass has come in one shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardState {
    /// The shard.
    pub shard: Shard,
    /// The next page begins after this position.
    pub after: Option<Position>,
    /// Nothing more is to be seen here.
    pub done: bool,
    /// What happened so far in this call.
    pub counts: Counts,
    /// Why work ended before the shard's end.
    pub stop: Option<Stop>,
    pub(crate) blocked: BlockedKeys,
    pub(crate) unsettled: Vec<Unsettled>,
    pub(crate) alone: Vec<Alone>,
    /// When a row that this call saw and left is due.
    pub(crate) due_at: Option<Timestamp>,
    /// The claims that this call makes.
    pub(crate) own_claims: Vec<ClaimId>,
}

impl ShardState {
    /// Takes back what a page learned. In an ordered pass the next page is chosen only after this: until then every key of
    /// the shard counts as blocked.
    pub fn absorb(&mut self, notes: Notes) {
        self.counts.add(&notes.counts);
        self.blocked = notes.blocked;
        if self.stop.as_ref().is_none_or(|stop| !stop.ends_call()) {
            self.stop = notes.stop;
        }
    }

    /// For how long a new pass should be put off that takes what this one has left, where it has left any.
    fn pause_before_next_pass(&self) -> Option<Duration> {
        match &self.stop {
            Some(Stop::Queue(_) | Stop::Store(_) | Stop::NotPermitted(_)) => Some(AGAIN_AFTER_FAILURE),
            Some(_) => Some(AGAIN_SOON),
            None => (self.counts.handed_back > 0).then_some(AGAIN_SOON),
        }
    }

    /// Is there another page to take in this call?
    pub fn goes_on(&self) -> bool {
        !self.done && !self.stop.as_ref().is_some_and(Stop::ends_call)
    }
}

impl DrainRequest {
    /// A scheduled pass from the head of `shards`: what a stream batch asks for, and enough for a plan's permit (no shards).
    pub fn scheduled(shards: Vec<Shard>) -> Self {
        Self { shards, mode: Mode::Scheduled, cursor: None, settled: Vec::new(), alone: None }
    }

    /// The call's terms and its shards where the cursor left them.
    ///
    /// # Errors
    /// [`Malformed`] where a cursor or a lone row does not belong to the shards of the request.
    pub fn start(self, me: Identity, policy: DrainPolicy) -> Result<(CallTerms, Vec<ShardState>), Malformed> {
        let ordered = policy.ordered;
        let cursor = self.cursor.unwrap_or_default();
        if let Some(stray) = cursor.shards.iter().find(|entry| !self.shards.contains(&entry.shard)) {
            return Err(Malformed::new(
                "cursor",
                format!("is of shard {}, which the request does not name", stray.shard),
            ));
        }
        if let Some(alone) = self.alone.as_ref().filter(|alone| !self.shards.contains(&alone.key.shard)) {
            return Err(Malformed::new(
                "alone.shard",
                format!("{} is not among the request's shards", alone.key.shard),
            ));
        }
        let mut shards = Vec::with_capacity(self.shards.len());
        for shard in self.shards {
            let known = cursor.shards.iter().find(|entry| entry.shard == shard).cloned();
            shards.push(match known {
                Some(entry) => ShardState::new(shard, entry.after, entry.done, entry.blocked.for_destination(ordered)),
                None => ShardState::fresh(shard, self.alone.as_ref(), ordered),
            });
        }
        let settled = self.settled.into_iter().map(|settled| settled.claim).take(limits::SETTLED_IDS_MAX).collect();
        let terms = CallTerms {
            me,
            policy,
            mode: self.mode,
            settled,
            alone: self.alone,
            carried_unsettled: cursor.unsettled,
            carried_alone: cursor.alone,
            carried_again_at: cursor.again_at,
        };
        Ok((terms, shards))
    }
}

impl ShardState {
    fn new(shard: Shard, after: Option<Position>, done: bool, blocked: BlockedKeys) -> Self {
        Self {
            shard,
            after,
            done,
            counts: Counts::default(),
            stop: None,
            blocked,
            unsettled: Vec::new(),
            alone: Vec::new(),
            due_at: None,
            own_claims: Vec::new(),
        }
    }

    /// The head of the shard; for a lone row only its own shard, and without an order to keep only its own millisecond.
    fn fresh(shard: Shard, alone: Option<&Alone>, ordered: bool) -> Self {
        let (after, done) = match alone {
            None => (None, false),
            Some(alone) if alone.key.shard != shard => (None, true),
            Some(_) if ordered => (None, false),
            Some(alone) => (end_of_millisecond_before(&alone.key.position), false),
        };
        Self::new(shard, after, done, BlockedKeys::none(ordered))
    }
}

/// A position that no row of the millisecond of `position` or later precedes.
fn end_of_millisecond_before(position: &Position) -> Option<Position> {
    let before = position.received_at().as_ms().checked_sub(1)?;
    let highest = MessageId::new("z".repeat(limits::MESSAGE_ID_CHARS_MAX)).ok()?;
    Position::new(Timestamp::from_ms(before), highest).ok()
}

/// The answer of the `drain` command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DrainAnswer {
    /// Nothing more that this mode can take now.
    pub done: bool,
    /// Does this instance still lead?
    pub leading: bool,
    /// To be passed back; `None` when done.
    pub cursor: Option<Cursor>,
    /// Claims of others over the whole pass so far: at most [`limits::SETTLED_IDS_MAX`], oldest first.
    pub unsettled: Vec<Unsettled>,
    /// Rows for calls of their own, over the whole pass so far: at most [`ALONE_MAX`], oldest first.
    pub alone: Vec<Alone>,
    /// What this call did.
    pub counts: Counts,
    /// Why it ended before the end of its shards: the stable name of a [`Stop`].
    pub stopped_by: Option<String>,
    /// A pass that is done has left rows behind which a new pass could take after so many seconds: handed back, in
    /// back-off, or not reached. `None`: nothing is known to wait, or the pass goes on by its cursor.
    pub again_after_seconds: Option<u64>,
    /// The claims that this call made, whatever became of them. Known to the drainer that made them alone, and not told.
    #[serde(skip)]
    pub own_claims: Vec<ClaimId>,
}

/// How soon a pass that left due rows behind begins anew.
const AGAIN_SOON: Duration = Duration::from_secs(1);
/// And where the queue or the store failed: each try claims a page of every shard and hands it back, which is paid for.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(10);

impl DrainAnswer {
    /// The answer of a call that was refused before its first page.
    pub fn refused() -> Self {
        Self {
            done: true,
            leading: false,
            cursor: None,
            unsettled: Vec::new(),
            alone: Vec::new(),
            counts: Counts::default(),
            stopped_by: Some("not_permitted".to_owned()),
            again_after_seconds: None,
            own_claims: Vec::new(),
        }
    }

    /// When a woken drainer should look again inside its own time. Beside what every pass says: where order is kept, a row
    /// behind a claim of somebody else in flight is woken by nothing when that claim ends. `own` are the claims of this pass and
    /// its earlier ones: it hurries for none of them, for what it kept is to age.
    pub fn wake_again_after(&self, ordered: bool, own: &BTreeSet<ClaimId>) -> Option<Duration> {
        let in_flight = self.unsettled.iter().any(|unsettled| !own.contains(&unsettled.claim));
        let behind_a_claim = (ordered && self.leading && in_flight).then_some(AGAIN_SOON);
        let told = self.again_after_seconds.map(Duration::from_secs);
        [told, behind_a_claim].into_iter().flatten().min()
    }

    /// Sums a call up at `now`. Work that a [`Stop`] ended is done for this pass: the next one begins anew.
    pub fn of(terms: CallTerms, shards: Vec<ShardState>, now: Timestamp) -> Self {
        let mut counts = Counts::default();
        let mut unsettled = terms.carried_unsettled;
        let mut alone = terms.carried_alone;
        let mut stop: Option<Stop> = None;
        let mut again_at = terms.carried_again_at;
        for shard in &shards {
            let left = shard.pause_before_next_pass().map(|pause| now.plus(pause));
            again_at = [again_at, left, shard.due_at].into_iter().flatten().min();
            counts.add(&shard.counts);
            unsettled.extend(shard.unsettled.iter().cloned());
            alone.extend(shard.alone.iter().cloned());
            // What says that this instance does not lead outweighs the rest.
            let outweighs = stop.as_ref().is_none_or(|stop| !stop.ends_leading());
            if let Some(new) = shard.stop.as_ref().filter(|stop| stop.ends_call() && outweighs) {
                stop = Some(new.clone());
            }
        }
        let unsettled = oldest_claims(unsettled);
        alone.sort_by(|a, b| (&a.key.position, &a.key.shard).cmp(&(&b.key.position, &b.key.shard)));
        alone.dedup_by(|a, b| a.key == b.key);
        alone.truncate(ALONE_MAX);
        let done = stop.is_some() || shards.iter().all(|shard| shard.done);
        let own_claims = shards.iter().flat_map(|shard| shard.own_claims.iter().cloned()).collect();
        let cursor = (!done).then(|| Cursor {
            shards: shards
                .into_iter()
                .map(|state| ShardCursor {
                    shard: state.shard,
                    after: state.after,
                    done: state.done,
                    blocked: state.blocked,
                })
                .collect(),
            unsettled: unsettled.clone(),
            alone: alone.clone(),
            again_at,
        });
        let leading = !stop.as_ref().is_some_and(Stop::ends_leading);
        let wait = again_at.filter(|_| done && leading).map(|at| at.since(now).max(AGAIN_SOON));
        Self {
            done,
            leading,
            cursor,
            unsettled,
            alone,
            counts,
            stopped_by: stop.map(|stop| stop.as_str().to_owned()),
            again_after_seconds: wait.map(|wait| duration_ms(wait).div_ceil(1000)),
            own_claims,
        }
    }
}

/// One entry for each claim id, its oldest row; the oldest [`limits::SETTLED_IDS_MAX`] of them.
pub(crate) fn oldest_claims(mut claims: Vec<Unsettled>) -> Vec<Unsettled> {
    claims.sort_by(|a, b| (&a.key.position, &a.key.shard).cmp(&(&b.key.position, &b.key.shard)));
    let mut seen = BTreeSet::new();
    claims.retain(|entry| seen.insert(entry.claim.clone()));
    claims.truncate(limits::SETTLED_IDS_MAX);
    claims
}
