//! What a model must have come across. Each end is noted by the step that reaches it: it is something that happened, so it
//! need not be a part of the state, which would only grow by it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the ends with their words.
macro_rules! ends {
    ($($(#[$doc:meta])* $end:ident => $words:literal,)*) => {
        /// Something that a step did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum End {
            $($(#[$doc])* $end,)*
        }

        impl End {
            /// In words.
            pub(crate) const fn words(self) -> &'static str {
                match self {
                    $(End::$end => $words,)*
                }
            }
        }

        const ALL: &[End] = &[$(End::$end),*];
    };
}

ends! {
    Takeover => "takeover",
    TakeoverByPatience => "abandoned step-down finished by the TTL",
    OwnDeadline => "own-deadline demotion",
    DemotedUnread => "demotion without a readable store",
    Reacquired => "re-acquired with token + 1 after the own deadline",
    TakenUp => "acquisition whose reply was lost, taken up by a later tick",
    KeptByReading => "failed renewal, holder by one more read",
    DemotedByFailure => "demotion by a failed renewal",
    RefusedWrite => "lease write refused by a newer version",
    LateWriteRefused => "late lease write refused",
    LateRelease => "late release refused",
    FenceRefused => "fence raised by another first",
    EvidenceForgotten => "instance record not written",
    EvidenceDiscarded => "evidence of the losing tick discarded",
    Released => "release by the tick",
    ReleasedAtOnce => "release in the write of the command",
    FollowedAtOnce => "release found by its releaser beneath the successor's acquisition",
    Abstention => "abstention",
    Resumed => "abstention ended by resume",
    MarkTakenBack => "step-down taken back",
    NamesakeWaits => "abstention before a living namesake",
    NamesakeSeized => "dead namesake's lease seized",
    AboveTheFence => "acquired above the fence where no row stood",
    DamageRefused => "damaged row refused",
    ClaimFound => "lost reply of a claim taken as own success",
    ClaimConflict => "claim refused",
    CommitFound => "lost reply of a commit taken as own success",
    Committed => "commit",
    Fenced => "fenced commit",
    StaleReclaim => "stale re-claim",
    HandedBack => "hand-back of what was not sent",
    Kept => "claim kept: the outcome of the send is unknown",
    Proven => "commit by tombstone, without a send",
    DuplicateRisk => "second send counted",
    NotPermitted => "claimed, then no longer permitted",
    FormerHolder => "former holder stops quietly",
    TooLate => "send not started: too late",
    Died => "record dies",
    Redriven => "record redriven",
    Phantom => "phantom left alone",
    LateRedrive => "dead row left: it is a later one",
    Duplicate => "message delivered twice, one row",
    KeyBlocked => "row held behind an earlier one of its key",
}

/// The ends that were reached, by whichever worker.
#[derive(Debug, Default)]
pub(crate) struct Reached(AtomicU64);

impl Reached {
    /// Notes `end`.
    pub(crate) fn note(&self, end: End) {
        self.0.fetch_or(bit(end), Ordering::Relaxed);
    }

    /// Was `end` reached?
    pub(crate) fn has(&self, end: End) -> bool {
        self.0.load(Ordering::Relaxed) & bit(end) != 0
    }

    /// All that were.
    pub(crate) fn all(&self) -> Vec<End> {
        ALL.iter().copied().filter(|end| self.has(*end)).collect()
    }
}

const fn bit(end: End) -> u64 {
    1 << (end as u64)
}
