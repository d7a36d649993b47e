//! Step 5: which entries travel in which request.
//!
//! Guarantees: at most ten entries and the queue's size limit a request, measured after encoding and with attributes; where
//! the destination keeps order, one entry of a key in all requests that are under way, and the next one only after the
//! first was accepted. What is never taken for a batch comes out of [`Sending::rest`].

use std::collections::{BTreeMap, VecDeque};

use crate::body::{QueueEntry, encode};
use crate::drain::{Burial, CallTerms, ClaimedRow, HandBack, Notes, last_error};
use crate::limits;
use crate::outbox::{DeadRow, DeathReason};
use crate::time::Timestamp;

/// A row and its entry, ready to travel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Prepared {
    load: Load,
    entry: QueueEntry,
}

/// A row on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Load {
    pub(crate) claimed: ClaimedRow,
    lane: usize,
    /// The request that it was part of was invalid as a whole: it travels by itself.
    pub(crate) by_itself: bool,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Batch {
    /// What the queue gets.
    pub entries: Vec<QueueEntry>,
    pub(crate) loads: Vec<Load>,
}

/// Rows of one key in order; without an order to keep, each row has a lane of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lane {
    waiting: VecDeque<Prepared>,
    /// May its first row be sent?
    open: bool,
    /// A row of it is to be buried, and later ones must not overtake that.
    ends: bool,
}

/// The sends of a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sending {
    lanes: Vec<Lane>,
    stranded: Vec<ClaimedRow>,
    is_down: bool,
    request_bytes_max: usize,
    pub(crate) accepted: u64,
    pub(crate) invalid_alone: u64,
}

impl Sending {
    /// Encodes the rows. One that is over the size limit by our own measure is to be buried at once, and the others flow.
    pub fn new(rows: Vec<ClaimedRow>, terms: &CallTerms, now: Timestamp, notes: &mut Notes) -> (Self, Vec<Burial>) {
        let policy = &terms.policy;
        let mut sending = Self {
            lanes: Vec::new(),
            stranded: Vec::new(),
            is_down: false,
            request_bytes_max: policy.request_bytes_max,
            accepted: 0,
            invalid_alone: 0,
        };
        let mut burials = Vec::new();
        let mut lane_of_key: BTreeMap<String, usize> = BTreeMap::new();
        for claimed in rows {
            let lane = if policy.ordered {
                let key = claimed.row.ordering_key().to_owned();
                *lane_of_key.entry(key).or_insert_with(|| sending.add_lane())
            } else {
                sending.add_lane()
            };
            let entry = encode(&claimed.row, claimed.token, policy.body_format, policy.ordered);
            let size_bytes = entry.size_bytes();
            if size_bytes > policy.request_bytes_max {
                notes.counts.refused += 1;
                notes.blocked.block(claimed.row.ordering_key());
                sending.end(lane);
                burials.push(bury_oversize(claimed, size_bytes, policy.request_bytes_max, now));
            } else {
                sending.enqueue(Prepared { load: Load { claimed, lane, by_itself: false }, entry });
            }
        }
        (sending, burials)
    }

    fn add_lane(&mut self) -> usize {
        self.lanes.push(Lane { waiting: VecDeque::new(), open: true, ends: false });
        self.lanes.len() - 1
    }

    fn end(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.ends = true;
        }
    }

    fn enqueue(&mut self, prepared: Prepared) {
        match self.lanes.get_mut(prepared.load.lane) {
            Some(lane) if !lane.ends => lane.waiting.push_back(prepared),
            Some(_) | None => self.stranded.push(prepared.load.claimed),
        }
    }

    /// The requests that may be under way together now; none when all is sent or waits in vain. The next wave is asked for
    /// when every request of this one is answered ([`Sending::answered`]) or was held back ([`Sending::hold`]).
    pub fn wave(&mut self) -> Vec<Batch> {
        if self.is_down {
            return Vec::new();
        }
        let ready: Vec<Prepared> =
            self.lanes.iter_mut().filter(|lane| lane.open).filter_map(|lane| lane.waiting.pop_front()).collect();
        pack(ready, self.request_bytes_max)
    }

    /// Puts a batch back that was not sent after all: [`crate::drain::may_send`] said no. Nothing of its keys is sent any more.
    pub fn hold(&mut self, batch: Batch) {
        self.put_back(batch, false);
    }

    /// Puts a batch that was certainly not sent back in front of its lanes, closed or to be sent one by one.
    pub(crate) fn put_back(&mut self, batch: Batch, one_by_one: bool) {
        for (mut load, entry) in batch.loads.into_iter().zip(batch.entries) {
            load.by_itself |= one_by_one;
            if let Some(lane) = self.lanes.get_mut(load.lane) {
                lane.open = one_by_one;
                lane.waiting.push_front(Prepared { load, entry });
            }
        }
    }

    /// Nothing more of this row's key may be sent.
    pub(crate) fn close(&mut self, load: &Load) {
        if let Some(lane) = self.lanes.get_mut(load.lane) {
            lane.open = false;
        }
    }

    /// The queue is down: no further wave.
    pub(crate) fn close_all(&mut self) {
        self.is_down = true;
    }

    /// Everything that was not sent, to be handed back.
    pub fn rest(self, notes: &mut Notes) -> Vec<HandBack> {
        let waiting = self.lanes.into_iter().flat_map(|lane| lane.waiting).map(|prepared| prepared.load.claimed);
        waiting
            .chain(self.stranded)
            .map(|claimed| {
                notes.blocked.block(claimed.row.ordering_key());
                claimed.hand_back()
            })
            .collect()
    }
}

/// Packs entries into requests, in order. Each gets its number inside its request as entry id.
fn pack(ready: Vec<Prepared>, request_bytes_max: usize) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut open_bytes = 0;
    let mut open_for_more = false;
    for Prepared { load, mut entry } in ready {
        let size_bytes = entry.size_bytes();
        let alone = load.by_itself;
        let fits = open_for_more && !alone && open_bytes + size_bytes <= request_bytes_max;
        if !fits || batches.last().is_none_or(|batch| batch.entries.len() >= limits::QUEUE_BATCH_ENTRIES_MAX) {
            batches.push(Batch { entries: Vec::new(), loads: Vec::new() });
            open_bytes = 0;
        }
        open_bytes += size_bytes;
        open_for_more = !alone;
        if let Some(batch) = batches.last_mut() {
            entry.entry_id = batch.entries.len().to_string();
            batch.entries.push(entry);
            batch.loads.push(load);
        }
    }
    batches
}

fn bury_oversize(claimed: ClaimedRow, size_bytes: usize, max_bytes: usize, died_at: Timestamp) -> Burial {
    let mut row = claimed.row;
    row.last_error =
        Some(last_error(&format!("measures {size_bytes} bytes as a queue message; at most {max_bytes} fit")));
    let (seen, seen_stamp) = (row.status.clone(), row.stamp);
    Burial { dead: DeadRow { row, reason: DeathReason::Oversize, died_at }, seen, seen_stamp }
}
