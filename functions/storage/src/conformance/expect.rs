//! What a case wants to see, and how it says that it saw something else.

use std::fmt::{self, Debug};

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::ids::Malformed;
use fencepost_protocol::outbox::Slot;

use crate::StoreError;

/// Why a case failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure(String);

/// What a case returns.
pub(super) type Outcome<T = ()> = Result<T, Failure>;

/// Characters of a value that a failure shows: payloads of this suite may be large.
const SHOWN_CHARS_MAX: usize = 1_000;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self(format!("the case is malformed: {malformed}"))
    }
}

/// Fails with `problem` unless `holds`.
pub(super) fn holds(holds: bool, problem: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(Failure(problem.into())) }
}

/// Fails unless `found` is `wanted`.
pub(super) fn equal<T: PartialEq + Debug>(what: &str, found: &T, wanted: &T) -> Outcome {
    let shown = |value: &T| format!("{value:?}").chars().take(SHOWN_CHARS_MAX).collect::<String>();
    holds(found == wanted, format!("{what}: found {}, wanted {}", shown(found), shown(wanted)))
}

/// Fails unless `slot` is damaged in `field`.
pub(super) fn damaged<T: Debug>(what: &str, slot: &Slot<T>, field: &str) -> Outcome {
    let named = matches!(slot, Slot::Damaged(damage) if damage.malformed.field == field);
    holds(named, format!("{what}: found {slot:?}, wanted damage that names {field}"))
}

/// Fails unless `answer` is a failure of this `kind`.
pub(super) fn fails<T: Debug>(what: &str, answer: &Result<T, StoreError>, kind: FailureKind) -> Outcome {
    let as_wanted = matches!(answer, Err(error) if error.kind == kind);
    holds(as_wanted, format!("{what}: found {answer:?}, wanted a failure of kind {}", kind.as_str()))
}

/// The answers of a call of many rows, none of them a failure.
pub(super) fn answered<T>(answers: Vec<Result<T, StoreError>>) -> Outcome<Vec<T>> {
    answers.into_iter().map(|answer| answer.map_err(Failure::from)).collect()
}

/// The one answer of a call of many rows with one row.
pub(super) fn single<T>(answers: Vec<Result<T, StoreError>>) -> Outcome<T> {
    let [answer] = <[_; 1]>::try_from(answers).map_err(|all| Failure(format!("one row, {} answers", all.len())))?;
    Ok(answer?)
}
