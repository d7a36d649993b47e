//! The relations between durations that the promises rest on.
//!
//! Each rule is a function that says what is wrong, with the inequality and its numbers, or nothing.

use std::time::Duration;

use super::text::{compared, duration_text};
use super::{
    ASYNC_EVENT_AGE_MAX, DEDUPE_WINDOW_MAX, DRAIN_PASS_LENGTH, DURATION_MAX, FAILURE_QUEUE_RETENTION, LEASE_TTL_MIN,
    LOOP_LENGTH, Timing,
};
use crate::ids::Malformed;

const TICK_MIN: Duration = Duration::from_secs(1);
const TICK_MAX: Duration = Duration::from_secs(60);
/// What a drain call needs beside its claim budget and one send: reads before, commits after.
const DRAINER_SLACK: Duration = Duration::from_secs(2);
/// How much longer than the drainer's limit a stale wait must be: the platform ends the function within it.
const STALE_SLACK: Duration = Duration::from_secs(5);

const RULES: [fn(&Timing) -> Option<Malformed>; 11] = [
    ttl_is_not_too_short,
    something_may_fail,
    jitter_fits_the_interval,
    tick_is_whole_seconds,
    renewals_fit_the_ttl,
    sends_end_within_the_grace,
    drainer_has_time_for_a_page,
    stale_claims_outlive_their_drainer,
    drain_workflow_ends_in_time,
    tombstones_outlive_late_doubles,
    failover_is_as_fast_as_wished,
];

/// Every rule that `timing` breaks.
pub(super) fn broken(timing: &Timing) -> Vec<Malformed> {
    let mut broken = out_of_range(timing);
    broken.extend(RULES.iter().filter_map(|rule| rule(timing)));
    broken
}

/// Durations that are zero where zero means nothing, or too long to be calculated with.
fn out_of_range(timing: &Timing) -> Vec<Malformed> {
    let slo = timing.failover_slo.unwrap_or(DURATION_MAX);
    let fields = [
        ("lease_ttl", timing.lease_ttl, false, DURATION_MAX),
        ("renew_interval", timing.renew_interval, false, DURATION_MAX),
        ("renew_call_timeout", timing.renew_call_timeout, false, DURATION_MAX),
        ("jitter", timing.jitter, true, DURATION_MAX),
        ("tick_interval", timing.tick_interval, true, DURATION_MAX),
        ("clock_margin", timing.clock_margin, true, DURATION_MAX),
        ("claim_budget", timing.claim_budget, false, DURATION_MAX),
        ("send_timeout", timing.send_timeout, false, DURATION_MAX),
        ("drainer_limit", timing.drainer_limit, true, DURATION_MAX),
        ("step_down_grace", timing.step_down_grace, true, DURATION_MAX),
        ("stale_claim_duration", timing.stale_claim_duration, true, DURATION_MAX),
        ("dedupe_window", timing.dedupe_window, true, DEDUPE_WINDOW_MAX),
        ("failover_slo", slo, false, DURATION_MAX),
    ];
    let fault = |(field, value, zero_allowed, max): (&str, Duration, bool, Duration)| {
        if value < Duration::from_millis(1) && !zero_allowed {
            Some(Malformed::new(field, format!("is {}; it must be 1ms or more", duration_text(value))))
        } else if value > max {
            let (value, max) = compared(value, max);
            Some(Malformed::new(field, format!("is {value}; it must be at most {max}")))
        } else {
            None
        }
    };
    fields.into_iter().filter_map(fault).collect()
}

fn ttl_is_not_too_short(timing: &Timing) -> Option<Malformed> {
    (timing.lease_ttl < LEASE_TTL_MIN).then(|| {
        let (ttl, min) = compared(timing.lease_ttl, LEASE_TTL_MIN);
        Malformed::new("lease_ttl", format!("is {ttl}; it must be at least {min}"))
    })
}

fn something_may_fail(timing: &Timing) -> Option<Malformed> {
    (timing.max_renew_fails == 0).then(|| Malformed::new("max_renew_fails", "is 0; it must be at least 1"))
}

fn jitter_fits_the_interval(timing: &Timing) -> Option<Malformed> {
    (timing.jitter > timing.renew_interval).then(|| {
        let (jitter, interval) = compared(timing.jitter, timing.renew_interval);
        Malformed::new("jitter", format!("is {jitter}; it must be at most renew_interval = {interval}"))
    })
}

fn tick_is_whole_seconds(timing: &Timing) -> Option<Malformed> {
    let tick = timing.tick_interval;
    let whole = tick.subsec_nanos() == 0;
    if whole && (TICK_MIN..=TICK_MAX).contains(&tick) {
        return None;
    }
    let mut problem = format!("is {}; it must be whole seconds, 1s to 60s", duration_text(tick));
    if tick.is_zero() {
        let interval = duration_text(timing.renew_interval);
        let quarter = duration_text(timing.lease_ttl / 4);
        problem.push_str(&format!(
            ". Unless set it is the smallest of renew_interval = {interval}, lease_ttl / 4 = {quarter} and 5s in whole \
             seconds: raise lease_ttl or lower max_renew_fails"
        ));
    }
    Some(Malformed::new("tick_interval", problem))
}

/// All renewals that may fail, each as late and as slow as can be, must be over before the deadline.
fn renewals_fit_the_ttl(timing: &Timing) -> Option<Malformed> {
    let half_jitter = timing.jitter / 2;
    let one = timing
        .renew_interval
        .saturating_add(half_jitter)
        .saturating_add(timing.renew_call_timeout)
        .saturating_add(timing.tick_interval);
    let all = one.saturating_mul(timing.max_renew_fails);
    let deadline = timing.lease_ttl.saturating_sub(timing.clock_margin);
    (all >= deadline).then(|| {
        let (all, deadline) = compared(all, deadline);
        Malformed::new(
            "renew_interval",
            format!(
                "(renew_interval + jitter/2 + renew_call_timeout + tick_interval) × max_renew_fails: ({} + {} + {} + {}) × \
                 {} = {all} must be below lease_ttl − clock_margin = {deadline}",
                duration_text(timing.renew_interval),
                duration_text(half_jitter),
                duration_text(timing.renew_call_timeout),
                duration_text(timing.tick_interval),
                timing.max_renew_fails,
            ),
        )
    })
}

fn sends_end_within_the_grace(timing: &Timing) -> Option<Malformed> {
    let busy = timing.claim_budget.saturating_add(timing.send_timeout);
    (busy >= timing.step_down_grace).then(|| {
        let (busy, grace) = compared(busy, timing.step_down_grace);
        let budget = duration_text(timing.claim_budget);
        let send = duration_text(timing.send_timeout);
        Malformed::new(
            "step_down_grace",
            format!("claim_budget + send_timeout = {budget} + {send} = {busy} must be below step_down_grace = {grace}"),
        )
    })
}

fn drainer_has_time_for_a_page(timing: &Timing) -> Option<Malformed> {
    let page = timing.claim_budget.saturating_add(timing.send_timeout).saturating_add(DRAINER_SLACK);
    (timing.drainer_limit < page).then(|| {
        let (limit, page) = compared(timing.drainer_limit, page);
        let budget = duration_text(timing.claim_budget);
        let send = duration_text(timing.send_timeout);
        Malformed::new(
            "drainer_limit",
            format!(
                "is {limit}; it must be at least claim_budget + send_timeout + {} = {budget} + {send} + {} = {page}",
                duration_text(DRAINER_SLACK),
                duration_text(DRAINER_SLACK),
            ),
        )
    })
}

fn stale_claims_outlive_their_drainer(timing: &Timing) -> Option<Malformed> {
    let ended = timing.drainer_limit.saturating_add(STALE_SLACK);
    (timing.stale_claim_duration < ended).then(|| {
        let (stale, ended) = compared(timing.stale_claim_duration, ended);
        let limit = duration_text(timing.drainer_limit);
        let slack = duration_text(STALE_SLACK);
        Malformed::new(
            "stale_claim_duration",
            format!("is {stale}; it must be at least drainer_limit + {slack} = {limit} + {slack} = {ended}"),
        )
    })
}

fn drain_workflow_ends_in_time(timing: &Timing) -> Option<Malformed> {
    let whole = DRAIN_PASS_LENGTH
        .saturating_add(timing.stale_claim_duration)
        .saturating_add(timing.drainer_limit.saturating_mul(2));
    (whole > LOOP_LENGTH).then(|| {
        let (whole, length) = compared(whole, LOOP_LENGTH);
        let pass = duration_text(DRAIN_PASS_LENGTH);
        let stale = duration_text(timing.stale_claim_duration);
        let limit = duration_text(timing.drainer_limit);
        Malformed::new(
            "stale_claim_duration",
            format!(
                "{pass} + stale_claim_duration + 2 × drainer_limit = {pass} + {stale} + 2 × {limit} = {whole} must be at \
                 most {length}, the drain workflow's length"
            ),
        )
    })
}

fn tombstones_outlive_late_doubles(timing: &Timing) -> Option<Malformed> {
    let late = ASYNC_EVENT_AGE_MAX.saturating_add(FAILURE_QUEUE_RETENTION);
    (!timing.dedupe_window.is_zero() && timing.dedupe_window < late).then(|| {
        let (window, late) = compared(timing.dedupe_window, late);
        let age = duration_text(ASYNC_EVENT_AGE_MAX);
        let retention = duration_text(FAILURE_QUEUE_RETENTION);
        Malformed::new(
            "dedupe_window",
            format!(
                "is {window}; it must be 0s (off) or at least the age of a retried event + the failure queue's retention = \
                 {age} + {retention} = {late}"
            ),
        )
    })
}

fn failover_is_as_fast_as_wished(timing: &Timing) -> Option<Malformed> {
    let slo = timing.failover_slo?;
    let worst = timing.warm_takeover_max();
    (worst > slo).then(|| {
        let (worst, slo) = compared(worst, slo);
        Malformed::new(
            "failover_slo",
            format!(
                "lease_ttl + clock_margin + 2 × (tick_interval + renew_call_timeout) = {} + {} + 2 × ({} + {}) = {worst} must \
                 be at most failover_slo = {slo} (a cold standby needs up to {})",
                duration_text(timing.lease_ttl),
                duration_text(timing.clock_margin),
                duration_text(timing.tick_interval),
                duration_text(timing.renew_call_timeout),
                duration_text(timing.cold_takeover_max()),
            ),
        )
    })
}
