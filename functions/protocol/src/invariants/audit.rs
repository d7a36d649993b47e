//! The judge: takes observations one by one and collects violations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::order::Order;
use super::vacancy::Vacancy;
use super::{Invariant, Observation, Violation};
use crate::ids::{FencingToken, Identity, MessageId, PayloadDigest, RowKey, Stamp};
use crate::time::Timestamp;

/// What the judge must know beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AuditTerms {
    /// Is the destination a FIFO queue (I9)?
    pub ordered: bool,
    /// The bound of P6 or P7 (I10); `None`: not judged.
    pub vacancy_max: Option<Duration>,
}

/// How a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Outstanding,
    Committed,
    Dead,
    Purged,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    digest: PayloadDigest,
    stamp: Stamp,
    state: State,
    ordering_key: String,
}

/// Numbers of a run of which only rows and counters are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Conservation {
    /// Messages that ingest stored.
    pub ingested: u64,
    /// Rows committed.
    pub committed: u64,
    /// Dead records, phantoms left out.
    pub dead: u64,
    /// Rows still outstanding.
    pub outstanding: u64,
    /// Dead records purged, phantoms left out.
    pub purged: u64,
}

impl Conservation {
    /// I5 from numbers alone.
    pub fn violation(&self) -> Option<Violation> {
        let Conservation { ingested, committed, dead, outstanding, purged } = *self;
        let sum = u128::from(committed) + u128::from(dead) + u128::from(outstanding) + u128::from(purged);
        (u128::from(ingested) != sum).then(|| {
            let right =
                format!("{committed} committed + {dead} dead + {outstanding} outstanding + {purged} purged = {sum}");
            Violation::new(Invariant::I5, format!("{ingested} ingested, but {right}"))
        })
    }
}

/// Judges a history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Audit {
    terms: AuditTerms,
    highest: Option<FencingToken>,
    owners: BTreeMap<FencingToken, Identity>,
    rows: BTreeMap<RowKey, Row>,
    accepted: BTreeSet<(MessageId, PayloadDigest)>,
    /// Only where order is kept.
    order: Option<Order>,
    vacancy: Vacancy,
    violations: Vec<Violation>,
}

impl Audit {
    /// A judge who has seen nothing.
    pub fn new(terms: AuditTerms) -> Self {
        Self {
            terms,
            highest: None,
            owners: BTreeMap::new(),
            rows: BTreeMap::new(),
            accepted: BTreeSet::new(),
            order: terms.ordered.then(Order::default),
            vacancy: Vacancy::new(terms.vacancy_max),
            violations: Vec::new(),
        }
    }

    /// What was broken so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// First sends that came after one of a later row of their key: counted, not forbidden (an asynchronous invocation before
    /// the outbox may overtake another). None are seen where the destination keeps no order.
    pub fn inversions(&self) -> u64 {
        self.order.as_ref().map_or(0, Order::inversions)
    }

    fn in_order(&mut self, watch: impl FnOnce(&mut Order)) {
        if let Some(order) = &mut self.order {
            watch(order);
        }
    }

    /// The numbers of the rows that were observed.
    pub fn conservation(&self) -> Conservation {
        let count =
            |state| u64::try_from(self.rows.values().filter(|row| row.state == state).count()).unwrap_or(u64::MAX);
        Conservation {
            ingested: u64::try_from(self.rows.len()).unwrap_or(u64::MAX),
            committed: count(State::Committed),
            dead: count(State::Dead),
            outstanding: count(State::Outstanding),
            purged: count(State::Purged),
        }
    }

    /// Takes the next observation.
    pub fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Acquired { token, owner } => self.acquired(token, owner),
            Observation::Ingested { key, digest, stamp, ordering_key } => {
                self.in_order(|order| order.stored(&ordering_key, &key));
                self.rows.insert(key, Row { digest, stamp, state: State::Outstanding, ordering_key });
            }
            Observation::PageRead { claim, pass, after, .. } => {
                self.in_order(|order| order.page_read(claim, pass, after));
            }
            Observation::Claimed { key, claim, token, decided_at, deadline } => {
                self.in_time("claim", &key, decided_at, deadline);
                self.in_order(|order| order.claimed(claim));
                if let Some(row) = self.rows.get_mut(&key) {
                    row.stamp = row.stamp.max(token.into());
                }
            }
            Observation::SendStarted { key, claim, decided_at, ends_by, deadline } => {
                self.in_time("send", &key, decided_at.max(ends_by), deadline);
                if let (Some(row), Some(order)) = (self.rows.get(&key), &mut self.order) {
                    let overtaken = order.send_started(&row.ordering_key, &key, &claim);
                    self.violations.extend(overtaken.map(|earlier| {
                        Violation::new(
                            Invariant::I9,
                            format!("{key} was sent while {earlier} of its key was outstanding"),
                        )
                    }));
                }
            }
            Observation::Accepted { id, digest } => {
                self.in_order(|order| order.accepted(&id));
                self.accepted.insert((id, digest));
            }
            Observation::Committed { key, token } => self.committed(key, token),
            Observation::Died { key } => self.moved(&key, State::Outstanding, State::Dead, "died"),
            Observation::Redriven { key, stamp } => {
                // The put of a redrive may arrive after another redrive's row was delivered. That double of a delivered record
                // is ended by its tombstone; whether it is sent again is a matter of P2, which whoever sees the reads of
                // tombstones judges.
                let from = match self.rows.get(&key) {
                    Some(row) if row.state == State::Committed => State::Committed,
                    _ => State::Dead,
                };
                self.moved(&key, from, State::Outstanding, "was redriven");
                if let Some(row) = self.rows.get_mut(&key) {
                    row.stamp = row.stamp.max(stamp);
                    if let Some(order) = &mut self.order {
                        order.stored(&row.ordering_key, &key);
                    }
                }
            }
            Observation::Purged { key } => self.moved(&key, State::Dead, State::Purged, "was purged"),
            Observation::Stored { record, carries_expiry } => {
                if carries_expiry {
                    self.violations.push(Violation::new(Invariant::I8, format!("{record} carries expires_at")));
                }
            }
            Observation::Leading { at, somebody } => self.violations.extend(self.vacancy.leading(at, somebody)),
            Observation::Able { at, able } => self.violations.extend(self.vacancy.able(at, able)),
        }
    }

    fn acquired(&mut self, token: FencingToken, owner: Identity) {
        if let Some(highest) = self.highest.filter(|highest| token <= *highest) {
            let what = format!("{owner} acquired token {token} after token {highest}");
            self.violations.push(Violation::new(Invariant::I1, what));
        }
        self.highest = self.highest.max(Some(token));
        match self.owners.get(&token) {
            Some(other) if *other != owner => {
                let what = format!("token {token} was given to {other} and to {owner}");
                self.violations.push(Violation::new(Invariant::I2, what));
            }
            Some(_) | None => {
                self.owners.insert(token, owner);
            }
        }
    }

    fn in_time(&mut self, what: &str, key: &RowKey, at: Timestamp, deadline: Timestamp) {
        if at > deadline {
            let late_ms = at.since(deadline).as_millis();
            self.violations
                .push(Violation::new(Invariant::I7, format!("a {what} of {key} ran {late_ms}ms past the deadline")));
        }
    }

    fn committed(&mut self, key: RowKey, token: FencingToken) {
        let Some(row) = self.rows.get_mut(&key) else {
            self.violations.push(Violation::new(Invariant::I5, format!("{key} was committed and never ingested")));
            return;
        };
        match row.state {
            State::Outstanding => row.state = State::Committed,
            State::Committed => {
                self.violations.push(Violation::new(Invariant::I3, format!("{key} was committed twice")));
            }
            State::Dead | State::Purged => {
                let what = format!("{key} was committed after it had died");
                self.violations.push(Violation::new(Invariant::I5, what));
            }
        }
        if row.stamp.is_above(token) {
            let what = format!("{key} was committed under token {token}; the row bore {}", row.stamp);
            self.violations.push(Violation::new(Invariant::I6, what));
        }
        if !self.accepted.contains(&(key.position.id().clone(), row.digest.clone())) {
            let what = format!("{key} was committed and the queue never accepted it");
            self.violations.push(Violation::new(Invariant::I4, what));
        }
        if let Some(order) = &mut self.order {
            order.ended(&row.ordering_key, &key);
        }
    }

    fn moved(&mut self, key: &RowKey, from: State, to: State, verb: &str) {
        match self.rows.get_mut(key) {
            Some(row) if row.state == from => {
                row.state = to;
                if from == State::Outstanding
                    && let Some(order) = &mut self.order
                {
                    order.ended(&row.ordering_key, key);
                }
            }
            Some(row) => {
                let what = format!("{key} {verb} while it was {:?}", row.state);
                self.violations.push(Violation::new(Invariant::I5, what));
            }
            None => self.violations.push(Violation::new(Invariant::I5, format!("{key} {verb} and was never ingested"))),
        }
    }

    /// Ends the history at `at` (the world's time, for I10) and compares it with what the store holds: the `outstanding` rows
    /// and the `dead` ones. A dead row beside a live or committed record is a phantom and stands for nothing.
    pub fn finish(mut self, at: Timestamp, outstanding: &[RowKey], dead: &[RowKey]) -> Vec<Violation> {
        self.violations.extend(self.vacancy.end(at));
        let outstanding: BTreeSet<&RowKey> = outstanding.iter().collect();
        let dead: BTreeSet<&RowKey> = dead.iter().collect();
        for (key, row) in &self.rows {
            let (is_outstanding, is_dead) = (outstanding.contains(key), dead.contains(key));
            let problem = match row.state {
                State::Outstanding if !is_outstanding => Some("was ingested and is nowhere: lost"),
                State::Dead if !is_dead => Some("died and no dead record stands: lost"),
                State::Committed if is_outstanding => Some("was committed and is outstanding again"),
                State::Dead | State::Purged if is_outstanding => {
                    Some("died and is outstanding again, without a redrive")
                }
                State::Outstanding | State::Committed | State::Dead | State::Purged => None,
            };
            self.violations.extend(problem.map(|problem| Violation::new(Invariant::I5, format!("{key} {problem}"))));
        }
        for key in outstanding.union(&dead).filter(|key| !self.rows.contains_key(**key)) {
            self.violations
                .push(Violation::new(Invariant::I5, format!("{key} stands in the store and was never ingested")));
        }
        self.violations
    }
}
