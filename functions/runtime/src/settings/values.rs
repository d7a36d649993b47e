//! How a value is written: durations with units, numbers in a range, names of choices.
//!
//! Each function takes the text of one value and gives it back parsed, or says what would be right.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Units in milliseconds, the longer suffix first where one ends in another.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// Longer than anything that is meant, and short enough to be calculated with.
const DURATION_MS_MAX: u64 = 3_650 * 86_400_000;
/// A queue's name at AWS has at most 80 characters, a table's ARN less than this.
const TEXT_CHARS_MAX: usize = 1_024;

/// A value as it is shown in a fault: quoted, and cut where it is long.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{head:?}…")
}

/// `300s`, `2.5s`, `500ms`, `5m`, `2h`, `5d`: whole milliseconds, at most ten years.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let bad = |why: &str| format!("is {}: {why}", shown(text));
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    if number.is_empty() {
        return Err(bad("a duration is a number and a unit, for example 300s, 500ms, 5m, 2h or 5d"));
    }
    if unit.is_empty() {
        return Err(bad(&format!("the unit is missing; write {number}s for seconds, or ms, m, h, d")));
    }
    let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(bad("the unit must be ms, s, m, h or d"));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let too_long = || bad("it must be at most 3650d");
    let whole_ms = whole.parse::<u64>().ok().and_then(|n| n.checked_mul(*unit_ms)).ok_or_else(too_long)?;
    let fraction_ms =
        fraction_ms(fraction, *unit_ms).ok_or_else(|| bad("a fraction must come to whole milliseconds"))?;
    let ms = whole_ms.saturating_add(fraction_ms);
    if ms <= DURATION_MS_MAX { Ok(Duration::from_millis(ms)) } else { Err(too_long()) }
}

/// The digits after the point, in milliseconds; nothing where they are no digits or leave a rest.
fn fraction_ms(digits: &str, unit_ms: u64) -> Option<u64> {
    let scale = 10_u64.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let product = digits.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    product.is_multiple_of(scale).then_some(product / scale)
}

/// A whole number of `range`.
pub(super) fn number<T>(text: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    match text.parse::<T>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(format!("is {}; it must be a whole number from {} to {}", shown(text), range.start(), range.end())),
    }
}

/// One of `choices`, by name.
pub(super) fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("is {}; it must be {}", shown(text), names.join(" or "))
    })
}

/// `true` or `false`.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    choice(text, &[("true", true), ("false", false)])
}

/// A table's name, or its ARN.
pub(super) fn table_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let name_ok = (3..=255).contains(&text.len()) && text.chars().all(plain);
    let arn_ok =
        text.starts_with("arn:") && text.len() <= TEXT_CHARS_MAX && text.chars().all(|c| plain(c) || ":/".contains(c));
    if name_ok || arn_ok {
        return Ok(text.to_owned());
    }
    Err(format!("is {}; it must be a table's name (3 to 255 letters, digits, '_', '-', '.') or its ARN", shown(text)))
}

/// A queue's URL.
pub(super) fn queue_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let named = rest.and_then(|rest| rest.split_once('/')).is_some_and(|(host, path)| {
        let queue = path.rsplit('/').next().unwrap_or_default();
        !host.is_empty() && !queue.is_empty()
    });
    if named && text.len() <= TEXT_CHARS_MAX && text.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(format!("is {}; it must be a queue's URL, https://…/<account>/<queue>", shown(text)))
}

/// A region's name.
pub(super) fn region(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=64).contains(&text.len()) && text.chars().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("is {}; it must be a region, for example eu-central-1", shown(text)))
}

/// A topic rule's name.
pub(super) fn rule_name(text: &str) -> Result<String, String> {
    if (1..=128).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(text.to_owned());
    }
    Err(format!("is {}; it must be a topic rule's name: 1 to 128 letters, digits and '_'", shown(text)))
}

/// An event bus's name.
pub(super) fn bus_name(text: &str) -> Result<String, String> {
    if (1..=256).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "/.-_".contains(c)) {
        return Ok(text.to_owned());
    }
    Err(format!("is {}; it must be an event bus's name: 1 to 256 letters, digits, '/', '.', '-', '_'", shown(text)))
}

/// A stack's own id: the last part of a CloudFormation ARN, which a re-created stack does not share with the old one.
pub(super) fn stack_part(text: &str) -> &str {
    if text.starts_with("arn:") { text.rsplit('/').next().unwrap_or(text) } else { text }
}
