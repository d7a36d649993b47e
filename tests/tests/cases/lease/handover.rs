//! Planned handover: asked for, half done, abandoned.

use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::lease::StepDownReason;
use fencepost_runtime::clock::Clock as _;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, Fault, MemoryQueue, QueueKind, Script};
use fencepost_storage::operation;
use fencepost_tests::proxy::{Fault as Spoilt, Gate, Match, Times};
use serde_json::json;

use super::lab::{Lab, Process, events, standing};
use super::real::Real;

const GRACE_MS: u64 = 5_000;
const TTL_MS: u64 = 14_000;

fn step_down() -> serde_json::Value {
    json!({ "command": "step_down" })
}

/// Reported: an instance that had been told to step down took the lease back at its next start. Right: it abstains for one
/// TTL, also across cold starts; the standby leads at its next tick; where there is none the releaser leads again when the
/// TTL is over.
///
/// Kills: `a_releaser_takes_the_lease_back`
#[tokio::test]
async fn case_12_stepped_down_it_abstains_one_ttl_across_a_cold_start() {
    let lab = Lab::new(&[]);
    let mut east = lab.process("east");
    east.tick().await;
    assert_eq!(east.lease(step_down()).await.unwrap()["state"], "released");
    let released_ms = lab.elapsed_ms();
    while lab.elapsed_ms() < released_ms + TTL_MS - 1_000 {
        lab.advance_ms(1_000);
        // Each tick in a process that knows nothing.
        assert_eq!(standing(&lab.process("east").tick().await), ("abstaining", None), "{}ms", lab.elapsed_ms());
    }
    lab.advance_ms(999);
    assert_eq!(standing(&lab.process("east").tick().await), ("abstaining", None));
    lab.advance_ms(1);
    assert_eq!(standing(&lab.process("east").tick().await), ("leader", Some(2)), "nobody else came");

    // With a standby there is nobody to wait for.
    let mut west = lab.process("west");
    assert_eq!(standing(&west.tick().await), ("standby", None));
    let mut east = lab.process("east");
    assert_eq!(east.lease(step_down()).await.unwrap()["state"], "released");
    for second in 1..=40 {
        let replies = lab.pass(1, &mut [&mut east, &mut west]).await;
        assert_eq!(standing(&replies[1]), ("leader", Some(3)), "{second}s");
        let expected = if second == 1 { "abstaining" } else { "standby" };
        assert_eq!(standing(&replies[0]), (expected, None), "{second}s");
    }

    // `resume` ends it at once.
    assert_eq!(west.lease(step_down()).await.unwrap()["state"], "released");
    assert_eq!(west.lease(json!({ "command": "resume" })).await.unwrap()["state"], "resumed");
    assert_eq!(standing(&lab.process("west").tick().await), ("leader", Some(4)));
}

/// A queue that swallows the first request.
fn black_hole_once() -> MemoryQueue {
    let faults = Script::default();
    faults.set(operation::SEND, 1, Fault::of(Effect::FailBefore(FailureKind::TimedOut)));
    MemoryQueue::new(QueueKind::Standard).with_faults(Arc::new(faults))
}

/// A holder with a claim that stays in flight: the outcome of its send is unknown.
async fn claim_in_flight(lab: &mut Lab) -> Process {
    lab.queue = black_hole_once();
    let mut east = lab.process("east");
    east.tick().await;
    east.store("in flight").await.unwrap();
    assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["unknown"], 1);
    east
}

/// Reported: a handover stopped half-way, the old leader on its way out, the new one not yet told, and nobody led until a
/// human came. Right: somebody leads by TTL + grace, whichever side died in the middle.
///
/// Kills: `abstention_never_ends`
#[tokio::test]
async fn case_13_a_handover_abandoned_half_way_ends_by_ttl_and_grace() {
    // The leader dies with the mark set.
    let mut lab = Lab::new(&[]);
    let east = claim_in_flight(&mut lab).await;
    let mut west = lab.process("west");
    west.tick().await;
    assert_eq!(east.lease(step_down()).await.unwrap()["state"], "marked");
    let marked_ms = lab.elapsed_ms();
    let led_ms = loop {
        let reply = lab.pass(1, &mut [&mut west]).await.remove(0);
        if reply["role"] == "leader" {
            assert_eq!((&reply["token"], events(&reply)), (&json!(2), vec!["Lease Seized"]));
            break lab.elapsed_ms() - marked_ms;
        }
        assert!(lab.elapsed_ms() < marked_ms + TTL_MS + GRACE_MS, "nobody leads");
    };
    assert_eq!(led_ms, 16_000, "a mark renews, so TTL + margin from west's next look");

    // The successor is gone, and so is the workflow; the leader's loop goes on.
    let mut lab = Lab::new(&[]);
    let mut east = claim_in_flight(&mut lab).await;
    assert_eq!(east.lease(step_down()).await.unwrap()["state"], "marked");
    let roles: Vec<String> = {
        let mut roles = Vec::new();
        for _ in 0..=((TTL_MS + GRACE_MS) / 1_000) {
            roles.push(lab.pass(1, &mut [&mut east]).await[0]["role"].as_str().unwrap().to_owned());
        }
        roles
    };
    let lasting = |role: &str| roles.iter().filter(|one| *one == role).count();
    assert_eq!(
        (lasting("stepping_down"), lasting("abstaining"), lasting("leader")),
        (4, 14, 2),
        "until the grace at 5s, the abstention until 19s: {roles:?}"
    );
    assert_eq!(lab.row().await.token.get(), 2);
}

/// Found in our own design: the workflow that asked for the step-down died, and nobody was left to release. Right: the tick
/// finishes it: as soon as nothing is in flight, at the latest when the grace is over; then a standby leads within two ticks.
///
/// Kills: `the_grace_never_ends`
#[tokio::test]
async fn case_40_the_tick_finishes_an_abandoned_step_down() {
    for (delivered_after_s, released_at_s) in [(None, 5), (Some(2), 2)] {
        let mut lab = Lab::new(&[]);
        let mut east = claim_in_flight(&mut lab).await;
        let mut west = lab.process("west");
        west.tick().await;
        // Asked for, and never looked at again.
        assert_eq!(east.lease(step_down()).await.unwrap()["state"], "marked");
        assert_eq!(east.drain(json!({})).await.unwrap()["leading"], false, "nothing is claimed from then on");
        for second in 1..=8 {
            lab.advance_ms(1_000);
            if Some(second) == delivered_after_s {
                // What was in flight ends: its drainer commits, by whatever it had found out.
                let in_flight = lab.outstanding().await.remove(0);
                lab.tables.remove(
                    fencepost_storage::records::Table::Outbox,
                    &fencepost_storage::records::outstanding::key(&in_flight.key),
                );
            }
            let (east_reply, west_reply) = (east.tick().await, west.tick().await);
            if second < released_at_s {
                assert_eq!(standing(&east_reply), ("stepping_down", Some(1)), "{second}s");
                assert_eq!(standing(&west_reply), ("standby", None), "{second}s");
            } else {
                assert_eq!(standing(&west_reply), ("leader", Some(2)), "{second}s");
                assert_eq!(east_reply["token"], json!(null), "{second}s");
            }
            if second == released_at_s {
                assert_eq!(standing(&east_reply), ("abstaining", None));
                assert_eq!(east_reply["events"][0]["detail"]["reason"], "step_down");
            }
        }
        assert_eq!(east.metrics.total(Metric::LeaseLost), 1.0);
    }
}

/// Found in our own design: a renewal that had read before the mark was written wiped the mark out, or the mark the renewal.
/// Right: each is conditioned on the version that it read; the one that comes second reads again. Neither is lost.
///
/// Kills: `a_mark_wipes_out_a_renewal`
#[tokio::test]
async fn case_53_a_renewal_and_a_step_down_mark_at_one_moment_are_both_kept() {
    let lease_write = || Match::operation("UpdateItem").containing("lease-table").containing("\"LEASE\"");
    for mark_first in [true, false] {
        let mut real = Real::start().await;
        real.queue = black_hole_once();
        let mut east = real.process("east", &[]).await;
        let other = real.process("east", &[]).await;
        east.tick().await;
        east.store("in flight").await.unwrap();
        assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["unknown"], 1);
        real.clock.advance(Duration::from_millis(4_500));
        // The first write is held up on its way; the other command begins then and is through before it.
        let gate = Gate::default();
        let hold = Spoilt::HoldUntil(gate.clone());
        let held_up = real.tables.proxy.place(lease_write(), Times::Nth(1), hold);
        let under_way = async || {
            let held = async {
                while held_up.hits() == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), held).await.expect("the first write is on its way");
        };
        let (ticked, marked) = if mark_first {
            tokio::join!(east.tick(), async {
                under_way().await;
                let marked = other.lease(step_down()).await;
                gate.open();
                marked
            })
        } else {
            let tick = async {
                under_way().await;
                let ticked = east.tick().await;
                gate.open();
                ticked
            };
            tokio::join!(tick, other.lease(step_down()))
        };
        assert_eq!(held_up.hits(), 1);
        assert_eq!(marked.unwrap()["state"], "marked", "mark first: {mark_first}");
        let row = real.row().await;
        assert_eq!(
            row.stepping_down.map(|mark| mark.reason),
            Some(StepDownReason::StepDown),
            "mark first: {mark_first}"
        );
        // The mark is a renewal, too: where it came second there are two.
        assert_eq!((row.renewal, row.token.get()), (if mark_first { 1 } else { 2 }, 1));
        assert_eq!(row.confirmed_at, real.clock.now().wall, "the renewal is kept: the deadline moved on");
        let expected = if mark_first { "stepping_down" } else { "leader" };
        assert_eq!(standing(&ticked), (expected, Some(1)), "the refused tick takes the row that won");
        assert_eq!(standing(&east.tick().await), ("stepping_down", Some(1)));
    }
}

/// Found in our own design: a holder that was asked to step down and then stalled past its deadline took the lease anew,
/// against the operator's word. Right: it is released, under the same token, and abstained from; the standby leads.
///
/// Kills: `a_marked_holder_takes_the_lease_anew`
#[tokio::test]
async fn case_59_a_mark_whose_deadline_passed_is_released_not_reacquired() {
    for stalled_ms in [13_500, 14_000, 60_000] {
        let mut lab = Lab::new(&[]);
        let east = claim_in_flight(&mut lab).await;
        assert_eq!(east.lease(step_down()).await.unwrap()["state"], "marked");
        lab.advance_ms(stalled_ms);
        let mut thawed = lab.process("east");
        let reply = thawed.tick().await;
        assert_eq!(standing(&reply), ("abstaining", None), "after {stalled_ms}ms");
        let row = lab.row().await;
        assert_eq!((row.owner, row.token.get(), lab.fence().await), (None, 1, 1), "after {stalled_ms}ms");
        assert_eq!(row.released.unwrap().reason, StepDownReason::StepDown);
        let mut west = lab.process("west");
        let replies = lab.pass(20, &mut [&mut west, &mut thawed]).await;
        assert_eq!((standing(&replies[0]), standing(&replies[1])), (("leader", Some(2)), ("standby", None)));
    }
}
