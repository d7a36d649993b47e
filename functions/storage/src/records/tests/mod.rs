use std::fmt::Debug;

use fencepost_protocol::ids::{ClaimId, InstanceName, LeaseName, MessageId, Position, RowKey, Shard, Stamp};
use fencepost_protocol::limits::{LAST_ERROR_BYTES_MAX, ROW_OVERHEAD_BYTES_MAX, WRITE_UNIT_BYTES};
use fencepost_protocol::outbox::{Damage, OutboxRow, Slot, Status};
use fencepost_protocol::time::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::item::{Item, Value, size_bytes};

mod mutations;
mod refusals;
mod strategies;

/// What `encode` writes, `decode` reads, also beside an attribute that it does not know.
fn assert_round_trip<T: PartialEq + Debug>(item: &Item, record: &T, decode: impl Fn(&Item) -> Result<T, Damage>) {
    assert_eq!(decode(item).as_ref(), Ok(record));
    let mut later = item.clone();
    later.insert("added_by_a_later_version".to_owned(), Value::Bool(true));
    assert_eq!(decode(&later).as_ref(), Ok(record), "an unknown attribute changed the record");
}

/// Every change of one field is refused under that field's name (or a `partner`'s, for fields that only fit together), or
/// makes another record that is legal.
fn assert_mutations<T: PartialEq + Debug>(
    item: &Item,
    encode: impl Fn(&T) -> Item,
    decode: impl Fn(&Item) -> Result<T, Damage>,
    partners: &[(&str, &str)],
) {
    for (field, changed) in mutations::of(item) {
        match decode(&changed) {
            Ok(record) => {
                assert_eq!(decode(&encode(&record)), Ok(record), "{field} made a record that does not encode");
            }
            Err(damage) => {
                let named = &damage.malformed.field;
                let inside = named.starts_with(&format!("{field}.")) || named.starts_with(&format!("{field}["));
                let partner = partners.contains(&(field.as_str(), named.as_str()));
                assert!(*named == field || inside || partner, "{field} was changed and {damage} was blamed");
                assert!(!damage.malformed.problem.is_empty() && !damage.newer_schema || field == SCHEMA_ATTRIBUTE);
            }
        }
    }
}

const LEASE_PARTNERS: [(&str, &str); 10] = [
    (lease::OWNER, lease::OWNER_STACK),
    (lease::OWNER_STACK, lease::OWNER),
    (lease::RELEASED_BY, lease::RELEASED_AT),
    (lease::RELEASED_AT, lease::RELEASED_BY),
    (lease::RELEASED_BY, lease::OWNER),
    (lease::FENCING_TOKEN, lease::TAKEOVER_DONE),
    (lease::FENCING_TOKEN, "last_release.fencing_token"),
    (lease::RELEASED_BY, "released_by.name"),
    (lease::OWNER, lease::RELEASED_BY),
    (lease::OWNER_STACK, lease::RELEASED_BY),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lease_rows(record in strategies::lease_record()) {
        let item = lease::encode(&record);
        assert_round_trip(&item, &record, lease::decode);
        assert_mutations(&item, lease::encode, lease::decode, &LEASE_PARTNERS);
        prop_assert_eq!(Table::Lease.key_of(&item), Some(lease::key(&record.lease)));
        prop_assert!(item.keys().all(|name| lease::ATTRIBUTES.contains(&name.as_str()) || name == "lease" || name == "record"));
    }

    #[test]
    fn instance_rows(record in strategies::instance_record()) {
        let item = instance::encode(&record);
        assert_round_trip(&item, &record, instance::decode);
        let state = |map: &'static str| ["fencing_token", "stepping_down"].map(|field| (format!("{map}.state"), format!("{map}.{field}")));
        let partners: Vec<_> = ["reported", "reporting.standing"].into_iter().flat_map(state).collect();
        let partners: Vec<_> = partners.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_mutations(&item, instance::encode, instance::decode, &partners);
        prop_assert_eq!(Table::Lease.key_of(&item), Some(instance::key(&record.lease, &record.identity)));
        prop_assert!(item.keys().all(|name| instance::ATTRIBUTES.contains(&name.as_str()) || name == "lease" || name == "record"));
    }

    #[test]
    fn outstanding_rows(row in strategies::outbox_row()) {
        let item = outstanding::encode(&row);
        assert_round_trip(&item, &row, outstanding::decode);
        assert_mutations(&item, outstanding::encode, outstanding::decode, &[(outstanding::STATUS, outstanding::CLAIM)]);
        prop_assert!(!item.contains_key(tombstone::EXPIRES_AT));
        prop_assert_eq!(Table::Outbox.key_of(&item), Some(outstanding::key(&row.key)));
    }

    #[test]
    fn dead_rows(row in strategies::dead_row()) {
        let item = dead::encode(&row);
        assert_round_trip(&item, &row, dead::decode);
        assert_mutations(&item, dead::encode, dead::decode, &[(outstanding::STATUS, outstanding::CLAIM)]);
        prop_assert!(!item.contains_key(tombstone::EXPIRES_AT));
        prop_assert_eq!(Table::Outbox.key_of(&item), Some(dead::key(&row.row.key)));
    }

    #[test]
    fn tombstones(record in strategies::any_tombstone()) {
        let item = tombstone::encode(&record);
        assert_round_trip(&item, &record, tombstone::decode);
        assert_mutations(&item, tombstone::encode, tombstone::decode, &[]);
        prop_assert_eq!(Table::Outbox.key_of(&item), Some(tombstone::key(&record.id)));
    }

    #[test]
    fn fences((group, record) in (strategies::lease_name(), strategies::any_fence())) {
        let item = fence::encode(&group, &record);
        assert_round_trip(&item, &record, fence::decode);
        assert_mutations(&item, |record| fence::encode(&group, record), fence::decode, &[]);
        prop_assert_eq!(Table::Outbox.key_of(&item), Some(fence::key(&group)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_item_makes_a_decoder_panic(item in strategies::any_item()) {
        if let Ok(record) = lease::decode(&item) {
            prop_assert_eq!(lease::decode(&lease::encode(&record)), Ok(record));
        }
        let _ = instance::decode(&item);
        let _ = outstanding::decode(&item);
        let _ = dead::decode(&item);
        let _ = tombstone::decode(&item);
        let _ = fence::decode(&item);
        let _ = gather_group(std::slice::from_ref(&item));
        let page = gather_page(&[item], true, outstanding::decode);
        prop_assert_eq!(page.rows.len() + page.strays.len(), 1);
    }
}

fn ordinary_row() -> OutboxRow {
    OutboxRow {
        key: RowKey {
            shard: Shard::new(LeaseName::new("telemetry").unwrap(), 15).unwrap(),
            position: Position::new(
                Timestamp::from_ms(1_767_225_600_000),
                MessageId::new("3f0c8a52-9b1d-4c7e-8f21-6d5e4a3b2c10").unwrap(),
            )
            .unwrap(),
        },
        payload: vec![7; 512],
        topic: "telemetry/plant-7/line-12/sensor-0042".to_owned(),
        client_id: Some("device-0042.plant-7.example".to_owned()),
        device_message_id: None,
        stamp: Stamp::new(1_234_567).unwrap(),
        status: Status::Claimed(ClaimId::new("f1e2d3c4-b5a6-4798-8091-a2b3c4d5e6f7").unwrap()),
        attempts: 12,
        stale: 3,
        first_attempt_at: Some(Timestamp::from_ms(1_767_225_601_234)),
        not_before: Some(Timestamp::from_ms(1_767_225_609_876)),
        last_error: None,
        redriven: 1,
        origin: InstanceName::new("ap-southeast-1").unwrap(),
    }
}

/// Names and values of everything but payload, topic and client id.
fn overhead_bytes(row: &OutboxRow) -> usize {
    let own = row.payload.len() + row.topic.len() + row.client_id.as_ref().map_or(0, String::len);
    size_bytes(&outstanding::encode(row)) - own
}

#[test]
fn a_row_adds_little_to_its_message() {
    let row = ordinary_row();
    assert!(overhead_bytes(&row) <= ROW_OVERHEAD_BYTES_MAX, "{} bytes", overhead_bytes(&row));
    let size = size_bytes(&outstanding::encode(&row));
    assert!(size <= WRITE_UNIT_BYTES, "a payload of 512 bytes takes {size} bytes: more than one write unit");
    let refused = OutboxRow { last_error: Some("e".repeat(500)), ..row.clone() };
    let more = overhead_bytes(&refused) - overhead_bytes(&row);
    assert_eq!(more, LAST_ERROR_BYTES_MAX + "last_error".len(), "an error's text is cut");
}

#[test]
fn an_error_is_cut_between_characters() {
    let text = format!("{}é", "a".repeat(LAST_ERROR_BYTES_MAX - 1));
    assert_eq!(outstanding::clip_error(&text), "a".repeat(LAST_ERROR_BYTES_MAX - 1));
    assert_eq!(outstanding::clip_error("short"), "short");
}

#[test]
fn a_newer_schema_is_told_apart_and_judged_by_nothing_else() {
    let item = Item::from([("schema".to_owned(), Value::number(2)), ("payload".to_owned(), Value::Bool(true))]);
    let damage = outstanding::decode(&item).unwrap_err();
    assert!(damage.newer_schema);
    assert_eq!(damage.malformed.field, "schema");
    let none = outstanding::decode(&Item::from([("schema".to_owned(), Value::number(0))])).unwrap_err();
    assert!(!none.newer_schema, "0 was never written by anybody");
}

#[test]
fn a_refusal_names_record_field_and_fix_and_no_payload() {
    let mut item = outstanding::encode(&ordinary_row());
    item.insert("payload".to_owned(), Value::text("secret bytes"));
    assert_eq!(
        outstanding::decode(&item).unwrap_err().to_string(),
        "outbox row telemetry#0015/1767225600000#3f0c8a52-9b1d-4c7e-8f21-6d5e4a3b2c10: payload: is a text; it must be binary"
    );
}

#[test]
fn a_group_passes_over_what_is_nobodys_row() {
    let item = |sort: &str| Table::Lease.item_of(&crate::item::Key { partition: "g".into(), sort: sort.into() });
    let group = gather_group(&[item("INSTANCE#a#b"), item("INSTANCE#only-a-name"), item("LEASE"), item("NOTES")]);
    assert!(matches!(&group.lease, Slot::Damaged(damage) if damage.malformed.field == "schema"));
    assert_eq!(group.instances.len(), 1);
    assert_eq!(group.instances[0].0.to_string(), "a (b)");
}

#[test]
fn a_page_keeps_its_cursor_past_items_without_a_position() {
    let row = outstanding::encode(&ordinary_row());
    let mut stray = row.clone();
    stray.insert("position".to_owned(), Value::text("zebra"));
    let page = gather_page(&[row, stray], true, outstanding::decode);
    assert_eq!((page.rows.len(), page.strays.len()), (1, 1));
    assert_eq!(page.strays[0].malformed.field, "position");
    assert_eq!(page.next, Some(ordinary_row().key.position), "the cursor is the last position that is one");
}
