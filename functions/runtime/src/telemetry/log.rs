//! Log lines: one JSON object per event, with the fields of the spans around it.
//!
//! `tracing-subscriber`'s own JSON keeps span fields in nested lists, which log queries cannot address by name; here an inner
//! field stands beside the event's own, and the event wins over the span, the inner span over the outer.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::clock::Clock;
use crate::settings::{LogLevel, Settings};

/// Names of fields that could hold what a device sent. Their values are never written.
const WITHHELD: [&str; 5] = ["payload", "body", "data", "event", "message_body"];

/// Where lines go: each by one write, so that lines of logs and metrics never mix.
#[derive(Clone)]
pub struct LineWriter {
    out: Arc<Mutex<dyn Write + Send>>,
}

impl LineWriter {
    /// A writer to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Arc::new(Mutex::new(out)) }
    }

    /// A writer to the process's stdout.
    pub fn stdout() -> Self {
        Self::new(io::stdout())
    }
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(line)?;
        out.flush()?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineWriter")
    }
}

/// Sends this process's log lines to stdout, by the settings' level, each with the lease, the instance and the stack. A
/// second call changes nothing.
pub fn init_logs(settings: &Settings, clock: Arc<dyn Clock>) {
    // Another subscriber is already there only where a test or a second init phase set one; that one goes on.
    drop(subscriber(settings, clock, LineWriter::stdout()).try_init());
}

/// The subscriber that [`init_logs`] installs, writing to `out`.
pub fn subscriber(settings: &Settings, clock: Arc<dyn Clock>, out: LineWriter) -> impl Subscriber + Send + Sync {
    let constant = [
        ("lease", settings.lease.as_str()),
        ("instance", settings.identity.name.as_str()),
        ("stack", settings.identity.stack.as_str()),
    ];
    let constant = constant.map(|(name, value)| (name.to_owned(), Value::from(value))).into_iter().collect();
    tracing_subscriber::registry().with(JsonLines { constant, clock, out }.with_filter(filter(settings.log)))
}

/// Our own crates by `level`; all others warnings and errors at most.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_target("fencepost", level).with_default(level.min(LevelFilter::WARN))
}

struct JsonLines {
    constant: Map<String, Value>,
    clock: Arc<dyn Clock>,
    out: LineWriter,
}

/// What a span was given, kept beside it in the registry.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl<S> Layer<S> for JsonLines
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Map::new();
        line.insert("timestamp_ms".to_owned(), self.clock.now().wall.as_ms().into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        line.extend(self.constant.clone());
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.extend(fields.0.clone());
            }
        }
        let mut own = Fields::default();
        event.record(&mut own);
        line.extend(own.0);
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // Nobody is left to be told where stdout is gone.
        drop(self.out.clone().write_all(text.as_bytes()));
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let value = if WITHHELD.contains(&field.name()) { Value::from("withheld") } else { value };
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}
