//! I9: what was visible when, and in which order a key's rows were first sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ClaimId, MessageId, Position, RowKey};

/// The rows of one ordering key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Lane {
    /// Outstanding rows and the moment after which they were visible.
    outstanding: BTreeMap<RowKey, u64>,
    /// The latest position that was ever sent.
    sent_up_to: Option<Position>,
}

/// Watches the order rule. Moments are counted, not timed: each read and each send is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Order {
    moment: u64,
    lanes: BTreeMap<String, Lane>,
    /// Which pass a page belongs to, and how many pages the pass had with it.
    pages: BTreeMap<ClaimId, (ClaimId, usize)>,
    /// The pages of a pass: where each begins and when it was read.
    passes: BTreeMap<ClaimId, Vec<(Option<Position>, u64)>>,
    accepted: BTreeSet<MessageId>,
    sent: BTreeSet<RowKey>,
    inversions: u64,
}

impl Order {
    pub(super) const fn inversions(&self) -> u64 {
        self.inversions
    }

    /// A row stands in the store from now on: later reads see it, and those so far have not.
    pub(super) fn stored(&mut self, ordering_key: &str, key: &RowKey) {
        self.lanes.entry(ordering_key.to_owned()).or_default().outstanding.insert(key.clone(), self.moment);
    }

    /// The strong read that the claims under `claim` come from.
    pub(super) fn page_read(&mut self, claim: ClaimId, pass: ClaimId, after: Option<Position>) {
        self.moment += 1;
        let pages = self.passes.entry(pass.clone()).or_default();
        pages.push((after, self.moment));
        self.pages.insert(claim, (pass, pages.len()));
    }

    /// A claim; where its page's read was not observed, everything was read now at the latest.
    pub(super) fn claimed(&mut self, claim: ClaimId) {
        if !self.pages.contains_key(&claim) {
            self.page_read(claim.clone(), claim, None);
        }
    }

    /// When the pass that `claim`'s page belongs to read the place `position`.
    fn read_at(&self, claim: &ClaimId, position: &Position) -> u64 {
        let Some((pass, count)) = self.pages.get(claim) else { return self.moment };
        let pages = self.passes.get(pass).map_or(&[][..], Vec::as_slice);
        let covering =
            pages.iter().take(*count).rev().find(|(after, _)| after.as_ref().is_none_or(|after| after < position));
        covering.map_or(0, |(_, moment)| *moment)
    }

    pub(super) fn accepted(&mut self, id: &MessageId) {
        self.accepted.insert(id.clone());
    }

    /// The row is outstanding no more.
    pub(super) fn ended(&mut self, ordering_key: &str, key: &RowKey) {
        if let Some(lane) = self.lanes.get_mut(ordering_key) {
            lane.outstanding.remove(key);
        }
    }

    /// A send. Returns the earlier row that a first send overtook: visible in the read of the sender's page, outstanding, not
    /// accepted.
    pub(super) fn send_started(&mut self, ordering_key: &str, key: &RowKey, claim: &ClaimId) -> Option<RowKey> {
        self.moment += 1;
        if !self.sent.insert(key.clone()) {
            return None;
        }
        let lane = self.lanes.get_mut(ordering_key)?;
        if lane.sent_up_to.as_ref().is_some_and(|latest| *latest > key.position) {
            self.inversions += 1;
        }
        lane.sent_up_to = lane.sent_up_to.take().max(Some(key.position.clone()));
        let lane = self.lanes.get(ordering_key)?;
        let earlier = lane.outstanding.iter().find(|(other, since)| {
            other.shard == key.shard
                && other.position < key.position
                && **since < self.read_at(claim, &other.position)
                && !self.accepted.contains(other.position.id())
        });
        earlier.map(|(other, _)| other.clone())
    }
}
