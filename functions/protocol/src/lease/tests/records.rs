//! Which values a lease row may bear together.

use super::*;
use crate::ids::Stamp;

#[test]
fn impossible_rows_are_refused_by_their_field_and_the_edges_are_possible() {
    type Change = fn(&mut LeaseRecord);
    let east = || identity("east", "stack-east");
    let token = |number| FencingToken::new(number).unwrap();
    let (mut store, mut holder) = (Store::new(), Instance::new("east", fast()));
    holder.tick(&mut store, NOON);
    let mut row = store.row().clone();
    row.token = token(5);
    row.last_release = Some(LastRelease { by: east(), token: token(4), reason: StepDownReason::StepDown });
    let cases: [(&str, Change, Option<&str>); 13] = [
        ("as it was written", |_| (), None),
        ("the shortest TTL", |row| row.lease_ttl = Duration::from_secs(1), None),
        ("the longest TTL", |row| row.lease_ttl = Duration::from_secs(86_400), None),
        ("a TTL below", |row| row.lease_ttl = Duration::from_millis(999), Some("lease_ttl_ms")),
        ("a TTL above", |row| row.lease_ttl = Duration::from_millis(86_400_001), Some("lease_ttl_ms")),
        ("the latest moment", |row| row.confirmed_at = Timestamp::MAX, None),
        (
            "a moment after it",
            |row| row.confirmed_at = Timestamp::MAX.plus(Duration::from_millis(1)),
            Some("confirmed_at"),
        ),
        ("nobody's", |row| row.owner = None, Some("owner")),
        (
            "released, and owned",
            |row| {
                row.released = Some(Released {
                    by: identity("east", "stack-east"),
                    at: Timestamp::from_ms(NOON),
                    reason: StepDownReason::StepDown,
                });
            },
            Some("released_by"),
        ),
        (
            "a last release under its own token",
            |row| row.token = FencingToken::new(4).unwrap(),
            Some("last_release.fencing_token"),
        ),
        (
            "a last release under a later token",
            |row| row.token = FencingToken::new(3).unwrap(),
            Some("last_release.fencing_token"),
        ),
        ("its own takeover done", |row| row.takeover_done = Stamp::new(5).unwrap(), None),
        ("a later takeover done", |row| row.takeover_done = Stamp::new(6).unwrap(), Some("takeover_done")),
    ];
    for (name, change, field) in cases {
        let mut row = row.clone();
        change(&mut row);
        assert_eq!(row.check().err().map(|malformed| malformed.field).as_deref(), field, "{name}");
    }
}
