//! The rows of the table: every setting, in the order of the README.

use std::time::Duration;

use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::ids::{InstanceName, LeaseName, StackId};
use fencepost_protocol::lease::SourceMode;
use fencepost_protocol::limits;
use fencepost_protocol::timing::{Profile, RenewFailurePolicy};

use super::table::{DefaultValue, Setting};
use super::values::{
    bus_name, choice, duration, number, queue_url, region, rule_name, shown, stack_part, table_name, truth,
};
use super::{Function, LogLevel, Topology};

const EVERY: &[Function] = &Function::ALL;
const DRAINER: &[Function] = &[Function::Drainer];
const NOBODY: &[Function] = &[];
/// Shards of a group; one below the key's limit, so that a doubled number is seen as a mistake and not as an odd shard.
const SHARDS_MAX: u16 = limits::SHARDS_MAX - 1;
/// The queue accepts at least this much by every configuration (SQS's smallest `MaximumMessageSize`).
const REQUEST_BYTES_MIN: usize = 1_024;

/// A row. `$apply` gets the draft and the text.
macro_rules! setting {
    ($name:literal, $what:literal, $default:expr, $rule:literal, $needed:expr, $apply:expr) => {
        Setting {
            name: concat!("FENCEPOST_", $name),
            what: $what,
            default: $default,
            rule: $rule,
            needed_by: $needed,
            apply: $apply,
        }
    };
}

/// A row for a duration of the protocol.
macro_rules! timing {
    ($name:literal, $field:ident, $what:literal, $durable:literal, $fast:literal, $rule:literal) => {
        setting!(
            $name,
            $what,
            DefaultValue::ByProfile { durable: $durable, fast: $fast },
            $rule,
            NOBODY,
            |draft, text| fill(&mut draft.timing.$field, duration(text))
        )
    };
}

fn put<T>(place: &mut T, parsed: Result<T, String>) -> Result<(), String> {
    *place = parsed?;
    Ok(())
}

fn fill<T>(place: &mut Option<T>, parsed: Result<T, String>) -> Result<(), String> {
    put(place, parsed.map(Some))
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::parse(text).ok_or_else(|| format!("is {}; it must be durable or fast", shown(text)))
}

fn policy(text: &str) -> Result<RenewFailurePolicy, String> {
    RenewFailurePolicy::parse(text).ok_or_else(|| format!("is {}; it must be verify or demote", shown(text)))
}

/// A duration that must be longer than nothing.
fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("is {}; it must be 1ms or more", shown(text))),
        some => Ok(some),
    }
}

fn at_most(text: &str, max: Duration, max_text: &str) -> Result<Duration, String> {
    let value = duration(text)?;
    if value <= max { Ok(value) } else { Err(format!("is {}; it must be at most {max_text}", shown(text))) }
}

const TOPOLOGIES: &[(&str, Topology)] =
    &[("single", Topology::Single), ("home", Topology::Home), ("global", Topology::Global)];
const BODY_FORMATS: &[(&str, BodyFormat)] = &[("raw", BodyFormat::Raw), ("cloudevents", BodyFormat::CloudEvents)];
const SOURCES: &[(&str, SourceMode)] = &[("open", SourceMode::Open), ("gated", SourceMode::Gated)];
const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

pub(super) static TABLE: [Setting; 41] = [
    setting!(
        "LEASE",
        "the lease group: one unit of leadership",
        DefaultValue::None,
        "1 to 40 letters, digits, '-', '_', '.'",
        EVERY,
        |draft, text| fill(&mut draft.lease, LeaseName::new(text).map_err(|fault| fault.problem))
    ),
    setting!(
        "INSTANCE",
        "this instance's name",
        DefaultValue::Follows("AWS_REGION"),
        "1 to 64 letters, digits, '-', '_', '.'",
        NOBODY,
        |draft, text| fill(&mut draft.instance, InstanceName::new(text).map_err(|fault| fault.problem))
    ),
    setting!(
        "STACK",
        "the stack's own id; of an ARN the last part counts",
        DefaultValue::None,
        "1 to 200 letters, digits, '-', '_', '.', '/', ':'",
        EVERY,
        |draft, text| fill(&mut draft.stack, StackId::new(stack_part(text)).map_err(|fault| fault.problem))
    ),
    setting!("LEASE_TABLE", "the lease table", DefaultValue::None, "a table's name or ARN", EVERY, |draft, text| {
        fill(&mut draft.lease_table, table_name(text))
    }),
    setting!("OUTBOX_TABLE", "the outbox table", DefaultValue::None, "a table's name or ARN", EVERY, |draft, text| {
        fill(&mut draft.outbox_table, table_name(text))
    }),
    setting!(
        "TOPOLOGY",
        "where the tables are: the own region, another one, a strongly consistent global table",
        DefaultValue::Value("single"),
        "single, home or global; global switches `DEDUPE_WINDOW` and `BATCHING` off",
        NOBODY,
        |draft, text| put(&mut draft.topology, choice(text, TOPOLOGIES))
    ),
    setting!(
        "TABLE_REGION",
        "the region of the tables",
        DefaultValue::None,
        "with topology home, and only then",
        NOBODY,
        |draft, text| fill(&mut draft.table_region, region(text))
    ),
    setting!("QUEUE_URL", "the destination", DefaultValue::None, "an SQS queue's URL", DRAINER, |draft, text| fill(
        &mut draft.queue_url,
        queue_url(text)
    )),
    setting!(
        "ORDERED",
        "keep the order of each device's messages",
        DefaultValue::Follows("true for a queue whose URL ends in .fifo"),
        "true or false; must fit the queue",
        NOBODY,
        |draft, text| fill(&mut draft.ordered, truth(text))
    ),
    setting!(
        "BODY_FORMAT",
        "what a message's body is",
        DefaultValue::Value("raw"),
        "raw or cloudevents",
        NOBODY,
        |draft, text| fill(&mut draft.body_format, choice(text, BODY_FORMATS))
    ),
    setting!(
        "SOURCE",
        "topic rule always enabled, or only while leading",
        DefaultValue::Value("open"),
        "open or gated",
        NOBODY,
        |draft, text| put(&mut draft.source, choice(text, SOURCES))
    ),
    setting!(
        "TOPIC_RULE",
        "the topic rule's name",
        DefaultValue::None,
        "needed by the lease function when gated",
        NOBODY,
        |draft, text| fill(&mut draft.topic_rule, rule_name(text))
    ),
    setting!(
        "SHARDS",
        "shards of the outbox; each carries 1,000 write units a second",
        DefaultValue::Value("16"),
        "1 to 9998",
        NOBODY,
        |draft, text| put(&mut draft.shards, number(text, 1..=SHARDS_MAX))
    ),
    setting!(
        "PREVIOUS_SHARDS",
        "shards before a change; the old range is drained too",
        DefaultValue::None,
        "1 to 9998",
        NOBODY,
        |draft, text| fill(&mut draft.previous_shards, number(text, 1..=SHARDS_MAX))
    ),
    setting!(
        "SHARDS_PER_GROUP",
        "shards that one drain call takes",
        DefaultValue::Value("8"),
        "1 to 64; 8 to 16 is usual",
        NOBODY,
        |draft, text| put(&mut draft.shards_per_group, number(text, 1..=64))
    ),
    setting!(
        "PROFILE",
        "the durations to start from",
        DefaultValue::Value("durable"),
        "durable or fast",
        NOBODY,
        |draft, text| { put(&mut draft.profile, profile(text)) }
    ),
    timing!("LEASE_TTL", lease_ttl, "how long a holder's word lasts", "300s", "14s", "5s to 24h"),
    setting!(
        "MAX_RENEW_FAILS",
        "renewals in a row that may fail",
        DefaultValue::ByProfile { durable: "3", fast: "1" },
        "at least 1",
        NOBODY,
        |draft, text| fill(&mut draft.timing.max_renew_fails, number(text, 0..=1_000))
    ),
    setting!(
        "RENEW_FAILURE_POLICY",
        "then: read once more, or demote",
        DefaultValue::ByProfile { durable: "verify", fast: "demote" },
        "verify or demote",
        NOBODY,
        |draft, text| fill(&mut draft.timing.renew_failure_policy, policy(text))
    ),
    timing!(
        "RENEW_INTERVAL",
        renew_interval,
        "from one renewal to the next; derived from TTL and fails",
        "62.2s",
        "5s",
        "(interval + jitter/2 + call time-out + tick) × fails < TTL − margin"
    ),
    timing!(
        "RENEW_CALL_TIMEOUT",
        renew_call_timeout,
        "one lease call, retries included; half the interval, but 500ms to 5s",
        "5s",
        "2.5s",
        "above 0; see `RENEW_INTERVAL`"
    ),
    timing!(
        "JITTER",
        jitter,
        "width of the interval's random part; an eighth of it",
        "7.8s",
        "625ms",
        "at most the interval"
    ),
    timing!(
        "TICK_INTERVAL",
        tick_interval,
        "from one tick to the next; the least of interval, TTL / 4 and 5s in whole seconds; the profile fast sets it",
        "5s",
        "1s",
        "whole seconds, 1s to 60s"
    ),
    timing!(
        "CLOCK_MARGIN",
        clock_margin,
        "by how much hosts of one region may disagree",
        "500ms",
        "500ms",
        "see `RENEW_INTERVAL`"
    ),
    timing!(
        "CLAIM_BUDGET",
        claim_budget,
        "from the first claim of a page to its last send's start",
        "10s",
        "2s",
        "budget + send time-out < grace"
    ),
    timing!("SEND_TIMEOUT", send_timeout, "one send call", "5s", "2.5s", "see `CLAIM_BUDGET`"),
    timing!(
        "DRAINER_LIMIT",
        drainer_limit,
        "the drainer function's own time limit",
        "30s",
        "10s",
        "at least budget + send time-out + 2s"
    ),
    timing!(
        "STEP_DOWN_GRACE",
        step_down_grace,
        "how long a step-down waits for claims in flight",
        "20s",
        "5s",
        "above budget + send time-out"
    ),
    timing!(
        "STALE_CLAIM_DURATION",
        stale_claim_duration,
        "how long a claim must stand to be settled; grace + 15s",
        "35s",
        "20s",
        "at least drainer limit + 5s; 55s + it + 2 × drainer limit ≤ 270s"
    ),
    timing!(
        "DEDUPE_WINDOW",
        dedupe_window,
        "how long a tombstone is kept; 0s switches them off",
        "5d",
        "5d",
        "0s, or at least 102h (age of a retried event + retention of the failure queue)"
    ),
    setting!(
        "FAILOVER_SLO",
        "a bound for the takeover after a crash, to be enforced",
        DefaultValue::None,
        "at least TTL + margin + 2 × (tick + call time-out)",
        NOBODY,
        |draft, text| fill(&mut draft.timing.failover_slo, duration(text))
    ),
    setting!(
        "MAX_ATTEMPTS",
        "attempts before a record may die; it needs `MAX_AGE` too",
        DefaultValue::Value("20"),
        "1 to 1000000",
        NOBODY,
        |draft, text| put(&mut draft.max_attempts, number(text, 1..=1_000_000))
    ),
    setting!(
        "MAX_AGE",
        "time since its first attempt before a record may die; it needs `MAX_ATTEMPTS` too",
        DefaultValue::Value("1d"),
        "above 0",
        NOBODY,
        |draft, text| put(&mut draft.max_age, positive(text))
    ),
    setting!(
        "BACKOFF_BASE",
        "wait after the first refused send; it doubles",
        DefaultValue::Value("1s"),
        "above 0; at most `BACKOFF_MAX`",
        NOBODY,
        |draft, text| put(&mut draft.backoff_base, positive(text))
    ),
    setting!("BACKOFF_MAX", "the longest such wait", DefaultValue::Value("5m"), "above 0", NOBODY, |draft, text| put(
        &mut draft.backoff_max,
        positive(text)
    )),
    setting!(
        "PAGE_ROWS",
        "rows that one page of a drain takes",
        DefaultValue::Value("100"),
        "1 to 1000",
        NOBODY,
        |draft, text| put(&mut draft.page_rows, number(text, 1..=1_000))
    ),
    setting!(
        "REQUEST_BYTES_MAX",
        "bytes of one message and one request that the queue takes",
        DefaultValue::Value("1048576"),
        "1024 to 1048576",
        NOBODY,
        |draft, text| put(
            &mut draft.request_bytes_max,
            number(text, REQUEST_BYTES_MIN..=limits::QUEUE_REQUEST_BYTES_MAX)
        )
    ),
    setting!(
        "BATCHING",
        "claims, commits and tombstones travel 25 to a request",
        DefaultValue::Value("true"),
        "true or false",
        NOBODY,
        |draft, text| put(&mut draft.batching, truth(text))
    ),
    setting!(
        "STAMP_CACHE",
        "how long ingest believes a lease row that it read",
        DefaultValue::Value("5s"),
        "at most 60s",
        NOBODY,
        |draft, text| put(&mut draft.stamp_cache, at_most(text, Duration::from_secs(60), "60s"))
    ),
    setting!(
        "EVENT_BUS",
        "the event bus that the drainer tells of dead records",
        DefaultValue::Value("default"),
        "1 to 256 letters, digits, '/', '.', '-', '_'",
        NOBODY,
        |draft, text| put(&mut draft.event_bus, bus_name(text))
    ),
    setting!(
        "LOG",
        "how much our own crates log",
        DefaultValue::Value("info"),
        "off, error, warn, info, debug or trace",
        NOBODY,
        |draft, text| put(&mut draft.log, choice(text, LOG_LEVELS))
    ),
];
