//! A holder, its renewals and its restarts.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::memory::{Effect, Fault};
use fencepost_storage::operation;
use serde_json::Value;

use super::lab::{Lab, events, fail, standing};

const UNREACHABLE: Effect = Effect::FailBefore(FailureKind::Unavailable);

/// A holder of profile `durable` whose every renewal fails. Interval 62.2s, tick 5s, half the jitter 3.9s, three fails: the
/// question is due 3 × 62.2 − 5 − 3.9 = 177.7s after the confirmation, and the deadline is at 299.5s.
struct Failing {
    lab: Lab,
    east: super::lab::Process,
}

impl Failing {
    async fn start(policy: &'static str) -> Self {
        let lab = Lab::new(&[("FENCEPOST_PROFILE", "durable"), ("FENCEPOST_RENEW_FAILURE_POLICY", policy)]);
        let mut east = lab.process("east");
        assert_eq!(standing(&east.tick().await), ("leader", Some(1)));
        fail(&east, operation::WRITE_LEASE, 2..=200, &UNREACHABLE);
        Self { lab, east }
    }

    /// Ticks each five seconds up to `last_second`; the replies with their second.
    async fn tick_until(&mut self, last_second: u64) -> Vec<(u64, Value)> {
        let mut replies = Vec::new();
        while self.lab.elapsed_ms() < last_second * 1_000 {
            self.lab.advance(Duration::from_secs(5));
            replies.push((self.lab.elapsed_ms() / 1_000, self.east.tick().await));
        }
        replies
    }

    fn questions(&self) -> u64 {
        self.lab.tables.usage_of(operation::READ_LEASE).requests
    }
}

/// Reported of lease clients: one throttled renewal demoted a healthy leader, or none ever did. Right: n − 1 intervals
/// without a successful renewal stay, at n a good read stays (up to the own deadline) and a failed one demotes.
///
/// Kills: `a_failed_question_keeps_the_lease`
#[tokio::test]
async fn case_07_n_failed_renewals_and_a_failed_read_demote_and_nothing_less() {
    // Below n nobody is asked, whatever a read would say.
    let mut fewer = Failing::start("verify").await;
    fail(&fewer.east, operation::READ_LEASE, 1..=200, &UNREACHABLE);
    let replies = fewer.tick_until(175).await;
    assert!(replies.iter().all(|(_, reply)| standing(reply) == ("leader", Some(1))), "{replies:?}");
    assert_eq!(fewer.questions(), 0);
    assert!(fewer.east.metrics.total(Metric::RenewFailures) >= 23.0, "tried again at each tick since the 60th second");

    // At n a failed read demotes at once.
    let demoted = fewer.tick_until(180).await.pop().unwrap().1;
    assert_eq!(standing(&demoted), ("standby", None));
    assert_eq!(events(&demoted), ["Lease Lost"]);
    assert_eq!(demoted["events"][0]["detail"]["reason"], "store_unreadable");

    // A success before the deadline takes the still-held lease up again, under the same token.
    for call in 1..=200 {
        fewer.east.faults.set(operation::WRITE_LEASE, call, Fault::default());
    }
    assert_eq!(standing(&fewer.tick_until(185).await[0].1), ("leader", Some(1)));
    assert_eq!(fewer.lab.row().await.renewal, 1);

    // At n a good read stays, each time it is asked, until the own deadline.
    let mut confirmed = Failing::start("verify").await;
    let replies = confirmed.tick_until(295).await;
    assert!(replies.iter().all(|(_, reply)| standing(reply) == ("leader", Some(1))), "{replies:?}");
    assert_eq!(confirmed.questions(), 24, "one strong read for each tick from 180s to 295s");
    let late = confirmed.tick_until(300).await.pop().unwrap().1;
    assert_eq!(
        (standing(&late), late["events"][0]["detail"]["reason"].as_str()),
        (("standby", None), Some("deadline"))
    );

    // The policy `demote` asks nobody.
    let mut strict = Failing::start("demote").await;
    let replies = strict.tick_until(180).await;
    let (last, before) = replies.split_last().unwrap();
    assert!(before.iter().all(|(_, reply)| standing(reply) == ("leader", Some(1))), "{before:?}");
    assert_eq!((standing(&last.1), strict.questions()), (("standby", None), 0));
}

/// Reported: a bridge that was killed and came back waited a whole TTL for its own former self. Right: before its deadline it
/// goes on at once under the same token, after it it takes the lease anew with token + 1, at its first tick either way.
///
/// Kills: `restart_waits_for_itself`
#[tokio::test]
async fn case_11_restarted_under_its_own_name_it_never_waits_for_itself() {
    for (silence_ms, token, told) in [
        (1, 1, &[][..]),
        (5_000, 1, &[]),
        (13_499, 1, &[]),
        (13_500, 2, &["Lease Lost", "Lease Reclaimed"]),
        (14_400, 2, &["Lease Lost", "Lease Reclaimed"]),
        (600_000, 2, &["Lease Lost", "Lease Reclaimed"]),
    ] {
        let lab = Lab::new(&[]);
        let mut killed = lab.process("east");
        assert_eq!(standing(&killed.tick().await), ("leader", Some(1)));
        // The acquisition was told, and the second tick confirmed it.
        assert_eq!(standing(&killed.tick().await), ("leader", Some(1)));
        drop(killed);
        lab.advance_ms(silence_ms);
        let mut restarted = lab.process("east");
        let reply = restarted.tick().await;
        assert_eq!(standing(&reply), ("leader", Some(token)), "after {silence_ms}ms");
        assert_eq!(events(&reply), told, "after {silence_ms}ms");
        assert_eq!(lab.fence().await, token);
        assert_eq!(lab.pass(1, &mut [&mut restarted]).await[0]["token"], token, "and keeps it");
    }
}

/// Reported: an at-least-once schedule fired twice and the lease changed hands with itself. Right: one renewal, no new token,
/// also when both ticks have read before either writes.
///
/// Kills: `a_late_tick_renews_again`
#[tokio::test(start_paused = true)]
async fn case_16_two_ticks_at_once_make_one_renewal_and_no_token() {
    let lab = Lab::new(&[]);
    let mut warm = lab.process("east");
    assert_eq!(standing(&warm.tick().await), ("leader", Some(1)));
    for round in 1..=20 {
        // Due at 4.7s to 5.3s, so a tick of one second renews at 4.5s.
        lab.advance_ms(4_500);
        let (mut first, mut second) = (lab.process("east"), lab.process("east"));
        let after_reading = Fault { delay_after: Duration::from_secs(1), ..Fault::default() };
        first.faults.set(operation::READ_GROUP, 1, after_reading.clone());
        second.faults.set(operation::READ_GROUP, 1, after_reading);
        let (one, other) = tokio::join!(first.tick(), second.tick());
        assert_eq!((standing(&one), standing(&other)), (("leader", Some(1)), ("leader", Some(1))));
        // A third that comes late finds nothing to do.
        assert_eq!(standing(&warm.tick().await), ("leader", Some(1)));
        let row = lab.row().await;
        assert_eq!((row.renewal, row.token.get(), lab.fence().await), (round, 1, 1));
    }
}

/// What a tick finds when two of them come at once, each of which makes an acquisition possible.
#[derive(Debug, Clone, Copy)]
enum Found {
    NoRow,
    OwnDeadlinePassed,
    Released,
    OtherStoodStill,
}

impl Found {
    /// A laboratory in this situation, and the token that was issued last.
    async fn prepare(self) -> (Lab, u64) {
        let lab = Lab::new(&[]);
        match self {
            Self::NoRow => {}
            Self::OwnDeadlinePassed => {
                lab.process("west").tick().await;
                lab.advance(Duration::from_secs(60));
            }
            Self::Released => {
                let mut east = lab.process("east");
                east.tick().await;
                let asked = east.lease(serde_json::json!({ "command": "step_down" })).await.unwrap();
                assert_eq!(asked["state"], "released");
            }
            Self::OtherStoodStill => {
                lab.process("east").tick().await;
                let mut west = lab.process("west");
                west.tick().await;
                assert_eq!(standing(&lab.pass(14, &mut [&mut west]).await[0]), ("standby", None));
                lab.advance(Duration::from_secs(1));
            }
        }
        let issued = lab.fence().await;
        (lab, issued)
    }
}

/// Found in our own design: two ticks at once, each of which could acquire, made two tokens when the instance record did not
/// keep what the first had done. Right: one token, however the instance record fails and whoever comes first.
///
/// Kills: `a_refused_write_is_believed`
#[tokio::test(start_paused = true)]
async fn case_39_two_ticks_at_once_never_make_two_tokens() {
    let lost = || Effect::FailAfter(FailureKind::TimedOut);
    let slow = |ms| Fault { delay_before: Duration::from_millis(ms), ..Fault::default() };
    for found in [Found::NoRow, Found::OwnDeadlinePassed, Found::Released, Found::OtherStoodStill] {
        for (one_record, other_record) in
            [(Effect::None, Effect::None), (UNREACHABLE, Effect::None), (lost(), UNREACHABLE), (lost(), lost())]
        {
            // How late the second tick is in its fence, its lease and its instance write, in milliseconds.
            for (fence_ms, lease_ms, instance_ms) in [(0, 0, 0), (5, 0, 0), (0, 5, 0), (0, 0, 5), (5, 5, 5), (20, 0, 5)]
            {
                let (lab, issued) = found.prepare().await;
                let (mut one, mut other) = (lab.process("west"), lab.process("west"));
                let writes_before = lab.tables.usage_of(operation::WRITE_LEASE).requests;
                for process in [&one, &other] {
                    process.faults.set(operation::READ_FENCE, 1, slow(1));
                }
                one.faults.set(operation::RAISE_FENCE, 1, slow(1));
                one.faults.set(operation::WRITE_LEASE, 1, slow(2));
                other.faults.set(operation::RAISE_FENCE, 1, slow(fence_ms));
                other.faults.set(operation::WRITE_LEASE, 1, slow(lease_ms));
                one.faults.set(operation::WRITE_INSTANCE, 1, Fault::of(one_record.clone()));
                let late = Fault { effect: other_record.clone(), ..slow(instance_ms) };
                other.faults.set(operation::WRITE_INSTANCE, 1, late);
                let (first, second) = tokio::join!(one.tick(), other.tick());
                let told = format!(
                    "{found:?}, {one_record:?}, {other_record:?}, {fence_ms} {lease_ms} {instance_ms}: {first} {second}"
                );
                // A number that the fence was raised to and nobody got is burnt, which does no harm.
                let (token, fence) = (lab.row().await.token.get(), lab.fence().await);
                assert!(token > issued && token <= fence && fence <= issued + 2, "{token}, {fence}: {told}");
                let writes = lab.tables.usage_of(operation::WRITE_LEASE).requests - writes_before;
                assert_eq!(writes, fence - issued, "no lease write without a raise of its own: {told}");
                for reply in [&first, &second] {
                    assert!(reply["token"].is_null() || reply["token"] == token, "{told}");
                }
                // Whoever ticks next leads under that token and makes no other.
                lab.advance(Duration::from_secs(1));
                assert_eq!(standing(&lab.process("west").tick().await), ("leader", Some(token)), "{told}");
                assert_eq!(lab.fence().await, fence, "{told}");
            }
        }
    }
}
