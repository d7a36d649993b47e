//! How long an end waits for ingest.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fencepost_protocol::time::Timestamp;
use fencepost_runtime::clock::ManualClock;

use crate::shipped::Machines;
use crate::world::counters::Counters;
use crate::world::event::WorldEvent;
use crate::world::intake::{QUIET_MAX, wait_for_ingest};
use crate::world::options::WorldOptions;
use crate::world::site::Site;

/// Words told between two acknowledgements: one a second.
const WORDS: u64 = 55;

/// A site with `published` messages that wait, of which ingest acknowledges one each 55 seconds, in each way in turn, until
/// `stored` are.
fn slow(published: u64, stored: u64) -> Site {
    let words = AtomicU64::new(0);
    let known: Arc<OnceLock<Arc<Counters>>> = Arc::default();
    let counters = Arc::clone(&known);
    let options = WorldOptions::default();
    let site = Site::new(
        options.lease,
        Arc::new(ManualClock::skipping(Timestamp::from_ms(1_800_000_000_000))),
        Machines::parse().unwrap(),
        options.body_format,
        String::new(),
        String::new(),
        Arc::new(move |_: Timestamp, event: &WorldEvent| {
            assert!(matches!(event, WorldEvent::Stopping { .. }), "{event:?}");
            let words = words.fetch_add(1, Ordering::SeqCst) + 1;
            if words.is_multiple_of(WORDS) && words / WORDS <= stored {
                let counters = known.get().unwrap();
                let ways = [&counters.recovered, &counters.duplicates_ingest, &counters.ingested];
                ways[usize::try_from(words / WORDS % 3).unwrap()].add(1);
            }
        }),
        None,
    );
    counters.set(Arc::clone(&site.counters)).unwrap();
    site.counters.published.add(published);
    site
}

#[tokio::test]
async fn the_end_waits_for_as_long_as_ingest_goes_on() {
    let site = slow(30, 30);
    assert_eq!(wait_for_ingest(&site, || true, &AtomicBool::new(true)).await, None);
    assert_eq!(site.counters.counts().rule_waiting, 0);
}

#[tokio::test]
async fn the_longest_pause_and_a_call_without_an_acknowledgement_end_the_wait() {
    let site = slow(30, 4);
    let start = site.clock.now().monotonic;
    let reason = wait_for_ingest(&site, || true, &AtomicBool::new(true)).await;
    assert_eq!(reason.as_deref(), Some("ingest acknowledged none of them for 60 s"));
    assert_eq!(site.counters.counts().rule_waiting, 26);
    // The fourth acknowledgement comes with the word of this second.
    let fourth = Duration::from_secs(4 * WORDS - 1);
    assert_eq!(site.clock.now().monotonic - start, fourth + QUIET_MAX + Duration::from_millis(20));
}

#[tokio::test]
async fn as_long_as_not_all_is_counted_the_end_waits_and_says_no_number() {
    let (site, all_taken) = (slow(0, 0), Arc::new(AtomicBool::new(false)));
    let looks = AtomicU64::new(0);
    let any_lives = || {
        if looks.fetch_add(1, Ordering::SeqCst) == 100 {
            all_taken.store(true, Ordering::SeqCst);
        }
        true
    };
    assert_eq!(wait_for_ingest(&site, any_lives, &all_taken).await, None);
    assert_eq!(looks.load(Ordering::SeqCst), 101);
}

#[tokio::test]
async fn nobody_waits_where_no_instance_lives() {
    let site = slow(30, 30);
    let start = site.clock.now().monotonic;
    let reason = wait_for_ingest(&site, || false, &AtomicBool::new(true)).await;
    assert_eq!(reason.as_deref(), Some("no instance lives that could store them"));
    assert_eq!(site.clock.now().monotonic, start);
}
