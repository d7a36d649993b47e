//! What consumers get: exact bytes, sizes, the empty payload. Through the real SDK clients, read as a consumer sees it.

use fencepost_protocol::body::{BodyFormat, decode_body};
use fencepost_runtime::telemetry::Metric;
use fencepost_tests::harness::rule_event;
use serde_json::{Value, json};

use super::sdk::{World, attribute, attributes_of};
use super::{count, settled};

const MIB: usize = 1024 * 1024;

/// The entries of each request that the queue got: how many, and their bytes by SQS's own measure.
fn requests(world: &World) -> Vec<(usize, usize)> {
    let text_bytes = |value: &Value| value.as_str().map_or(0, str::len);
    let entry_bytes = |entry: &Value| {
        let attributes = entry["MessageAttributes"].as_object().into_iter().flatten();
        let attributes = attributes.map(|(name, attribute)| {
            name.len() + text_bytes(&attribute["DataType"]) + text_bytes(&attribute["StringValue"])
        });
        text_bytes(&entry["MessageBody"]) + attributes.sum::<usize>()
    };
    let batches = world.queue.journal().into_iter().filter(|seen| seen.request.operation == "SendMessageBatch");
    let entries_of = |seen: fencepost_tests::proxy::Seen| seen.request.json()["Entries"].as_array().cloned();
    let sized = |entries: Vec<Value>| (entries.len(), entries.iter().map(entry_bytes).sum());
    batches.filter_map(entries_of).map(sized).collect()
}

/// Reported: batches of ten were cut by count alone; with 200 KB messages the queue refused each whole request for ever.
/// Right: requests are cut by bytes as SQS measures them, after encoding and with attributes; no request is refused, none is
/// smaller than need be, each message arrives once with its bytes.
///
/// Kills: `batches_cut_by_count_alone`
#[tokio::test]
async fn case_25_ten_messages_of_200_kb() {
    let text = |number: u8| vec![b'a' + number; 200 * 1024];
    // 150 KiB that no queue takes as text are 200 KiB of base64: the measure is the encoded one.
    let binary = |number: u8| [vec![0xff; 150 * 1024 - 1], vec![number]].concat();
    let all = |payload: &dyn Fn(u8) -> Vec<u8>| -> Vec<Vec<u8>> { (0..10).map(payload).collect() };
    for (what, payloads, batches) in [("text", all(&text), vec![5, 5]), ("binary", all(&binary), vec![1, 4, 5])] {
        let mut world = World::start(&[]).await;
        let east = world.leader().await;
        for (number, payload) in payloads.iter().enumerate() {
            east.ingest(rule_event(&format!("m{number}"), "telemetry/device-1", payload)).await.unwrap();
        }
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!((count(&reply, "committed"), count(&reply, "send_failures")), (10, 0), "{what}: {reply}");
        let requests = requests(&world);
        // Requests of one page travel side by side, so their order says nothing.
        let mut entries: Vec<_> = requests.iter().map(|(entries, _)| *entries).collect();
        entries.sort_unstable();
        assert_eq!(entries, batches, "{what}");
        assert!(requests.iter().all(|(_, bytes)| *bytes <= MIB), "{what}: {requests:?}");
        let (mut delivered, mut expected) = (world.payloads(), payloads);
        delivered.sort();
        expected.sort();
        assert_eq!(delivered, expected, "{what}");
        assert!(east.outstanding().await.is_empty(), "{what}");
    }
}

/// Reported: one record above the queue's limit failed its batch for ever and blocked everything behind it.
/// Right: by our own measure it is dead at once, with its size and the limit in its reason; its neighbours flow in the same
/// call, no request is refused, and nothing comes back at the next pass.
///
/// Kills: `oversize_is_sent_anyway`
#[tokio::test]
async fn case_26_one_oversize_record() {
    let limit = 256 * 1024;
    let limit_text = limit.to_string();
    let attributes = [("MaximumMessageSize", limit_text.as_str())];
    let mut world = World::with_queue("out", &attributes, &[("FENCEPOST_REQUEST_BYTES_MAX", &limit_text)]).await;
    let east = world.leader().await;
    for number in 0..9 {
        east.ingest(rule_event(&format!("m{number}"), "telemetry/device-1", b"small")).await.unwrap();
    }
    // The payload alone fits the limit; with its attributes it does not.
    east.ingest(rule_event("m4-large", "telemetry/device-1", &vec![b'x'; limit - 10])).await.unwrap();
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&reply, "committed"), count(&reply, "dead"), count(&reply, "send_failures")), (9, 1, 0));
    assert_eq!(east.metrics.total(Metric::Dead), 1.0);
    assert_eq!((world.sends(), world.messages().len()), (1, 9), "it was never offered to the queue");
    assert!(east.outstanding().await.is_empty());
    let mut dead = Vec::new();
    for index in 0..2 {
        let shard = fencepost_protocol::ids::Shard::parse(&format!("telemetry#{index:04}")).unwrap();
        let page = east.outbox.dead_page(&shard, None, 10).await.unwrap();
        dead.extend(page.rows.into_iter().map(|(_, slot)| slot.present().cloned().expect("a sound dead row")));
    }
    assert_eq!(dead.len(), 1);
    let (row, words) = (&dead[0].row, dead[0].row.last_error.clone().unwrap_or_default());
    assert_eq!((row.id().as_str(), dead[0].reason.as_str(), row.payload.len()), ("m4-large", "oversize", limit - 10));
    assert!(words.contains("at most 262144 fit"), "{words}");
    let next = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&next, "claimed"), settled(&next)), (0, json!([])));
}

/// Reported: binary payloads arrived as replacement characters, U+FFFE was refused for ever, and text that looked like base64
/// was decoded by a consumer that guessed.
/// Right: the exact bytes come back, the encoding is always stated and never guessed, in both body formats.
///
/// Kills: `refused_characters_travel_as_text`
#[tokio::test]
async fn case_27_bytes_arrive_exactly() {
    let payloads: Vec<(&[u8], &str)> = vec![
        (&[0x00], "base64"),
        (&[0xff], "base64"),
        (&[0x00, 0xff, 0x80, 0x0a], "base64"),
        ("\u{fffe}".as_bytes(), "base64"),
        ("\u{ffff}".as_bytes(), "base64"),
        ("21.5\u{0}".as_bytes(), "base64"),
        (&[0xed, 0xa0, 0x80], "base64"),
        ("\u{fffd}".as_bytes(), "text"),
        ("\u{10ffff}\u{d7ff}\u{e000}".as_bytes(), "text"),
        (b"aGVsbG8=", "text"),
        (b"\t\r\n \r", "text"),
        (b"{\"t\": 21.5, \"unit\": \"\xc2\xb0C\"}", "text"),
        (b"-", "text"),
    ];
    for format in [BodyFormat::Raw, BodyFormat::CloudEvents] {
        let mut world = World::start(&[("FENCEPOST_BODY_FORMAT", format.as_str())]).await;
        let east = world.leader().await;
        for (number, (payload, _)) in payloads.iter().enumerate() {
            east.ingest(rule_event(&format!("m{number:02}"), "telemetry/device-1", payload)).await.unwrap();
        }
        let reply = east.drain(json!({})).await.unwrap();
        assert_eq!(count(&reply, "committed"), 13, "{format:?}: {reply}");
        assert_eq!((count(&reply, "refused"), count(&reply, "dead")), (0, 0), "{format:?}");
        let messages = world.messages();
        assert_eq!(messages.len(), payloads.len());
        for message in &messages {
            let number: usize = attribute(message, "message-id").unwrap()[1..].parse().unwrap();
            let (payload, encoding) = payloads[number];
            let bytes = decode_body(format, &message.body, &attributes_of(message)).unwrap();
            assert_eq!(bytes, payload, "{format:?}, m{number:02}");
            let stated = attribute(message, "payload-encoding").expect("always stated");
            assert_eq!(stated, encoding, "{format:?}, m{number:02}");
        }
    }
}

/// Reported: an empty payload was refused by the queue and tried again for ever.
/// Right: it travels in the stated form (body `-`, `payload-encoding` = `empty`), is committed by one send and comes back as
/// no bytes; a payload that is a dash stays one.
///
/// Kills: `empty_payload_travels_as_text`
#[tokio::test]
async fn case_28_zero_bytes() {
    let mut world = World::start(&[]).await;
    let east = world.leader().await;
    east.ingest(rule_event("empty", "telemetry/device-1", b"")).await.unwrap();
    east.ingest(rule_event("with-dash", "telemetry/device-1", b"-")).await.unwrap();
    let reply = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&reply, "committed"), count(&reply, "refused"), count(&reply, "dead")), (2, 0, 0));
    let form = |index: usize| {
        let message = &world.messages()[index];
        (attribute(message, "message-id"), message.body.clone(), attribute(message, "payload-encoding"))
    };
    let expected = |id: &str, encoding: &str| (Some(id.to_owned()), "-".to_owned(), Some(encoding.to_owned()));
    assert_eq!((form(0), form(1)), (expected("empty", "empty"), expected("with-dash", "text")));
    assert_eq!(world.payloads(), [b"".to_vec(), b"-".to_vec()]);
    let next = east.drain(json!({})).await.unwrap();
    assert_eq!((count(&next, "claimed"), world.sends()), (0, 1), "no loop");
}
