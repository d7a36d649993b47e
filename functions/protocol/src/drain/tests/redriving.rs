use super::*;
use crate::ids::PayloadDigest;
use crate::outbox::{DeadRow, DeathReason, Tombstone};

fn dead(redriven: u32) -> DeadRow {
    let row = OutboxRow {
        redriven,
        attempts: 20,
        stale: 3,
        first_attempt_at: Some(at(1)),
        not_before: Some(at(9)),
        ..claimed_by(row("a", 60, "a1"), "last", 5)
    };
    DeadRow { row, reason: DeathReason::Exhausted, died_at: at(100) }
}

fn stone(redriven: u32, payload: &[u8]) -> Slot<Tombstone> {
    let id = MessageId::new("a1").unwrap();
    Slot::Present(Tombstone { id, digest: PayloadDigest::of(payload), redriven, expires_at_secs: 9 })
}

#[test]
fn a_redriven_row_begins_a_new_life() {
    for (lease_token, expected) in [(0, 5), (4, 5), (9, 9)] {
        let RedriveDecision::Redrive(plan) = redrive(&dead(2), &Slot::Absent, None, stamp(lease_token)) else {
            panic!()
        };
        assert_eq!((plan.dead_redriven, plan.row.redriven, plan.row.stamp), (2, 3, stamp(expected)));
        assert_eq!(
            (plan.row.attempts, plan.row.stale, plan.row.first_attempt_at, plan.row.not_before),
            (0, 0, None, None)
        );
        assert_eq!((&plan.row.status, &plan.row.payload), (&Status::Pending, &b"a1".to_vec()));
    }
}

#[test]
fn what_lives_or_was_delivered_is_a_phantom() {
    let live = |redriven| Slot::Present(OutboxRow { redriven, ..row("a", 60, "a1") });
    let foreign = Slot::Present(OutboxRow { redriven: 3, payload: b"x".to_vec(), ..row("a", 60, "a1") });
    let phantom = RedriveDecision::Phantom;
    for (name, live, tombstone, expected) in [
        ("the same life is live", live(2), None, phantom.clone()),
        ("an earlier life is live", live(1), None, phantom.clone()),
        ("a much later life is live", live(4), None, phantom.clone()),
        ("another message is live", foreign, None, phantom.clone()),
        ("a redrive that was cut off", live(3), None, RedriveDecision::DeleteDead { dead_redriven: 2 }),
        ("a later life was accepted", Slot::Absent, Some(stone(3, b"a1")), phantom.clone()),
        ("a later life of other bytes was accepted", Slot::Absent, Some(stone(3, b"other")), phantom.clone()),
        ("this life was accepted", Slot::Absent, Some(stone(2, b"a1")), phantom),
        ("damaged row", Slot::Damaged(damage("row")), None, RedriveDecision::Skip("a damaged row stands at its place")),
        (
            "damaged tombstone",
            Slot::Absent,
            Some(Slot::Damaged(damage("sent#a1"))),
            RedriveDecision::Skip("its tombstone is damaged"),
        ),
    ] {
        assert_eq!(redrive(&dead(2), &live, tombstone.as_ref(), Stamp::NONE), expected, "{name}");
        let purge = purge(&dead(2), &live, tombstone.as_ref());
        let lives = matches!(expected, RedriveDecision::Phantom | RedriveDecision::DeleteDead { .. });
        assert_eq!((purge.ends_a_message, purge.dead_redriven), (!lives, 2), "{name}");
    }
    for tombstone in [stone(1, b"a1"), stone(2, b"other"), Slot::Absent] {
        let decision = redrive(&dead(2), &Slot::Absent, Some(&tombstone), Stamp::NONE);
        assert!(matches!(decision, RedriveDecision::Redrive(_)), "{tombstone:?} proves nothing about this life");
        assert!(purge(&dead(2), &Slot::Absent, Some(&tombstone)).ends_a_message, "{tombstone:?}");
    }
    assert!(matches!(redrive(&dead(u32::MAX), &Slot::Absent, None, Stamp::NONE), RedriveDecision::Skip(_)));
}

#[test]
fn the_dead_row_goes_only_when_the_live_one_is_this_redrives() {
    let RedriveDecision::Redrive(plan) = redrive(&dead(2), &Slot::Absent, None, Stamp::NONE) else { panic!() };
    assert!(redriven_is_mine(&plan, None));
    assert!(redriven_is_mine(&plan, Some(&Slot::Present(plan.row.clone()))));
    assert!(
        redriven_is_mine(&plan, Some(&Slot::Present(claimed_by(plan.row.clone(), "drainer", 9)))),
        "already claimed"
    );
    assert!(!redriven_is_mine(&plan, Some(&Slot::Present(OutboxRow { redriven: 2, ..plan.row.clone() }))));
    assert!(!redriven_is_mine(&plan, Some(&Slot::Damaged(damage("row")))));
    assert!(!redriven_is_mine(&plan, Some(&Slot::Absent)));
}

#[test]
fn a_redrive_is_a_risk_where_a_send_of_unknown_outcome_was() {
    use DeathReason::{Exhausted, Refused};
    let free = || row("a", 60, "a1");
    for (row, reason, risk) in [
        (OutboxRow { stale: 1, ..free() }, Refused, true),
        (OutboxRow { stale: 3, ..free() }, Exhausted, true),
        (claimed_by(free(), "last", 5), Exhausted, true),
        (free(), Exhausted, false),
        (claimed_by(free(), "last", 5), Refused, false),
        (free(), Refused, false),
    ] {
        let dead = DeadRow { row, reason, died_at: at(100) };
        assert_eq!(redrive_is_a_risk(&dead), risk, "{dead:?}");
    }
}

#[test]
fn filters_and_cursors_mean_what_they_say() {
    let filter = |json: &str| serde_json::from_str::<RedriveFilter>(json);
    for (json, matches) in [
        ("{}", true),
        (r#"{"reason":"exhausted","before_ms":null,"topic_prefix":"telemetry/"}"#, true),
        (r#"{"reason":"refused"}"#, false),
        (&format!(r#"{{"before_ms":{}}}"#, START_MS + 101), true),
        (&format!(r#"{{"before_ms":{}}}"#, START_MS + 100), false),
        (r#"{"topic_prefix":"other"}"#, false),
    ] {
        assert_eq!(filter(json).unwrap().matches(&dead(0)), matches, "{json}");
    }
    assert!(filter(r#"{"topik_prefix":"x"}"#).is_err(), "a filter that is misspelt must not mean everything");
    let request = |cursor, limit| RedriveRequest {
        shards: vec![shard(0), shard(1), shard(2)],
        cursor,
        limit,
        filter: RedriveFilter::default(),
        dry_run: false,
    };
    let position = row("a", 60, "a1").key.position;
    let cursor = RedriveCursor { shard: shard(1), after: Some(position) };
    let left = request(Some(cursor.clone()), 5).remaining().unwrap();
    assert_eq!(left, [cursor, RedriveCursor { shard: shard(2), after: None }]);
    assert_eq!(request(None, 5).remaining().unwrap().len(), 3);
    assert_eq!(request(None, 0).remaining().unwrap_err().field, "limit");
    let stray = RedriveCursor { shard: shard(9), after: None };
    assert_eq!(request(Some(stray), 5).remaining().unwrap_err().field, "cursor.shard");
}
