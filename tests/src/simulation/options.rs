//! What a world is asked to be.

use std::time::Duration;

use fencepost_runtime::settings::{Function, PREFIX, Settings};

/// The group of every world.
pub const LEASE: &str = "telemetry";

/// What a world is asked to be. The default: two instances, `east` and `west`, the profile `fast`, two shards, a standard
/// queue, schedules and stream on, calls of 2 ms each way, nothing wrong.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) seed: u64,
    pub(crate) regions: Vec<String>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) fifo: bool,
    pub(crate) schedules: bool,
    pub(crate) stream: bool,
    pub(crate) latency_ms_max: u64,
    pub(crate) retry_pause: Duration,
}

impl Options {
    /// The default, with everything that is left to chance from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            regions: vec!["east".to_owned(), "west".to_owned()],
            settings: Vec::new(),
            fifo: false,
            schedules: true,
            stream: true,
            latency_ms_max: 2,
            retry_pause: Duration::from_secs(60),
        }
    }

    /// The instances, by name.
    #[must_use]
    pub fn regions<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.regions = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// A setting by its name in Lambda, without or with the prefix `FENCEPOST_`; it wins over the world's own.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        let name = if name.starts_with(PREFIX) { name.to_owned() } else { format!("{PREFIX}{name}") };
        self.settings.push((name, value.to_owned()));
        self
    }

    /// The destination is a FIFO queue.
    #[must_use]
    pub fn fifo(mut self) -> Self {
        self.fifo = true;
        self
    }

    /// Nothing starts by itself: the test ticks and drains.
    #[must_use]
    pub fn without_schedules(mut self) -> Self {
        self.schedules = false;
        self
    }

    /// The outbox's stream wakes nobody.
    #[must_use]
    pub fn without_stream(mut self) -> Self {
        self.stream = false;
        self
    }

    /// A call takes from 1 ms up to this, each way, by chance.
    #[must_use]
    pub fn latency_up_to_ms(mut self, ms: u64) -> Self {
        self.latency_ms_max = ms;
        self
    }

    /// How long an asynchronous invocation of ingest waits before it is tried again (60 s as in Lambda; doubled after that).
    #[must_use]
    pub fn retry_pause(mut self, pause: Duration) -> Self {
        self.retry_pause = pause;
        self
    }

    /// The settings of one instance, parsed as its functions parse them.
    pub(crate) fn settings_of(&self, name: &str) -> Settings {
        let own = |name: &str, value: &str| (format!("{PREFIX}{name}"), value.to_owned());
        let queue = if self.fifo { "http://127.0.0.1/queue.fifo" } else { "http://127.0.0.1/queue" };
        let mut pairs = vec![
            own("PROFILE", "fast"),
            own("SHARDS", "2"),
            own("LEASE", LEASE),
            own("INSTANCE", name),
            own("STACK", name),
            own("LEASE_TABLE", "lease"),
            own("OUTBOX_TABLE", "outbox"),
            own("QUEUE_URL", queue),
            own("TOPIC_RULE", "rule"),
        ];
        pairs.extend(self.settings.iter().cloned());
        match Settings::parse(&Function::ALL, pairs) {
            Ok(settings) => settings,
            Err(faults) => panic!("the world's settings are wrong: {faults}"),
        }
    }
}
