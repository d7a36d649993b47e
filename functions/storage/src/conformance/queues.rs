//! The queue: what it takes, whole or in part, and what arrives.

use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::limits::{QUEUE_ATTRIBUTES_MAX, QUEUE_BATCH_ENTRIES_MAX, QUEUE_REQUEST_BYTES_MAX};

use super::expect::{Outcome, equal, holds};
use super::{QueueCase, QueueSubject, cases};
use crate::StoreError;
use fencepost_protocol::drain::QueueReply;

/// A message as a consumer sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Received {
    /// The body.
    pub body: String,
    /// String attributes, name and value.
    pub attributes: Vec<(String, String)>,
    /// `MessageGroupId`.
    pub group_id: Option<String>,
    /// `MessageDeduplicationId`.
    pub deduplication_id: Option<String>,
}

impl From<QueueEntry> for Received {
    fn from(entry: QueueEntry) -> Self {
        let QueueEntry { entry_id: _, body, attributes, group_id, deduplication_id } = entry;
        Self { body, attributes, group_id, deduplication_id }
    }
}

/// Cases for every queue.
pub(super) const CASES: [QueueCase; 6] = cases![QueueCase:
    a_full_batch_arrives_exactly,
    every_kind_of_text_arrives_exactly,
    a_batch_up_to_the_size_limit_arrives,
    a_batch_that_breaks_a_rule_is_invalid_and_nothing_arrives,
    an_entry_that_breaks_a_rule_does_not_arrive,
    the_largest_entry_id_is_returned_as_given,
];

/// Cases for standard queues.
pub(super) const STANDARD_CASES: [QueueCase; 1] = cases![QueueCase:
    a_group_is_allowed_and_not_required,
];

/// Cases for FIFO queues.
pub(super) const FIFO_CASES: [QueueCase; 3] = cases![QueueCase:
    a_group_arrives_in_order,
    a_repeated_message_is_accepted_and_dropped,
    a_message_without_a_group_does_not_arrive,
];

/// Entry `n` with a body of this text; the deduplication id must be new to the queue.
fn entry(subject: &QueueSubject, n: usize, body: impl Into<String>, unique: &str) -> QueueEntry {
    QueueEntry {
        entry_id: format!("e{n}"),
        body: body.into(),
        attributes: vec![("message_id".to_owned(), format!("{unique}-{n}"))],
        group_id: subject.fifo.then(|| "group".to_owned()),
        deduplication_id: subject.fifo.then(|| format!("{unique}-{n}")),
    }
}

async fn send(subject: &QueueSubject, entries: &[QueueEntry]) -> Outcome {
    let reply = subject.queue.send(entries).await?;
    let mut accepted = reply.accepted.clone();
    accepted.sort();
    let mut wanted: Vec<String> = entries.iter().map(|entry| entry.entry_id.clone()).collect();
    wanted.sort();
    holds(reply.refused.is_empty(), format!("refused: {:?}", reply.refused))?;
    equal("accepted", &accepted, &wanted)
}

/// Receives until the queue stays empty, attributes in order of name.
async fn take(subject: &QueueSubject) -> Outcome<Vec<Received>> {
    let mut all = Vec::new();
    loop {
        let mut some = (subject.take)().await?;
        if some.is_empty() {
            return Ok(all);
        }
        some.iter_mut().for_each(|message| message.attributes.sort());
        all.append(&mut some);
    }
}

async fn arrived(subject: &QueueSubject, entries: &[QueueEntry]) -> Outcome {
    let mut wanted: Vec<Received> = entries.iter().cloned().map(Received::from).collect();
    wanted.iter_mut().for_each(|message| message.attributes.sort());
    let mut found = take(subject).await?;
    if !subject.fifo {
        wanted.sort();
        found.sort();
    }
    equal("what arrived", &found, &wanted)
}

async fn a_full_batch_arrives_exactly(subject: &QueueSubject) -> Outcome {
    let entries: Vec<QueueEntry> = (0..QUEUE_BATCH_ENTRIES_MAX)
        .map(|n| {
            let mut entry = entry(subject, n, format!("{{\"n\":{n}}}"), "full");
            let more = QUEUE_ATTRIBUTES_MAX - 1;
            entry.attributes.extend((0..more).map(|k| (format!("name.{k}_{n}-x"), format!("value {k} ü"))));
            entry
        })
        .collect();
    send(subject, &entries).await?;
    arrived(subject, &entries).await
}

async fn every_kind_of_text_arrives_exactly(subject: &QueueSubject) -> Outcome {
    let bodies = [
        "-",
        " ",
        "\t\n\r",
        " both ends ",
        "{\"json\": \"\\u0000 <&>\"}",
        "a+b=c&d%20e",
        "\u{20}\u{7e}\u{7f}\u{80}\u{9f}\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}",
        "Grüße, 鍵, \u{1F980}",
        "aGVsbG8=",
    ];
    let mut entries: Vec<QueueEntry> =
        bodies.iter().enumerate().map(|(n, body)| entry(subject, n, *body, "text")).collect();
    for entry in &mut entries {
        entry.attributes.push(("copy".to_owned(), entry.body.clone()));
    }
    send(subject, &entries).await?;
    arrived(subject, &entries).await
}

async fn a_batch_up_to_the_size_limit_arrives(subject: &QueueSubject) -> Outcome {
    let mut entries = vec![entry(subject, 0, "x", "size-half"), entry(subject, 1, "y", "size-half")];
    let others: usize = entries.iter().map(QueueEntry::size_bytes).sum();
    entries[1].body = "y".repeat(QUEUE_REQUEST_BYTES_MAX - others + 1);
    send(subject, &entries).await?;
    arrived(subject, &entries).await?;
    let alone = QueueEntry {
        body: "z".repeat(QUEUE_REQUEST_BYTES_MAX),
        attributes: Vec::new(),
        ..entry(subject, 0, "", "size-alone")
    };
    send(subject, std::slice::from_ref(&alone)).await?;
    arrived(subject, &[alone]).await
}

async fn a_batch_that_breaks_a_rule_is_invalid_and_nothing_arrives(subject: &QueueSubject) -> Outcome {
    let batch = |count: usize, body: &str, unique: &str| -> Vec<QueueEntry> {
        (0..count).map(|n| entry(subject, n, body, unique)).collect()
    };
    let mut twins = batch(2, "b", "rule-twins");
    twins[1].entry_id = twins[0].entry_id.clone();
    let mut odd_id = batch(2, "b", "rule-id");
    odd_id[1].entry_id = "a.b".to_owned();
    let mut long_id = batch(1, "b", "rule-long");
    long_id[0].entry_id = "e".repeat(81);
    let wrong = [
        ("no entry", Vec::new()),
        ("eleven entries", batch(QUEUE_BATCH_ENTRIES_MAX + 1, "b", "rule-eleven")),
        ("two entries with one id", twins),
        ("an entry id with a dot", odd_id),
        ("an entry id of 81 characters", long_id),
        ("over 1 MiB in all", batch(2, &"b".repeat(QUEUE_REQUEST_BYTES_MAX / 2), "rule-large")),
    ];
    for (what, entries) in wrong {
        let answer = subject.queue.send(&entries).await;
        let invalid = matches!(&answer, Err(error) if error.kind == FailureKind::Invalid);
        holds(invalid, format!("{what}: found {answer:?}, wanted a failure of kind invalid"))?;
    }
    arrived(subject, &[]).await
}

/// Services differ in whether such an entry is refused alone or takes its whole batch along; nothing may call it accepted.
async fn an_entry_that_breaks_a_rule_does_not_arrive(subject: &QueueSubject) -> Outcome {
    let named = |unique: &str, attributes: Vec<(String, String)>| QueueEntry {
        attributes,
        ..entry(subject, 0, "body", unique)
    };
    let attribute = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let many = (0..=QUEUE_ATTRIBUTES_MAX).map(|k| attribute(&format!("n{k}"), "v")).collect();
    let wrong = [
        ("an empty body", entry(subject, 0, "", "entry-empty")),
        ("a body with U+0000", entry(subject, 0, "a\u{0}b", "entry-nul")),
        ("a body with U+FFFE", entry(subject, 0, "a\u{fffe}b", "entry-fffe")),
        ("a body with U+001F", entry(subject, 0, "\u{1f}", "entry-1f")),
        ("eleven attributes", named("entry-many", many)),
        ("an attribute with an empty value", named("entry-value", vec![attribute("client_id", "")])),
        ("an attribute with a control character", named("entry-control", vec![attribute("client_id", "a\u{1}")])),
        ("an attribute without a name", named("entry-name", vec![attribute("", "v")])),
    ];
    for (what, entry) in wrong {
        let answer = subject.queue.send(std::slice::from_ref(&entry)).await;
        holds(is_refused(&answer, &entry.entry_id), format!("{what}: found {answer:?}, wanted it refused"))?;
    }
    arrived(subject, &[]).await
}

fn is_refused(answer: &Result<QueueReply, StoreError>, entry_id: &str) -> bool {
    match answer {
        Ok(reply) => {
            let refusal = reply.refused.iter().find(|refusal| refusal.entry_id == entry_id);
            reply.accepted.is_empty() && refusal.is_some_and(|refusal| !refusal.code.is_empty())
        }
        Err(error) => error.kind == FailureKind::Invalid,
    }
}

async fn the_largest_entry_id_is_returned_as_given(subject: &QueueSubject) -> Outcome {
    let largest = QueueEntry { entry_id: "aZ9-_xyz".repeat(10), ..entry(subject, 0, "b", "id") };
    send(subject, std::slice::from_ref(&largest)).await?;
    arrived(subject, &[largest]).await
}

async fn a_group_is_allowed_and_not_required(subject: &QueueSubject) -> Outcome {
    let group = Some("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~aZ9".to_owned());
    let entries =
        [QueueEntry { group_id: group, ..entry(subject, 0, "with", "group") }, entry(subject, 1, "without", "group")];
    send(subject, &entries).await?;
    arrived(subject, &entries).await
}

async fn a_group_arrives_in_order(subject: &QueueSubject) -> Outcome {
    let mut all = Vec::new();
    for batch in 0..3 {
        let entries: Vec<QueueEntry> =
            (0..10).map(|n| entry(subject, n, format!("{batch}.{n}"), &format!("order-{batch}"))).collect();
        send(subject, &entries).await?;
        all.extend(entries);
    }
    arrived(subject, &all).await
}

async fn a_repeated_message_is_accepted_and_dropped(subject: &QueueSubject) -> Outcome {
    let first = entry(subject, 0, "first", "repeat");
    let second = QueueEntry { body: "second".to_owned(), entry_id: "other".to_owned(), ..first.clone() };
    send(subject, std::slice::from_ref(&first)).await?;
    send(subject, &[second]).await?;
    arrived(subject, &[first]).await
}

async fn a_message_without_a_group_does_not_arrive(subject: &QueueSubject) -> Outcome {
    let entry = QueueEntry { group_id: None, ..entry(subject, 0, "b", "no-group") };
    let answer = subject.queue.send(std::slice::from_ref(&entry)).await;
    holds(is_refused(&answer, &entry.entry_id), format!("found {answer:?}, wanted it refused"))?;
    arrived(subject, &[]).await
}
