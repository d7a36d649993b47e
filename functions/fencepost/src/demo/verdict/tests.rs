use fencepost_local::world::StoredRecord;
use fencepost_protocol::ids::{LeaseName, MessageId, Position, RowKey, Shard};
use fencepost_protocol::invariants::Conservation;
use fencepost_protocol::time::Timestamp;

use super::*;

const TIMES: Times = Times {
    takeover: Some(16_100),
    takeover_from_kill: Some(14_000),
    takeover_bound: 17_000,
    handover: Some(900),
    handover_bound: 2_500,
};

fn digest(number: u8) -> PayloadDigest {
    PayloadDigest::of(&[number])
}

/// A ledger of `count` acknowledged messages, numbered from 0.
fn ledger(count: u8) -> HashMap<PayloadDigest, Entry> {
    let entry = Entry { topic: "telemetry/device-01".into(), client_id: "device-01".into(), acknowledged: true };
    (0..count).map(|number| (digest(number), entry.clone())).collect()
}

fn delivered(number: u8) -> DeliveredMessage {
    DeliveredMessage {
        queue_message_id: format!("queue-{number}"),
        message_id: format!("message-{number}"),
        topic: "telemetry/device-01".into(),
        client_id: Some("device-01".into()),
        digest: digest(number),
        token: Some(1),
    }
}

fn stored(number: u8) -> StoredRecord {
    let shard = Shard::new(LeaseName::new("telemetry").unwrap(), 0).unwrap();
    let id = MessageId::new(format!("message-{number}")).unwrap();
    StoredRecord {
        key: RowKey { shard, position: Position::new(Timestamp::from_ms(1_700_000_000_000), id).unwrap() },
        topic: "telemetry/device-01".into(),
        client_id: Some("device-01".into()),
        digest: digest(number),
        claimed: false,
        reason: None,
    }
}

/// A store in which `count` messages were delivered and nothing else is.
fn report(count: u8) -> AuditReport {
    AuditReport {
        outstanding: Vec::new(),
        dead: Vec::new(),
        damaged: Vec::new(),
        delivered: (0..count).map(delivered).collect(),
        undecodable: Vec::new(),
        committed_twice: Vec::new(),
        violations: Vec::new(),
        conservation: None,
    }
}

fn judged(ledger: &HashMap<PayloadDigest, Entry>, report: &AuditReport, times: Times) -> Verdict {
    judge(ledger, report, &Counts::default(), vec![1, 2, 3], times)
}

#[test]
fn everything_delivered_is_kept_also_when_something_came_twice() {
    let mut report = report(3);
    report.delivered.push(delivered(1));
    let verdict = judged(&ledger(3), &report, TIMES);
    assert_eq!(verdict.broken, Vec::<String>::new());
    let figures = verdict.figures;
    assert_eq!((figures.published, figures.delivered_unique, figures.delivered_total, figures.lost), (3, 3, 4, 0));
}

#[test]
fn a_message_in_no_store_is_lost_and_a_dead_one_is_not() {
    let mut report = report(1);
    report.dead.push(stored(1));
    let verdict = judged(&ledger(3), &report, TIMES);
    assert_eq!((verdict.figures.lost, verdict.figures.dead), (1, 1));
    assert_eq!(verdict.broken.len(), 1);
    assert!(verdict.broken[0].starts_with("1 lost"), "{:?}", verdict.broken);
    assert!(verdict.broken[0].contains(digest(2).short(12)), "{:?}", verdict.broken);
}

#[test]
fn an_outstanding_message_is_not_lost_but_the_run_fails() {
    let mut report = report(2);
    report.outstanding.push(stored(2));
    let verdict = judged(&ledger(3), &report, TIMES);
    assert_eq!((verdict.figures.lost, verdict.outstanding), (0, 1));
    assert!(verdict.broken[0].contains("not delivered in time"), "{:?}", verdict.broken);
}

#[test]
fn changed_bytes_and_changed_topics_are_found() {
    let mut report = report(3);
    report.delivered[0].digest = digest(99);
    report.delivered[1].topic = "telemetry/device-02".into();
    let broken = judged(&ledger(3), &report, TIMES).broken.join("\n");
    for fault in ["1 lost", "1 delivered although it was never published", "1 delivered under another topic"] {
        assert!(broken.contains(fault), "{fault}: {broken}");
    }
}

#[test]
fn a_message_that_the_broker_did_not_acknowledge_may_be_delivered_and_is_told() {
    let mut ledger = ledger(2);
    for number in 0..2 {
        ledger.get_mut(&digest(number)).unwrap().acknowledged = false;
    }
    let verdict = judged(&ledger, &report(1), TIMES);
    assert_eq!((verdict.figures.published, verdict.figures.lost), (0, 0));
    assert_eq!(verdict.broken, ["2 published messages were never acknowledged by the broker"]);
}

#[test]
fn each_other_fault_breaks_the_run() {
    let with = |change: fn(&mut AuditReport)| {
        let mut report = report(3);
        change(&mut report);
        judged(&ledger(3), &report, TIMES).broken.join("\n")
    };
    assert!(with(|report| report.committed_twice.push("row".into())).contains("committed twice: row"));
    assert!(with(|report| report.undecodable.push("queue-9".into())).contains("does not decode: queue-9"));
    assert!(with(|report| report.damaged.push("LEASE".into())).contains("damaged in the store: LEASE"));
    let unequal = Conservation { ingested: 3, committed: 2, dead: 0, outstanding: 0, purged: 0 };
    let mut report = report(3);
    report.conservation = Some(unequal);
    assert!(judged(&ledger(3), &report, TIMES).broken[0].starts_with("conservation: I5"));
    let verdict = judge(&ledger(3), &with_nothing_wrong(), &Counts::default(), vec![1, 2, 2], TIMES);
    assert_eq!(verdict.broken, ["tokens do not grow: [1, 2, 2]"]);
}

fn with_nothing_wrong() -> AuditReport {
    report(3)
}

#[test]
fn a_bound_is_kept_up_to_its_last_millisecond() {
    let late = |takeover, handover| judged(&ledger(3), &report(3), Times { takeover, handover, ..TIMES }).broken;
    assert_eq!(late(Some(17_000), Some(2_500)), Vec::<String>::new());
    assert_eq!(late(Some(17_001), Some(900)), ["takeover after the crash: took 17001ms, the bound is 17000ms"]);
    assert!(late(Some(16_000), None)[0].starts_with("planned handover: nobody took the lease"));
}

#[test]
fn only_the_first_of_many_faults_are_told_one_by_one() {
    let verdict = judged(&ledger(10), &report(0), TIMES);
    assert!(verdict.broken[0].starts_with("10 lost"));
    assert!(verdict.broken[0].ends_with("; and 5 more"), "{:?}", verdict.broken);
}

#[test]
fn the_json_object_has_the_promised_keys_and_no_others() {
    let figures = serde_json::to_value(judged(&ledger(1), &report(1), TIMES).figures).unwrap();
    let mut keys: Vec<&str> = figures.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let promised = "commits_fenced dead delivered_total delivered_unique duplicates_known handover_bound_ms handover_ms \
        ingested lost published takeover_bound_ms takeover_ms tokens";
    assert_eq!(keys, promised.split_whitespace().collect::<Vec<_>>());
}
