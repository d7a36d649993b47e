//! The demonstration: telemetry over real MQTT, a leader that dies in mid-drain, a takeover, a planned handover, an audit.
//!
//! It succeeds only if its own ledger of what it published ([`ledger`]) agrees with what lies in the queue ([`verdict`]) and
//! if both changes of the leader kept their bounds. **Takeover** is measured from the dead leader's last renewal, which is
//! where promise P6 begins, to the moment the successor's acquisition is told; the time since the kill is shown beside it.
//! **Handover** is measured from the request to step down, with an idle outbox (P7). Both bounds allow [`LEASE_CALL`] for
//! one call of the lease function.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost_local::world::{Ports, World, WorldEvent, WorldOptions};
use fencepost_protocol::time::{Timestamp, duration_ms};
use fencepost_runtime::clock::Clock;

mod fleet;
mod ledger;
mod story;
mod table;
mod telemetry;
mod verdict;
mod watch;

use crate::arguments::{DemoArguments, instances};
use crate::failure::CommandError;
use crate::output::{self, Screen, Target};
use crate::timeline::{self, Topic, grouped};
use fleet::Fleet;
use ledger::Ledger;
use story::Story;
use verdict::{Times, Verdict};
use watch::Watch;

/// What one call of the lease function may take on a machine that also runs everything else. A tick is the tick interval
/// and one such call.
const LEASE_CALL: Duration = Duration::from_millis(250);
/// Between two lines of numbers.
const FLOW_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the demonstration, shows it, and judges it.
pub(crate) async fn run(arguments: &DemoArguments, clock: Arc<dyn Clock>) -> Result<(), CommandError> {
    let target = if arguments.json { Target::Stderr } else { Target::Stdout };
    let stage = Stage {
        screen: Arc::new(Screen::new(target, !arguments.no_color)),
        watch: Arc::new(Watch::new()),
        ledger: Arc::new(Ledger::default()),
        start: clock.now().wall,
        clock,
        over: Arc::default(),
    };
    stage.screen.line(&heading(arguments));
    let world = World::start(options(arguments)?, Arc::clone(&stage.clock), stage.observer()).await?;
    let verdict = stage.play(&world, arguments).await;
    stage.over.store(true, Ordering::Relaxed);
    world.stop().await;
    let verdict = verdict?;
    stage.screen.line(&table::render(&verdict));
    if arguments.json {
        output::json_line(&verdict.figures)
            .map_err(|error| CommandError::environment(format!("cannot write the result: {error}")))?;
    }
    if verdict.broken.is_empty() { Ok(()) } else { Err(CommandError::PromiseBroken(verdict.broken)) }
}

fn heading(arguments: &DemoArguments) -> String {
    format!(
        "fencepost demo: {} messages of {} devices, {} instances, profile {}, seed {}\n",
        grouped(u64::from(arguments.messages)),
        arguments.devices,
        arguments.instances,
        arguments.profile.0.as_str(),
        arguments.seed,
    )
}

fn options(arguments: &DemoArguments) -> Result<WorldOptions, CommandError> {
    Ok(WorldOptions {
        instances: instances(arguments.instances)?,
        profile: arguments.profile.0,
        ports: Ports::any(),
        keep_history: true,
        ..WorldOptions::default()
    })
}

/// What the whole run shares.
struct Stage {
    screen: Arc<Screen>,
    watch: Arc<Watch>,
    ledger: Arc<Ledger>,
    start: Timestamp,
    clock: Arc<dyn Clock>,
    /// Nothing more is to be shown.
    over: Arc<AtomicBool>,
}

impl Stage {
    /// Takes the world's events: for the timeline, and for the story to wait for.
    fn observer(&self) -> Arc<dyn fencepost_local::world::WorldObserver> {
        let (screen, watch, start) = (Arc::clone(&self.screen), Arc::clone(&self.watch), self.start);
        let over = Arc::clone(&self.over);
        Arc::new(move |at: Timestamp, event: &WorldEvent| {
            // The end of the world kills the instances; that is no part of the story. What it waits for and loses is.
            let of_the_end = matches!(event, WorldEvent::Stopping { .. } | WorldEvent::Dropped { .. });
            if over.load(Ordering::Relaxed) && !of_the_end {
                return;
            }
            if let Some((topic, text)) = timeline::describe(event) {
                screen.line(&timeline::line(start, at, topic, &text));
            }
            watch.note(at, event);
        })
    }

    fn say(&self, topic: Topic, text: &str) {
        self.screen.line(&timeline::line(self.start, self.clock.now().wall, topic, text));
    }

    async fn play(&self, world: &World, arguments: &DemoArguments) -> Result<Verdict, CommandError> {
        self.say(
            Topic::Start,
            &format!("MQTT on {}, DynamoDB at {}, SQS at {}", world.mqtt_addr(), world.dynamodb_url(), world.sqs_url()),
        );
        let times = {
            let fleet = Fleet::connect(world.mqtt_addr(), arguments.devices, arguments.seed, &self.ledger, &self.clock);
            let story = Story { stage: self, world, fleet: &fleet, messages: arguments.messages };
            tokio::select! {
                times = story.tell() => times?,
                never = self.show_flow(world) => match never {},
            }
        };
        self.audit(world, times).await
    }

    async fn show_flow(&self, world: &World) -> std::convert::Infallible {
        loop {
            self.clock.sleep(FLOW_INTERVAL).await;
            self.say(Topic::Flow, &timeline::flow(&world.counts()));
        }
    }

    async fn audit(&self, world: &World, times: Times) -> Result<Verdict, CommandError> {
        let ledger = self.ledger.snapshot();
        let message =
            format!("{} hashes of the ledger against the queue and both tables", grouped(self.ledger.acknowledged()));
        self.say(Topic::Audit, &message);
        let report = world.audit().await?;
        let tokens = self.watch.seen().acquisitions.iter().map(|acquisition| acquisition.token).collect();
        Ok(verdict::judge(&ledger, &report, &world.counts(), tokens, times))
    }
}

/// From `earlier` to `later`, in whole milliseconds.
fn between_ms(earlier: Timestamp, later: Timestamp) -> u64 {
    duration_ms(later.since(earlier))
}
