use std::collections::BTreeSet;

use super::*;

#[test]
fn the_error_type_is_the_plain_name() {
    let error = StoreError::new(FailureKind::Throttled, "lease write", "ThrottlingException: slow down");
    let diagnostic = Diagnostic::from(FunctionError::from(error));
    assert_eq!(diagnostic.error_type, "StoreThrottled");
    assert_eq!(diagnostic.error_message, "lease write failed (throttled): ThrottlingException: slow down");
}

#[test]
fn names_are_distinct_and_equal_the_variants() {
    let names: BTreeSet<_> = ErrorType::ALL.iter().map(|error_type| error_type.as_str()).collect();
    assert_eq!(names.len(), ErrorType::ALL.len());
    for error_type in ErrorType::ALL {
        assert_eq!(format!("{error_type:?}"), error_type.as_str());
    }
}

#[test]
fn a_failure_is_transient_exactly_where_its_kind_is() {
    let kinds = [
        FailureKind::Throttled,
        FailureKind::Unavailable,
        FailureKind::TimedOut,
        FailureKind::Denied,
        FailureKind::Invalid,
    ];
    for kind in kinds {
        assert_eq!(ErrorType::from(kind).is_transient(), kind.is_transient(), "{kind:?}");
    }
}

#[test]
fn every_source_gets_its_type() {
    let malformed = Malformed::new("shards[0]", "is not <lease>#<four digits>");
    assert_eq!(FunctionError::from(malformed.clone()).error_type, ErrorType::InputInvalid);
    assert_eq!(FunctionError::event(&malformed).error_type, ErrorType::EventMalformed);
    let damage = Damage { record: "lease row of telemetry".to_owned(), malformed, newer_schema: false };
    let error = FunctionError::lease_record(&damage);
    assert_eq!(
        error.to_string(),
        "LeaseRecordInvalid: lease row of telemetry: shards[0]: is not <lease>#<four digits>"
    );
    let faults = SettingsFaults(vec![Malformed::new("FENCEPOST_LEASE", "is missing")]);
    assert_eq!(FunctionError::from(faults).error_type, ErrorType::SettingsInvalid);
}
