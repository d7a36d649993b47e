//! What a wrong setting is told, at deployment and at the start of a function.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use fencepost_lease::{Entry, LeaseFunction};
use fencepost_protocol::tables::{Replication, TableFacts};
use fencepost_runtime::clock::{Clock, ManualClock};
use fencepost_runtime::failure::{ErrorType, FunctionError};
use fencepost_runtime::lambda::Limit;
use fencepost_runtime::settings::{Function, Settings};
use fencepost_storage::memory::MemoryTableInspection;
use fencepost_tests::harness::START;
use serde_json::{Value, json};

/// Settings that are changed, by name.
type Changes<'a> = &'a [(&'a str, &'a str)];

/// Sound settings of a deployment; `changes` win.
fn pairs(changes: Changes<'_>) -> Vec<(String, String)> {
    let sound = [
        ("FENCEPOST_LEASE", "telemetry"),
        ("FENCEPOST_STACK", "5b918d10"),
        ("FENCEPOST_LEASE_TABLE", "lease-table"),
        ("FENCEPOST_OUTBOX_TABLE", "outbox-table"),
        ("FENCEPOST_QUEUE_URL", "http://127.0.0.1/queue"),
        ("AWS_REGION", "eu-central-1"),
    ];
    let kept = sound.iter().filter(|(name, _)| !changes.iter().any(|(other, _)| other == name));
    kept.chain(changes).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Tables as the stacks make them.
fn tables() -> Arc<MemoryTableInspection> {
    let inspection = MemoryTableInspection::default();
    for (table, expires_by) in [("lease-table", None), ("outbox-table", Some("expires_at".to_owned()))] {
        inspection.tell(table, TableFacts { has_our_keys: true, replication: Replication::OneRegion, expires_by });
    }
    Arc::new(inspection)
}

/// What a function answers its first caller where these settings stand in its environment.
async fn told_at_start(changes: Changes<'_>) -> String {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(START));
    let pairs = pairs(changes);
    let build = || {
        let failed = Settings::parse(&Function::ALL, pairs.clone()).map_err(FunctionError::from).err();
        std::future::ready(Err::<LeaseFunction, _>(failed.expect("these settings are wrong")))
    };
    let entry = Entry::open(Arc::clone(&clock), tables(), build).await.unwrap();
    let tick = json!({ "command": "tick", "loop": { "started_at_ms": START, "name": "loop" }, "carried": null });
    let error = entry.handle(tick, &Limit::new(clock.now(), Duration::from_secs(30))).await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::SettingsInvalid);
    error.message
}

/// What CloudFormation is answered at a stack's creation with these settings: status and reason.
async fn told_at_deployment(changes: Changes<'_>) -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/answer", listener.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let (mut read, mut part) = (Vec::new(), [0; 4096]);
        loop {
            let length = connection.read(&mut part).unwrap();
            assert_ne!(length, 0, "the answer broke off");
            read.extend_from_slice(&part[..length]);
            let text = String::from_utf8_lossy(&read).into_owned();
            let body = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Value>(body).ok());
            if let Some(body) = body {
                connection.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
                return body;
            }
        }
    });
    let properties: serde_json::Map<String, Value> = pairs(changes)
        .into_iter()
        .filter(|(name, _)| name != "AWS_REGION")
        .map(|(name, value)| (name, value.into()))
        .collect();
    let request = json!({
        "RequestType": "Create",
        "ResponseURL": url,
        "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/east/5b918d10",
        "RequestId": "1f0e2d3c",
        "ResourceType": "Custom::FencepostSettings",
        "LogicalResourceId": "Settings",
        "ResourceProperties": properties,
    });
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(START));
    // The lifecycle function's own settings are wrong as well; it answers all the same.
    let broken = || std::future::ready(Err(FunctionError::new(ErrorType::SettingsInvalid, "wrong")));
    let entry = Entry::open(Arc::clone(&clock), tables(), broken).await.unwrap();
    entry.handle(request, &Limit::new(clock.now(), Duration::from_secs(60))).await.unwrap();
    let answer = answer.join().unwrap();
    let part = |name: &str| answer[name].as_str().unwrap().to_owned();
    (part("Status"), part("Reason"))
}

/// Reported: durations in the wrong order were accepted, and two leaders met months later; a bare number was seconds here and
/// milliseconds there; a misspelt setting was silently the default. Right: refused, with the inequality in numbers, all faults
/// at once, at deployment and again at the start of each function.
///
/// Kills: `renewals_need_not_fit_the_ttl`
#[tokio::test]
async fn case_17_wrong_settings_are_refused_with_the_inequality_all_at_once() {
    let cases: [(Changes<'_>, &[&str]); 6] = [
        (
            &[("FENCEPOST_LEASE_TTL", "60s"), ("FENCEPOST_RENEW_INTERVAL", "24s")],
            &[
                "FENCEPOST_RENEW_INTERVAL: (renew_interval + jitter/2 + renew_call_timeout + tick_interval) × max_renew_fails: \
                 (24s + 1.5s + 5s + 5s) × 3 = 106.5s must be below lease_ttl − clock_margin = 59.5s",
            ],
        ),
        (
            &[
                ("FENCEPOST_STEP_DOWN_GRACE", "15s"),
                ("FENCEPOST_STALE_CLAIM_DURATION", "34s"),
                ("FENCEPOST_FAILOVER_SLO", "5m"),
            ],
            &[
                "claim_budget + send_timeout = 10s + 5s = 15s must be below step_down_grace = 15s",
                "FENCEPOST_STALE_CLAIM_DURATION: is 34s; it must be at least drainer_limit + 5s = 30s + 5s = 35s",
                "lease_ttl + clock_margin + 2 × (tick_interval + renew_call_timeout) = 300s + 500ms + 2 × (5s + 5s) = 320.5s",
            ],
        ),
        (
            &[("FENCEPOST_LEASE_TTL", "300"), ("FENCEPOST_TICK_INTERVAL", "5"), ("FENCEPOST_CLOCK_MARGIN", "500")],
            &[
                "FENCEPOST_LEASE_TTL: is \"300\": the unit is missing; write 300s for seconds",
                "FENCEPOST_TICK_INTERVAL: is \"5\": the unit is missing; write 5s for seconds",
                "FENCEPOST_CLOCK_MARGIN: is \"500\": the unit is missing",
            ],
        ),
        (
            &[("FENCEPOST_LEAS_TTL", "300s"), ("FENCEPOST_LEASE_TTL", "3s"), ("FENCEPOST_SHARDS", "0")],
            &[
                "FENCEPOST_LEAS_TTL: is no setting; did you mean FENCEPOST_LEASE_TTL?",
                "FENCEPOST_SHARDS: is \"0\"; it must be a whole number from 1 to 9998",
            ],
        ),
        (
            &[("FENCEPOST_LEASE_TTL", "4s"), ("FENCEPOST_MAX_RENEW_FAILS", "0"), ("FENCEPOST_DEDUPE_WINDOW", "1h")],
            &[
                "FENCEPOST_LEASE_TTL: is 4s; it must be at least 5s",
                "FENCEPOST_MAX_RENEW_FAILS: is 0; it must be at least 1",
                "FENCEPOST_DEDUPE_WINDOW: is 1h; it must be 0s (off) or at least",
            ],
        ),
        (&[("FENCEPOST_TICK_INTERVAL", "1500ms")], &["must be whole seconds, 1s to 60s"]),
    ];
    for (changes, expected) in cases {
        let (status, reason) = told_at_deployment(changes).await;
        assert_eq!(status, "FAILED", "{changes:?}");
        let message = told_at_start(changes).await;
        for words in expected {
            assert!(reason.contains(words), "at deployment: {words:?} is not in {reason}");
            assert!(message.contains(words), "at the start: {words:?} is not in {message}");
        }
    }
    // The smallest derived TTL that passes is about 9s; profiles pass as they are.
    for sound in [&[][..], &[("FENCEPOST_PROFILE", "fast")], &[("FENCEPOST_LEASE_TTL", "9s")]] {
        let (status, reason) = told_at_deployment(sound).await;
        assert_eq!(status, "SUCCESS", "{sound:?}: {reason}");
    }
}
