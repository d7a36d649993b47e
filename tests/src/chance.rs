//! Chance from one root seed, for everything here that is left to chance: simulated runs, spoilt traffic, the crash test.
//!
//! A stream belongs to what it is keyed by, never to who asked first, so that one thing left out
//! changes nothing else.

/// A stream of numbers (SplitMix64).
#[derive(Debug, Clone, Default)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream that `parts` name under `seed`.
    pub fn keyed(seed: u64, parts: &[u64]) -> Self {
        let mut state = mix(seed);
        for part in parts {
            state = mix(state ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        Self { state }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in `per_mille` of a thousand cases.
    pub fn in_thousand(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of `items`.
    ///
    /// # Panics
    /// Where there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        assert!(!items.is_empty(), "there is nothing to pick from");
        let index = self.below(u64::try_from(items.len()).unwrap_or(u64::MAX));
        &items[usize::try_from(index).unwrap_or(0)]
    }
}

/// One step of SplitMix64: neighbouring inputs give unrelated outputs.
pub(crate) const fn mix(input: u64) -> u64 {
    let a = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

/// A number for a text, the same on every machine (FNV-1a).
pub(crate) fn number_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
