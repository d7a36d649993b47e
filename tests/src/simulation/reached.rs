//! What a run must have reached at least once to have tried anything: counters that say so.

use std::collections::BTreeMap;

macro_rules! sometimes {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)*) => {
        /// Something that should happen in some run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Sometimes {
            $($(#[$doc])* $name,)*
        }

        impl Sometimes {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// In words.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

sometimes! {
    /// The lease was seized from a holder that stood still.
    Takeover: "takeover",
    /// A takeover workflow ended well.
    TakeoverCompleted: "takeover completed",
    /// A takeover workflow failed.
    TakeoverFailed: "takeover failed",
    /// A takeover was tried again under a new name.
    TakeoverRetried: "takeover retried",
    /// The lease was released and another instance took it.
    Handover: "handover",
    /// A holder took the lease anew after its own deadline.
    Reclaim: "reclaim",
    /// A renewal came late and was still the same holder's, under the same token.
    RenewedLate: "renewed late, same token",
    /// A step-down was marked while something was in flight.
    StepDownMarked: "step-down marked",
    /// The lease was released.
    Released: "released",
    /// An instance that had released the lease left it alone.
    Abstention: "abstention",
    /// A holder found itself past its own deadline.
    OwnDeadline: "own-deadline demotion",
    /// A holder that could not read its lease demoted itself.
    UnreadableDemotion: "demotion, store unreadable",
    /// A holder found another in its place.
    Superseded: "superseded",
    /// A commit was refused because a successor had touched the row.
    FencedCommit: "fenced commit",
    /// A claim was refused because another had won.
    LostClaim: "lost claim",
    /// A claim that outlived its drainer was taken.
    StaleReclaim: "stale re-claim",
    /// A record with three stale claims was claimed alone.
    ClaimedAlone: "claimed alone",
    /// A claimed row was handed back unsent.
    HandBack: "hand-back",
    /// A claim was kept to age, its outcome unknown.
    KeptToAge: "claim kept to age",
    /// A tombstone proved that a row had been sent; it was committed unsent.
    ProvenBefore: "committed by its tombstone",
    /// A write was answered as own after an earlier try whose reply was lost.
    LostReplyOwn: "lost reply taken as own",
    /// A write was applied after its caller had given up.
    AppliedLate: "write applied late",
    /// A second send that was known of.
    DuplicateRisk: "duplicate risk",
    /// A message stands in the queue twice.
    SentTwice: "sent twice",
    /// A record died.
    Dead: "dead",
    /// A dead record came back.
    Redriven: "redriven",
    /// One event delivered twice was one record.
    DuplicateEvent: "duplicate event",
    /// A message came through the failure queue.
    Recovered: "recovered through the failure queue",
    /// A damaged row was left alone.
    Held: "held",
    /// A lease row or fence that does not decode was left alone.
    Refused: "damaged lease refused",
    /// A process died in the middle of a call.
    Crash: "process crash",
    /// A function was ended at its time limit.
    TimeLimit: "time limit",
    /// A drain stopped because the queue did.
    StoppedByQueue: "drain stopped by the queue",
    /// The stream woke a drainer that leads.
    WokenByStream: "woken by the stream",
    /// A loop ended because two newer ones ticked.
    NewerLoops: "loop ended by newer ones",
    /// A later row of a key waited for an earlier one.
    KeptOrder: "order kept (FIFO)",
    /// A gated source was switched on, because its instance leads.
    SourceConnected: "gated source connected",
    /// A gated source was switched off.
    SourceDisconnected: "gated source disconnected",
    /// A message went past a living instance whose gated source was off.
    PassedOver: "standby's source passed over",
}

/// How often each was reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reached {
    counts: BTreeMap<Sometimes, u64>,
}

impl Reached {
    pub(crate) fn add(&mut self, what: Sometimes, count: u64) {
        if count > 0 {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// How often this was reached.
    pub fn count(&self, what: Sometimes) -> u64 {
        self.counts.get(&what).copied().unwrap_or(0)
    }

    /// Adds another run's.
    pub fn merge(&mut self, other: &Self) {
        other.counts.iter().for_each(|(what, count)| self.add(*what, *count));
    }

    /// What was never reached.
    pub fn missing(&self) -> Vec<Sometimes> {
        Sometimes::ALL.iter().copied().filter(|what| self.count(*what) == 0).collect()
    }
}
