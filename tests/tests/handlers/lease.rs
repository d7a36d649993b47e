//! The lease function: ticks never raise, commands do, and each lost reply is thought through.

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_runtime::failure::ErrorType;
use fencepost_runtime::telemetry::Metric;
use fencepost_storage::item::Value as Attribute;
use fencepost_storage::memory::{Effect, Fault};
use fencepost_storage::operation;
use fencepost_storage::records::Table;
use fencepost_tests::harness::{Harness, Instance};
use serde_json::json;

async fn pass(harness: &Harness, instances: &mut [&mut Instance], seconds: u64) {
    for _ in 0..seconds {
        harness.clock.advance(Duration::from_secs(1));
        for instance in instances.iter_mut() {
            instance.tick().await;
        }
    }
}

#[tokio::test]
async fn one_leads_the_other_stands_by_and_takes_over_within_the_bound() {
    let harness = Harness::new();
    let (mut east, mut west) = (harness.instance("east"), harness.instance("west"));
    let first = east.tick().await;
    assert_eq!((&first["role"], &first["token"]), (&json!("leader"), &json!(1)));
    assert_eq!(first["events"][0]["detail_type"], "Lease Acquired");
    assert_eq!(first["takeover"]["name"], "telemetry-1-0");
    let standby = west.tick().await;
    assert_eq!((&standby["role"], &standby["group_has_holder"]), (&json!("standby"), &json!(true)));
    pass(&harness, &mut [&mut east, &mut west], 30).await;
    // East dies.
    let mut seconds = 0;
    let seized = loop {
        harness.clock.advance(Duration::from_secs(1));
        seconds += 1;
        let reply = west.tick().await;
        if reply["role"] == "leader" {
            break reply;
        }
        assert!(seconds < 17, "not within TTL + margin + two ticks");
    };
    assert_eq!((&seized["token"], &seized["events"][0]["detail_type"]), (&json!(2), &json!("Lease Seized")));
    assert_eq!(west.metrics.total(Metric::LeaseTransfers), 1.0);
    assert!(west.metrics.values(Metric::TakeoverDuration)[0] >= 14_500.0);
}

#[tokio::test]
async fn an_acquisition_whose_reply_was_lost_at_any_of_its_writes_ends_well() {
    for operation in [operation::RAISE_FENCE, operation::WRITE_LEASE, operation::WRITE_INSTANCE] {
        let harness = Harness::new();
        let mut east = harness.instance("east");
        harness.faults.set(operation, 1, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
        east.tick().await;
        harness.clock.advance(Duration::from_secs(1));
        let next = east.tick().await;
        assert_eq!(next["role"], "leader", "{operation}");
        assert_eq!(next["events"][0]["detail_type"], "Lease Acquired", "{operation}: told by the next tick");
        assert!(next["takeover"].is_object(), "{operation}");
    }
}

#[tokio::test]
async fn a_tick_that_cannot_read_answers_unknown_and_the_loop_demotes_in_time() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    for call in 2..40 {
        harness.faults.set(operation::READ_GROUP, call, Fault::of(Effect::FailBefore(FailureKind::Unavailable)));
    }
    let mut lost_after = None;
    for second in 1..20 {
        harness.clock.advance(Duration::from_secs(1));
        let reply = east.tick().await;
        assert_eq!((&reply["role"], &reply["token"]), (&json!("unknown"), &json!(null)));
        if reply["events"][0]["detail_type"] == "Lease Lost" {
            assert_eq!(reply["events"][0]["detail"]["reason"], "store_unreadable");
            assert_eq!(lost_after, None, "told once");
            lost_after = Some(second);
        }
    }
    assert!(lost_after.is_some_and(|second| second <= 13), "before the deadline: {lost_after:?}");
}

#[tokio::test]
async fn a_damaged_lease_row_is_refused_by_name_and_overwritten_by_nobody() {
    for (field, value) in [
        ("fencing_token", Some(Attribute::Number("0".into()))),
        ("fencing_token", Some(Attribute::Number(u64::MAX.to_string()))),
        ("fencing_token", Some(Attribute::Text("7".into()))),
        ("renewal", None),
        ("lease_ttl_ms", Some(Attribute::Number("0".into()))),
        ("attempt", Some(Attribute::Text(String::new()))),
        ("schema", Some(Attribute::Number("99".into()))),
    ] {
        let harness = Harness::new();
        let mut east = harness.instance("east");
        east.tick().await;
        let mut row = harness.tables.dump(Table::Lease).into_iter().find(|row| row.contains_key("owner")).unwrap();
        match value {
            Some(value) => row.insert(field.into(), value),
            None => row.remove(field),
        };
        harness.tables.plant(Table::Lease, row.clone()).unwrap();
        harness.clock.advance(Duration::from_secs(5));
        let reply = east.tick().await;
        assert_eq!(reply["role"], "refused", "{field}");
        assert_eq!(reply["refused"]["field"], field);
        assert!(harness.tables.dump(Table::Lease).contains(&row), "{field}: left as it was");
        for command in [json!({ "command": "status" }), json!({ "command": "step_down" })] {
            let error = east.lease(command).await.unwrap_err();
            assert_eq!(error.error_type, ErrorType::LeaseRecordInvalid);
            assert!(error.message.contains(field), "{}", error.message);
        }
        assert_eq!(
            east.drain(json!({})).await.unwrap_err().error_type,
            ErrorType::LeaseRecordInvalid,
            "and nothing is drained"
        );
    }
}

#[tokio::test]
async fn a_planned_handover_of_an_idle_outbox_takes_two_ticks() {
    let harness = Harness::new();
    let (mut east, mut west) = (harness.instance("east"), harness.instance("west"));
    pass(&harness, &mut [&mut east, &mut west], 3).await;
    let asked = east.lease(json!({ "command": "step_down" })).await.unwrap();
    assert_eq!(asked["state"], "released");
    harness.clock.advance(Duration::from_secs(1));
    assert_eq!(east.tick().await["role"], "abstaining");
    assert_eq!(west.tick().await["role"], "leader");
    assert_eq!(east.tick().await["role"], "standby");
    let again = east.lease(json!({ "command": "step_down" })).await.unwrap();
    assert_eq!((&again["state"], &again["holder"]["name"]), (&json!("not_holder"), &json!("west")));
    let status = west.lease(json!({ "command": "status" })).await.unwrap();
    assert_eq!((&status["leading"], &status["lease"]["token"]), (&json!(true), &json!(2)));
}

/// The release is the write of the command itself, so the successor's tick may come before any of the releaser's.
#[tokio::test]
async fn a_planned_handover_is_told_as_one_whoever_ticks_first() {
    for successor_first in [false, true] {
        let harness = Harness::new();
        let (mut east, mut west) = (harness.instance("east"), harness.instance("west"));
        pass(&harness, &mut [&mut east, &mut west], 3).await;
        assert_eq!(east.lease(json!({ "command": "step_down" })).await.unwrap()["state"], "released");
        harness.clock.advance(Duration::from_secs(1));
        let (told, taken) = if successor_first {
            let taken = west.tick().await;
            (east.tick().await, taken)
        } else {
            (east.tick().await, west.tick().await)
        };
        assert_eq!((&taken["role"], &taken["token"]), (&json!("leader"), &json!(2)));
        let events = told["events"].as_array().unwrap();
        let kinds: Vec<_> = events.iter().map(|event| event["detail_type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["Step Down Requested", "Lease Released"], "successor first: {successor_first}");
        assert!(events.iter().all(|event| event["detail"]["token"] == 1 && event["detail"]["reason"] == "step_down"));
        assert_eq!((east.metrics.total(Metric::LeaseLost), west.metrics.total(Metric::LeaseTransfers)), (1.0, 1.0));
        harness.clock.advance(Duration::from_secs(1));
        assert_eq!(
            (east.tick().await["events"].clone(), west.tick().await["role"].clone()),
            (json!([]), json!("leader"))
        );
    }
}

#[tokio::test]
async fn a_step_down_with_a_claim_in_flight_waits_for_it_and_a_release_waits_inside_its_limit() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    east.ingest_many(1).await;
    // The send's outcome is unknown, so the claim stays.
    harness.queue_faults.set(operation::SEND, 1, Fault::of(Effect::FailBefore(FailureKind::TimedOut)));
    east.drain(json!({})).await.unwrap();
    let asked = east.lease(json!({ "command": "step_down" })).await.unwrap();
    assert_eq!(asked["state"], "marked");
    assert_eq!(east.lease(json!({ "command": "step_down" })).await.unwrap()["state"], "already_marked");
    assert_eq!(east.drain(json!({})).await.unwrap()["leading"], false, "nothing new is claimed");
    harness.clock.advance(Duration::from_secs(4));
    assert_eq!(east.tick().await["role"], "stepping_down");
    harness.clock.advance(Duration::from_secs(2));
    assert_eq!(east.tick().await["role"], "abstaining", "the grace of 5s is over");
}

#[tokio::test]
async fn a_command_that_meets_another_write_reads_again_and_one_whose_reply_was_lost_is_found_done() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    east.tick().await;
    harness.faults.set(operation::WRITE_LEASE, 2, Fault::of(Effect::FailAfter(FailureKind::TimedOut)));
    let lost = east.lease(json!({ "command": "step_down" })).await.unwrap_err();
    assert_eq!(lost.error_type, ErrorType::StoreTimedOut);
    assert_eq!(east.lease(json!({ "command": "step_down" })).await.unwrap()["state"], "released");
    assert_eq!(east.lease(json!({ "command": "resume" })).await.unwrap()["state"], "resumed");
    assert_eq!(east.lease(json!({ "command": "resume" })).await.unwrap()["state"], "nothing_to_resume");
    harness.clock.advance(Duration::from_secs(1));
    assert_eq!(east.tick().await["role"], "leader");
}

#[tokio::test]
async fn a_takeover_is_due_until_it_is_reported_done() {
    let harness = Harness::new();
    let mut east = harness.instance("east");
    assert!(east.tick().await["takeover"].is_object());
    let failed = json!({ "command": "takeover_finished", "token": 1, "try": 0, "succeeded": false });
    assert_eq!(east.lease(failed.clone()).await.unwrap()["state"], "written");
    assert_eq!(east.lease(failed).await.unwrap()["state"], "outdated");
    assert!(east.tick().await["takeover"].is_null(), "the pause of try 1");
    pass(&harness, &mut [&mut east], 61).await;
    assert_eq!(east.tick().await["takeover"]["name"], "telemetry-1-1");
    let done = json!({ "command": "takeover_finished", "token": 1, "try": 1, "succeeded": true });
    assert_eq!(east.lease(done).await.unwrap()["state"], "written");
    assert!(east.tick().await["takeover"].is_null());
}

#[tokio::test]
async fn a_gated_source_is_on_only_while_its_instance_leads() {
    let harness = Harness::with(&[("FENCEPOST_SOURCE", "gated")]);
    let (mut east, west) = (harness.instance("east"), harness.instance("west"));
    let tick = east.tick().await;
    assert_eq!(tick["source"]["enabled"], true);
    let on = json!({ "command": "source", "enabled": true });
    assert_eq!(west.lease(on.clone()).await.unwrap()["enabled"], false, "not by a standby, whoever asks");
    assert!(!harness.source.stands_enabled());
    assert_eq!(east.lease(on).await.unwrap(), json!({ "enabled": true, "changed": true }));
    let asked = east.lease(json!({ "command": "step_down" })).await.unwrap();
    assert_eq!(asked["state"], "marked", "disconnected first");
    harness.clock.advance(Duration::from_secs(1));
    assert_eq!(east.tick().await["source"]["enabled"], false);
    east.lease(json!({ "command": "source", "enabled": false })).await.unwrap();
    harness.clock.advance(Duration::from_secs(1));
    assert_eq!(east.tick().await["role"], "abstaining");
}

#[tokio::test]
async fn requests_that_are_none_are_refused_by_name() {
    let harness = Harness::new();
    let east = harness.instance("east");
    for (request, word) in [
        (json!(7), "object"),
        (json!({}), "command"),
        (json!({ "command": "tock" }), "tock"),
        (json!({ "command": "tick" }), "loop"),
        (json!({ "command": "step_down", "reason": "tired" }), "tired"),
        (json!({ "command": "takeover_finished", "token": 0, "try": 0, "succeeded": true }), "fencing_token"),
        (json!({ "command": "source" }), "enabled"),
    ] {
        let error = east.lease(request.clone()).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::InputInvalid, "{request}");
        assert!(error.message.contains(word), "{request}: {}", error.message);
    }
}
