use std::collections::BTreeSet;

use super::*;
use crate::limits;

#[test]
fn a_call_goes_on_where_the_last_one_ended() {
    let request = DrainRequest::scheduled(vec![shard(0), shard(1)]);
    let (terms, mut shards) = request.start(identity("east"), policy(true)).unwrap();
    let permit = permit_of(&terms, 7);
    let rows = slots(&[claimed_by(row("a", 60, "a1"), "other", 6), row("a", 50, "a2")]);
    let next = rows[1].0.clone();
    let (_, notes) = choose(&mut shards[0], &terms, &permit, rows, Some(next.clone()), &claim_id("p1"), reading(0));
    shards[0].absorb(notes);
    shards[1].done = true;
    let answer = DrainAnswer::of(terms, shards, at(0));
    assert!(!answer.done && answer.leading && answer.stopped_by.is_none());
    assert_eq!(answer.unsettled.len(), 1);
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(json["unsettled"][0]["shard"], "telemetry#0000");
    assert_eq!(json["unsettled"][0]["token"], 6);
    // The machine hands the cursor back as it came.
    let again: DrainRequest = serde_json::from_value(serde_json::json!({
        "shards": ["telemetry#0000", "telemetry#0001"], "mode": {"kind": "scheduled"},
        "cursor": json["cursor"], "settled": [], "alone": null
    }))
    .unwrap();
    let (terms, mut shards) = again.start(identity("east"), policy(true)).unwrap();
    assert_eq!((shards[0].after.as_ref(), shards[1].done), (Some(&next), true));
    let rows = slots(&[row("a", 40, "a3"), row("b", 30, "b1")]);
    let (choice, notes) = choose(&mut shards[0], &terms, &permit, rows, None, &claim_id("p2"), reading(0));
    assert_eq!(chosen(&choice), ["b1"], "a stays blocked for the whole pass");
    shards[0].absorb(notes);
    let answer = DrainAnswer::of(terms, shards, at(0));
    assert!(answer.done && answer.cursor.is_none());
    assert_eq!(answer.unsettled.len(), 1, "the last answer tells of the whole pass");
}

#[test]
fn a_stop_ends_the_run_and_says_whether_it_leads() {
    for (stop, done, leading) in [
        (None, false, true),
        (Some(Stop::BudgetSpent), false, true),
        (Some(Stop::TooLate), true, true),
        (Some(Stop::Queue(crate::failure::FailureKind::Denied)), true, true),
        (Some(Stop::FormerHolder), true, false),
        (Some(Stop::NotPermitted(NotPermitted::SteppingDown)), true, false),
    ] {
        let (terms, mut state) = start(false);
        let mut page = notes(false);
        if let Some(stop) = stop.clone() {
            page.stop_for(stop);
        }
        state.absorb(page);
        let answer = DrainAnswer::of(terms, vec![state], at(0));
        assert_eq!((answer.done, answer.leading), (done, leading), "{stop:?}");
        assert_eq!(answer.stopped_by.is_some(), done, "{stop:?}");
    }
}

#[test]
fn what_ends_the_call_or_the_leading_is_not_forgotten() {
    let stopped = |reasons: &[Option<Stop>]| {
        let (_, mut state) = start(false);
        for reason in reasons {
            let mut page = notes(false);
            reason.iter().for_each(|reason| page.stop_for(reason.clone()));
            state.absorb(page);
        }
        state
    };
    let outcome = |shards: Vec<ShardState>| {
        let answer = DrainAnswer::of(start(false).0, shards, at(0));
        (answer.stopped_by, answer.leading)
    };
    let told = |stop: Stop, leading: bool| (Some(stop.as_str().to_owned()), leading);
    let (late, former) = (Some(Stop::TooLate), Some(Stop::FormerHolder));
    assert_eq!(
        outcome(vec![stopped(&[late.clone(), None])]),
        told(Stop::TooLate, true),
        "a later page changes nothing"
    );
    assert_eq!(outcome(vec![stopped(&[Some(Stop::BudgetSpent), late.clone()])]), told(Stop::TooLate, true));
    for shards in [[&late, &former], [&former, &late]] {
        let shards = shards.map(|stop| stopped(std::slice::from_ref(stop))).into();
        assert_eq!(outcome(shards), told(Stop::FormerHolder, false), "whichever shard it was");
    }
}

#[test]
fn each_lone_row_is_told_once() {
    let (terms, _) = start(false);
    let lone = |id: &str| Alone { key: row("a", 60, id).key, claim: None };
    let shards = [vec![lone("b"), lone("a")], vec![lone("b"), lone("c")]]
        .map(|alone| ShardState { alone, ..start(false).1 })
        .into();
    assert_eq!(DrainAnswer::of(terms, shards, at(0)).alone, [lone("a"), lone("b"), lone("c")]);
}

#[test]
fn a_cut_reads_back() {
    let cut = Cut::at(at(0));
    assert_eq!(String::from(cut), format!("{START_MS}#~"));
    assert_eq!(Cut::try_from(String::from(cut)).unwrap(), cut);
}

#[test]
fn a_pass_that_left_rows_behind_says_when_to_come_again() {
    let again = |rows: &[OutboxRow], after: fn(&mut Notes)| {
        let (terms, mut state) = start(false);
        let permit = permit_of(&terms, 7);
        let (_, mut page) = choose(&mut state, &terms, &permit, slots(rows), None, &claim_id("p1"), reading(0));
        after(&mut page);
        state.absorb(page);
        DrainAnswer::of(terms, vec![state], at(0)).again_after_seconds
    };
    let not_due = |ms: u64| OutboxRow { not_before: Some(at(0).plus(Duration::from_millis(ms))), ..row("a", 60, "a1") };
    assert_eq!(again(&[row("a", 60, "a1")], |_| ()), None, "all of it was taken");
    assert_eq!(again(&[not_due(20_300), not_due(90_000)], |_| ()), Some(21), "when the first is due");
    assert_eq!(again(&[not_due(10)], |_| ()), Some(1));
    assert_eq!(again(&[claimed_by(row("a", 60, "a1"), "other", 6)], |_| ()), None, "its wait is another one");
    assert_eq!(again(&[], |page| page.counts.handed_back = 3), Some(1));
    assert_eq!(again(&[], |page| page.stop_for(Stop::BudgetSpent)), Some(1));
    assert_eq!(again(&[], |page| page.stop_for(Stop::Queue(crate::failure::FailureKind::Throttled))), Some(10));
    assert_eq!(again(&[], |page| page.stop_for(Stop::FormerHolder)), None, "not by this instance");
}

#[test]
fn claims_are_reported_once_oldest_first_and_not_too_many() {
    let entry = |before: u64, claim: String| Unsettled {
        key: row("a", before, "m").key,
        claim: claim_id(&claim),
        token: stamp(1),
    };
    let mut claims: Vec<_> = (0..150).map(|n| entry(1_000 - n, format!("c{n}"))).collect();
    claims.push(entry(2_000, "c149".to_owned()));
    let oldest = oldest_claims(claims);
    assert_eq!(oldest.len(), limits::SETTLED_IDS_MAX);
    assert_eq!(oldest[0], entry(2_000, "c149".to_owned()));
    assert_eq!(oldest[1], entry(1_000, "c0".to_owned()));
}

#[test]
fn a_request_that_contradicts_itself_is_refused_by_field() {
    let refused = |request: DrainRequest| request.start(identity("east"), policy(false)).unwrap_err().field;
    let lone = Alone { key: RowKey { shard: shard(5), ..row("a", 60, "a1").key }, claim: None };
    assert_eq!(refused(DrainRequest { alone: Some(lone), ..request(Mode::Scheduled) }), "alone.shard");
    let (terms, state) = start(false);
    let cursor = DrainAnswer::of(terms, vec![state], at(0)).cursor;
    assert_eq!(refused(DrainRequest { cursor, ..DrainRequest::scheduled(vec![shard(3)]) }), "cursor");
    for bad in ["1767225600000", "1767225600000#", "17672256000000#~", "x#~"] {
        assert_eq!(Cut::try_from(bad.to_owned()).unwrap_err().field, "mode.cut", "{bad}");
    }
    assert!(BlockedKeys::try_from("123".to_owned()).is_err() && BlockedKeys::try_from("üüüü".to_owned()).is_err());
}

#[test]
fn plans_name_every_shard_once() {
    let lease = LeaseName::new("telemetry").unwrap();
    for (counts, size, groups) in
        [(&[16u16][..], 8, 2), (&[16], 16, 1), (&[17], 16, 2), (&[4, 16], 16, 1), (&[1], 8, 1), (&[], 8, 0)]
    {
        let plan = shard_groups(&lease, counts, size);
        assert_eq!(plan.len(), groups, "{counts:?} by {size}");
        let named: Vec<_> = plan.iter().flat_map(|group| group.shards.iter().map(Shard::index)).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        assert_eq!(named, (0..most).collect::<Vec<_>>());
        assert!(plan.iter().all(|group| group.shards.len() <= size));
    }
    let groups = shard_groups(&lease, &[16], 8);
    let leading =
        serde_json::to_value(plan(Some(token(7)), groups.clone(), Duration::from_millis(34_500), at(0))).unwrap();
    assert_eq!(leading["stale_wait_seconds"], 35);
    assert_eq!(leading["until_ms"], START_MS + 55_000);
    assert_eq!(leading["groups"][1]["shards"][0], "telemetry#0008");
    let not_leading = plan(None, groups, Duration::from_secs(35), at(0));
    assert_eq!(not_leading.stale_wait_seconds, 35, "whole seconds stay as they are");
    assert!(not_leading.groups.is_empty() && !not_leading.leading && not_leading.token.is_none());
}

#[test]
fn the_sample_commands_are_understood() {
    for text in [
        include_str!("../../../../drainer/events/drain.json"),
        include_str!("../../../../drainer/events/drain_alone.json"),
        include_str!("../../../../drainer/events/drain_settled.json"),
        include_str!("../../../../drainer/events/drain_takeover.json"),
    ] {
        let request: DrainRequest = serde_json::from_value(fields_of(text)).unwrap();
        request.start(identity("east"), policy(false)).unwrap();
    }
    let text = include_str!("../../../../drainer/events/redrive.json");
    let request: RedriveRequest = serde_json::from_value(fields_of(text)).unwrap();
    request.remaining().unwrap();
}

/// The fields of a sample event beside its command, which the handler has read by then.
fn fields_of(event: &str) -> serde_json::Value {
    let mut event: serde_json::Value = serde_json::from_str(event).unwrap();
    assert!(event.as_object_mut().unwrap().remove("command").is_some(), "a sample names its command");
    event
}

#[test]
fn a_woken_drainer_hurries_for_a_claim_in_flight_but_not_for_its_own() {
    let claim = Unsettled { key: row("a", 40, "a1").key, claim: claim_id("other"), token: token(7).into() };
    let answer = |stopped_by: Option<&str>| DrainAnswer {
        leading: true,
        unsettled: vec![claim.clone()],
        stopped_by: stopped_by.map(str::to_owned),
        again_after_seconds: stopped_by.map(|_| 10),
        ..DrainAnswer::refused()
    };
    let seconds = Duration::from_secs;
    let none = BTreeSet::new();
    assert_eq!(answer(None).wake_again_after(true, &none), Some(seconds(1)));
    assert_eq!(answer(None).wake_again_after(false, &none), None, "without order nothing stands behind it");
    assert_eq!(answer(Some("queue")).wake_again_after(true, &none), Some(seconds(1)), "a stop on another shard or not");
    assert_eq!(DrainAnswer { leading: false, ..answer(None) }.wake_again_after(true, &none), None);
    let own = BTreeSet::from([claim_id("other")]);
    assert_eq!(answer(Some("queue")).wake_again_after(true, &own), Some(seconds(10)));
    assert_eq!(answer(None).wake_again_after(true, &own), None);
}

#[test]
fn a_call_knows_the_claims_that_it_makes_and_tells_nobody() {
    let (terms, mut state) = start(true);
    let permit = permit_of(&terms, 7);
    let pages = [(vec![row("a", 60, "a1")], "p1"), (vec![claimed_by(row("b", 50, "b1"), "other", 6)], "p2")];
    for (rows, claim) in pages {
        let next = Some(rows[0].key.position.clone());
        let (_, notes) = choose(&mut state, &terms, &permit, slots(&rows), next, &claim_id(claim), reading(0));
        state.absorb(notes);
    }
    let answer = DrainAnswer::of(terms, vec![state], at(0));
    assert_eq!(answer.own_claims, [claim_id("p1")], "on the second page there was none to make");
    assert!(serde_json::to_value(&answer).unwrap().get("own_claims").is_none());
}
