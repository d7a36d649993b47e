//! What a function tells the world beside its answer: log lines and metrics, each one JSON object on one line of stdout.
//!
//! Logs ([`init_logs`]) go through `tracing`; the fields of all open spans are merged into each line, so `lease`, `instance`,
//! `request_id`, `token`, `shard` and the like stand beside every event and can be queried by name. Metrics ([`Metrics`]) are in
//! CloudWatch's embedded format: no call, no agent.
//!
//! Guarantees: a line is whole; a field that could hold a payload is withheld; other crates log warnings and errors only.
//!
//! What must stay out: what is worth telling (that is the handlers' business).

mod emf;
mod log;
mod metric;

pub use emf::{EmfSink, NAMESPACE};
pub use log::{LineWriter, init_logs, subscriber};
pub use metric::{CollectedMetrics, Labels, Metric, MetricSink, Metrics, NoMetrics, Recorded, Unit};

#[cfg(test)]
mod tests;
