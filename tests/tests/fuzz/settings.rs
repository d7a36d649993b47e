//! The settings: pairs of name and text, as an environment or CloudFormation hands them over.

use std::time::Duration;

use fencepost_protocol::lease::SourceMode;
use fencepost_runtime::settings::{Function, LogLevel, Settings, Topology, table};
use serde_json::{Map, Value, json};

use crate::decoder::{Decoder, Refusal, STRICT};

/// All settings, for all functions.
pub(crate) const SETTINGS: Decoder = Decoder {
    name: "settings",
    decode,
    optional: &[
        ("AWS_REGION", "the instance has a name"),
        ("FENCEPOST_INSTANCE", "the region is its name"),
        ("FENCEPOST_ORDERED", "the queue's URL tells"),
        ("FENCEPOST_*", "what has a default; the seeds that are refused hold what has none"),
    ],
    unread: &[("AWS_REGION", "the instance has a name"), ("PATH", "an environment holds names of others")],
    open: &[("", "an environment holds names of others")],
    blamed: &[("FENCEPOST_LEASE_TTL", "FENCEPOST_RENEW_INTERVAL"), ("FENCEPOST_QUEUE_URL", "FENCEPOST_ORDERED")],
    texts_only: true,
    ..STRICT
};

fn decode(input: &Value) -> Result<Value, Refusal> {
    let pairs = input.as_object().into_iter().flatten().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), text)
    });
    let settings = Settings::parse(&Function::ALL, pairs).map_err(|faults| {
        let field = faults.0.first().map(|fault| fault.field.clone()).unwrap_or_default();
        Refusal { field, problem: faults.to_string() }
    })?;
    Ok(written(&settings))
}

/// Every setting by its name.
fn written(settings: &Settings) -> Value {
    let timing = &settings.timing;
    let topology = match settings.topology {
        Topology::Single => "single",
        Topology::Home => "home",
        Topology::Global => "global",
    };
    let source = match settings.source {
        SourceMode::Open => "open",
        SourceMode::Gated => "gated",
    };
    let log = match settings.log {
        LogLevel::Off => "off",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let destination = settings.destination().unwrap();
    let ms = |duration: Duration| format!("{}ms", duration.as_millis());
    let optional = |text: Option<String>| text.unwrap_or_default();
    let pairs = [
        ("LEASE", settings.lease.to_string()),
        ("INSTANCE", settings.identity.name.to_string()),
        ("STACK", settings.identity.stack.to_string()),
        ("LEASE_TABLE", settings.tables.lease.clone()),
        ("OUTBOX_TABLE", settings.tables.outbox.clone()),
        ("TOPOLOGY", topology.to_owned()),
        ("TABLE_REGION", optional(settings.tables.region.clone())),
        ("QUEUE_URL", destination.url.clone()),
        ("ORDERED", destination.ordered.to_string()),
        ("BODY_FORMAT", settings.body_format.as_str().to_owned()),
        ("SOURCE", source.to_owned()),
        ("TOPIC_RULE", optional(settings.topic_rule.clone())),
        ("SHARDS", settings.shards.to_string()),
        ("PREVIOUS_SHARDS", optional(settings.previous_shards.map(|count| count.to_string()))),
        ("SHARDS_PER_GROUP", settings.shards_per_group.to_string()),
        ("PROFILE", settings.profile.as_str().to_owned()),
        ("LEASE_TTL", ms(timing.lease_ttl)),
        ("MAX_RENEW_FAILS", timing.max_renew_fails.to_string()),
        ("RENEW_FAILURE_POLICY", timing.renew_failure_policy.as_str().to_owned()),
        ("RENEW_INTERVAL", ms(timing.renew_interval)),
        ("RENEW_CALL_TIMEOUT", ms(timing.renew_call_timeout)),
        ("JITTER", ms(timing.jitter)),
        ("TICK_INTERVAL", ms(timing.tick_interval)),
        ("CLOCK_MARGIN", ms(timing.clock_margin)),
        ("CLAIM_BUDGET", ms(timing.claim_budget)),
        ("SEND_TIMEOUT", ms(timing.send_timeout)),
        ("DRAINER_LIMIT", ms(timing.drainer_limit)),
        ("STEP_DOWN_GRACE", ms(timing.step_down_grace)),
        ("STALE_CLAIM_DURATION", ms(timing.stale_claim_duration)),
        ("DEDUPE_WINDOW", ms(timing.dedupe_window)),
        ("FAILOVER_SLO", optional(timing.failover_slo.map(ms))),
        ("MAX_ATTEMPTS", settings.max_attempts.to_string()),
        ("MAX_AGE", ms(settings.max_age)),
        ("BACKOFF_BASE", ms(settings.backoff_base)),
        ("BACKOFF_MAX", ms(settings.backoff_max)),
        ("PAGE_ROWS", settings.page_rows.to_string()),
        ("REQUEST_BYTES_MAX", settings.request_bytes_max.to_string()),
        ("BATCHING", settings.batching.to_string()),
        ("STAMP_CACHE", ms(settings.stamp_cache)),
        ("EVENT_BUS", settings.event_bus.clone()),
        ("LOG", log.to_owned()),
    ];
    assert_eq!(pairs.len(), table().len(), "a setting is not written anew");
    Value::Object(
        pairs.into_iter().map(|(name, text)| (format!("FENCEPOST_{name}"), json!(text))).collect::<Map<_, _>>(),
    )
}
