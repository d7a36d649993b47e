//! The functions that AWS adds to JSONata and that give the same answer each time: `$partition`, `$range`, `$parse`.
//! `$now` and `$millis` stand here too, because their answer comes from the execution's clock.

use jsonata_core::evaluator::{Evaluator, EvaluatorError};
use jsonata_core::value::JValue;

use super::expression::to_engine;
use super::timestamp::format_timestamp;

/// Names that an expression may call beside JSONata's own.
pub(super) const ADDED: [&str; 3] = ["partition", "range", "parse"];

/// The most items that `$range` gives, as on AWS.
const RANGE_ITEMS_MAX: usize = 1_000;

/// Makes the functions known to `evaluator`; `now_ms` is what `$millis()` answers.
///
/// # Errors
/// Those of the engine, should it come to know one of the names itself.
pub(super) fn register(evaluator: &mut Evaluator, now_ms: u64) -> Result<(), EvaluatorError> {
    evaluator.register_fn("partition", partition)?;
    evaluator.register_fn("range", range)?;
    evaluator.register_fn("parse", parse)?;
    evaluator.register_fn_override("millis", move |_: &[JValue]| Ok(JValue::from(now_ms)))?;
    evaluator.register_fn_override("now", move |arguments: &[JValue]| match arguments {
        [] => Ok(JValue::from(format_timestamp(now_ms))),
        _ => Err(fault("$now takes no picture here; use $fromMillis($millis(), picture)")),
    })
}

fn fault(message: impl Into<String>) -> EvaluatorError {
    EvaluatorError::EvaluationError(message.into())
}

/// `$partition(array, size)`: the array in pieces of `size`, the last one shorter.
fn partition(arguments: &[JValue]) -> Result<JValue, EvaluatorError> {
    let wrong = || fault("$partition takes an array and a whole size of at least 1");
    let [JValue::Array(items), size] = arguments else { return Err(wrong()) };
    let size = size.as_i64().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0).ok_or_else(wrong)?;
    Ok(JValue::array(items.chunks(size).map(|piece| JValue::array(piece.to_vec())).collect()))
}

/// `$range(first, last, step)`: the numbers from `first` up or down to `last`, both included.
fn range(arguments: &[JValue]) -> Result<JValue, EvaluatorError> {
    let wrong = || fault("$range takes three whole numbers: first, last and a step other than 0");
    let [first, last, step] = arguments else { return Err(wrong()) };
    let whole = |value: &JValue| value.as_i64().ok_or_else(wrong);
    let (first, last, step) = (whole(first)?, whole(last)?, whole(step)?);
    if step == 0 {
        return Err(wrong());
    }
    let mut items = Vec::new();
    let mut next = Some(first);
    while let Some(number) = next.filter(|number| if step > 0 { *number <= last } else { *number >= last }) {
        if items.len() == RANGE_ITEMS_MAX {
            return Err(fault(format!("$range gives at most {RANGE_ITEMS_MAX} numbers")));
        }
        items.push(JValue::from_i64(number));
        next = number.checked_add(step);
    }
    Ok(JValue::array(items))
}

/// `$parse(text)`: the value of a JSON text.
fn parse(arguments: &[JValue]) -> Result<JValue, EvaluatorError> {
    let [JValue::String(text)] = arguments else { return Err(fault("$parse takes one string of JSON")) };
    let value = serde_json::from_str(text).map_err(|reason| fault(format!("$parse: not JSON: {reason}")))?;
    Ok(to_engine(&value))
}
