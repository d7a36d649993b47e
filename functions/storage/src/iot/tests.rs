//! The topic rule through the real SDK client, over a server that answers by a script.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use serde_json::json;

use super::TopicRuleSource;
use crate::call::CallPolicy;
use crate::loopback::world::clients_at;
use crate::loopback::{Act, Loopback, error_reply};
use crate::ports::Source as _;

const POLICY: CallPolicy =
    CallPolicy { call_timeout: Duration::from_secs(10), attempt_timeout: Duration::from_secs(5), max_attempts: 2 };

async fn source_of(act: Act) -> (Loopback, TopicRuleSource) {
    let stub = Loopback::start(None, move |_, _| act.clone()).await;
    let clients = clients_at(&stub.url).await;
    (stub, TopicRuleSource::new(&clients, "fencepost_telemetry", POLICY, None))
}

#[tokio::test]
async fn a_rule_is_on_unless_it_says_that_it_is_off() {
    let cases = [
        (json!({"rule": {"ruleName": "fencepost_telemetry", "ruleDisabled": false}}), true),
        (json!({"rule": {"ruleName": "fencepost_telemetry", "ruleDisabled": true}}), false),
        (json!({"rule": {"ruleName": "fencepost_telemetry"}}), true),
    ];
    for (body, enabled) in cases {
        let (stub, source) = source_of(Act::Reply(200, body.to_string())).await;
        assert_eq!(source.is_enabled().await, Ok(enabled), "{body}");
        assert_eq!(stub.count("GET /rules/fencepost_telemetry"), 1);
    }
}

#[tokio::test]
async fn the_switch_goes_both_ways() {
    let (stub, source) = source_of(Act::Reply(200, "{}".to_owned())).await;
    assert_eq!(source.set_enabled(true).await, Ok(()));
    assert_eq!(source.set_enabled(false).await, Ok(()));
    assert_eq!(stub.count("POST /rules/fencepost_telemetry/enable"), 1);
    assert_eq!(stub.count("POST /rules/fencepost_telemetry/disable"), 1);
}

#[tokio::test]
async fn failures_have_their_kinds() {
    let cases = [
        (error_reply(429, "ThrottlingException"), FailureKind::Throttled, 2),
        (error_reply(409, "ConflictingResourceUpdateException"), FailureKind::Throttled, 1),
        (error_reply(500, "InternalException"), FailureKind::Unavailable, 2),
        (error_reply(400, "InvalidRequestException"), FailureKind::Invalid, 1),
    ];
    for (act, kind, requests) in cases {
        let words = format!("{act:?}");
        let (stub, source) = source_of(act).await;
        let failure = source.set_enabled(true).await.expect_err("it fails");
        assert_eq!((failure.kind, stub.requests().len()), (kind, requests), "{words}: {failure}");
    }
}

#[tokio::test]
async fn a_rule_that_may_be_missing_is_named_with_its_setting() {
    let (_stub, source) = source_of(error_reply(401, "UnauthorizedException")).await;
    let failure = source.is_enabled().await.expect_err("it fails");
    assert_eq!(failure.kind, FailureKind::Denied);
    for words in ["fencepost_telemetry", "FENCEPOST_TOPIC_RULE"] {
        assert!(failure.detail.contains(words), "{failure}");
    }
}
