//! What functions are asked: by the machines, by operators, by the outbox's stream, by CloudFormation. `carried` and `cursor`,
//! which the machines pass back unchanged, are parts of these.

use fencepost_drainer::Request as DrainerRequest;
use fencepost_lease::{CustomResource, Request as LeaseRequest};
use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::drain::DrainPolicy;
use fencepost_protocol::ids::{Identity, InstanceName, LeaseName, StackId};
use fencepost_protocol::timing::{Profile, Timing, TimingOverrides};
use serde_json::{Value, json};

use crate::damage::object;
use crate::decoder::{Decoder, Refusal, STRICT};

/// Commands of the lease function.
pub(crate) const LEASE: Decoder = Decoder {
    name: "lease",
    samples: &[("lease", |name| !name.starts_with("custom_resource") && name != "schedule.json")],
    decode: decode_lease,
    fixed: &["command", "carried.told.state"],
    optional: &[
        ("carried", "a loop's first tick has none"),
        ("carried.holding", "nothing is held"),
        ("carried.holding.row_ttl_ms", "a loop that began under a version without it ticks on"),
        ("carried.told", "nothing was told"),
        ("carried.told.stepping_down", "it is not"),
        ("carried.unrecorded", "as a rule it was recorded"),
        ("delivered", "as a rule it was"),
        ("reason", "a step-down unless said otherwise"),
    ],
    free: &[("carried", "an empty object carries nothing, as null does")],
    open: &[
        ("loop", "a later machine may say more about itself"),
        ("carried.holding", "what another version of this function carried only takes away"),
        ("carried.told", "the same"),
    ],
    ..STRICT
};

/// Commands of the drainer function.
pub(crate) const DRAINER: Decoder = Decoder {
    name: "drainer",
    samples: &[("drainer", |name| name != "stream_batch.json")],
    decode: decode_drainer,
    fixed: &["command", "mode.kind"],
    optional: &[
        ("cursor", "a first call has none"),
        ("cursor.after", "from the shard's head"),
        ("cursor.shards.*.after", "the same"),
        ("cursor.unsettled", "there are none"),
        ("cursor.alone", "the same"),
        ("cursor.alone.*.claim", "the row was free"),
        ("cursor.again_at", "nothing is due soon"),
        ("settled", "nothing was waited for"),
        ("alone", "the call is for all rows"),
        ("alone.claim", "the row was free"),
        ("filter", "all dead rows are meant"),
        ("filter.reason", "any"),
        ("filter.before_ms", "any"),
        ("filter.topic_prefix", "any"),
        ("dry_run", "it is none"),
    ],
    open: &[
        ("mode", "a scheduled pass has nothing more to say"),
        ("cursor", "it is the function's own, perhaps of another version"),
        ("cursor.**", "the same"),
        ("settled.*", "the machine passes back what it was given, perhaps with the token"),
        ("alone", "the same"),
    ],
    blamed: &[
        ("shards.**", "cursor"),
        ("shards.**", "cursor.shard"),
        ("shards.**", "alone.shard"),
        ("shards", "cursor"),
        ("shards", "cursor.shard"),
        ("shards", "alone.shard"),
    ],
    ..STRICT
};

/// The outbox's stream.
pub(crate) const STREAM: Decoder = Decoder {
    name: "stream",
    samples: &[("drainer", |name| name == "stream_batch.json")],
    decode: decode_drainer,
    unread: &[
        ("Records.*", "two records of one shard wake it once"),
        ("Records.*.dynamodb.Keys.shard.S", "the same; and what is no shard wakes nobody"),
        ("Records.*.eventID", "a wake-up needs the key alone"),
        ("Records.*.eventName", "the stream's filter chose it"),
        ("Records.*.eventSource", "a function has the sources that its stack gave it"),
        ("Records.*.eventVersion", "AWS keeps old fields in new versions"),
        ("Records.*.awsRegion", "a function has the sources that its stack gave it"),
        ("Records.*.eventSourceARN", "the same"),
        ("Records.*.dynamodb.ApproximateCreationDateTime", "a wake-up needs the key alone"),
        ("Records.*.dynamodb.Keys.position.**", "the whole shard is drained"),
        ("Records.*.dynamodb.SequenceNumber", "a wake-up needs the key alone"),
        ("Records.*.dynamodb.SizeBytes", "the same"),
        ("Records.*.dynamodb.StreamViewType", "the same"),
    ],
    open: &[("**", "AWS adds fields to its events")],
    // What has no records is no event of a stream, but a command.
    blamed: &[("Records", "command")],
    ..STRICT
};

/// Requests of CloudFormation. What their properties hold is checked by the settings themselves, and answered.
pub(crate) const CLOUDFORMATION: Decoder = Decoder {
    name: "cloudformation",
    samples: &[("lease", |name| name.starts_with("custom_resource"))],
    decode: decode_custom_resource,
    optional: &[
        ("PhysicalResourceId", "a resource that is being made has none"),
        ("ResourceProperties", "a resource without properties"),
        ("ResourceProperties.**", "what is wrong with a property is answered to CloudFormation"),
    ],
    unread: &[("ServiceToken", "it led here"), ("OldResourceProperties.**", "the new ones are checked")],
    free: &[("ResourceProperties.**", "what is wrong with a property is answered to CloudFormation")],
    open: &[
        ("", "CloudFormation adds fields"),
        ("ResourceProperties", "only names with our prefix are settings"),
        ("OldResourceProperties", "nobody reads them"),
    ],
    ..STRICT
};

fn decode_lease(input: &Value) -> Result<Value, Refusal> {
    Ok(match LeaseRequest::parse(input.clone())? {
        LeaseRequest::Tick { me_loop, carried, delivered } => {
            json!({ "command": "tick", "loop": me_loop, "carried": carried, "delivered": delivered })
        }
        LeaseRequest::StepDown { reason } => json!({ "command": "step_down", "reason": reason }),
        LeaseRequest::Release {} => json!({ "command": "release" }),
        LeaseRequest::Resume {} => json!({ "command": "resume" }),
        LeaseRequest::TakeoverFinished { token, try_number, succeeded } => {
            json!({ "command": "takeover_finished", "token": token, "try": try_number, "succeeded": succeeded })
        }
        LeaseRequest::Source { enabled } => json!({ "command": "source", "enabled": enabled }),
        LeaseRequest::Status {} => json!({ "command": "status" }),
        LeaseRequest::Validate {} => json!({ "command": "validate" }),
    })
}

/// Reads a request and begins it, as far as that needs no store.
fn decode_drainer(input: &Value) -> Result<Value, Refusal> {
    let with_command = |command: &str, mut request: Value| {
        request["command"] = json!(command);
        request
    };
    Ok(match DrainerRequest::parse(&LeaseName::new("telemetry").unwrap(), input.clone())? {
        DrainerRequest::Plan => json!({ "command": "plan" }),
        DrainerRequest::Shards => json!({ "command": "shards" }),
        DrainerRequest::Drain(request) => {
            let me = Identity { name: InstanceName::new("east").unwrap(), stack: StackId::new("east").unwrap() };
            let timing = Timing::build(Profile::Durable, &TimingOverrides::default()).unwrap();
            request.clone().start(me, DrainPolicy::new(timing, false, BodyFormat::Raw))?;
            with_command("drain", serde_json::to_value(request).unwrap())
        }
        DrainerRequest::Redrive(request) => {
            request.remaining()?;
            with_command("redrive", serde_json::to_value(request).unwrap())
        }
        DrainerRequest::Wake(shards) => {
            let record = |shard: &fencepost_protocol::ids::Shard| {
                let keys = json!({ "shard": { "S": shard }, "position": { "S": "1767225600000#a" } });
                json!({ "eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": { "Keys": keys } })
            };
            json!({ "Records": shards.iter().map(record).collect::<Vec<_>>() })
        }
    })
}

/// A request shows nothing of itself (it holds a signed address), so its meaning is what it reads of the input.
fn decode_custom_resource(input: &Value) -> Result<Value, Refusal> {
    let request = CustomResource::parse(input.clone())?;
    let read = [
        "RequestType",
        "ResponseURL",
        "StackId",
        "RequestId",
        "ResourceType",
        "LogicalResourceId",
        "PhysicalResourceId",
        "ResourceProperties",
    ];
    let mut meaning = object([]);
    for name in read {
        if let Some(value) = input.get(name).filter(|value| !value.is_null()) {
            meaning[name] = value.clone();
        }
    }
    assert_eq!(CustomResource::parse(meaning.clone()).ok(), Some(request), "something else is read than {read:?}");
    Ok(meaning)
}
