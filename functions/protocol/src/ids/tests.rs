use proptest::prelude::*;

use super::*;
use crate::time::Timestamp;

fn lease() -> LeaseName {
    LeaseName::new("telemetry").unwrap()
}

#[test]
fn malformed_values_name_their_field() {
    assert_eq!(LeaseName::new("").unwrap_err().field, "lease");
    assert!(LeaseName::new("a b").unwrap_err().problem.contains("' '"));
    assert!(MessageId::new("x".repeat(101)).unwrap_err().problem.contains("100"));
    assert_eq!(FencingToken::new(0).unwrap_err().field, "fencing_token");
    assert_eq!(FencingToken::new(u64::MAX).unwrap_err().field, "fencing_token");
    assert!(FencingToken::new(limits::FENCING_TOKEN_MAX).unwrap().next().is_err(), "the last token has no successor");
}

#[test]
fn a_refusal_is_short_whatever_was_found() {
    let long = format!("a{}z", "é".repeat(5_000));
    let refused = Malformed::new(long.clone(), long);
    for (text, chars) in [(refused.field, 121), (refused.problem, 501)] {
        assert_eq!((text.chars().count(), text.chars().nth(chars / 2)), (chars, Some('…')));
        assert!(text.starts_with("aé") && text.ends_with("éz"));
    }
    let advice = Shard::parse(&"x".repeat(5_000)).unwrap_err().problem;
    assert!(advice.starts_with("\"xxx") && advice.ends_with("is not <lease>#<four digits>"), "{advice}");
    let whole = Malformed::new("é".repeat(120), "é".repeat(500));
    assert_eq!((whole.field.chars().count(), whole.problem.chars().count()), (120, 500));
}

#[test]
fn keys_read_back() {
    let shard = Shard::new(lease(), 7).unwrap();
    assert_eq!(shard.to_string(), "telemetry#0007");
    assert_eq!(shard.dead_key(), "dead#telemetry#0007");
    assert_eq!(Shard::parse("telemetry#0007").unwrap(), shard);
    for bad in ["telemetry", "telemetry#7", "telemetry#00x7", "#0007", "dead#telemetry#0007", "telemetry#9999"] {
        assert!(Shard::parse(bad).is_err(), "{bad}");
    }
    for bad in ["", "1#a", "1234567890123", "1234567890123#", "123456789012x#a", "1234567890123#a b"] {
        assert!(Position::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_stacks_id_may_be_an_arn() {
    let stack = |text: &str| StackId::new(text);
    assert!(stack("arn:aws:cloudformation/x-1_2.3").is_ok());
    for bad in ["a b", "a#b", "ä"] {
        assert_eq!(stack(bad).unwrap_err().field, "stack", "{bad}");
    }
}

#[test]
fn identities_stamps_and_moments_in_words() {
    let stack = StackId::new("stack-1").unwrap();
    let identity = Identity { name: InstanceName::new("east").unwrap(), stack };
    assert_eq!(identity.to_string(), "east (stack-1)");
    let (token, stamp) = (FencingToken::new(7).unwrap(), Stamp::try_from(9).unwrap());
    assert_eq!((u64::from(token), u64::from(stamp), stamp.to_string()), (7, 9, "9".to_owned()));
    assert_eq!(Stamp::try_from(u64::MAX).unwrap_err().field, "fencing_token");
    assert_eq!(Timestamp::from_ms(5).to_string(), "5ms");
}

#[test]
fn a_digest_is_64_lower_case_hexadecimal_digits() {
    let digest = PayloadDigest::of(b"abc");
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // FIPS 180-2, appendix B.1
    assert_eq!((digest.as_str(), digest.to_string(), String::from(digest.clone())), (text, text.into(), text.into()));
    assert_eq!((digest.short(8), digest.short(99)), ("ba7816bf", text));
    assert_eq!(PayloadDigest::parse(text).unwrap(), digest);
    for bad in [&text[1..], &format!("{text}0"), &text.to_uppercase(), &format!("g{}", &text[1..]), ""] {
        assert_eq!(PayloadDigest::parse(bad).unwrap_err().field, "digest", "{bad}");
    }
}

#[test]
fn the_shard_of_a_key_never_changes() {
    assert_eq!(Shard::of_key(&lease(), "device-1", 16).index(), 9);
    assert_eq!(Shard::of_key(&lease(), "device-1", 1).index(), 0);
}

proptest! {
    #[test]
    fn positions_sort_as_their_text(a_ms in 0u64..9_999_999_999_999, b_ms in 0u64..9_999_999_999_999, a in "[a-z0-9-]{1,40}", b in "[a-z0-9-]{1,40}") {
        let first = Position::new(Timestamp::from_ms(a_ms), MessageId::new(a).unwrap()).unwrap();
        let second = Position::new(Timestamp::from_ms(b_ms), MessageId::new(b).unwrap()).unwrap();
        prop_assert_eq!(first.cmp(&second), first.to_string().cmp(&second.to_string()));
        prop_assert_eq!(Position::parse(&first.to_string()).unwrap(), first);
    }

    #[test]
    fn nothing_panics_on_any_text(text in "\\PC{0,60}") {
        let _ = (Shard::parse(&text), Position::parse(&text), MessageId::new(text.clone()), PayloadDigest::parse(text));
    }

    #[test]
    fn every_key_falls_into_a_shard(key in "\\PC{0,40}", count in 1u16..9_999) {
        prop_assert!(Shard::of_key(&lease(), &key, count).index() < count);
    }
}
