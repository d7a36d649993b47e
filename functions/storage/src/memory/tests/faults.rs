use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_protocol::drain::{Burial, ChangeAnswer};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::outbox::{DeadRow, DeathReason, Slot};

use crate::operation;
use crate::ports::{LeaseStore, Outbox, PutAnswer, Source};
use crate::records::Table;

use super::*;

fn world(plan: impl FaultPlan + 'static) -> (MemoryTables, MemoryOutbox) {
    let tables = MemoryTables::new();
    (tables.clone(), MemoryOutbox::new(tables).with_faults(Arc::new(plan)))
}

fn rows_left(tables: &MemoryTables) -> usize {
    tables.dump(Table::Outbox).len()
}

#[tokio::test]
async fn a_call_that_fails_before_changes_nothing_and_one_that_fails_after_does() {
    let script = Script::default().with(operation::PUT, 1, Fault::of(Effect::FailBefore(FailureKind::Throttled))).with(
        operation::PUT,
        2,
        Fault::of(Effect::FailAfter(FailureKind::TimedOut)),
    );
    let (tables, outbox) = world(script);
    let failure = outbox.put(&row(1)).await.unwrap_err();
    assert_eq!((failure.kind, failure.operation), (FailureKind::Throttled, operation::PUT));
    assert_eq!((rows_left(&tables), tables.usage()), (0, Usage::default()));
    assert_eq!(outbox.put(&row(1)).await.unwrap_err().kind, FailureKind::TimedOut);
    assert_eq!(outbox.put(&row(1)).await, Ok(PutAnswer::Exists(Slot::Present(row(1)))), "the second had been applied");
}

#[tokio::test]
async fn a_plan_is_asked_with_the_calls_name_number_and_rows() {
    let seen: Arc<std::sync::Mutex<Vec<Call>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let (_, outbox) = world(move |call: &Call| {
        notes.lock().unwrap().push(*call);
        Fault::default()
    });
    outbox.put(&row(1)).await.unwrap();
    outbox.put_many(&[row(2), row(3)]).await;
    outbox.clone().put(&row(4)).await.unwrap();
    let call = |operation, number, rows| Call { operation, number, rows };
    let wanted = vec![call(operation::PUT, 1, 1), call(operation::PUT_MANY, 1, 2), call(operation::PUT, 2, 1)];
    assert_eq!(*seen.lock().unwrap(), wanted, "a clone goes on counting");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_meets_either_outcome() {
    let minute = Duration::from_secs(60);
    let script = Script::default()
        .with(operation::PUT, 1, Fault { delay_before: minute, ..Fault::default() })
        .with(operation::PUT, 2, Fault { delay_after: minute, ..Fault::default() })
        .with(operation::PUT, 3, Fault { delay_before: minute, delay_after: minute, ..Fault::default() });
    let (tables, outbox) = world(script);
    let patience = Duration::from_secs(5);
    let started = tokio::time::Instant::now();
    assert!(tokio::time::timeout(patience, outbox.put(&row(1))).await.is_err());
    assert_eq!(rows_left(&tables), 0, "it had not arrived");
    assert!(tokio::time::timeout(patience, outbox.put(&row(1))).await.is_err());
    assert_eq!(rows_left(&tables), 1, "it had arrived");
    assert_eq!(outbox.put(&row(2)).await, Ok(PutAnswer::Stored));
    assert_eq!(started.elapsed(), 2 * patience + 2 * minute);
}

#[tokio::test]
async fn rows_of_one_call_fail_one_by_one() {
    let faults =
        BTreeMap::from([(1, RowFault::Before(FailureKind::Throttled)), (2, RowFault::After(FailureKind::Unavailable))]);
    let (tables, outbox) = world(Script::default().with(operation::PUT_MANY, 1, Fault::of(Effect::Rows(faults))));
    let answers = outbox.put_many(&[row(0), row(1), row(2), row(3)]).await;
    let kinds: Vec<_> = answers.into_iter().map(|answer| answer.map_err(|error| error.kind)).collect();
    let stored = Ok(PutAnswer::Stored);
    assert_eq!(kinds, vec![stored.clone(), Err(FailureKind::Throttled), Err(FailureKind::Unavailable), stored]);
    assert_eq!(rows_left(&tables), 3, "all but the throttled one");
}

#[tokio::test]
async fn a_call_of_many_that_fails_fails_for_each_row() {
    let script = Script::default().with(operation::COMMIT, 1, Fault::of(Effect::FailBefore(FailureKind::Denied))).with(
        operation::COMMIT,
        2,
        Fault::of(Effect::FailAfter(FailureKind::TimedOut)),
    );
    let (tables, outbox) = world(script);
    let plans: Vec<Claim> = (0..3).map(|n| claim(&row(n))).collect();
    outbox.put_many(&[row(0), row(1), row(2)]).await;
    outbox.claim(&plans).await;
    let commits: Vec<Commit> = plans.iter().map(commit).collect();
    for (kind, left) in [(FailureKind::Denied, 3), (FailureKind::TimedOut, 0)] {
        let answers = outbox.commit(&commits).await;
        assert_eq!(answers.len(), 3);
        assert!(answers.iter().all(|answer| matches!(answer, Err(error) if error.kind == kind)), "{answers:?}");
        assert_eq!(rows_left(&tables), left);
    }
    assert_eq!(outbox.commit(&commits).await, vec![Ok(ChangeAnswer::Absent); 3]);
}

#[tokio::test]
async fn a_burial_can_be_cut_between_its_halves() {
    let script =
        Script::default().with(operation::KILL_DELETE, 1, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    let (tables, outbox) = world(script.clone());
    outbox.put(&row(1)).await.unwrap();
    let dead = DeadRow { row: row(1), reason: DeathReason::Refused, died_at: Timestamp::from_ms(9) };
    let burial = Burial { dead, seen: Status::Pending, seen_stamp: row(1).stamp };
    assert_eq!(outbox.kill(&burial).await.unwrap_err().kind, FailureKind::Unavailable);
    assert_eq!(rows_left(&tables), 2, "the record stands twice, and is lost nowhere");
    assert_eq!(outbox.kill(&burial).await, Ok(ChangeAnswer::Done));
    assert_eq!(rows_left(&tables), 1);
    script.set(operation::KILL, 3, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    let second = Burial { dead: DeadRow { row: row(2), ..burial.dead.clone() }, ..burial };
    outbox.put(&row(2)).await.unwrap();
    assert_eq!(outbox.kill(&second).await.unwrap_err().kind, FailureKind::TimedOut);
    assert_eq!(outbox.row(&row(2).key).await, Ok(Slot::Present(row(2))), "nothing is deleted on an unknown first half");
}

#[tokio::test]
async fn adapters_over_the_same_tables_have_faults_of_their_own() {
    let fault = Fault::of(Effect::FailBefore(FailureKind::Unavailable));
    let tables = MemoryTables::new();
    let cut_off = MemoryLeaseStore::new(tables.clone()).with_faults(Arc::new(move |_: &Call| fault.clone()));
    let lease = LeaseName::new("telemetry").unwrap();
    assert_eq!(cut_off.read_lease(&lease).await.unwrap_err().kind, FailureKind::Unavailable);
    assert_eq!(MemoryLeaseStore::new(tables).read_lease(&lease).await, Ok(Slot::Absent));
}

#[tokio::test]
async fn a_switch_may_turn_although_the_reply_is_lost() {
    let script = Script::default().with(operation::SET_ENABLED, 2, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    let source = MemorySource::new(false).with_faults(Arc::new(script));
    source.set_enabled(true).await.unwrap();
    assert_eq!(source.is_enabled().await, Ok(true));
    assert_eq!(source.set_enabled(false).await.unwrap_err().kind, FailureKind::TimedOut);
    assert_eq!((source.stands_enabled(), source.switches()), (false, 2));
}
