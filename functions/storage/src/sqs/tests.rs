//! The queue through the real SDK client, over a server that answers by a script. Over a queue that keeps messages the
//! conformance suite runs it.

use std::time::Duration;

use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::failure::FailureKind;
use serde_json::json;

use super::SqsQueue;
use crate::StoreError;
use crate::loopback::world::clients_at;
use crate::loopback::{Act, Loopback, error_reply};
use fencepost_protocol::drain::{QueueRefusal, QueueReply};

use crate::ports::Queue as _;

const SEND_TIMEOUT: Duration = Duration::from_secs(5);

fn entry(id: &str) -> QueueEntry {
    QueueEntry {
        entry_id: id.to_owned(),
        body: "exact \u{fffd} body".to_owned(),
        attributes: vec![("topic".to_owned(), "telemetry/1".to_owned()), ("fencing_token".to_owned(), "7".to_owned())],
        group_id: Some("device-1".to_owned()),
        deduplication_id: Some(format!("dedup-{id}")),
    }
}

async fn queue_of(act: Act, send_timeout: Duration) -> (Loopback, SqsQueue) {
    let stub = Loopback::start(None, move |_, _| act.clone()).await;
    let clients = clients_at(&stub.url).await;
    let queue = SqsQueue::new(&clients, format!("{}/000000000000/out.fifo", stub.url), send_timeout, None);
    (stub, queue)
}

async fn failure_of(act: Act, send_timeout: Duration) -> (StoreError, usize) {
    let (stub, queue) = queue_of(act, send_timeout).await;
    let failure = queue.send(&[entry("e0")]).await.expect_err("it fails");
    (failure, stub.requests().len())
}

#[tokio::test]
async fn a_batch_is_one_request_and_the_reply_is_passed_on_as_it_came() {
    let reply = json!({
        "Successful": [
            {"Id": "e0", "MessageId": "m", "MD5OfMessageBody": "d41d8cd98f00b204e9800998ecf8427e"},
            {"Id": "unheard-of", "MessageId": "m", "MD5OfMessageBody": "d41d8cd98f00b204e9800998ecf8427e"}
        ],
        "Failed": [{"Id": "e1", "SenderFault": true, "Code": "InvalidMessageContents", "Message": "no such character"}]
    });
    let (stub, queue) = queue_of(Act::Reply(200, reply.to_string()), SEND_TIMEOUT).await;
    let answer = queue.send(&[entry("e0"), entry("e1"), entry("e2")]).await.expect("answered");
    let refused = QueueRefusal {
        entry_id: "e1".to_owned(),
        code: "InvalidMessageContents".to_owned(),
        message: "no such character".to_owned(),
    };
    let accepted = vec!["e0".to_owned(), "unheard-of".to_owned()];
    assert_eq!(answer, QueueReply { accepted, refused: vec![refused] });

    let requests = stub.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].operation, "SendMessageBatch");
    let sent = requests[0].json();
    assert_eq!(sent["QueueUrl"], format!("{}/000000000000/out.fifo", stub.url));
    assert_eq!(sent["Entries"][0]["Id"], "e0");
    assert_eq!(sent["Entries"][0]["MessageBody"], "exact \u{fffd} body");
    assert_eq!(sent["Entries"][0]["MessageGroupId"], "device-1");
    assert_eq!(sent["Entries"][0]["MessageDeduplicationId"], "dedup-e0");
    let topic = &sent["Entries"][0]["MessageAttributes"]["topic"];
    assert_eq!(*topic, json!({"DataType": "String", "StringValue": "telemetry/1"}));
}

#[tokio::test]
async fn no_failure_is_tried_again() {
    use FailureKind::{Denied, Invalid, Throttled, Unavailable};
    let cases = [
        (error_reply(500, "InternalError"), Unavailable),
        (error_reply(503, "ServiceUnavailable"), Unavailable),
        (error_reply(400, "RequestThrottled"), Throttled),
        (error_reply(400, "ThrottlingException"), Throttled),
        (error_reply(400, "KmsThrottled"), Throttled),
        (error_reply(403, "AccessDenied"), Denied),
        (error_reply(400, "KmsAccessDenied"), Denied),
        (error_reply(400, "KmsDisabled"), Denied),
        (error_reply(403, "InvalidClientTokenId"), Denied),
        (error_reply(400, "BatchRequestTooLong"), Invalid),
        (Act::Disconnect, Unavailable),
        (Act::Reply(200, "<html>a proxy's page</html>".to_owned()), Unavailable),
    ];
    for (act, kind) in cases {
        let words = format!("{act:?}");
        let (failure, requests) = failure_of(act, SEND_TIMEOUT).await;
        assert_eq!((failure.kind, requests), (kind, 1), "{words}: {failure}");
        assert!(!failure.detail.contains("exact"), "no body in {failure}");
    }
}

#[tokio::test]
async fn a_missing_queue_names_itself_and_its_setting() {
    for code in ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"] {
        let (failure, _) = failure_of(error_reply(400, code), SEND_TIMEOUT).await;
        assert_eq!(failure.kind, FailureKind::Invalid);
        for words in ["out.fifo", "FENCEPOST_QUEUE_URL"] {
            assert!(failure.detail.contains(words), "{failure}");
        }
    }
}

#[tokio::test]
async fn a_queue_that_hangs_is_given_up_in_time() {
    let started = std::time::Instant::now();
    let (failure, requests) = failure_of(Act::Hang, Duration::from_millis(200)).await;
    assert_eq!((failure.kind, requests), (FailureKind::TimedOut, 1), "{failure}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}
