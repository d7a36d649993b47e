//! The outbox's stream, read once for the whole world: to the history, which sees every change, and to the living instances,
//! which see what the filter of their event source mapping lets through (new rows in the lease's shards).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::regions::Regions;
use super::site::Site;
use crate::StartError;
use crate::endpoint::{EndpointThread, StopSignal};
use crate::table_server::StreamReader;

/// The pause between two looks at a quiet stream.
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// The pause after a failed look.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// Records of one look.
const RECORDS_MAX: usize = 1_000;
/// Looks at a quiet stream after which everything is known that was written before the first of them.
const QUIET_LOOKS: u64 = 2;

/// A thread that reads the stream.
pub(super) struct Feed {
    thread: EndpointThread,
    quiet_looks: Arc<AtomicU64>,
}

impl Feed {
    /// Reads on from where `reader` stands.
    pub(super) fn start(site: Arc<Site>, regions: Arc<Regions>, reader: StreamReader) -> Result<Self, StartError> {
        let quiet_looks = Arc::new(AtomicU64::new(0));
        let looks = Arc::clone(&quiet_looks);
        let thread = EndpointThread::spawn("outbox stream", move |stop| read(site, regions, reader, looks, stop))?;
        Ok(Self { thread, quiet_looks })
    }

    /// A mark of now, for [`Feed::has_seen`].
    pub(super) fn mark(&self) -> u64 {
        self.quiet_looks.load(Ordering::SeqCst)
    }

    /// Has the history seen everything that was written before `mark` was taken?
    pub(super) fn has_seen(&self, mark: u64) -> bool {
        self.mark() >= mark + QUIET_LOOKS
    }

    /// Stops reading.
    pub(super) async fn stop(self) {
        self.thread.stop().await;
    }
}

async fn read(
    site: Arc<Site>,
    regions: Arc<Regions>,
    mut reader: StreamReader,
    quiet_looks: Arc<AtomicU64>,
    stop: StopSignal,
) {
    let reading = async {
        loop {
            let pause = match reader.poll(RECORDS_MAX) {
                Ok(records) if records.is_empty() => {
                    quiet_looks.fetch_add(1, Ordering::SeqCst);
                    POLL_PAUSE
                }
                Ok(records) => {
                    hand_on(&site, &regions, &records);
                    Duration::ZERO
                }
                Err(error) => {
                    site.trouble(error.to_string());
                    FAILURE_PAUSE
                }
            };
            site.clock.sleep(pause).await;
        }
    };
    tokio::select! {
        () = reading => {}
        () = stop.stopped() => {}
    }
}

fn hand_on(site: &Site, regions: &Regions, records: &[Value]) {
    if let Some(mut history) = site.history() {
        records.iter().for_each(|record| history.changed(record));
    }
    let prefix = format!("{}#", site.lease);
    for record in records {
        let shard = record["dynamodb"]["Keys"]["shard"]["S"].as_str().unwrap_or_default();
        if record["eventName"] == "INSERT" && shard.starts_with(&prefix) {
            regions.changed(record);
        }
    }
}
