//! The suite over the memory adapters.

use super::*;
use crate::memory::{MemoryLeaseStore, MemoryOutbox, MemoryQueue, MemoryTables, QueueKind};

pub(super) fn memory_subject() -> TablesSubject {
    let tables = MemoryTables::new();
    TablesSubject {
        lease_store: Arc::new(MemoryLeaseStore::new(tables.clone())),
        outbox: Arc::new(MemoryOutbox::new(tables.clone())),
        plant: Arc::new(move |table, item| {
            let planted = tables.plant(table, item);
            Box::pin(async move { planted })
        }),
    }
}

fn queue_subject(kind: QueueKind) -> QueueSubject {
    let queue = MemoryQueue::new(kind);
    QueueSubject {
        queue: Arc::new(queue.clone()),
        take: Arc::new(move || {
            let taken = queue.take_accepted().into_iter().map(Received::from).collect();
            Box::pin(async move { Ok(taken) })
        }),
        fifo: kind == QueueKind::Fifo,
    }
}

#[tokio::test]
async fn memory_tables_pass_twice_over() {
    let subject = memory_subject();
    let first = run_tables(&subject, "memory").await.all_passed().unwrap();
    assert_eq!(run_tables(&subject, "memory-again").await.all_passed(), Ok(first));
}

#[tokio::test]
async fn memory_queues_pass() {
    for kind in [QueueKind::Standard, QueueKind::Fifo] {
        let report = run_queue(&queue_subject(kind)).await;
        assert!(report.all_passed().is_ok(), "{kind:?}: {report}");
    }
}

#[tokio::test]
async fn a_case_that_fails_is_named_and_stops_no_other() {
    let mut subject = memory_subject();
    let other = MemoryTables::new();
    // Damage is planted where nobody looks: exactly the cases that need some fail.
    subject.plant = Arc::new(move |table, item| {
        let planted = other.plant(table, item);
        Box::pin(async move { planted })
    });
    let report = run_tables(&subject, "memory").await;
    assert!(report.passed.contains(&"commits::a_commit_ends_the_row_once"), "{report}");
    let failed: Vec<&str> = report.failed.iter().map(|(name, _)| *name).collect();
    assert!(failed.contains(&"fences::a_damaged_fence_is_refused_and_stays"), "{failed:?}");
    assert!(
        failed.iter().all(|name| name.contains("damaged")
            || name.contains("newer")
            || name.contains("order")
            || name.contains("page")),
        "{failed:?}"
    );
    assert!(report.all_passed().unwrap_err().contains("leases::a_damaged_row_is_refused_and_stays: "));
}
