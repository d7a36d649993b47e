use super::super::submission::{AttributeContent, MessageAttribute};
use super::*;

const SECOND: u64 = 1_000;

fn queue(name: &str, attributes: &[(&str, &str)]) -> Queue {
    let given = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Queue::new(name, QueueSettings::from_attributes(name, &given).unwrap(), 0)
}

fn fifo() -> Queue {
    queue("orders.fifo", &[("FifoQueue", "true")])
}

fn text(body: &str) -> Submission {
    Submission { body: body.to_owned(), ..Submission::default() }
}

fn grouped(body: &str, group: &str, deduplication: &str) -> Submission {
    Submission { group_id: Some(group.to_owned()), deduplication_id: Some(deduplication.to_owned()), ..text(body) }
}

fn send(queue: &mut Queue, submission: Submission, now_ms: u64) -> Accepted {
    let id = format!("id-{}", queue.last_sequence + 1);
    queue.send(submission, now_ms, id).unwrap()
}

fn receive(queue: &mut Queue, messages_max: usize, now_ms: u64) -> Vec<Message> {
    let mut receipts = 0;
    queue.receive(messages_max, None, now_ms, || {
        receipts += 1;
        format!("receipt-{now_ms}-{receipts}")
    })
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.body.as_str()).collect()
}

fn handle(message: &Message) -> String {
    message.receipt_handle().unwrap()
}

#[test]
fn a_received_message_is_hidden_until_its_time_out() {
    let mut queue = queue("telemetry", &[("VisibilityTimeout", "30")]);
    send(&mut queue, text("a"), 0);
    assert_eq!(bodies(&receive(&mut queue, 10, 0)), ["a"]);
    assert_eq!(receive(&mut queue, 10, 30 * SECOND - 1), []);
    let again = receive(&mut queue, 10, 30 * SECOND);
    assert_eq!(again[0].receive_count, 2);
    assert_eq!(again[0].first_received_at_ms, Some(0));
}

#[test]
fn only_the_newest_receipt_deletes() {
    let mut queue = queue("telemetry", &[]);
    send(&mut queue, text("a"), 0);
    let old = handle(&receive(&mut queue, 1, 0)[0]);
    let new = handle(&receive(&mut queue, 1, 30 * SECOND)[0]);
    queue.delete(&old, 31 * SECOND).unwrap();
    assert_eq!(queue.messages.len(), 1);
    queue.delete(&new, 31 * SECOND).unwrap();
    assert_eq!(queue.messages.len(), 0);
    queue.delete(&new, 32 * SECOND).unwrap();
    assert_eq!(queue.delete("nonsense", 0).unwrap_err().kind, RefusalKind::ReceiptHandleInvalid);
}

#[test]
fn counts_tell_visible_in_flight_and_delayed() {
    let mut queue = queue("telemetry", &[]);
    for body in ["a", "b", "c"] {
        send(&mut queue, text(body), 0);
    }
    send(&mut queue, Submission { delay_s: Some(5), ..text("later") }, 0);
    receive(&mut queue, 1, 0);
    assert_eq!(queue.counts(0), Counts { visible: 2, in_flight: 1, delayed: 1 });
    assert_eq!(queue.counts(5 * SECOND), Counts { visible: 3, in_flight: 1, delayed: 0 });
    assert_eq!(queue.counts(30 * SECOND), Counts { visible: 4, in_flight: 0, delayed: 0 });
}

#[test]
fn visibility_can_be_given_back_and_only_in_flight() {
    let mut queue = queue("telemetry", &[]);
    send(&mut queue, text("a"), 0);
    let receipt = handle(&receive(&mut queue, 1, 0)[0]);
    queue.change_visibility(&receipt, 100, 10 * SECOND).unwrap();
    assert_eq!(receive(&mut queue, 1, 109 * SECOND), []);
    queue.change_visibility(&receipt, 0, 109 * SECOND).unwrap();
    assert_eq!(queue.change_visibility(&receipt, 0, 109 * SECOND).unwrap_err().kind, RefusalKind::NotInFlight);
    assert_eq!(receive(&mut queue, 1, 109 * SECOND).len(), 1);
}

#[test]
fn messages_go_when_their_retention_is_over() {
    let mut queue = queue("telemetry", &[("MessageRetentionPeriod", "60")]);
    send(&mut queue, text("a"), 0);
    send(&mut queue, text("b"), 30 * SECOND);
    assert_eq!(bodies(&receive(&mut queue, 10, 60 * SECOND)), ["b"]);
}

#[test]
fn a_fifo_group_is_locked_while_one_of_its_messages_is_in_flight() {
    let mut queue = fifo();
    for (body, group) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        send(&mut queue, grouped(body, group, body), 0);
    }
    let first = receive(&mut queue, 1, 0);
    assert_eq!(bodies(&first), ["a1"]);
    assert_eq!(bodies(&receive(&mut queue, 10, 1)), ["b1"]);
    assert_eq!(receive(&mut queue, 10, 2), []);
    queue.delete(&handle(&first[0]), 3).unwrap();
    assert_eq!(bodies(&receive(&mut queue, 10, 3)), ["a2"]);
}

#[test]
fn a_fifo_group_keeps_its_order_after_a_time_out() {
    let mut queue = fifo();
    for body in ["1", "2", "3"] {
        send(&mut queue, grouped(body, "a", body), 0);
    }
    assert_eq!(bodies(&receive(&mut queue, 2, 0)), ["1", "2"]);
    assert_eq!(bodies(&receive(&mut queue, 10, 30 * SECOND)), ["1", "2", "3"]);
}

#[test]
fn an_expired_fifo_receipt_deletes_nothing() {
    let mut queue = fifo();
    send(&mut queue, grouped("1", "a", "1"), 0);
    let receipt = handle(&receive(&mut queue, 1, 0)[0]);
    assert_eq!(queue.delete(&receipt, 30 * SECOND).unwrap_err().kind, RefusalKind::InvalidParameterValue);
    assert_eq!(queue.messages.len(), 1);
}

#[test]
fn a_fifo_duplicate_is_accepted_and_not_stored_for_five_minutes() {
    let mut queue = fifo();
    let first = send(&mut queue, grouped("1", "a", "same"), 0);
    assert_eq!(send(&mut queue, grouped("other body", "a", "same"), 299_999), first);
    assert_eq!(queue.messages.len(), 1);
    let later = send(&mut queue, grouped("1", "a", "same"), 300_000);
    assert_ne!(later, first);
    assert!(later.sequence_number > first.sequence_number);
    assert_eq!(queue.messages.len(), 2);
}

#[test]
fn deduplication_outlives_the_deletion_of_the_message() {
    let mut queue = fifo();
    send(&mut queue, grouped("1", "a", "same"), 0);
    let receipt = handle(&receive(&mut queue, 1, 0)[0]);
    queue.delete(&receipt, 1).unwrap();
    send(&mut queue, grouped("1", "a", "same"), 2);
    assert_eq!(queue.messages.len(), 0);
}

#[test]
fn deduplication_by_content_and_by_group_are_settings() {
    let mut by_content = queue("q.fifo", &[("FifoQueue", "true"), ("ContentBasedDeduplication", "true")]);
    for _ in 0..2 {
        send(&mut by_content, Submission { group_id: Some("a".to_owned()), ..text("same") }, 0);
    }
    assert_eq!(by_content.messages.len(), 1);

    let mut by_group = queue("q.fifo", &[("FifoQueue", "true"), ("DeduplicationScope", "messageGroup")]);
    send(&mut by_group, grouped("1", "a", "same"), 0);
    send(&mut by_group, grouped("1", "b", "same"), 0);
    assert_eq!(by_group.messages.len(), 2);
}

#[test]
fn a_purge_empties_and_is_refused_for_a_minute() {
    let mut queue = queue("telemetry", &[]);
    send(&mut queue, text("a"), 0);
    queue.purge(0).unwrap();
    assert_eq!(queue.counts(0), Counts::default());
    assert_eq!(queue.purge(59_999).unwrap_err().kind, RefusalKind::PurgeInProgress);
    queue.purge(60_000).unwrap();
}

fn refusal(queue: &mut Queue, submission: Submission) -> RefusalKind {
    let refused = queue.send(submission, 0, "id".to_owned()).unwrap_err();
    assert_eq!(queue.messages.len(), 0);
    refused.kind
}

#[test]
fn a_body_must_be_there_in_allowed_characters_and_within_the_size() {
    let mut queue = queue("telemetry", &[]);
    assert_eq!(refusal(&mut queue, text("")), RefusalKind::MissingParameter);
    for refused in ['\u{0}', '\u{1F}', '\u{B}', '\u{FFFE}', '\u{FFFF}'] {
        assert_eq!(refusal(&mut queue, text(&refused.to_string())), RefusalKind::InvalidMessageContents, "{refused:?}");
    }
    let largest = "a".repeat(1_048_576);
    assert_eq!(refusal(&mut queue, text(&format!("{largest}a"))), RefusalKind::InvalidParameterValue);
    let mut attributed = text(&largest);
    attributed.attributes.insert("n".to_owned(), string("v"));
    assert_eq!(refusal(&mut queue, attributed), RefusalKind::InvalidParameterValue);
    send(&mut queue, text(&largest), 0);
    send(&mut queue, text("\t\n\r \u{20}\u{D7FF}\u{E000}\u{FFFD}\u{10000}\u{10FFFF}"), 0);
}

fn string(value: &str) -> MessageAttribute {
    MessageAttribute { data_type: "String".to_owned(), content: AttributeContent::Text(value.to_owned()) }
}

#[test]
fn attributes_have_rules() {
    let mut queue = queue("telemetry", &[]);
    let with = |name: &str, data_type: &str, content: AttributeContent| {
        let mut submission = text("a");
        submission.attributes.insert(name.to_owned(), MessageAttribute { data_type: data_type.to_owned(), content });
        submission
    };
    let value = |value: &str| AttributeContent::Text(value.to_owned());
    for refused in [
        with("AWS.x", "String", value("v")),
        with(".x", "String", value("v")),
        with("a..b", "String", value("v")),
        with("name with space", "String", value("v")),
        with("n", "String", value("")),
        with("n", "Number", value("seven")),
        with("n", "Binary", value("v")),
        with("n", "Blob", value("v")),
        with("n", "Binary", AttributeContent::Bytes(Vec::new())),
    ] {
        assert_eq!(refusal(&mut queue, refused.clone()), RefusalKind::InvalidParameterValue, "{refused:?}");
    }
    assert_eq!(refusal(&mut queue, with("n", "String", value("\u{1}"))), RefusalKind::InvalidMessageContents);
    let mut eleven = text("a");
    eleven.attributes.extend((0..11).map(|n| (format!("n{n}"), string("v"))));
    assert_eq!(refusal(&mut queue, eleven), RefusalKind::InvalidParameterValue);
    send(&mut queue, with("a.b-c_9", "Number.int", value("-7.5e3")), 0);
}

#[test]
fn group_and_deduplication_ids_belong_to_the_kind_of_queue() {
    let mut standard = queue("telemetry", &[]);
    assert_eq!(refusal(&mut standard, grouped("a", "g", "d")), RefusalKind::InvalidParameterValue);
    send(&mut standard, Submission { group_id: Some("device-1".to_owned()), ..text("a") }, 0);

    let mut fifo = fifo();
    assert_eq!(refusal(&mut fifo, text("a")), RefusalKind::MissingParameter);
    let without_deduplication = Submission { group_id: Some("g".to_owned()), ..text("a") };
    assert_eq!(refusal(&mut fifo, without_deduplication), RefusalKind::InvalidParameterValue);
    let delayed = Submission { delay_s: Some(1), ..grouped("a", "g", "d") };
    assert_eq!(refusal(&mut fifo, delayed), RefusalKind::InvalidParameterValue);
    for bad in ["", "with space", "ümlaut", &"x".repeat(129)] {
        assert_eq!(refusal(&mut fifo, grouped("a", bad, "d")), RefusalKind::InvalidParameterValue, "{bad:?}");
        assert_eq!(refusal(&mut fifo, grouped("a", "g", bad)), RefusalKind::InvalidParameterValue, "{bad:?}");
    }
}

#[test]
fn creating_a_queue_again_needs_the_same_attributes() {
    let given = |value: &str| BTreeMap::from([("VisibilityTimeout".to_owned(), value.to_owned())]);
    let mut queues = Queues::default();
    queues.create("telemetry", given("30"), 0).unwrap();
    send(queues.get("telemetry").unwrap(), text("a"), 0);
    queues.create("telemetry", given("30"), 1).unwrap();
    queues.create("telemetry", BTreeMap::new(), 1).unwrap();
    assert_eq!(queues.get("telemetry").unwrap().messages.len(), 1);
    assert_eq!(queues.create("telemetry", given("31"), 1).unwrap_err().kind, RefusalKind::QueueNameExists);
    assert_eq!(queues.get("nowhere").unwrap_err().kind, RefusalKind::QueueDoesNotExist);
}

#[test]
fn names_and_attributes_of_a_queue_have_rules() {
    let create = |name: &str, attribute: (&str, &str)| {
        let given = BTreeMap::from([(attribute.0.to_owned(), attribute.1.to_owned())]);
        Queues::default().create(name, given, 0).map_err(|refusal| refusal.kind)
    };
    let fine = ("VisibilityTimeout", "30");
    for name in ["", "a b", "ü", ".fifo", &"x".repeat(81)] {
        assert_eq!(create(name, fine), Err(RefusalKind::InvalidParameterValue), "{name:?}");
    }
    assert_eq!(create("a.fifo", fine), Err(RefusalKind::InvalidParameterValue));
    assert_eq!(create("a", ("FifoQueue", "true")), Err(RefusalKind::InvalidParameterValue));
    assert_eq!(create("a", ("VisibilityTimeout", "43201")), Err(RefusalKind::InvalidAttributeValue));
    assert_eq!(create("a", ("DelaySeconds", "soon")), Err(RefusalKind::InvalidAttributeValue));
    assert_eq!(create("a", ("Colour", "red")), Err(RefusalKind::InvalidAttributeName));
    assert_eq!(create("a", ("RedrivePolicy", "{}")), Err(RefusalKind::InvalidAttributeName));
    assert_eq!(create("a", ("ContentBasedDeduplication", "true")), Err(RefusalKind::InvalidAttributeName));
    assert_eq!(create("a", fine), Ok(()));
}
