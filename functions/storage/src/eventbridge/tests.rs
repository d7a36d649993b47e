//! The event bus through the real SDK client, over a server that answers by a script.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use serde_json::json;

use super::EventBridgeBus;
use crate::loopback::world::clients_at;
use crate::loopback::{Act, Loopback, error_reply};
use crate::ports::{BusEvent, EventBus as _};

const OPERATION: &str = "PutEvents";

async fn bus_of(act: Act, timeout: Duration) -> (Loopback, EventBridgeBus) {
    let stub = Loopback::start(None, move |_, _| act.clone()).await;
    let clients = clients_at(&stub.url).await;
    (stub, EventBridgeBus::new(&clients, "alarms", timeout))
}

async fn put(act: Act) -> (Loopback, Result<(), crate::StoreError>) {
    let (stub, bus) = bus_of(act, Duration::from_secs(10)).await;
    let event = BusEvent { detail_type: "Records Dead", detail: json!({ "count": 3 }).to_string() };
    let result = bus.put_event(&event).await;
    (stub, result)
}

fn entry_reply(code: &str) -> Act {
    let entry = json!({ "ErrorCode": code, "ErrorMessage": "as told" });
    Act::Reply(200, json!({ "FailedEntryCount": 1, "Entries": [entry] }).to_string())
}

#[tokio::test]
async fn an_event_is_one_request_with_source_type_bus_and_detail() {
    let reply = json!({ "FailedEntryCount": 0, "Entries": [{ "EventId": "1" }] });
    let (stub, result) = put(Act::Reply(200, reply.to_string())).await;
    assert_eq!(result, Ok(()));
    let requests = stub.requests();
    assert_eq!((requests.len(), stub.count(OPERATION)), (1, 1));
    let entry = json!({
        "Source": "fencepost", "DetailType": "Records Dead", "Detail": "{\"count\":3}", "EventBusName": "alarms",
    });
    assert_eq!(requests[0].json(), json!({ "Entries": [entry] }));
}

#[tokio::test]
async fn an_answered_call_whose_entry_was_refused_is_a_failure_of_its_kind() {
    let cases = [
        ("ThrottlingException", FailureKind::Throttled),
        ("InternalFailure", FailureKind::Unavailable),
        ("NotAuthorizedForSourceException", FailureKind::Invalid),
        ("AccessDeniedException", FailureKind::Denied),
    ];
    for (code, kind) in cases {
        let (stub, result) = put(entry_reply(code)).await;
        let failure = result.expect_err(code);
        assert_eq!((failure.kind, stub.requests().len()), (kind, 1), "{failure}");
        assert!(failure.detail.contains(code), "{failure}");
        let hint = failure.detail.contains("FENCEPOST_EVENT_BUS");
        assert_eq!(hint, matches!(kind, FailureKind::Invalid | FailureKind::Denied), "{failure}");
    }
    let (_stub, result) = put(Act::Reply(200, json!({ "FailedEntryCount": 1 }).to_string())).await;
    assert_eq!(result.expect_err("an entry failed, and nothing says why").kind, FailureKind::Invalid);
}

#[tokio::test]
async fn a_failed_call_is_tried_once_and_has_its_kind() {
    let cases = [
        (error_reply(400, "ThrottlingException"), FailureKind::Throttled),
        (error_reply(500, "InternalException"), FailureKind::Unavailable),
        (error_reply(400, "AccessDeniedException"), FailureKind::Denied),
        (error_reply(400, "ResourceNotFoundException"), FailureKind::Invalid),
    ];
    for (act, kind) in cases {
        let words = format!("{act:?}");
        let (stub, result) = put(act).await;
        assert_eq!(result.expect_err(&words).kind, kind, "{words}");
        assert_eq!(stub.requests().len(), 1, "{words}: how often to try is the caller's");
    }
}

#[tokio::test]
async fn a_bus_that_does_not_answer_is_given_up_in_time() {
    let (stub, bus) = bus_of(Act::Hang, Duration::from_millis(100)).await;
    let event = BusEvent { detail_type: "Records Dead", detail: "{}".to_owned() };
    assert_eq!(bus.put_event(&event).await.expect_err("no answer").kind, FailureKind::TimedOut);
    assert_eq!(stub.requests().len(), 1);
}
