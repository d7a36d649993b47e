//! Metrics in CloudWatch's embedded metric format, formatted by `metrique`.
//!
//! Each line carries its values under two dimension sets: lease and instance, and none at all, for alarms over a fleet. Only
//! metrique's formatter is used: its queues and background threads would lose lines in a function that is frozen.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fencepost_protocol::time::Timestamp;
use metrique::emf::Emf;
use metrique::writer::format::Format as _;
use metrique::writer::unit::NegativeScale;
use metrique::writer::{Entry, EntryWriter, MetricFlags, Observation, Unit as EmfUnit, Value, ValueWriter};

use super::log::LineWriter;
use super::metric::{Labels, Metric, MetricSink, Unit};

/// The namespace of all our metrics.
pub const NAMESPACE: &str = "Fencepost";
/// The format's limit for the values of one metric in one line.
const VALUES_PER_LINE_MAX: usize = 100;

/// Writes one line per call.
pub struct EmfSink<W> {
    state: Mutex<State<W>>,
}

struct State<W> {
    format: Emf,
    out: W,
}

impl EmfSink<LineWriter> {
    /// A sink to stdout, where CloudWatch Logs picks the lines up.
    pub fn stdout() -> Self {
        Self::new(LineWriter::stdout())
    }
}

impl<W: Write + Send> EmfSink<W> {
    /// A sink to `out`. Each line is handed over by one write.
    pub fn new(out: W) -> Self {
        let dimensions = vec![vec!["lease".to_owned(), "instance".to_owned()], Vec::new()];
        let format = Emf::builder(NAMESPACE.to_owned(), dimensions).build();
        Self { state: Mutex::new(State { format, out }) }
    }

    #[cfg(test)]
    pub(super) fn into_inner(self) -> W {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).out
    }
}

impl<W: Write + Send> MetricSink for EmfSink<W> {
    fn record(&self, at: Timestamp, labels: &Labels, values: &[(Metric, f64)]) {
        let mut by_metric: BTreeMap<Metric, Vec<f64>> = BTreeMap::new();
        for (metric, value) in values {
            by_metric.entry(*metric).or_default().push(*value);
        }
        let longest = by_metric.values().map(Vec::len).max().unwrap_or(0);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { format, out } = &mut *state;
        for from in (0..longest).step_by(VALUES_PER_LINE_MAX) {
            let mut line = Vec::with_capacity(1_024);
            match format.format(&Line { at, labels, by_metric: &by_metric, from }, &mut line) {
                // Nobody is left to be told where stdout is gone.
                Ok(()) => drop(out.write_all(&line)),
                Err(error) => tracing::error!(%error, "metrics could not be formatted"),
            }
        }
    }
}

/// At most [`VALUES_PER_LINE_MAX`] values of each metric, from the `from`-th on.
struct Line<'l> {
    at: Timestamp,
    labels: &'l Labels,
    by_metric: &'l BTreeMap<Metric, Vec<f64>>,
    from: usize,
}

impl Entry for Line<'_> {
    fn write<'a>(&'a self, writer: &mut impl EntryWriter<'a>) {
        writer.timestamp(SystemTime::UNIX_EPOCH + Duration::from_millis(self.at.as_ms()));
        writer.value("lease", self.labels.lease.as_str());
        writer.value("instance", self.labels.instance.as_str());
        for (metric, values) in self.by_metric {
            let values: Vec<f64> = values.iter().copied().skip(self.from).take(VALUES_PER_LINE_MAX).collect();
            if !values.is_empty() {
                writer.value(metric.name(), &Observations { unit: metric.unit(), values });
            }
        }
    }
}

struct Observations {
    unit: Unit,
    values: Vec<f64>,
}

impl Value for Observations {
    fn write(&self, writer: impl ValueWriter) {
        let unit = match self.unit {
            Unit::Count => EmfUnit::Count,
            Unit::Milliseconds => EmfUnit::Second(NegativeScale::Milli),
            Unit::Seconds => EmfUnit::Second(NegativeScale::One),
            Unit::None => EmfUnit::None,
        };
        writer.metric(self.values.iter().copied().map(Observation::Floating), unit, [], MetricFlags::empty());
    }
}
