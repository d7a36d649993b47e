//! Which request meets which fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Arrived, Fault};
use crate::chance::Chance;

/// Which requests are meant.
#[derive(Debug, Clone, Default)]
pub struct Match {
    operation: Option<String>,
    containing: Option<String>,
}

impl Match {
    /// Every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Those whose `X-Amz-Target` ends in `.operation`, for example `UpdateItem` or `SendMessageBatch`.
    #[must_use]
    pub fn operation(operation: &str) -> Self {
        Self { operation: Some(operation.to_owned()), containing: None }
    }

    /// Of those, the ones whose body contains `text`: a table's name, a key, `DELETE FROM`.
    #[must_use]
    pub fn containing(self, text: &str) -> Self {
        Self { containing: Some(text.to_owned()), ..self }
    }

    fn meets(&self, request: &Arrived) -> bool {
        let operation = self.operation.as_ref().is_none_or(|operation| *operation == request.operation);
        let contains = |text: &String| request.body.windows(text.len().max(1)).any(|part| part == text.as_bytes());
        operation && self.containing.as_ref().is_none_or(contains)
    }
}

/// Which of the requests that match, counted from the placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// The n-th only; the first is 1.
    Nth(u64),
    /// The first n.
    First(u64),
    /// All, until the faults are cleared.
    Always,
}

impl Times {
    const fn covers(self, number: u64) -> bool {
        match self {
            Self::Nth(only) => number == only,
            Self::First(last) => number <= last,
            Self::Always => true,
        }
    }
}

/// A placed fault, to be asked later.
#[derive(Debug, Clone)]
pub struct Placement(Arc<AtomicU64>);

impl Placement {
    /// How many requests it has met so far.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Placed {
    matching: Match,
    times: Times,
    fault: Fault,
    matched: u64,
    hits: Arc<AtomicU64>,
}

/// Everything that is planned for a proxy.
#[derive(Debug, Default)]
pub(super) struct Plan {
    placed: Vec<Placed>,
    rates: Vec<(Fault, u32)>,
    dice: Chance,
}

impl Plan {
    pub(super) fn place(&mut self, matching: Match, times: Times, fault: Fault) -> Placement {
        let hits = Arc::new(AtomicU64::new(0));
        self.placed.push(Placed { matching, times, fault, matched: 0, hits: Arc::clone(&hits) });
        Placement(hits)
    }

    pub(super) fn set_rates(&mut self, seed: u64, rates: &[(Fault, u32)]) {
        self.rates = rates.to_vec();
        self.dice = Chance::new(seed);
    }

    /// The fault of the request that arrives now.
    pub(super) fn choose(&mut self, request: &Arrived) -> Option<Fault> {
        let mut chosen = None;
        for placed in &mut self.placed {
            if !placed.matching.meets(request) {
                continue;
            }
            // Each counts for itself, also where another one takes the request.
            placed.matched += 1;
            if chosen.is_none() && placed.times.covers(placed.matched) {
                placed.hits.fetch_add(1, Ordering::SeqCst);
                chosen = Some(placed.fault.clone());
            }
        }
        let mut thrown = self.dice.below(1_000);
        let by_rate = self.rates.iter().find(|(_, rate)| {
            let hit = thrown < u64::from(*rate);
            thrown = thrown.saturating_sub(u64::from(*rate));
            hit
        });
        chosen.or_else(|| by_rate.map(|(fault, _)| fault.clone()))
    }
}
