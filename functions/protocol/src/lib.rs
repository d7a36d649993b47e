//! The decisions of a highly available bridge: lease, fencing, outbox, drain. Pure.
//!
//! Nothing here reads a clock, the environment or a random number, waits, or calls anybody. Time, ids and randomness are
//! arguments; what comes back is a plan, which an adapter carries out, or an answer. So the same functions decide in Lambda,
//! on a laptop, in a model checker and in a simulator.
//!
//! # What the bridge promises
//!
//! | | promise | kept by |
//! |---|---|---|
//! | P1 | a message that ingest acknowledged reaches the destination at least once, or stays as a dead record until an operator decides | [`ingest`], [`drain`] |
//! | P2 | at most one commit for each row; inside `dedupe_window` no second send of a message id that was committed | conditional delete by claim and token; [`outbox::Tombstone`] |
//! | P3 | a former holder neither commits nor claims a row that its successor has touched, and starts no send that it knows to be late | [`drain::permit`], [`drain::confirm`], [`drain::may_send`] |
//! | P4 | fencing tokens only grow, also when the lease table is lost | [`lease::decide`], [`outbox::Fence`] |
//! | P5 | no decision compares the clocks of two instances | [`lease::observe`] |
//! | P6 | takeover after a crash within TTL + margin + two ticks of the last renewal, while a standby ticks | [`timing::Timing::warm_takeover_bound`] |
//! | P7 | planned handover within the grace + two ticks; within two ticks when idle | [`timing::Timing::handover_bound`] |
//!
//! P4 rests on one assumption: no lease write that was on its way when the lease table was lost reaches the table that is made
//! in its place. The new table is empty, so the condition of such an acquisition (no row was there) would hold, and could put
//! a token there below one that was issued meanwhile. Making a table takes longer than the time-out of any call, and the
//! runbook stops the ticks before it; the fence alone cannot refuse that write, for it stands in the other table.
//!
//! Fencing protects the commit, not the send: a holder that reached the queue and then died leaves a record that is sent
//! again. Delivery is at least once, consumers are idempotent, and every second send that can be known of is counted.
//!
//! # The rooms
//!
//! | module | what it decides |
//! |---|---|
//! | [`lease`] | one tick: acquire, renew, count evidence, seize, demote, step down, report |
//! | [`ingest`] | which row a published message becomes |
//! | [`drain`] | which rows a page claims, sends, commits, hands back or buries; redrive |
//! | [`body`] | what the queue gets for a row, and back |
//! | [`timing`] | every duration, derived and checked |
//! | [`tables`] | which tables are fit to hold a lease and an outbox |
//! | [`outbox`], [`ids`], [`time`], [`failure`] | the values that decisions are made of |
//! | [`limits`] | every limit that is not ours to choose |
//! | [`object`] | structs that are read from JSON objects only |
//! | [`invariants`] | what must hold of any history, as predicates |
//!
//! # Words
//!
//! *Instance*: one stack in one region. *Lease*: the right to drain, held by at most one instance under a *fencing token* that
//! grows at each acquisition. *Row*: one outstanding message in one *shard* of the outbox. *Claim*: a page's fresh id, set on
//! its rows before they are sent. *Settled*: said of a claim that outlived a wait of the workflow, so its drainer is over.
//! *Commit*: the conditional delete of a row that the queue accepted. *Tombstone*: the proof of it, kept for a while.
//!
//! A row names no destination: a stack has one queue, and a row that outlives a change of queue goes to the new one.

pub mod body;
pub mod drain;
pub mod failure;
pub mod ids;
pub mod ingest;
pub mod invariants;
pub mod lease;
pub mod limits;
pub mod object;
pub mod outbox;
pub mod tables;
pub mod time;
pub mod timing;
