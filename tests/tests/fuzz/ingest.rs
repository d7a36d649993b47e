//! The events that bring messages: the rule's, its error action's, failed invocations, SQS and Kinesis batches of these.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fencepost_protocol::ids::{InstanceName, LeaseName, Stamp};
use fencepost_protocol::ingest::{BatchRecord, Event, IngestTerms, Message, decide, parse};
use fencepost_protocol::time::Timestamp;
use serde_json::{Value, json};

use crate::corpus;
use crate::damage::{self, Kind};
use crate::decoder::{Decoder, Refusal, STRICT};
use crate::paths::Form;

/// All events of ingest.
pub(crate) const EVENTS: Decoder = Decoder {
    name: "ingest",
    // One record of this sample is refused, as it should be; the test below looks at it.
    samples: &[("ingest", |name| name != "sqs_partial_batch.json")],
    decode,
    inside: &[("Records.*.body", Form::Text), ("Records.*.kinesis.data", Form::Base64)],
    fixed: &["**.schema", "Records.*.eventSource"],
    optional: &[
        ("**.client_id", "a message over HTTP has no client"),
        ("**.clientId", "the same in an error action's event"),
        ("**.received_at", "then the queue or stream says when, else the clock"),
        ("**.trace_id", "then the rule's own id stands in"),
        ("**.message_id", "the trace id stands before it"),
        ("**.device_message_id", "most devices make none"),
        ("**.cloudwatchTraceId", "in a queue the carrier's own id stands in"),
        ("Records.*.attributes", "a moment may be known otherwise"),
        ("Records.*.attributes.SentTimestamp", "the same"),
        ("Records.*.kinesis.approximateArrivalTimestamp", "the same"),
    ],
    unread: &[
        ("**.client_id", "n/a and the empty text are no client"),
        ("**.message_id", "the trace id stands before it"),
        ("Records.*.attributes", "the rule says itself when it received the message"),
        ("Records.*.attributes.SentTimestamp", "the same"),
        ("Records.*.kinesis.approximateArrivalTimestamp", "the same"),
        ("**.ruleName", "there is one rule"),
        ("**.failures.**", "why the rule's action failed changes nothing for the message"),
        ("**.requestContext.**", "why an invocation failed changes nothing for the message"),
        ("**.responseContext.**", "the same"),
        ("**.responsePayload.**", "the same"),
        ("**.version", "Lambda's, of the record around the event"),
        ("**.timestamp", "the same"),
        ("Records.*.receiptHandle", "Lambda deletes the message"),
        ("Records.*.attributes.ApproximateReceiveCount", "nothing is decided by it"),
        ("Records.*.attributes.SenderId", "the same"),
        ("Records.*.attributes.ApproximateFirstReceiveTimestamp", "the same"),
        ("Records.*.messageAttributes.**", "IoT Core sets none"),
        ("Records.*.md5OfBody", "Lambda checks it"),
        ("Records.*.eventSourceARN", "a function has the sources that its stack gave it"),
        ("Records.*.awsRegion", "the same"),
        ("Records.*.invokeIdentityArn", "the same"),
        ("Records.*.eventVersion", "AWS keeps old fields in new versions"),
        ("Records.*.eventID", "the sequence number names the record"),
        ("Records.*.eventName", "there is one kind"),
        ("Records.*.kinesis.kinesisSchemaVersion", "AWS keeps old fields in new versions"),
        ("Records.*.kinesis.partitionKey", "the shard is chosen by the device"),
    ],
    open: &[("**", "AWS adds fields to its events, and a rule may select more")],
    blamed: &[
        ("Records.*.attributes.SentTimestamp", "received_at"),
        ("Records.*.kinesis.approximateArrivalTimestamp", "received_at"),
    ],
    discreet: true,
    ..STRICT
};

fn terms() -> IngestTerms {
    IngestTerms { lease: LeaseName::new("telemetry").unwrap(), origin: InstanceName::new("east").unwrap(), shards: 16 }
}

/// Reads an event and decides about its messages. A batch with a refused record counts as refused for that record.
fn decode(input: &Value) -> Result<Value, Refusal> {
    match parse(input)? {
        Event::One(message) => checked(message),
        Event::Batch(records) => {
            let records = records.into_iter().map(|BatchRecord { item_identifier, message }| {
                let body = checked(message?)?.to_string();
                Ok(json!({ "eventSource": "aws:sqs", "messageId": item_identifier, "body": body }))
            });
            Ok(json!({ "Records": records.collect::<Result<Vec<_>, Refusal>>()? }))
        }
    }
}

fn checked(message: Message) -> Result<Value, Refusal> {
    decide(message.clone(), &terms(), Stamp::NONE, Timestamp::from_ms(1_767_225_600_000))?;
    let mut event = json!({
        "schema": 1,
        "payload": BASE64.encode(&message.payload),
        "topic": message.topic,
        "message_id": message.id,
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            event[name] = value;
        }
    };
    set("client_id", message.client_id.map(Value::from));
    set("device_message_id", message.device_message_id.map(Value::from));
    set("received_at", message.received_at.map(|at| json!(at.as_ms())));
    Ok(event)
}

/// Fields of a record without which no partial-batch response could name it, so that the whole batch is refused.
const NAMING: [&str; 5] = ["", "eventSource", "messageId", "kinesis", "kinesis.sequenceNumber"];

#[test]
fn a_damaged_record_changes_nothing_for_the_others_of_its_batch() {
    let mut looked_at = 0;
    for seed in corpus::seeds(&EVENTS) {
        let Ok(Event::Batch(before)) = parse(&seed.input) else { continue };
        for damage in damage::all(&EVENTS, &seed.input).iter().filter(|damage| damage.kind != Kind::Joined) {
            let Some(place) = damage.place.strip_prefix("Records.") else { continue };
            let (index, field) = place.split_once('.').unwrap_or((place, ""));
            let index: usize = index.parse().unwrap();
            let Ok(Event::Batch(after)) = parse(&damage.input) else {
                assert!(NAMING.contains(&field), "{}: {} took the whole batch along", seed.name, damage.place);
                continue;
            };
            let others = |batch: &[BatchRecord]| {
                let kept =
                    batch.iter().enumerate().filter(|(number, _)| after.len() == before.len() && *number != index);
                kept.map(|(_, record)| record.clone()).collect::<Vec<_>>()
            };
            looked_at += others(&after).len();
            assert_eq!(others(&before), others(&after), "{}: {} changed another record", seed.name, damage.place);
        }
    }
    assert!(looked_at > 1_000, "only {looked_at}");
}
