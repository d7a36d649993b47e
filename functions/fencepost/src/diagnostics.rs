//! Warnings and errors of our own crates, for a person and for a program: what is damaged, which field, which shard.
//!
//! A line that was written stays silent for [`QUIET_TIME`], however often it is logged again, and then says how often that was.
//! Lines of libraries are left out: they may hold payloads, which ours never do.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::AnsiColor;
use fencepost_local::world::TOLD;
use fencepost_runtime::clock::Clock;
use serde_json::{Map, Value, json};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::{self, Screen, Target, coloured, styled};

/// What the targets of our own crates begin with.
const OURS: &str = "fencepost_";
/// The room whose spans name the instance and the function that a line comes from.
const INVOCATIONS: &str = "fencepost_local::world::region";
/// How long a line is not written again.
const QUIET_TIME: Duration = Duration::from_secs(60);
/// The most lines that are remembered. Beyond it the one that was written first is forgotten.
const REMEMBERED_MAX: usize = 1_000;

/// Writes diagnostics to standard error and, where `json` is set, also as JSON lines to standard output.
pub(crate) fn init(clock: Arc<dyn Clock>, json: bool) {
    let shown = Targets::new().with_target(OURS, LevelFilter::WARN).with_target(INVOCATIONS, LevelFilter::INFO);
    let screen = Screen::new(Target::Stderr, true);
    let layer = Diagnostics { clock, screen, json, written: Mutex::default() };
    tracing_subscriber::registry().with(layer.with_filter(shown)).init();
}

struct Diagnostics {
    clock: Arc<dyn Clock>,
    screen: Screen,
    json: bool,
    written: Mutex<Written>,
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Diagnostics {
    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, id: &tracing::span::Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let level = *event.metadata().level();
        if level > tracing::Level::WARN {
            return;
        }
        let mut line = Line::default();
        for span in context.event_scope(event).into_iter().flatten().collect::<Vec<_>>().into_iter().rev() {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.source.extend(fields.0.clone());
            }
        }
        event.record(&mut line.fields);
        let now = self.clock.now();
        let text = line.text();
        let Some(silenced) =
            self.written.lock().unwrap_or_else(PoisonError::into_inner).may_write(&text, now.monotonic)
        else {
            return;
        };
        let again = if silenced == 0 { String::new() } else { format!(" ({silenced} times more since it was shown)") };
        let (colour, word) =
            if level == tracing::Level::ERROR { (AnsiColor::Red, "error") } else { (AnsiColor::Yellow, "warning") };
        self.screen.line(&format!("{}: {text}{again}", styled(coloured(colour), word)));
        // The observer writes what it is told.
        if self.json && event.metadata().target() != TOLD {
            // Where nobody reads any more, the next event's line finds that out.
            let _ = output::json_line(&line.json(word, silenced, now.wall.as_ms()));
        }
    }
}

/// One line.
#[derive(Debug, Default)]
struct Line {
    /// Which instance and function.
    source: Vec<(String, Value)>,
    fields: Fields,
}

impl Line {
    /// `east, drainer: an outbox row does not decode and was left alone; shard telemetry#0001, field payload`.
    fn text(&self) -> String {
        let source: Vec<String> = self.source.iter().map(|(_, value)| plain(value)).collect();
        let mut text = if source.is_empty() { String::new() } else { format!("{}: ", source.join(", ")) };
        text.push_str(&self.fields.message());
        for (index, (name, value)) in self.fields.named().enumerate() {
            let separator = if index == 0 { ';' } else { ',' };
            // A String takes everything.
            let _ = write!(text, "{separator} {} {}", name.replace('_', " "), plain(value));
        }
        text
    }

    fn json(&self, level: &str, silenced: u64, at_ms: u64) -> Value {
        let fields: Map<String, Value> =
            self.fields.named().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let mut line = json!({
            "event": "trouble",
            "level": level,
            "what": self.fields.message(),
            "fields": fields,
            "repeated": silenced,
            "observed_at_ms": at_ms,
        });
        for (name, value) in &self.source {
            line[name] = value.clone();
        }
        line
    }
}

/// The fields of a line or a span, in order, the message among them.
#[derive(Debug, Clone, Default)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn message(&self) -> String {
        self.0.iter().find(|(name, _)| name == "message").map(|(_, value)| plain(value)).unwrap_or_default()
    }

    fn named(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().filter(|(name, _)| name != "message").map(|(name, value)| (name.as_str(), value))
    }

    fn push(&mut self, field: &tracing::field::Field, value: Value) {
        self.0.push((field.name().to_owned(), value));
    }
}

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.push(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.push(field, Value::String(value.to_owned()));
    }

    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        self.push(field, json!(value));
    }

    fn record_i64(&mut self, field: &tracing::field::Field, value: i64) {
        self.push(field, json!(value));
    }

    fn record_bool(&mut self, field: &tracing::field::Field, value: bool) {
        self.push(field, json!(value));
    }
}

/// A value without JSON's quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What was written of late.
#[derive(Debug, Default)]
struct Written(HashMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    at: Duration,
    silenced: u64,
}

impl Written {
    /// May this line be written at `now`? If so, how often was it silenced since it was last written?
    fn may_write(&mut self, text: &str, now: Duration) -> Option<u64> {
        if let Some(entry) = self.0.get_mut(text) {
            if now.saturating_sub(entry.at) < QUIET_TIME {
                entry.silenced += 1;
                return None;
            }
            entry.at = now;
            return Some(std::mem::take(&mut entry.silenced));
        }
        if self.0.len() >= REMEMBERED_MAX {
            let oldest = self.0.iter().min_by_key(|(_, entry)| entry.at).map(|(text, _)| text.clone());
            oldest.and_then(|text| self.0.remove(&text));
        }
        self.0.insert(text.to_owned(), Entry { at: now, silenced: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let field = |name: &str, value: Value| (name.to_owned(), value);
        Line {
            source: vec![field("instance", json!("east")), field("function", json!("drainer"))],
            fields: Fields(vec![
                field("message", json!("an outbox row does not decode")),
                field("shard", json!("telemetry#0001")),
                field("token", json!(3)),
            ]),
        }
    }

    #[test]
    fn a_line_names_who_what_and_where() {
        let expected = "east, drainer: an outbox row does not decode; shard telemetry#0001, token 3";
        assert_eq!(line().text(), expected);
        let expected = json!({
            "event": "trouble", "level": "error", "what": "an outbox row does not decode", "instance": "east",
            "function": "drainer", "fields": {"shard": "telemetry#0001", "token": 3}, "repeated": 4, "observed_at_ms": 17,
        });
        assert_eq!(line().json("error", 4, 17), expected);
    }

    #[test]
    fn one_line_is_written_once_a_minute_and_says_what_was_left_out() {
        let mut written = Written::default();
        let at = Duration::from_secs;
        assert_eq!(written.may_write("a", at(0)), Some(0));
        assert_eq!(written.may_write("a", at(1)), None);
        assert_eq!(written.may_write("b", at(1)), Some(0), "another line is another line");
        assert_eq!(written.may_write("a", at(59)), None);
        assert_eq!(written.may_write("a", at(60)), Some(2));
        assert_eq!(written.may_write("a", at(61)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut written = Written::default();
        for index in 0..=REMEMBERED_MAX {
            written.may_write(&index.to_string(), Duration::from_millis(u64::try_from(index).unwrap()));
        }
        assert_eq!(written.0.len(), REMEMBERED_MAX);
        assert!(!written.0.contains_key("0"), "the oldest is forgotten");
    }
}
