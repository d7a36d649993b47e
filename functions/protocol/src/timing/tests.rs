use proptest::prelude::*;

use super::*;
use crate::time::duration_ms;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn durable(change: impl FnOnce(&mut TimingOverrides)) -> Result<Timing, Vec<Malformed>> {
    let mut overrides = TimingOverrides::default();
    change(&mut overrides);
    Timing::build(Profile::Durable, &overrides)
}

/// The one fault of a configuration that has exactly one.
fn only_fault(change: impl FnOnce(&mut TimingOverrides)) -> (String, String) {
    let faults = durable(change).expect_err("a rule is broken");
    assert_eq!(faults.len(), 1, "{faults:?}");
    (faults[0].field.clone(), faults[0].problem.clone())
}

#[test]
fn the_durable_profile_is_the_table_of_the_specification() {
    let timing = durable(|_| {}).expect("the default profile keeps all rules");
    assert_eq!(timing.lease_ttl, s(300));
    assert_eq!(timing.max_renew_fails, 3);
    assert_eq!(timing.renew_failure_policy, RenewFailurePolicy::Verify);
    assert_eq!(timing.renew_interval, ms(62_222));
    assert_eq!(timing.renew_call_timeout, s(5));
    assert_eq!(timing.jitter, ms(7_777));
    assert_eq!(timing.tick_interval, s(5));
    assert_eq!(timing.clock_margin, ms(500));
    assert_eq!((timing.claim_budget, timing.send_timeout), (s(10), s(5)));
    assert_eq!((timing.drainer_limit, timing.step_down_grace), (s(30), s(20)));
    assert_eq!(timing.stale_claim_duration, s(35));
    assert_eq!(timing.dedupe_window, s(5 * 86_400));
    assert_eq!(timing.failover_slo, None);
    assert_eq!(duration_text(timing.renew_interval), "62.2s");
    assert_eq!(timing.warm_takeover_max(), ms(300_000 + 500 + 2 * (5_000 + 5_000)));
    assert_eq!(timing.cold_takeover_max(), timing.warm_takeover_max() + s(300));
    assert_eq!(timing.handover_max(false), s(20 + 2 * 10));
    assert_eq!(timing.handover_max(true), s(2 * 10));
}

#[test]
fn the_fast_profile_takes_over_in_16_and_a_half_seconds_plus_calls() {
    let timing = Timing::build(Profile::Fast, &TimingOverrides::default()).expect("keeps all rules");
    assert_eq!((timing.lease_ttl, timing.max_renew_fails), (s(14), 1));
    assert_eq!(timing.renew_failure_policy, RenewFailurePolicy::Demote);
    assert_eq!((timing.renew_interval, timing.jitter), (s(5), ms(625)));
    assert_eq!(timing.stale_claim_duration, s(20));
    assert_eq!(timing.warm_takeover_bound(Duration::ZERO), ms(16_500));
    assert_eq!(timing.warm_takeover_bound(ms(20)), ms(16_540));
    assert_eq!(timing.warm_takeover_max(), ms(21_500));
    assert_eq!(timing.handover_bound(true, Duration::ZERO), s(2));
    assert_eq!(timing.handover_bound(false, Duration::ZERO), s(7));
}

#[test]
fn what_a_user_sets_stands_above_the_profile() {
    let overrides = TimingOverrides { lease_ttl: Some(s(20)), clock_margin: Some(s(1)), ..TimingOverrides::default() };
    let timing = Timing::build(Profile::Fast, &overrides).expect("keeps all rules");
    assert_eq!((timing.lease_ttl, timing.clock_margin), (s(20), s(1)));
    assert_eq!(timing.renew_interval, s(5), "the profile's, not derived from the new TTL");
    let overrides =
        TimingOverrides { renew_interval: Some(s(3)), step_down_grace: Some(s(8)), ..TimingOverrides::default() };
    let timing = Timing::build(Profile::Fast, &overrides).expect("keeps all rules");
    assert_eq!((timing.renew_call_timeout, timing.stale_claim_duration), (ms(2_500), s(20)), "the profile's as well");
}

#[test]
fn a_quarter_of_a_short_ttl_bounds_the_tick() {
    let timing = durable(|o| {
        o.lease_ttl = Some(s(12));
        o.max_renew_fails = Some(1);
    })
    .expect("keeps all rules");
    assert_eq!((timing.renew_interval, timing.tick_interval), (s(4), s(3)));
}

#[test]
fn profiles_and_policies_have_the_names_that_are_read() {
    for (profile, name) in [(Profile::Durable, "durable"), (Profile::Fast, "fast")] {
        assert_eq!((profile.as_str(), Profile::parse(name)), (name, Some(profile)));
    }
    for (policy, name) in [(RenewFailurePolicy::Verify, "verify"), (RenewFailurePolicy::Demote, "demote")] {
        assert_eq!((policy.as_str(), RenewFailurePolicy::parse(name)), (name, Some(policy)));
    }
    assert_eq!((Profile::parse("slow"), RenewFailurePolicy::parse("stay")), (None, None));
}

#[test]
fn the_smallest_ttl_that_passes_with_three_fails_is_nine_seconds() {
    let passes = |ttl_ms: u64| durable(|o| o.lease_ttl = Some(ms(ttl_ms))).is_ok();
    let smallest = (1..=20_000).find(|ttl_ms| passes(*ttl_ms)).expect("some TTL passes");
    assert_eq!(smallest, 9_000);
    assert!((smallest..=20_000).all(passes), "no hole above the smallest");
}

#[test]
fn each_rule_is_reported_with_its_inequality() {
    type Change = fn(&mut TimingOverrides);
    let cases: [(Change, &str, &str); 15] = [
        (
            |o| {
                o.renew_interval = Some(s(90));
                o.jitter = Some(s(8));
            },
            "renew_interval",
            "(90s + 4s + 5s + 5s) × 3 = 312s must be below lease_ttl − clock_margin = 299.5s",
        ),
        (
            |o| o.lease_ttl = Some(ms(8_999)),
            "tick_interval",
            "renew_interval = 999ms, lease_ttl / 4 = 2.2s and 5s in whole seconds",
        ),
        (|o| o.tick_interval = Some(ms(1_500)), "tick_interval", "is 1.5s; it must be whole seconds"),
        (
            |o| {
                o.tick_interval = Some(s(61));
                o.max_renew_fails = Some(1);
                o.renew_interval = Some(s(60));
            },
            "tick_interval",
            "is 61s; it must be whole seconds, 1s to 60s",
        ),
        (
            |o| {
                o.jitter = Some(s(11));
                o.renew_interval = Some(s(10));
            },
            "jitter",
            "is 11s; it must be at most renew_interval = 10s",
        ),
        (
            |o| {
                o.step_down_grace = Some(s(15));
                o.stale_claim_duration = Some(s(35));
            },
            "step_down_grace",
            "claim_budget + send_timeout = 10s + 5s = 15s must be below step_down_grace = 15s",
        ),
        (
            |o| o.drainer_limit = Some(ms(16_999)),
            "drainer_limit",
            "is 16.999s; it must be at least claim_budget + send_timeout + 2s = 10s + 5s + 2s = 17s",
        ),
        (
            |o| o.stale_claim_duration = Some(s(34)),
            "stale_claim_duration",
            "is 34s; it must be at least drainer_limit + 5s = 30s + 5s = 35s",
        ),
        (
            |o| o.stale_claim_duration = Some(s(156)),
            "stale_claim_duration",
            "55s + 156s + 2 × 30s = 271s must be at most 270s",
        ),
        (|o| o.dedupe_window = Some(s(4 * 86_400)), "dedupe_window", "= 6h + 4d = 102h"),
        (
            |o| o.failover_slo = Some(s(320)),
            "failover_slo",
            "= 300s + 500ms + 2 × (5s + 5s) = 320.5s must be at most failover_slo = 320s (a cold standby needs up to 620.5s)",
        ),
        (|o| o.send_timeout = Some(Duration::ZERO), "send_timeout", "is 0s; it must be 1ms or more"),
        (|o| o.renew_call_timeout = Some(Duration::ZERO), "renew_call_timeout", "is 0s; it must be 1ms or more"),
        (|o| o.lease_ttl = Some(s(86_401)), "lease_ttl", "is 86401s; it must be at most 1d"),
        (|o| o.dedupe_window = Some(s(3_651 * 86_400)), "dedupe_window", "is 3651d; it must be at most 3650d"),
    ];
    for (change, field, words) in cases {
        let (found, problem) = only_fault(change);
        assert_eq!(found, field, "{problem}");
        assert!(problem.contains(words), "{problem:?} does not say {words:?}");
    }
}

#[test]
fn a_rule_at_its_edge_is_kept() {
    durable(|o| o.send_timeout = Some(ms(1))).expect("the shortest");
    durable(|o| {
        o.jitter = Some(s(10));
        o.renew_interval = Some(s(10));
    })
    .expect("jitter as wide as the interval");
    durable(|o| {
        o.lease_ttl = Some(s(5));
        o.max_renew_fails = Some(1);
    })
    .expect("the shortest TTL");
    durable(|o| o.stale_claim_duration = Some(s(155))).expect("55 + 155 + 60 = 270");
    durable(|o| o.drainer_limit = Some(s(17))).expect("10 + 5 + 2");
    durable(|o| o.step_down_grace = Some(ms(20_001))).expect("above 15s");
    durable(|o| o.dedupe_window = Some(Duration::ZERO)).expect("off");
    durable(|o| o.dedupe_window = Some(s(6 * 3_600 + 4 * 86_400))).expect("exactly late enough");
    durable(|o| o.failover_slo = Some(ms(320_500))).expect("exactly fast enough");
    // 279.999s + 9.5s + 5s + 5s is a millisecond below 300s − 500ms; the sum must stay below, not reach it.
    let once = |interval_ms: u64| {
        durable(|o| {
            o.max_renew_fails = Some(1);
            o.renew_interval = Some(ms(interval_ms));
            o.jitter = Some(s(19));
        })
    };
    once(279_999).expect("below the deadline");
    let faults = once(280_000).expect_err("at the deadline");
    assert!(faults[0].problem.contains("(280s + 9.5s + 5s + 5s) × 1 = 299.5s must be below"), "{faults:?}");
}

#[test]
fn all_faults_are_reported_at_once() {
    let faults = durable(|o| {
        o.lease_ttl = Some(s(4));
        o.max_renew_fails = Some(0);
        o.step_down_grace = Some(s(1));
        o.drainer_limit = Some(s(1));
        o.stale_claim_duration = Some(s(1));
        o.dedupe_window = Some(s(1));
        o.failover_slo = Some(s(1));
        o.send_timeout = Some(Duration::ZERO);
    })
    .expect_err("nearly everything is broken");
    let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    for field in [
        "lease_ttl",
        "max_renew_fails",
        "step_down_grace",
        "drainer_limit",
        "stale_claim_duration",
        "dedupe_window",
        "failover_slo",
        "send_timeout",
    ] {
        assert!(fields.contains(&field), "{field} is missing in {fields:?}");
    }
}

#[test]
fn durations_read_as_they_are_written() {
    let cases = [
        (Duration::ZERO, "0s"),
        (ms(500), "500ms"),
        (ms(1_000), "1s"),
        (ms(62_222), "62.2s"),
        (ms(3_889), "3.9s"),
        (ms(59_960), "60s"),
        (s(300), "300s"),
        (s(6 * 3_600), "6h"),
        (s(5 * 86_400), "5d"),
    ];
    for (duration, text) in cases {
        assert_eq!(duration_text(duration), text);
    }
    for (left, right, expected) in [
        (ms(15_001), ms(15_002), ("15.001s", "15.002s")),
        (ms(62_222), s(300), ("62.2s", "300s")),
        (ms(15_001), ms(15_001), ("15s", "15s")),
    ] {
        assert_eq!(text::compared(left, right), (expected.0.to_owned(), expected.1.to_owned()));
    }
}

fn some_duration() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![
        30 => Just(None),
        2 => (0_u64..400_000).prop_map(|n| Some(ms(n))),
        3 => (0_u64..120).prop_map(|n| Some(s(n))),
        1 => any::<u64>().prop_map(|n| Some(ms(n))),
        1 => Just(Some(Duration::MAX)),
    ]
}

prop_compose! {
    fn overrides()(
        durations in proptest::collection::vec(some_duration(), 13),
        max_renew_fails in proptest::option::of(prop_oneof![0_u32..6, any::<u32>()]),
        demote in proptest::option::of(any::<bool>()),
    ) -> TimingOverrides {
        TimingOverrides {
            lease_ttl: durations[0],
            max_renew_fails,
            renew_failure_policy: demote.map(|d| if d { RenewFailurePolicy::Demote } else { RenewFailurePolicy::Verify }),
            renew_interval: durations[1],
            renew_call_timeout: durations[2],
            jitter: durations[3],
            tick_interval: durations[4],
            clock_margin: durations[5],
            claim_budget: durations[6],
            send_timeout: durations[7],
            drainer_limit: durations[8],
            step_down_grace: durations[9],
            stale_claim_duration: durations[10],
            dedupe_window: durations[11],
            failover_slo: durations[12],
        }
    }
}

/// The rules once more, in whole nanoseconds and without the code under test.
fn keeps_all_relations(t: &Timing) -> bool {
    let n = |duration: Duration| duration.as_nanos();
    let failing = n(t.renew_interval) + n(t.jitter / 2) + n(t.renew_call_timeout) + n(t.tick_interval);
    let tick_ns = n(t.tick_interval);
    let most = [
        t.lease_ttl,
        t.renew_interval,
        t.renew_call_timeout,
        t.jitter,
        t.clock_margin,
        t.claim_budget,
        t.send_timeout,
        t.drainer_limit,
        t.step_down_grace,
        t.stale_claim_duration,
    ];
    let not_zero = [t.renew_interval, t.renew_call_timeout, t.claim_budget, t.send_timeout];
    most.iter().all(|one| n(*one) <= n(s(86_400)))
        && not_zero.iter().all(|one| n(*one) >= n(ms(1)))
        && t.failover_slo.is_none_or(|slo| (n(ms(1))..=n(s(86_400))).contains(&n(slo)))
        && n(t.dedupe_window) <= n(s(3_650 * 86_400))
        && n(t.jitter) <= n(t.renew_interval)
        && n(t.lease_ttl) >= n(s(5))
        && t.max_renew_fails >= 1
        && failing * u128::from(t.max_renew_fails) + n(t.clock_margin) < n(t.lease_ttl)
        && tick_ns.is_multiple_of(1_000_000_000)
        && (n(s(1))..=n(s(60))).contains(&tick_ns)
        && n(t.claim_budget) + n(t.send_timeout) < n(t.step_down_grace)
        && n(t.drainer_limit) >= n(t.claim_budget) + n(t.send_timeout) + n(s(2))
        && n(t.stale_claim_duration) >= n(t.drainer_limit) + n(s(5))
        && n(s(55)) + n(t.stale_claim_duration) + 2 * n(t.drainer_limit) <= n(s(270))
        && (t.dedupe_window.is_zero() || n(t.dedupe_window) >= n(s(6 * 3_600 + 4 * 86_400)))
        && t.failover_slo.is_none_or(|slo| n(t.warm_takeover_max()) <= n(slo))
}

proptest! {
    #[test]
    fn build_accepts_exactly_what_keeps_every_relation(overrides in overrides(), fast in any::<bool>()) {
        let profile = if fast { Profile::Fast } else { Profile::Durable };
        let derived = derive::derive(&overrides.or_else(&profile.base()));
        match Timing::build(profile, &overrides) {
            Ok(timing) => {
                prop_assert_eq!(timing, derived);
                prop_assert!(keeps_all_relations(&timing), "{timing:?}");
                prop_assert!(timing.warm_takeover_max() <= timing.cold_takeover_max());
                prop_assert!(timing.handover_max(true) < timing.handover_max(false));
                prop_assert!(!timing.renew_interval.is_zero());
            }
            Err(faults) => {
                prop_assert!(!keeps_all_relations(&derived), "refused without a reason: {faults:?}");
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    prop_assert!(!fault.field.is_empty() && !fault.problem.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_ttl_alone_is_enough(ttl_ms in 9_000_u64..=86_400_000) {
        let timing = durable(|o| o.lease_ttl = Some(ms(ttl_ms))).expect("derived values keep the rules");
        prop_assert!(keeps_all_relations(&timing));
        prop_assert_eq!(duration_ms(timing.lease_ttl), ttl_ms);
    }

    #[test]
    fn one_bad_relation_is_enough_to_be_refused(grace_ms in 0_u64..=15_000) {
        let faults = durable(|o| o.step_down_grace = Some(ms(grace_ms))).expect_err("10s + 5s do not fit");
        prop_assert!(faults.iter().any(|fault| fault.field == "step_down_grace"));
    }
}
