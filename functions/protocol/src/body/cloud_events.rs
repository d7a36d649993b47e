//! The CloudEvents 1.0 envelope in its JSON format.
//!
//! The payload stays exact: text stands in `data` as a JSON string (media type `text/plain`, also where it happens to be
//! JSON: embedding it would lose spacing and digits), everything else in `data_base64`. `id` and `source` together name
//! one message; a duplicate has the same two.

use serde_json::{Map, Value};

use super::{BASE64_NAME, EMPTY, Encoded, TEXT, from_base64, is_allowed, unknown_encoding};
use crate::ids::{FencingToken, Malformed};
use crate::outbox::OutboxRow;
use crate::time::Timestamp;

/// The media type of the envelope.
pub(super) const MEDIA_TYPE: &str = "application/cloudevents+json; charset=utf-8";
const SPEC_VERSION: &str = "1.0";
const EVENT_TYPE: &str = "fencepost.mqtt.message.v1";

/// The envelope of a row.
pub(super) fn envelope(row: &OutboxRow, token: FencingToken, encoded: Encoded<'_>) -> String {
    let mut event = Map::new();
    let mut put = |name: &str, value: String| event.insert(name.to_owned(), Value::String(value));
    put("specversion", SPEC_VERSION.to_owned());
    put("id", row.id().to_string());
    put("source", format!("/fencepost/{}/{}", row.key.shard.lease(), row.origin));
    put("type", EVENT_TYPE.to_owned());
    put("time", rfc3339(row.key.position.received_at()));
    if !row.topic.is_empty() {
        put("subject", row.topic.clone());
    }
    if let Some(client) = row.client_id.as_ref().filter(|client| !client.is_empty()) {
        put("clientid", client.clone());
    }
    if let Some(id) = row.device_message_id.as_ref().filter(|id| !id.is_empty()) {
        put("devicemessageid", id.clone());
    }
    // As text: a CloudEvents integer has 32 bits.
    put("fencingtoken", token.to_string());
    match encoded {
        Encoded::Text(text) => {
            put("datacontenttype", "text/plain; charset=utf-8".to_owned());
            put("data", text.to_owned());
        }
        Encoded::Base64(digits) => {
            put("datacontenttype", "application/octet-stream".to_owned());
            put("data_base64", digits);
        }
        Encoded::Empty => {}
    }
    escape_refused(&Value::Object(event).to_string())
}

/// JSON leaves two characters as they are that SQS refuses. They can only stand inside strings, where an escape means the same.
fn escape_refused(json: &str) -> String {
    if json.chars().all(is_allowed) {
        return json.to_owned();
    }
    json.chars().map(|c| if is_allowed(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }).collect()
}

/// The payload in an envelope.
pub(super) fn data(body: &str, encoding: &str) -> Result<Vec<u8>, Malformed> {
    let event: Map<String, Value> = serde_json::from_str(body)
        .map_err(|_| Malformed::new("body", "is not a CloudEvents envelope (a JSON object)"))?;
    let text = |name: &str| {
        let value = event.get(name).and_then(Value::as_str);
        value.ok_or_else(|| Malformed::new(format!("body.{name}"), "is missing or no string"))
    };
    match encoding {
        TEXT => Ok(text("data")?.as_bytes().to_vec()),
        BASE64_NAME => from_base64("body.data_base64", text("data_base64")?),
        EMPTY if event.contains_key("data") || event.contains_key("data_base64") => {
            Err(Malformed::new("body.data", "must be absent where payload-encoding is empty"))
        }
        EMPTY => Ok(Vec::new()),
        other => Err(unknown_encoding(other)),
    }
}

/// `2026-01-01T00:00:00.000Z`.
fn rfc3339(at: Timestamp) -> String {
    let (days, ms_of_day) = (at.as_ms() / 86_400_000, at.as_ms() % 86_400_000);
    let (year, month, day) = civil(days);
    let (seconds, ms) = (ms_of_day / 1000, ms_of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The Gregorian date of a day number (day 0 = 1970-01-01). Years are counted from March, so that a leap day is the last of
/// its year, and in eras of 400 years, which all have the same number of days.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_600_123, "2026-01-01T00:00:00.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (9_999_999_999_999, "2286-11-20T17:46:39.999Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_ms(ms)), text);
        }
    }

    /// Day by day to the last one that a position holds, by the rule of the leap years alone.
    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for number in 0..=Timestamp::MAX.as_ms() / 86_400_000 {
            assert_eq!(civil(number), (year, month, day), "day {number}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (day == length, month) {
                (false, _) => (year, month, day + 1),
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
            };
        }
    }
}
