use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_protocol::body::QueueEntry;
use fencepost_protocol::failure::FailureKind;

use crate::operation;
use crate::ports::Queue;

use super::*;

fn entry(n: usize) -> QueueEntry {
    QueueEntry {
        entry_id: format!("e{n}"),
        body: format!("body {n}"),
        attributes: Vec::new(),
        group_id: None,
        deduplication_id: None,
    }
}

fn bodies(queue: &MemoryQueue) -> Vec<String> {
    queue.accepted().into_iter().map(|entry| entry.body).collect()
}

#[tokio::test]
async fn entries_of_one_batch_go_wrong_one_by_one() {
    let faults = BTreeMap::from([
        (0, EntryFault::Refuse("ServiceUnavailable".to_owned())),
        (1, EntryFault::Omit),
        (2, EntryFault::Lose),
        (3, EntryFault::Repeat),
        (4, EntryFault::Rename("nobody".to_owned())),
    ]);
    let script = Script::default().with(operation::SEND, 1, Fault::of(Effect::Entries(faults)));
    let queue = MemoryQueue::new(QueueKind::Standard).with_faults(Arc::new(script));
    let entries: Vec<QueueEntry> = (0..6).map(entry).collect();
    let reply = queue.send(&entries).await.unwrap();
    assert_eq!(reply.accepted, ["e3", "e3", "nobody", "e5"]);
    let refused: Vec<_> = reply.refused.iter().map(|one| (one.entry_id.as_str(), one.code.as_str())).collect();
    assert_eq!(refused, [("e0", "ServiceUnavailable")]);
    assert_eq!(bodies(&queue), ["body 1", "body 3", "body 4", "body 5"]);
}

#[tokio::test]
async fn a_batch_may_arrive_although_the_reply_is_lost() {
    let script = Script::default()
        .with(operation::SEND, 1, Fault::of(Effect::FailBefore(FailureKind::Unavailable)))
        .with(operation::SEND, 2, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    let queue = MemoryQueue::new(QueueKind::Standard).with_faults(Arc::new(script));
    for (kind, arrived) in [(FailureKind::Unavailable, 0), (FailureKind::TimedOut, 1)] {
        assert_eq!(queue.send(&[entry(1)]).await.unwrap_err().kind, kind);
        assert_eq!(queue.accepted().len(), arrived);
    }
}

#[tokio::test]
async fn a_fifo_queue_drops_what_it_saw_until_it_forgets() {
    let queue = MemoryQueue::new(QueueKind::Fifo);
    let first = QueueEntry { group_id: Some("g".into()), deduplication_id: Some("d".into()), ..entry(1) };
    for (forget, arrived) in [(false, 1), (false, 1), (true, 2)] {
        if forget {
            queue.forget_deduplication();
        }
        assert_eq!(queue.send(std::slice::from_ref(&first)).await.unwrap().accepted, ["e1"]);
        assert_eq!(queue.accepted().len(), arrived);
    }
    assert_eq!(queue.deduplicated(), 1);
}

#[tokio::test]
async fn a_standard_queue_refuses_a_deduplication_id() {
    let queue = MemoryQueue::new(QueueKind::Standard);
    let odd = QueueEntry { deduplication_id: Some("d".into()), ..entry(1) };
    let reply = queue.send(&[odd, entry(2)]).await.unwrap();
    assert_eq!((reply.accepted, reply.refused.len()), (vec!["e2".to_owned()], 1));
    assert_eq!(bodies(&queue), ["body 2"]);
}

#[tokio::test]
async fn ids_of_groups_and_messages_are_bounded() {
    let queue = MemoryQueue::new(QueueKind::Standard);
    for (id, accepted) in
        [("g".repeat(128), 1), ("g".repeat(129), 0), (String::new(), 0), ("a b".into(), 0), ("ü".into(), 0)]
    {
        let grouped = QueueEntry { group_id: Some(id.clone()), ..entry(1) };
        assert_eq!(queue.send(&[grouped]).await.unwrap().accepted.len(), accepted, "{id:?}");
    }
}
