//! Any well-formed record, and any item at all.

use std::time::Duration;

use fencepost_protocol::ids::{
    AttemptId, ClaimId, FencingToken, Identity, InstanceName, LeaseName, MessageId, PayloadDigest, Position, RowKey,
    Shard, StackId, Stamp,
};
use fencepost_protocol::lease::{
    AcquiredAs, Evidence, InstanceRecord, LastRelease, LeaseRecord, Liveness, LoopId, Released, Reporting, Standing,
    StepDownReason, SteppingDown,
};
use fencepost_protocol::limits;
use fencepost_protocol::outbox::{DeadRow, DeathReason, Fence, OutboxRow, Status, Tombstone};
use fencepost_protocol::time::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::item::{Item, Value};
use crate::records::{dead, instance, lease, outstanding, tombstone};

pub(super) fn lease_name() -> impl Strategy<Value = LeaseName> {
    "[A-Za-z0-9._-]{1,40}".prop_map(|text| LeaseName::new(text).unwrap())
}

fn identity() -> impl Strategy<Value = Identity> {
    ("[A-Za-z0-9._-]{1,64}", "[A-Za-z0-9._/:-]{1,60}").prop_map(|(name, stack)| Identity {
        name: InstanceName::new(name).unwrap(),
        stack: StackId::new(stack).unwrap(),
    })
}

fn attempt() -> impl Strategy<Value = AttemptId> {
    "[A-Za-z0-9._-]{1,64}".prop_map(|text| AttemptId::new(text).unwrap())
}

fn message_id() -> impl Strategy<Value = MessageId> {
    "[A-Za-z0-9._-]{1,100}".prop_map(|text| MessageId::new(text).unwrap())
}

fn token() -> impl Strategy<Value = FencingToken> {
    prop_oneof![1..=9_u64, 1..=limits::FENCING_TOKEN_MAX].prop_map(|number| FencingToken::new(number).unwrap())
}

fn moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![Just(0), Just(Timestamp::MAX.as_ms()), 0..=Timestamp::MAX.as_ms()].prop_map(Timestamp::from_ms)
}

fn reason() -> impl Strategy<Value = StepDownReason> {
    prop_oneof![Just(StepDownReason::StepDown), Just(StepDownReason::Shutdown)]
}

fn released() -> impl Strategy<Value = Released> {
    (identity(), moment(), reason()).prop_map(|(by, at, reason)| Released { by, at, reason })
}

/// A release under a token below `token`, where there is one.
fn last_release(token: FencingToken) -> impl Strategy<Value = Option<LastRelease>> {
    let below = 0..token.get();
    option::of((identity(), below, reason())).prop_map(|last| {
        let (by, below, reason) = last?;
        Some(LastRelease { by, token: FencingToken::new(below).ok()?, reason })
    })
}

prop_compose! {
    pub(super) fn lease_record()(
        lease in lease_name(),
        held_by in prop_oneof![identity().prop_map(Ok), released().prop_map(Err)],
        (token, done, last_release) in token().prop_flat_map(|token| (Just(token), 0..=token.get(), last_release(token))),
        renewal in any::<u64>(),
        lease_ttl in (1_000..=86_400_000_u64).prop_map(Duration::from_millis),
        confirmed_at in moment(),
        acquired_as in prop_oneof![Just(AcquiredAs::Acquired), Just(AcquiredAs::Seized), Just(AcquiredAs::Reclaimed)],
        stepping_down in option::of((moment(), reason()).prop_map(|(since, reason)| SteppingDown { since, reason })),
        (takeover_try, takeover_try_at) in (any::<u32>(), moment()),
        attempt in attempt(),
    ) -> LeaseRecord {
        LeaseRecord {
            lease,
            owner: held_by.clone().ok(),
            released: held_by.err(),
            last_release,
            takeover_done: Stamp::new(done).unwrap(),
            token, renewal, lease_ttl, confirmed_at, acquired_as, stepping_down, takeover_try, takeover_try_at, attempt,
        }
    }
}

fn loop_id() -> impl Strategy<Value = LoopId> {
    (moment(), any::<String>()).prop_map(|(started_at_ms, name)| LoopId { started_at_ms, name })
}

fn standing() -> impl Strategy<Value = Standing> {
    let holder = |(token, stepping_down)| Standing::Holder { token, stepping_down };
    prop_oneof![Just(Standing::Standby), (token(), option::of(reason())).prop_map(holder)]
}

prop_compose! {
    fn evidence()(
        owner in identity(),
        token in token(),
        renewal in any::<u64>(),
        namesake_generation in option::of(any::<u64>()),
        counted_to in moment(),
        unchanged_for in any::<u64>().prop_map(Duration::from_millis),
    ) -> Evidence {
        Evidence { of: Liveness { owner, token, renewal, namesake_generation }, counted_to, unchanged_for }
    }
}

prop_compose! {
    pub(super) fn instance_record()(
        lease in lease_name(),
        identity in identity(),
        evidence in option::of(evidence()),
        loops in vec(loop_id(), 0..=2),
        generation in 1..=u64::MAX,
        reported in standing(),
        told_token in 0..=limits::FENCING_TOKEN_MAX,
        reporting in option::of((standing(), loop_id(), any::<u64>())),
        attempt in attempt(),
    ) -> InstanceRecord {
        let reporting = reporting.map(|(standing, by, since_generation)| Reporting { standing, by, since_generation });
        let told_token = Stamp::new(told_token).expect("in range");
        InstanceRecord { lease, identity, evidence, loops, generation, reported, told_token, reporting, attempt }
    }
}

fn row_key() -> impl Strategy<Value = RowKey> {
    (lease_name(), 0..limits::SHARDS_MAX, moment(), message_id()).prop_map(|(lease, index, at, id)| RowKey {
        shard: Shard::new(lease, index).unwrap(),
        position: Position::new(at, id).unwrap(),
    })
}

fn status() -> impl Strategy<Value = Status> {
    let claimed = |text: String| Status::Claimed(ClaimId::new(text).unwrap());
    prop_oneof![Just(Status::Pending), "[A-Za-z0-9._-]{1,64}".prop_map(claimed)]
}

prop_compose! {
    pub(super) fn outbox_row()(
        key in row_key(),
        payload in vec(any::<u8>(), 0..200),
        (topic, client_id, device_message_id) in (any::<String>(), option::of(any::<String>()), option::of(any::<String>())),
        stamp in (0..=limits::FENCING_TOKEN_MAX).prop_map(|number| Stamp::new(number).unwrap()),
        status in status(),
        (attempts, stale, redriven) in (any::<u32>(), any::<u32>(), any::<u32>()),
        (first_attempt_at, not_before) in (option::of(moment()), option::of(moment())),
        last_error in option::of("[ -~]{0,120}"),
        origin in identity(),
    ) -> OutboxRow {
        OutboxRow {
            origin: origin.name,
            key, payload, topic, client_id, device_message_id, stamp, status, attempts, stale, first_attempt_at, not_before,
            last_error, redriven,
        }
    }
}

pub(super) fn dead_row() -> impl Strategy<Value = DeadRow> {
    let reason = prop_oneof![Just(DeathReason::Exhausted), Just(DeathReason::Oversize), Just(DeathReason::Refused)];
    (outbox_row(), reason, moment()).prop_map(|(row, reason, died_at)| DeadRow { row, reason, died_at })
}

pub(super) fn any_tombstone() -> impl Strategy<Value = Tombstone> {
    (message_id(), any::<Vec<u8>>(), any::<u32>(), 1..=u64::MAX).prop_map(|(id, bytes, redriven, expires_at_secs)| {
        Tombstone { id, digest: PayloadDigest::of(&bytes), redriven, expires_at_secs }
    })
}

pub(super) fn any_fence() -> impl Strategy<Value = Fence> {
    (token(), attempt()).prop_map(|(highest, attempt)| Fence { highest, attempt })
}

fn value() -> impl Strategy<Value = Value> {
    let known = prop_oneof![
        Just("LEASE"),
        Just("pending"),
        Just("claimed"),
        Just("fence"),
        Just("sent"),
        Just("holder"),
        Just("step_down"),
        Just("telemetry#0001"),
        Just("dead#telemetry#0001"),
        Just("fence#telemetry"),
        Just("sent#a"),
        Just("0000000000001#a"),
        Just("INSTANCE#a#b"),
        Just("exhausted"),
        Just("acquired"),
    ];
    let leaf = prop_oneof![
        known.prop_map(Value::text),
        any::<String>().prop_map(Value::Text),
        "[0-9]{1,20}".prop_map(Value::Number),
        any::<String>().prop_map(Value::Number),
        any::<Vec<u8>>().prop_map(Value::Bytes),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Other("a null")),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::List),
            btree_map(attribute_name(), inner, 0..4).prop_map(Value::Map),
        ]
    })
}

fn attribute_name() -> impl Strategy<Value = String> {
    let own = ["lease", "record", "shard", "position", "name", "since", "state", "standing", "by", "started_at_ms"];
    let names: Vec<String> = lease::ATTRIBUTES
        .iter()
        .chain(&instance::ATTRIBUTES)
        .chain(&own)
        .chain(&[
            outstanding::PAYLOAD,
            outstanding::TOPIC,
            outstanding::STATUS,
            outstanding::CLAIM,
            outstanding::ATTEMPTS,
        ])
        .chain(&[outstanding::STALE, outstanding::REDRIVEN, outstanding::ORIGIN, dead::REASON, dead::DIED_AT])
        .chain(&[tombstone::DIGEST, tombstone::EXPIRES_AT])
        .map(|&name| name.to_owned())
        .collect();
    prop_oneof![9 => proptest::sample::select(names), 1 => any::<String>()]
}

/// Any item; most have our schema, so that the rest of them is looked at.
pub(super) fn any_item() -> impl Strategy<Value = Item> {
    (btree_map(attribute_name(), value(), 0..30), any::<bool>()).prop_map(|(mut item, with_schema)| {
        if with_schema {
            item.insert("schema".to_owned(), Value::number(1));
        }
        item
    })
}
