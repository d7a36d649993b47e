//! Lease rows damaged by hand, and lease tables lost or set back.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_protocol::limits::FENCING_TOKEN_MAX;
use fencepost_runtime::failure::ErrorType;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::item::{Item, Value as Attribute};
use fencepost_storage::records::Table;
use serde_json::{Value, json};

use super::lab::{Lab, Process, standing};
use super::real::Real;

/// What is done to one field: taken away, or replaced.
type Damage = (&'static str, Option<Attribute>);

fn number(digits: &str) -> Option<Attribute> {
    Some(Attribute::Number(digits.to_owned()))
}

fn text(text: &str) -> Option<Attribute> {
    Some(Attribute::text(text))
}

/// Every way to damage a row that was reported or that we could think of; each is told by the name of its field.
fn damages() -> Vec<Damage> {
    let missing = [
        "fencing_token",
        "renewal",
        "lease_ttl_ms",
        "confirmed_at",
        "acquired_as",
        "takeover_done",
        "takeover_try",
        "takeover_try_at",
        "attempt",
        "schema",
        "owner",
        "owner_stack",
    ];
    let mut damages: Vec<Damage> = missing.into_iter().map(|field| (field, None)).collect();
    for digits in ["0", "-1", "1.5", "1e3000", "99999999999999999999999999999999999999"] {
        damages.push(("fencing_token", number(digits)));
    }
    damages.push(("fencing_token", number(&(FENCING_TOKEN_MAX + 1).to_string())));
    damages.push(("fencing_token", number(&u64::MAX.to_string())));
    for field in ["fencing_token", "renewal", "lease_ttl_ms", "confirmed_at", "schema"] {
        damages.push((field, text("7")));
        damages.push((field, Some(Attribute::Bool(true))));
    }
    damages.extend([
        ("lease_ttl_ms", number("0")),
        ("lease_ttl_ms", number("86400001")),
        ("confirmed_at", number("10000000000000")),
        ("takeover_done", number("2")),
        ("acquired_as", text("stolen")),
        ("attempt", text("")),
        ("attempt", number("7")),
        ("owner", text("")),
        ("owner", Some(Attribute::Bytes(vec![0xFF]))),
        ("stepping_down", text("yes")),
        ("schema", number("99")),
    ]);
    damages
}

fn damaged(row: &Item, (field, value): &Damage) -> Item {
    let mut row = row.clone();
    match value {
        Some(value) => row.insert((*field).to_owned(), value.clone()),
        None => row.remove(*field),
    };
    row
}

/// Nobody holds anything and nothing is written, though ticks and drains go on for a minute.
async fn refused_by_all(lab: &Lab, everybody: &mut [&mut Process], damage: &Damage, row: &Item) {
    for _ in 0..12 {
        lab.advance(Duration::from_secs(5));
        for process in everybody.iter_mut() {
            let reply = process.tick().await;
            assert_eq!(standing(&reply), ("refused", None), "{damage:?}");
            assert_eq!(reply["refused"]["field"], damage.0, "{reply}");
            assert!(!reply["refused"]["problem"].as_str().unwrap().is_empty(), "{reply}");
            assert_eq!((process.last(Metric::LeaseHeld), process.last(Metric::GroupHasHolder)), (0.0, 0.0));
            let refused = process.drain(json!({})).await.unwrap_err();
            assert_eq!(refused.error_type, ErrorType::LeaseRecordInvalid, "{damage:?}");
            assert!(refused.message.contains(damage.0), "{refused}");
        }
    }
    for command in ["status", "step_down", "resume", "release"] {
        let refused = everybody[0].lease(json!({ "command": command })).await;
        match (command, refused) {
            ("status" | "step_down" | "resume" | "release", Err(error)) => {
                assert_eq!(error.error_type, ErrorType::LeaseRecordInvalid, "{command}: {damage:?}");
                assert!(error.message.contains(damage.0), "{error}");
            }
            (_, Ok(reply)) => panic!("{command} went through: {reply}"),
            _ => unreachable!("every command is listed"),
        }
    }
    assert_eq!(&lab.row_item(), row, "{damage:?}: overwritten");
}

/// Reported: a lease row that somebody edited crashed every instance, or was silently replaced, tokens and all. Right: it is
/// refused by the name of its field, by everybody, overwritten by nobody; nothing is held or drained on it, the alarm rings,
/// and the repaired row goes on above everything that was issued.
///
/// Kills: `missing_renewal_reads_as_zero`
#[tokio::test]
async fn case_14_a_damaged_row_is_refused_by_name_and_left_alone() {
    for damage in damages() {
        let lab = Lab::new(&[]);
        let (mut east, mut west) = (lab.process("east"), lab.process("west"));
        lab.pass(3, &mut [&mut east, &mut west]).await;
        east.store("kept").await.unwrap();
        let good = lab.row_item();
        let bad = damaged(&good, &damage);
        lab.tables.plant(Table::Lease, bad.clone()).unwrap();
        refused_by_all(&lab, &mut [&mut east, &mut west], &damage, &bad).await;
        assert_eq!((lab.fence().await, lab.queue.accepted().len()), (1, 0), "{damage:?}");

        lab.tables.plant(Table::Lease, good).unwrap();
        let replies = lab.pass(1, &mut [&mut east, &mut west]).await;
        assert_eq!(standing(&replies[0]), ("leader", Some(2)), "{damage:?}: its own row, past its deadline");
        assert_eq!(east.drain(json!({})).await.unwrap()["counts"]["committed"], 1);
    }
}

/// Who led under which token, as the ticks told it.
#[derive(Default)]
struct Issued(BTreeMap<u64, String>);

impl Issued {
    fn note(&mut self, name: &str, reply: &Value) {
        let Some(token) = reply["token"].as_u64() else { return };
        let highest = self.0.last_key_value().map_or(0, |(token, _)| *token);
        let owner = self.0.entry(token).or_insert_with(|| {
            assert!(token > highest, "{token} was issued after {highest}");
            name.to_owned()
        });
        assert_eq!(owner, name, "token {token} was issued twice");
    }

    async fn pass(&mut self, lab: &Lab, seconds: u64, ticking: &mut [(&str, &mut Process)]) {
        for _ in 0..seconds {
            lab.advance(Duration::from_secs(1));
            for (name, process) in ticking.iter_mut() {
                let reply = process.tick().await;
                self.note(name, &reply);
                assert!(lab.fence().await >= reply["token"].as_u64().unwrap_or(0), "the fence was raised first");
            }
        }
    }

    fn highest(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(token, _)| *token)
    }
}

/// Reported: the lock table was restored from last week's backup, tokens were issued a second time and two workers' writes
/// were accepted. Right: tokens go on above the fence item, which lives in the other table; nothing is issued twice, and the
/// outbox goes on.
///
/// Kills: `a_restored_row_decides_the_token`
#[tokio::test]
async fn case_15_a_lost_or_restored_lease_table_issues_no_token_twice() {
    let lab = Lab::new(&[]);
    let (mut east, mut west) = (lab.process("east"), lab.process("west"));
    let mut issued = Issued::default();
    issued.pass(&lab, 3, &mut [("east", &mut east), ("west", &mut west)]).await;
    let last_week = lab.tables.dump(Table::Lease);
    for handover in 0..6 {
        let holder = if handover % 2 == 0 { &east } else { &west };
        assert_eq!(holder.lease(json!({ "command": "step_down" })).await.unwrap()["state"], "released");
        issued.pass(&lab, 15, &mut [("east", &mut east), ("west", &mut west)]).await;
    }
    assert_eq!(issued.highest(), 7);
    lab.advance(Duration::from_secs(7 * 24 * 3_600));
    issued.pass(&lab, 2, &mut [("east", &mut east), ("west", &mut west)]).await;
    assert_eq!(issued.highest(), 8, "east's own lease ran out in a week of silence");
    east.store("under 8").await.unwrap();

    // Lost, and made anew.
    lab.tables.clear(Table::Lease);
    issued.pass(&lab, 2, &mut [("west", &mut west), ("east", &mut east)]).await;
    assert_eq!((issued.highest(), lab.row().await.owner.unwrap().name.to_string()), (9, "west".to_owned()));

    // Restored to last week: the row names east, under token 1, long past its deadline.
    lab.tables.clear(Table::Lease);
    for item in &last_week {
        lab.tables.plant(Table::Lease, item.clone()).unwrap();
    }
    issued.pass(&lab, 2, &mut [("west", &mut west), ("east", &mut east)]).await;
    assert_eq!((issued.highest(), lab.row().await.token.get()), (10, 10));

    // The same where east is gone: west waits a whole TTL for it, as for any holder.
    lab.tables.clear(Table::Lease);
    for item in &last_week {
        lab.tables.plant(Table::Lease, item.clone()).unwrap();
    }
    issued.pass(&lab, 1, &mut [("west", &mut west)]).await;
    assert_eq!((issued.highest(), lab.row().await.token.get()), (10, 1));
    issued.pass(&lab, 15, &mut [("west", &mut west)]).await;
    assert_eq!((issued.highest(), lab.row().await.token.get()), (11, 11));

    let drained = west.drain(json!({})).await.unwrap();
    assert_eq!(drained["counts"]["committed"], 1, "a row stamped 8 lies below 11");
    assert_eq!((west.metrics.total(Metric::TokenRegression), lab.queue.accepted().len()), (0.0, 1));
}

/// The same with a real table that is deleted: nobody leads without it, the holder's deadline ends it, and the new table goes on
/// above the fence.
///
/// Kills: `the_fence_is_forgotten`
#[tokio::test]
async fn case_15_a_deleted_table() {
    let mut real = Real::start().await;
    let mut east = real.process("east", &[]).await;
    assert_eq!(standing(&east.tick().await), ("leader", Some(1)));
    real.client().delete_table().table_name("lease-table").send().await.unwrap();
    let mut lost = Vec::new();
    for _ in 0..14 {
        real.clock.advance(Duration::from_secs(1));
        let reply = east.tick().await;
        assert_eq!(standing(&reply), ("unknown", None));
        lost.extend(super::lab::events(&reply).into_iter().map(str::to_owned));
    }
    assert_eq!(lost, ["Lease Lost"], "told once, from what the loop carried");
    let error = east.drain(json!({})).await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::RequestInvalid);
    assert!(error.message.contains("lease-table") && error.message.contains("FENCEPOST_LEASE_TABLE"), "{error}");
    real.tables.create_missing().await;
    assert_eq!(standing(&east.tick().await), ("leader", Some(2)));
}

/// Found in our own design: a damaged row with an enormous token would stamp every message that came meanwhile, and no holder
/// could ever claim them after the repair. Right: ingest goes on, stamps 0, and the outbox stays drainable.
///
/// Kills: `a_token_above_the_maximum_by_one_is_believed`
#[tokio::test]
async fn case_47_ingest_goes_on_with_stamp_0_beside_a_damaged_row() {
    for token in [FENCING_TOKEN_MAX + 1, u64::MAX] {
        let token = token.to_string();
        let lab = Lab::new(&[]);
        let mut east = lab.process("east");
        east.tick().await;
        let good = lab.row_item();
        lab.tables.plant(Table::Lease, damaged(&good, &("fencing_token", number(&token)))).unwrap();
        let ids = ["a", "b", "c"];
        for id in ids {
            lab.process("east").store(id).await.unwrap();
        }
        let rows = lab.outstanding().await;
        assert!(rows.iter().all(|row| row.stamp.get() == 0), "token {token}: {rows:?}");

        lab.tables.plant(Table::Lease, good).unwrap();
        assert_eq!(standing(&lab.pass(1, &mut [&mut east]).await[0]), ("leader", Some(1)));
        let drained = east.drain(json!({})).await.unwrap();
        assert_eq!((&drained["counts"]["committed"], &drained["counts"]["token_regression"]), (&json!(3), &json!(0)));
        assert_eq!(lab.queue.accepted().len(), ids.len());
    }
}
