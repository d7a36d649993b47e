//! What happened in a run, one line for each thing worth telling, and a digest over every call.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::time::ms;
use crate::chance::mix;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Since the beginning of the run.
    pub at: Duration,
    /// The instance that it happened at or that did it; empty for the world itself.
    pub who: String,
    /// What.
    pub what: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = ms(self.at);
        write!(f, "{:>4}.{:03}s  {:<8} {}", at / 1_000, at % 1_000, self.who, self.what)
    }
}

/// The history of a run.
#[derive(Debug, Clone, Default)]
pub struct History {
    lines: Vec<Line>,
    calls: u64,
    digest: u64,
}

impl History {
    pub(crate) fn tell(&mut self, at: Duration, who: &str, what: String) {
        self.lines.push(Line { at, who: who.to_owned(), what });
    }

    /// Takes a call into the digest: it is too small a thing for a line.
    pub(crate) fn call(&mut self, at: Duration, parts: [u64; 3]) {
        self.calls += 1;
        let at = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        self.digest = parts.into_iter().fold(mix(self.digest ^ at), |digest, part| mix(digest ^ part));
    }

    /// All lines, in order.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// How many calls were made to stores, queue and platform.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// A number over every call, its time and its outcome: two runs are the same where lines and digest are.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// The lines whose text contains `part`.
    pub fn containing<'h>(&'h self, part: &'h str) -> impl Iterator<Item = &'h Line> {
        self.lines.iter().filter(move |line| line.what.contains(part))
    }

    /// The whole history as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, self.calls) == (other.digest, other.calls) && self.lines == other.lines
    }
}
