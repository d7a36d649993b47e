use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};

use fencepost_protocol::ids::{InstanceName, LeaseName};
use fencepost_protocol::time::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::clock::ManualClock;
use crate::settings::{Function, Settings};

const AT: Timestamp = Timestamp::from_ms(1_767_225_600_000);

fn labels() -> Labels {
    Labels { lease: LeaseName::new("telemetry").unwrap(), instance: InstanceName::new("east").unwrap() }
}

fn metrics(sink: Arc<dyn MetricSink>) -> Metrics {
    Metrics::new(labels(), Arc::new(ManualClock::new(AT)), sink)
}

fn emf_lines(values: &[(Metric, f64)]) -> Vec<Value> {
    let sink = EmfSink::new(Vec::new());
    sink.record(AT, &labels(), values);
    let text = String::from_utf8(sink.into_inner()).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "lines are whole");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_is_the_embedded_metric_format() {
    let lines = emf_lines(&[(Metric::LeaseHeld, 1.0), (Metric::RenewLatency, 12.5)]);
    assert_eq!(
        lines,
        [json!({
            "_aws": {
                "Timestamp": 1_767_225_600_000_u64,
                "CloudWatchMetrics": [{
                    "Namespace": "Fencepost",
                    "Dimensions": [["lease", "instance"], []],
                    "Metrics": [{"Name": "LeaseHeld"}, {"Name": "RenewLatency", "Unit": "Milliseconds"}],
                }],
            },
            "lease": "telemetry",
            "instance": "east",
            "LeaseHeld": 1,
            "RenewLatency": 12.5,
        })]
    );
}

#[test]
fn every_metric_has_its_name_and_unit_in_the_line() {
    let all: Vec<(Metric, f64)> = Metric::ALL.iter().map(|metric| (*metric, 1.0)).collect();
    let lines = emf_lines(&all);
    assert_eq!(lines.len(), 1);
    let declared = lines[0]["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
    assert_eq!(declared.len(), Metric::ALL.len());
    for (metric, declared) in Metric::ALL.iter().zip(declared) {
        assert_eq!(declared["Name"], metric.name());
        let unit = match metric.unit() {
            Unit::Count => json!("Count"),
            Unit::Milliseconds => json!("Milliseconds"),
            Unit::Seconds => json!("Seconds"),
            Unit::None => Value::Null,
        };
        assert_eq!(declared["Unit"], unit, "{metric}");
        assert_eq!(lines[0][metric.name()].as_f64(), Some(1.0));
    }
}

#[test]
fn the_names_are_those_of_the_architecture() {
    let wanted = "LeaseHeld, FencingToken, LeaseAcquired, LeaseLost, LeaseTransfers, RenewLatency, RenewFailures, \
                  TakeoverDuration, Ingested, IngestDuplicates, PersistLatency, OutboxOutstanding, OldestOutstandingAge, \
                  Claimed, ClaimConflicts, StaleClaims, Sent, Committed, CommitsFenced, DuplicateRisk, SendFailures, Dead, \
                  Redriven, TokenRegression, EndToEndLatency, DrainDuration";
    let names: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    assert_eq!(names.len(), Metric::ALL.len());
    for name in wanted.split(", ") {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn many_observations_of_one_metric_share_lines_of_a_hundred() {
    let values: Vec<(Metric, f64)> = (0..250).map(|n| (Metric::EndToEndLatency, f64::from(n))).collect();
    let lines = emf_lines(&values);
    assert_eq!(lines.len(), 3);
    let of = |line: &Value| -> Vec<f64> {
        line["EndToEndLatency"]["Values"].as_array().unwrap().iter().filter_map(Value::as_f64).collect()
    };
    let seen: Vec<f64> = lines.iter().flat_map(of).collect();
    assert_eq!(seen, (0..250).map(f64::from).collect::<Vec<_>>());
    assert!(lines.iter().all(|line| of(line).len() <= 100));
    assert!(emf_lines(&[]).is_empty());
}

#[test]
fn what_cloudwatch_would_refuse_is_left_out() {
    let sink = Arc::new(CollectedMetrics::default());
    let metrics = metrics(sink.clone());
    metrics.emit(&[(Metric::Sent, f64::NAN), (Metric::Sent, -1.0), (Metric::Sent, f64::INFINITY), (Metric::Sent, 3.0)]);
    metrics.emit(&[(Metric::Dead, f64::NAN)]);
    assert_eq!(sink.values(Metric::Sent), [3.0]);
    assert_eq!(sink.recorded().len(), 1);
    assert_eq!(sink.recorded()[0].at, AT);
    assert_eq!(sink.recorded()[0].labels, labels());
    metrics.emit(&[(Metric::Sent, 4.0)]);
    assert!((sink.total(Metric::Sent) - 7.0).abs() < f64::EPSILON);
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log lines that `tell` causes at `level`.
fn logged(level: &str, tell: impl FnOnce()) -> Vec<Value> {
    let pairs = [
        ("FENCEPOST_LEASE", "telemetry"),
        ("FENCEPOST_INSTANCE", "east"),
        ("FENCEPOST_STACK", "s-1"),
        ("FENCEPOST_LEASE_TABLE", "lease"),
        ("FENCEPOST_OUTBOX_TABLE", "outbox"),
        ("FENCEPOST_LOG", level),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::parse(&[Function::Lease], pairs).unwrap();
    let out = Lines::default();
    let subscriber = subscriber(&settings, Arc::new(ManualClock::new(AT)), LineWriter::new(out.clone()));
    tracing::subscriber::with_default(subscriber, tell);
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_holds_the_fields_of_the_event_and_of_all_spans_around_it() {
    let lines = logged("info", || {
        let outer = tracing::info_span!("invocation", request_id = "r-1", shard = "outer");
        let _outer = outer.enter();
        let inner = tracing::info_span!("drain", shard = "telemetry#0003", token = tracing::field::Empty);
        let _inner = inner.enter();
        inner.record("token", 7_u64);
        tracing::info!(claim = %"c-1", message_id = "m-1", "claimed");
    });
    assert_eq!(
        lines,
        [json!({
            "timestamp_ms": 1_767_225_600_000_u64,
            "level": "INFO",
            "target": "fencepost_runtime::telemetry::tests",
            "lease": "telemetry",
            "instance": "east",
            "stack": "s-1",
            "request_id": "r-1",
            "shard": "telemetry#0003",
            "token": 7,
            "claim": "c-1",
            "message_id": "m-1",
            "message": "claimed",
        })]
    );
}

#[test]
fn a_payload_never_reaches_a_line() {
    let lines = logged("trace", || {
        let span = tracing::info_span!("ingest", body = "secret");
        let _span = span.enter();
        tracing::warn!(payload = "secret", data = ?b"secret", event = "secret", "stored");
    });
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["payload"], "withheld");
    assert!(!lines[0].to_string().contains("secret"));
}

#[test]
fn the_level_is_ours_and_libraries_stay_at_warnings() {
    let tell = || {
        tracing::debug!("ours, debug");
        tracing::error!("ours, error");
        tracing::debug!(target: "aws_smithy_runtime", "a request with its body");
        tracing::warn!(target: "aws_smithy_runtime", "a warning");
    };
    let messages = |level: &str| -> Vec<String> {
        logged(level, tell).iter().map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(messages("trace"), ["ours, debug", "ours, error", "a warning"]);
    assert_eq!(messages("info"), ["ours, error", "a warning"]);
    assert_eq!(messages("error"), ["ours, error"]);
    assert!(messages("off").is_empty());
}
