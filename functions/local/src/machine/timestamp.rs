//! Moments as RFC 3339 text, the form of `$states.context` and of a `Wait` state's `Timestamp`.

const MS_PER_DAY: i64 = 86_400_000;

/// `ms` since 1970-01-01T00:00:00Z as `2026-01-31T12:34:56.789Z`; the last moment of the year 9999 where it lies beyond.
pub fn format_timestamp(ms: u64) -> String {
    const YEAR_9999_END_MS: i64 = 253_402_300_799_999;
    let ms = i64::try_from(ms).unwrap_or(i64::MAX).min(YEAR_9999_END_MS);
    let (year, month, day) = date_of_day(ms.div_euclid(MS_PER_DAY));
    let in_day = ms.rem_euclid(MS_PER_DAY);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1_000 % 60, in_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Milliseconds since 1970-01-01T00:00:00Z of an RFC 3339 text such as `2026-01-31T12:34:56Z` or `…56.789+01:00`.
///
/// Digits of a fraction beyond the third are dropped. `None` for any other text, for a date that does not exist, and for a
/// moment before 1970.
pub fn parse_timestamp(text: &str) -> Option<u64> {
    let (date, clock) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let zone_at = clock.find(['Z', '+', '-'])?;
    let (clock, zone) = clock.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, fraction)| (clock, Some(fraction)));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let milli = fraction.map_or(Some(0), fraction_ms)?;
    if hour > 23 || minute > 59 || second > 59 || !(1..=12).contains(&month) {
        return None;
    }
    let days = day_of_date(year, month, day);
    if date_of_day(days) != (year, month, day) {
        return None;
    }
    let in_day = ((hour * 60 + minute) * 60 + second) * 1_000 + milli;
    u64::try_from(days * MS_PER_DAY + in_day - offset_ms(zone)?).ok()
}

/// Numbers of exactly `widths` digits with `separator` between them.
fn numbers(text: &str, separator: char, widths: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut found = [0; 3];
    for (slot, width) in found.iter_mut().zip(widths) {
        *slot = digits(parts.next()?, width)?;
    }
    parts.next().is_none().then_some(found)
}

fn digits(text: &str, width: usize) -> Option<i64> {
    (text.len() == width && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn fraction_ms(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let three: String = fraction.chars().chain("00".chars()).take(3).collect();
    three.parse().ok()
}

fn offset_ms(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hour, minute) = zone.get(1..)?.split_once(':')?;
    let (hour, minute) = (digits(hour, 2)?, digits(minute, 2)?);
    (hour < 24 && minute < 60).then_some(sign * (hour * 60 + minute) * 60_000)
}

/// The day since 1970-01-01 of a date of the Gregorian calendar. The year is taken to begin in March, so that the leap day is
/// the last day of its year and a month's start is a linear function of its number.
fn day_of_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`day_of_date`]: year, month, day.
fn date_of_day(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * month_from_march + 2) / 5 + 1)
}
