use std::collections::BTreeSet;

use fencepost_protocol::ids::{InstanceName, StackId};
use fencepost_protocol::timing::{RenewFailurePolicy, TimingOverrides, duration_text};
use proptest::prelude::*;

use super::*;

/// What every function needs, and a queue.
const ENOUGH: [(&str, &str); 6] = [
    ("FENCEPOST_LEASE", "telemetry"),
    ("FENCEPOST_STACK", "3f1c"),
    ("FENCEPOST_LEASE_TABLE", "bridge-lease"),
    ("FENCEPOST_OUTBOX_TABLE", "bridge-outbox"),
    ("FENCEPOST_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/out"),
    ("AWS_REGION", "eu-central-1"),
];

/// [`ENOUGH`], each name of `changes` replaced or added; an empty value removes it.
fn parse(functions: &[Function], changes: &[(&str, &str)]) -> Result<Settings, SettingsFaults> {
    let kept = ENOUGH.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    let pairs = kept.chain(changes).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::parse(functions, pairs)
}

fn good(changes: &[(&str, &str)]) -> Settings {
    parse(&Function::ALL, changes).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The one fault of `changes`, as it is told.
fn fault(changes: &[(&str, &str)]) -> String {
    let faults = parse(&Function::ALL, changes).expect_err("something is wrong");
    assert_eq!(faults.0.len(), 1, "{faults}");
    faults.to_string()
}

#[test]
fn the_least_that_must_be_set_gives_the_defaults() {
    let settings = good(&[]);
    assert_eq!(settings.identity.name.as_str(), "eu-central-1", "the region unless set");
    assert_eq!(settings.timing, Timing::build(Profile::Durable, &TimingOverrides::default()).unwrap());
    assert_eq!((settings.shards, settings.shards_per_group, settings.drained_shards()), (16, 8, 16));
    assert_eq!((settings.topology, settings.batching), (Topology::Single, true));
    assert_eq!((settings.source, settings.body_format), (SourceMode::Open, BodyFormat::Raw));
    assert!(!settings.destination().unwrap().ordered);
    assert_eq!(settings.store_call_timeout, Duration::from_secs(5));
    assert_eq!(
        settings.drain_policy().unwrap(),
        DrainPolicy::new(settings.timing, false, BodyFormat::Raw),
        "the table's defaults are the protocol's"
    );
    assert_eq!(settings.rules().me, settings.identity);
    assert_eq!(settings.log, LogLevel::Info);
}

#[test]
fn each_setting_arrives_where_it_belongs() {
    let settings = good(&[
        ("FENCEPOST_INSTANCE", "east"),
        ("FENCEPOST_STACK", "arn:aws:cloudformation:eu-central-1:123456789012:stack/bridge/3f1c-9a"),
        ("FENCEPOST_PROFILE", "fast"),
        ("FENCEPOST_LEASE_TTL", "20s"),
        ("FENCEPOST_RENEW_FAILURE_POLICY", "verify"),
        ("FENCEPOST_SHARDS", "64"),
        ("FENCEPOST_PREVIOUS_SHARDS", "128"),
        ("FENCEPOST_SHARDS_PER_GROUP", "16"),
        ("FENCEPOST_TOPOLOGY", "home"),
        ("FENCEPOST_TABLE_REGION", "eu-west-1"),
        ("FENCEPOST_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/out.fifo"),
        ("FENCEPOST_BODY_FORMAT", "cloudevents"),
        ("FENCEPOST_SOURCE", "gated"),
        ("FENCEPOST_TOPIC_RULE", "bridge_rule"),
        ("FENCEPOST_MAX_ATTEMPTS", "7"),
        ("FENCEPOST_MAX_AGE", "90m"),
        ("FENCEPOST_BACKOFF_BASE", "250ms"),
        ("FENCEPOST_BACKOFF_MAX", "2m"),
        ("FENCEPOST_PAGE_ROWS", "50"),
        ("FENCEPOST_REQUEST_BYTES_MAX", "262144"),
        ("FENCEPOST_BATCHING", "false"),
        ("FENCEPOST_STAMP_CACHE", "2.5s"),
        ("FENCEPOST_EVENT_BUS", "ops/bridge"),
        ("FENCEPOST_LOG", "debug"),
        ("FENCEPOST_FAILOVER_SLO", "28s"),
    ]);
    assert_eq!(settings.identity.to_string(), "east (3f1c-9a)");
    assert_eq!(settings.timing.lease_ttl, Duration::from_secs(20));
    assert_eq!(settings.timing.renew_failure_policy, RenewFailurePolicy::Verify);
    assert_eq!(settings.timing.renew_interval, Duration::from_secs(5), "the fast profile's");
    assert_eq!(settings.timing.failover_slo, Some(Duration::from_secs(28)));
    assert_eq!((settings.shards, settings.drained_shards(), settings.shards_per_group), (64, 128, 16));
    assert_eq!(settings.tables.region.as_deref(), Some("eu-west-1"));
    assert!(settings.destination().unwrap().ordered);
    assert_eq!(settings.topic_rule().unwrap(), "bridge_rule");
    assert_eq!((settings.source, settings.body_format), (SourceMode::Gated, BodyFormat::CloudEvents));
    assert_eq!((settings.max_attempts, settings.max_age), (7, Duration::from_secs(5_400)));
    assert_eq!((settings.backoff_base, settings.backoff_max), (Duration::from_millis(250), Duration::from_secs(120)));
    assert_eq!((settings.page_rows, settings.request_bytes_max), (50, 262_144));
    assert!(!settings.batching);
    assert_eq!(settings.stamp_cache, Duration::from_millis(2_500));
    assert_eq!(settings.store_call_timeout, Duration::from_secs(1), "half the claim budget");
    assert_eq!((settings.event_bus.as_str(), good(&[]).event_bus.as_str()), ("ops/bridge", "default"));
    assert_eq!(settings.log, LogLevel::Debug);
}

#[test]
fn a_global_table_has_neither_tombstones_nor_batches() {
    let settings = good(&[("FENCEPOST_TOPOLOGY", "global"), ("FENCEPOST_DEDUPE_WINDOW", "5d")]);
    assert_eq!(settings.timing.dedupe_window, Duration::ZERO);
    assert!(!settings.batching);
}

#[test]
fn a_fault_names_the_setting_and_the_fix() {
    let cases: [(&[(&str, &str)], &str); 27] = [
        (
            &[("FENCEPOST_LEASE_TTL", "300")],
            "FENCEPOST_LEASE_TTL: is \"300\": the unit is missing; write 300s for seconds",
        ),
        (&[("FENCEPOST_EVENT_BUS", "the bus")], "is \"the bus\"; it must be an event bus's name"),
        (&[("FENCEPOST_LEASE_TTL", "5w")], "the unit must be ms, s, m, h or d"),
        (&[("FENCEPOST_LEASE_TTL", "soon")], "a duration is a number and a unit, for example 300s"),
        (&[("FENCEPOST_LEASE_TTL", "-5s")], "a duration is a number and a unit"),
        (&[("FENCEPOST_LEASE_TTL", "0.0001s")], "a fraction must come to whole milliseconds"),
        (&[("FENCEPOST_LEASE_TTL", "1.2.3s")], "a fraction must come to whole milliseconds"),
        (&[("FENCEPOST_LEASE_TTL", "99999999999999999999d")], "it must be at most 3650d"),
        (
            &[
                ("FENCEPOST_LEASE_TTL", "4s"),
                ("FENCEPOST_PROFILE", "fast"),
                ("FENCEPOST_RENEW_INTERVAL", "1s"),
                ("FENCEPOST_RENEW_CALL_TIMEOUT", "500ms"),
            ],
            "FENCEPOST_LEASE_TTL: is 4s; it must be at least 5s",
        ),
        (&[("FENCEPOST_LEAS_TTL", "300s")], "FENCEPOST_LEAS_TTL: is no setting; did you mean FENCEPOST_LEASE_TTL?"),
        (&[("FENCEPOST_TTL", "300s")], "FENCEPOST_TTL: is no setting; did you mean FENCEPOST_"),
        (&[("FENCEPOST_shards", "4")], "did you mean FENCEPOST_SHARDS?"),
        (&[("FENCEPOST_SHARDS", "0")], "FENCEPOST_SHARDS: is \"0\"; it must be a whole number from 1 to 9998"),
        (&[("FENCEPOST_SHARDS", "9999")], "from 1 to 9998"),
        (&[("FENCEPOST_PROFILE", "slow")], "FENCEPOST_PROFILE: is \"slow\"; it must be durable or fast"),
        (&[("FENCEPOST_TOPOLOGY", "galactic")], "it must be single or home or global"),
        (&[("FENCEPOST_TOPOLOGY", "home")], "FENCEPOST_TABLE_REGION: is missing; FENCEPOST_TOPOLOGY=home needs"),
        (&[("FENCEPOST_TABLE_REGION", "eu-west-1")], "only FENCEPOST_TOPOLOGY=home has tables in another region"),
        (&[("FENCEPOST_SOURCE", "gated")], "FENCEPOST_TOPIC_RULE: is missing; FENCEPOST_SOURCE=gated needs"),
        (&[("FENCEPOST_ORDERED", "true")], "is no FIFO queue"),
        (
            &[("FENCEPOST_ORDERED", "false"), ("FENCEPOST_QUEUE_URL", "http://127.0.0.1:1/q.fifo")],
            "is a FIFO queue: unset it",
        ),
        (&[("FENCEPOST_QUEUE_URL", "out")], "FENCEPOST_QUEUE_URL: is \"out\"; it must be a queue's URL"),
        (
            &[("FENCEPOST_QUEUE_URL", "")],
            "FENCEPOST_QUEUE_URL: is missing; the drainer function needs it: the destination",
        ),
        (&[("FENCEPOST_LEASE", "tele metry")], "FENCEPOST_LEASE: has the character ' '"),
        (&[("AWS_REGION", "")], "FENCEPOST_INSTANCE: is missing, and so is AWS_REGION"),
        (&[("FENCEPOST_BACKOFF_BASE", "10m")], "FENCEPOST_BACKOFF_BASE: is above FENCEPOST_BACKOFF_MAX"),
        (&[("FENCEPOST_FAILOVER_SLO", "60s")], "= 320.5s must be at most failover_slo = 60s"),
    ];
    for (changes, words) in cases {
        let told = fault(changes);
        assert!(told.contains(words), "{told:?} does not say {words:?}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let faults = Settings::parse(
        &Function::ALL,
        [
            ("FENCEPOST_LEASE_TTL", "4s"),
            ("FENCEPOST_SHARDS", "many"),
            ("FENCEPOST_SHARD", "4"),
            ("FENCEPOST_STEP_DOWN_GRACE", "3s"),
            ("OTHER_LEASE", "not ours"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    )
    .expect_err("nearly everything is wrong");
    let named: BTreeSet<&str> = faults.0.iter().map(|fault| fault.field.as_str()).collect();
    for name in [
        "FENCEPOST_LEASE",
        "FENCEPOST_INSTANCE",
        "FENCEPOST_STACK",
        "FENCEPOST_LEASE_TABLE",
        "FENCEPOST_OUTBOX_TABLE",
        "FENCEPOST_QUEUE_URL",
        "FENCEPOST_SHARDS",
        "FENCEPOST_SHARD",
        "FENCEPOST_LEASE_TTL",
        "FENCEPOST_STEP_DOWN_GRACE",
    ] {
        assert!(named.contains(name), "{name} is missing in {faults}");
    }
    assert_eq!(faults.to_string().lines().count(), faults.0.len() + 1, "one line each");
}

#[test]
fn a_function_is_asked_only_for_what_it_needs() {
    let without_queue = [("FENCEPOST_QUEUE_URL", "")];
    for function in [Function::Ingest, Function::Lease] {
        let settings = parse(&[function], &without_queue).unwrap();
        assert!(settings.destination().unwrap_err().to_string().contains("FENCEPOST_QUEUE_URL"));
    }
    parse(&[Function::Drainer], &without_queue).expect_err("the drainer needs it");
    let gated = [("FENCEPOST_SOURCE", "gated")];
    parse(&[Function::Ingest, Function::Drainer], &gated).expect("only the lease function switches the rule");
    parse(&[], &[("FENCEPOST_LEASE", "")]).expect_err("a lease group is always needed");
}

#[test]
fn an_empty_value_counts_as_unset_and_the_last_of_two_counts() {
    assert_eq!(good(&[("FENCEPOST_SHARDS", "")]).shards, 16);
    assert_eq!(good(&[("FENCEPOST_SHARDS", "4"), ("FENCEPOST_SHARDS", "32")]).shards, 32);
}

#[test]
fn a_long_wrong_value_is_cut_and_a_long_wrong_name_too() {
    let long = "x".repeat(100_000);
    assert!(fault(&[("FENCEPOST_SHARDS", &long)]).len() < 200);
    assert!(fault(&[(&format!("FENCEPOST_{long}"), "1")]).len() < 250);
}

#[test]
fn the_tables_words_about_the_durations_are_true() {
    let of = |timing: &Timing, field: &str| match field {
        "LEASE_TTL" => duration_text(timing.lease_ttl),
        "MAX_RENEW_FAILS" => timing.max_renew_fails.to_string(),
        "RENEW_FAILURE_POLICY" => timing.renew_failure_policy.as_str().to_owned(),
        "RENEW_INTERVAL" => duration_text(timing.renew_interval),
        "RENEW_CALL_TIMEOUT" => duration_text(timing.renew_call_timeout),
        "JITTER" => duration_text(timing.jitter),
        "TICK_INTERVAL" => duration_text(timing.tick_interval),
        "CLOCK_MARGIN" => duration_text(timing.clock_margin),
        "CLAIM_BUDGET" => duration_text(timing.claim_budget),
        "SEND_TIMEOUT" => duration_text(timing.send_timeout),
        "DRAINER_LIMIT" => duration_text(timing.drainer_limit),
        "STEP_DOWN_GRACE" => duration_text(timing.step_down_grace),
        "STALE_CLAIM_DURATION" => duration_text(timing.stale_claim_duration),
        "DEDUPE_WINDOW" => duration_text(timing.dedupe_window),
        other => panic!("{other} has a default by profile, but no duration"),
    };
    let build = |profile| Timing::build(profile, &TimingOverrides::default()).unwrap();
    let (slow, quick) = (build(Profile::Durable), build(Profile::Fast));
    let mut checked = 0;
    for setting in table() {
        if let DefaultValue::ByProfile { durable, fast } = setting.default {
            let field = setting.name.strip_prefix(PREFIX).unwrap();
            assert_eq!((of(&slow, field).as_str(), of(&quick, field).as_str()), (durable, fast), "{field}");
            checked += 1;
        }
    }
    assert_eq!(checked, 14);
}

#[test]
fn the_table_has_each_name_once_and_words_for_all() {
    let names: BTreeSet<&str> = table().iter().map(|setting| setting.name).collect();
    assert_eq!(names.len(), table().len());
    for setting in table() {
        assert!(setting.name.starts_with(PREFIX) && !setting.what.is_empty() && !setting.rule.is_empty());
    }
    let text = markdown();
    assert_eq!(text.lines().count(), table().len() + 2);
    let row = "| `FENCEPOST_LEASE_TTL` | how long a holder's word lasts | `300s`; fast `14s` | 5s to 24h. |";
    assert!(text.lines().any(|line| line == row), "{text}");
    assert!(text.contains("an SQS queue's URL. **Required by drainer.** |"));
}

#[test]
fn every_timing_field_can_be_set_by_its_name() {
    for (name, value) in [
        ("LEASE_TTL", "320s"),
        ("RENEW_INTERVAL", "50s"),
        ("RENEW_CALL_TIMEOUT", "4s"),
        ("JITTER", "3s"),
        ("TICK_INTERVAL", "4s"),
        ("CLOCK_MARGIN", "1s"),
        ("CLAIM_BUDGET", "9s"),
        ("SEND_TIMEOUT", "4s"),
        ("DRAINER_LIMIT", "29s"),
        ("STEP_DOWN_GRACE", "21s"),
        ("STALE_CLAIM_DURATION", "40s"),
        ("DEDUPE_WINDOW", "6d"),
        ("FAILOVER_SLO", "400s"),
        ("MAX_RENEW_FAILS", "2"),
        ("RENEW_FAILURE_POLICY", "demote"),
    ] {
        let changed = good(&[(&format!("{PREFIX}{name}"), value)]).timing;
        assert_ne!(changed, good(&[]).timing, "{name} changes nothing");
    }
}

#[test]
fn ids_that_a_template_would_pass_are_taken() {
    let stack = "arn:aws:cloudformation:us-east-1:1:stack/a-b/0f".to_owned();
    assert_eq!(good(&[("FENCEPOST_STACK", &stack)]).identity.stack, StackId::new("0f").unwrap());
    let arn = "arn:aws:dynamodb:us-east-1:123456789012:table/bridge-lease";
    assert_eq!(good(&[("FENCEPOST_LEASE_TABLE", arn)]).tables.lease, arn);
    assert_eq!(good(&[("AWS_REGION", "us-gov-west-1")]).identity.name, InstanceName::new("us-gov-west-1").unwrap());
    assert_eq!(fault(&[("FENCEPOST_OUTBOX_TABLE", "x")]).split(';').next(), Some("FENCEPOST_OUTBOX_TABLE: is \"x\""));
}

fn some_name() -> impl Strategy<Value = String> {
    let known = proptest::sample::select(table().iter().map(|setting| setting.name.to_owned()).collect::<Vec<_>>());
    prop_oneof![6 => known, 1 => "FENCEPOST_[A-Z_]{0,20}", 1 => ".{0,30}", 1 => Just("AWS_REGION".to_owned())]
}

fn some_value() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        "[0-9]{0,25}(\\.[0-9]{0,30})?(ms|s|m|h|d|w)?",
        any::<u64>().prop_map(|n| n.to_string()),
        proptest::sample::select(
            ["true", "false", "fast", "durable", "home", "global", "gated", "verify", "https://h/q.fifo", "arn:/", "é"]
                .map(str::to_owned)
                .to_vec()
        ),
    ]
}

proptest! {
    #[test]
    fn parsing_never_panics_and_explains_what_it_refuses(
        pairs in proptest::collection::vec((some_name(), some_value()), 0..24),
        enough in any::<bool>(),
    ) {
        let base = ENOUGH.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let base = base.into_iter().filter(|_| enough);
        match Settings::parse(&Function::ALL, base.chain(pairs)) {
            Ok(settings) => {
                prop_assert!(settings.drain_policy().is_ok());
                prop_assert!((1..=9_998).contains(&settings.drained_shards()));
                prop_assert!(settings.timing.lease_ttl >= Duration::from_secs(5));
                prop_assert!(settings.topology != Topology::Global || settings.timing.dedupe_window.is_zero());
            }
            Err(faults) => {
                prop_assert!(!faults.0.is_empty());
                prop_assert!(faults.0.iter().all(|fault| !fault.field.is_empty() && !fault.problem.is_empty()));
            }
        }
    }

    #[test]
    fn a_duration_is_what_it_says(number in 0_u64..3_650, unit in 0_usize..5) {
        let (name, unit_ms) = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)][unit];
        let parsed = values::duration(&format!("{number}{name}"));
        prop_assert_eq!(parsed, Ok(Duration::from_millis(number * unit_ms)));
    }

    #[test]
    fn what_is_printed_can_be_set(tenths in 10_u64..30_000_000) {
        let duration = Duration::from_millis(tenths * 100);
        prop_assert_eq!(values::duration(&duration_text(duration)), Ok(duration));
    }
}
