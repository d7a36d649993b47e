use fencepost_protocol::tables::Replication;
use serde_json::json;

use super::*;

const CREATE: &str = include_str!("../../events/custom_resource_create.json");
const UPDATE: &str = include_str!("../../events/custom_resource_update.json");
const DELETE: &str = include_str!("../../events/custom_resource_delete.json");

/// A sample with some of its fields, or of its properties, set anew.
fn sample(text: &str, fields: &[(&str, Value)], properties: &[(&str, Value)]) -> CustomResource {
    let mut input: Value = serde_json::from_str(text).unwrap();
    assert!(CustomResource::is_one(&input));
    for (name, value) in fields {
        input[*name] = value.clone();
    }
    for (name, value) in properties {
        input["ResourceProperties"][*name] = value.clone();
    }
    CustomResource::parse(input).unwrap()
}

fn failure(request: &CustomResource) -> String {
    match request.task() {
        Task::Answer(Outcome::Failed(reason)) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn sound(request: &CustomResource) -> TableCheck {
    match request.task() {
        Task::LookAtTables(check) => check,
        other => panic!("not sound: {other:?}"),
    }
}

fn table(expires_by: Option<&str>) -> TableFacts {
    let expires_by = expires_by.map(str::to_owned);
    TableFacts { has_our_keys: true, replication: Replication::OneRegion, expires_by }
}

fn answered(request: &CustomResource, outcome: &Outcome) -> (usize, Value) {
    let body = request.answer(outcome).unwrap();
    (body.len(), serde_json::from_slice(&body).unwrap())
}

#[test]
fn the_settings_of_the_samples_are_sound() {
    for text in [CREATE, UPDATE] {
        let check = sound(&sample(text, &[], &[]));
        assert!(check.tables.lease.contains("LeaseTable") && check.tables.outbox.contains("OutboxTable"));
        assert!(check.conclude(&table(None), &table(Some("expires_at"))).succeeded());
    }
}

fn digest(properties: &[(&str, Value)]) -> String {
    match sound(&sample(CREATE, &[], properties)).conclude(&table(None), &table(Some("expires_at"))) {
        Outcome::Checked { digest } => digest,
        other => panic!("not fit: {other:?}"),
    }
}

#[test]
fn unfit_tables_are_refused_by_what_the_settings_take_them_for() {
    let eventual = TableFacts { replication: Replication::Eventual, ..table(None) };
    let strong = TableFacts { replication: Replication::Strong, ..table(None) };
    let of = |properties: &[(&str, Value)]| sound(&sample(CREATE, &[], properties));
    let global = of(&[("FENCEPOST_TOPOLOGY", json!("global"))]);
    assert!(global.conclude(&strong, &strong).succeeded());
    for outcome in [global.conclude(&eventual, &eventual), of(&[]).conclude(&eventual, &table(Some("expires_at")))] {
        assert!(outcome.reason().contains("FENCEPOST_LEASE_TABLE: is an eventually consistent"), "{outcome:?}");
        assert!(!outcome.succeeded());
    }
    let expiring = of(&[]).conclude(&table(Some("ttl")), &table(Some("expires_at")));
    assert!(!expiring.succeeded() && expiring.reason().contains("time to live on \"ttl\""), "{expiring:?}");
    // Without tombstones nothing must expire.
    assert!(!of(&[]).conclude(&table(None), &table(None)).succeeded());
    assert!(of(&[("FENCEPOST_DEDUPE_WINDOW", json!("0s"))]).conclude(&table(None), &table(None)).succeeded());
}

#[test]
fn the_digest_changes_with_a_setting_and_with_nothing_else() {
    let first = digest(&[]);
    assert_eq!(
        (first.len(), &first),
        (16, &digest(&[("ServiceTimeout", json!("121")), ("FENCEPOST_JITTER", json!(""))]))
    );
    for changed in
        [("FENCEPOST_LEASE_TTL", "301s"), ("FENCEPOST_LOG", "debug"), ("FENCEPOST_REQUEST_BYTES_MAX", "65536")]
    {
        assert_ne!(first, digest(&[(changed.0, json!(changed.1))]), "{}", changed.0);
    }
    let request = sample(CREATE, &[], &[]);
    let (_, answer) = answered(&request, &Outcome::Checked { digest: first.clone() });
    assert_eq!((&answer["Data"]["SettingsDigest"], &answer["Status"]), (&json!(first), &json!("SUCCESS")));
}

#[test]
fn every_fault_of_the_settings_is_in_the_reason() {
    let wrong = [
        ("FENCEPOST_LEASE_TTL", json!("3s")),
        ("FENCEPOST_TICK_INTERVAL", json!("2")),
        ("FENCEPOST_QUEUE_URL", json!("")),
        ("FENCEPOST_LEASE_TLT", json!("300s")),
    ];
    for text in [CREATE, UPDATE] {
        let reason = failure(&sample(text, &[], &wrong));
        for (name, _) in &wrong {
            assert!(reason.contains(name), "{name} is not in {reason}");
        }
    }
}

#[test]
fn a_stale_claim_duration_below_the_drainers_limit_is_refused() {
    let reason = failure(&sample(CREATE, &[], &[("FENCEPOST_STALE_CLAIM_DURATION", json!("31s"))]));
    assert!(reason.contains("stale_claim_duration") || reason.contains("STALE_CLAIM_DURATION"), "{reason}");
}

#[test]
fn an_instance_without_a_name_takes_the_stacks_region() {
    let nowhere = [("StackId", json!("no-arn"))];
    assert!(failure(&sample(CREATE, &nowhere, &[])).contains("FENCEPOST_INSTANCE"));
    let named = [("FENCEPOST_INSTANCE", json!("east"))];
    sound(&sample(CREATE, &nowhere, &named));
}

#[test]
fn numbers_are_taken_as_text_and_lists_are_refused() {
    let number = [("FENCEPOST_SHARDS", json!(16)), ("FENCEPOST_BATCHING", json!(true))];
    sound(&sample(CREATE, &[], &number));
    let list = [("FENCEPOST_SHARDS", json!([16]))];
    assert!(failure(&sample(CREATE, &[], &list)).contains("FENCEPOST_SHARDS"));
}

#[test]
fn only_the_lease_is_released_at_deletion_and_nothing_else_is_done() {
    assert_eq!(sample(DELETE, &[], &[]).task(), Task::Release);
    let faulty = [("FENCEPOST_LEASE_TTL", json!("3s"))];
    for resource in ["Custom::FencepostSettings", "Custom::Unknown"] {
        let request = sample(CREATE, &[("RequestType", json!("Delete")), ("ResourceType", json!(resource))], &faulty);
        assert!(matches!(request.task(), Task::Answer(Outcome::Success(_))), "{resource}");
    }
    for kind in ["Create", "Update"] {
        let request = sample(DELETE, &[("RequestType", json!(kind))], &[]);
        assert!(matches!(request.task(), Task::Answer(Outcome::Success(_))), "{kind}");
    }
}

#[test]
fn unknown_resources_and_requests_are_refused_by_name() {
    assert!(failure(&sample(CREATE, &[("ResourceType", json!("Custom::Other"))], &[])).contains("Custom::Other"));
    assert!(failure(&sample(CREATE, &[("RequestType", json!("Import"))], &[])).contains("Import"));
}

#[test]
fn a_request_that_cannot_be_answered_is_refused_by_its_field() {
    let mut input: Value = serde_json::from_str(CREATE).unwrap();
    input.as_object_mut().unwrap().remove("ResponseURL");
    let error = CustomResource::parse(input).unwrap_err().to_string();
    assert!(error.contains("ResponseURL"), "{error}");
    assert!(!CustomResource::is_one(&json!({ "command": "status" })));
}

#[test]
fn an_answer_repeats_the_request_and_keeps_the_resources_name() {
    let request = sample(CREATE, &[], &[]);
    let (_, answer) = answered(&request, &Outcome::Success("sound".to_owned()));
    let expected = json!({
        "Status": "SUCCESS",
        "Reason": "sound",
        "PhysicalResourceId": "fencepost-SettingsCheck-5b918d10-cd98-11ea-90d5-0a9cd3354c10",
        "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/fencepost-east-compute/5b918d10-cd98-11ea-90d5-0a9cd3354c10",
        "RequestId": "1f0e2d3c-4b5a-4697-8879-6a5b4c3d2e11",
        "LogicalResourceId": "SettingsCheck",
    });
    assert_eq!(answer, expected);
    let request = sample(UPDATE, &[("PhysicalResourceId", json!("an-older-name"))], &[]);
    assert_eq!(answered(&request, &Outcome::Failed("no".to_owned())).1["PhysicalResourceId"], "an-older-name");
}

#[test]
fn a_long_reason_is_cut_to_what_cloudformation_takes() {
    let request = sample(CREATE, &[], &[]);
    for long in ["x".repeat(9_000), "é".repeat(9_000), "\n\"".repeat(9_000)] {
        let (bytes, answer) = answered(&request, &Outcome::Failed(long));
        assert!(bytes <= ANSWER_BYTES_MAX, "{bytes}");
        let reason = answer["Reason"].as_str().unwrap();
        assert!(reason.ends_with('…') && reason.len() > 1_500, "{} bytes are left", reason.len());
        assert_eq!(answer["Status"], "FAILED");
    }
    let exact = "x".repeat(1_000);
    assert_eq!(answered(&request, &Outcome::Failed(exact.clone())).1["Reason"], exact);
}

#[test]
fn a_request_shown_in_a_log_does_not_show_where_to_answer() {
    let request = sample(CREATE, &[], &[]);
    assert!(!format!("{request:?}").contains("presigned"), "{request:?}");
}
