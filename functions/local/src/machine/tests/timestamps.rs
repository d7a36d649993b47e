//! RFC 3339 there and back.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

use crate::machine::{format_timestamp, parse_timestamp};

#[test]
fn known_moments() {
    for (ms, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_769_862_896_789, "2026-01-31T12:34:56.789Z"),
        (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ] {
        assert_eq!(format_timestamp(ms), text);
        assert_eq!(parse_timestamp(text), Some(ms), "{text}");
    }
    assert_eq!(format_timestamp(u64::MAX), "9999-12-31T23:59:59.999Z");
}

#[test]
fn other_spellings() {
    for (text, ms) in [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T00:00:01.123456Z", 1_123),
        ("1970-01-01T02:00:00+01:30", 1_800_000),
        ("1969-12-31T23:00:00-02:00", 3_600_000),
    ] {
        assert_eq!(parse_timestamp(text), Some(ms), "{text}");
    }
}

#[test]
fn what_is_no_moment() {
    for text in [
        "",
        "2026-01-31",
        "2026-01-31T12:34:56",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-1-1T00:00:00Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00Zé",
        "1969-12-31T23:59:59Z",
        "+026-01-01T00:00:00Z",
    ] {
        assert_eq!(parse_timestamp(text), None, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn there_and_back(ms in 0..=253_402_300_799_999_u64) {
        prop_assert_eq!(parse_timestamp(&format_timestamp(ms)), Some(ms));
    }

    #[test]
    fn no_text_breaks_it(text in any::<String>()) {
        parse_timestamp(&text);
    }
}
