//! Durations in words.

use std::time::Duration;

use crate::time::duration_ms;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A duration with its unit, rounded to a tenth of a second: `500ms`, `62.2s`, `300s`, `6h`, `5d`.
pub fn duration_text(duration: Duration) -> String {
    text_with(duration, 100)
}

/// Two durations that are compared, exact to the millisecond where the short form would show them as equal.
pub(super) fn compared(left: Duration, right: Duration) -> (String, String) {
    let short = (duration_text(left), duration_text(right));
    if short.0 != short.1 || left == right { short } else { (text_with(left, 1), text_with(right, 1)) }
}

/// `step_ms` is what is rounded to: 1, 10 or 100.
fn text_with(duration: Duration, step_ms: u64) -> String {
    match duration_ms(duration) {
        0 => "0s".to_owned(),
        ms if ms < 1_000 => format!("{ms}ms"),
        ms if ms.is_multiple_of(DAY_MS) => format!("{}d", ms / DAY_MS),
        ms if ms.is_multiple_of(HOUR_MS) => format!("{}h", ms / HOUR_MS),
        ms => {
            let rounded = ms.saturating_add(step_ms / 2) / step_ms * step_ms;
            let thousandths = format!("{}.{:03}", rounded / 1_000, rounded % 1_000);
            format!("{}s", thousandths.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}
