//! `fencepost local`: the bridge on this machine until Ctrl-C.
//!
//! It prints the lines that a person pastes into a second terminal, then what happens. With `--json` each event is one JSON
//! object on a line of its own. **The line of a message that ingest acknowledged is written before the acknowledgement
//! counts**, so whoever reads the lines knows, after a `kill -9`, what must not be missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost_local::world::{Counts, Ports, World, WorldEvent, WorldObserver, WorldOptions};
use fencepost_protocol::time::Timestamp;
use fencepost_runtime::clock::Clock;

pub(crate) mod control;
mod events;
mod hints;

use crate::arguments::{WorldArguments, instances};
use crate::failure::CommandError;
use crate::output::{self, Screen, Target};
use crate::signals::EndSignals;
use crate::timeline::{self, Topic};
use events::JsonLines;

/// Between two looks at the numbers; a line is written where they changed.
const FLOW_INTERVAL: Duration = Duration::from_secs(2);

/// A Ctrl-C this soon after the first is the same one.
const REPEAT_AFTER: Duration = Duration::from_secs(1);

/// Runs the world until Ctrl-C. A second one ends the wait for what ingest has not stored yet.
pub(crate) async fn run(arguments: &WorldArguments, clock: Arc<dyn Clock>) -> Result<(), CommandError> {
    let mut signals = EndSignals::listen()?;
    let start = clock.now().wall;
    let over = Arc::new(AtomicBool::new(false));
    let (observer, stage): (Arc<dyn WorldObserver>, Stage) = if arguments.json {
        let lines = Arc::new(JsonLines::default());
        (lines.clone(), Stage::Json(lines))
    } else {
        let screen = Arc::new(Screen::new(Target::Stdout, !arguments.no_color));
        (observer_of(&screen, start, &over), Stage::Timeline { screen, start })
    };
    let world = World::start(options(arguments)?, Arc::clone(&clock), observer).await?;
    let outcome = tokio::select! {
        outcome = stage.show(&world, arguments, &*clock) => outcome,
        () = signals.received() => Ok(()),
    };
    over.store(true, Ordering::Relaxed);
    let asked = clock.now().monotonic;
    let again = async {
        // A signal that a wrapper passes on comes twice.
        loop {
            signals.received().await;
            if clock.now().monotonic.saturating_sub(asked) >= REPEAT_AFTER {
                return;
            }
        }
    };
    world.stop_until(again).await;
    stage.end(clock.now().wall);
    outcome
}

fn options(arguments: &WorldArguments) -> Result<WorldOptions, CommandError> {
    Ok(WorldOptions {
        instances: instances(arguments.instances)?,
        profile: arguments.profile.0,
        shards: arguments.shards,
        ports: Ports {
            mqtt: arguments.mqtt_port,
            dynamodb: arguments.dynamodb_port,
            sqs: arguments.sqs_port,
            control: arguments.control_port,
        },
        data: arguments.data.clone(),
        topic_filter: arguments.topic_filter.clone(),
        destination: if arguments.fifo { "telemetry.fifo".to_owned() } else { "telemetry".to_owned() },
        body_format: arguments.body_format.0,
        ..WorldOptions::default()
    })
}

fn observer_of(screen: &Arc<Screen>, start: Timestamp, over: &Arc<AtomicBool>) -> Arc<dyn WorldObserver> {
    let (screen, over) = (Arc::clone(screen), Arc::clone(over));
    Arc::new(move |at: Timestamp, event: &WorldEvent| {
        // The end of the world kills the instances; nobody asked for that.
        if over.load(Ordering::Relaxed) && matches!(event, WorldEvent::Killed { .. }) {
            return;
        }
        if let Some((topic, text)) = timeline::describe(event) {
            screen.line(&timeline::line(start, at, topic, &text));
        }
    })
}

/// Where the run is shown.
enum Stage {
    Timeline { screen: Arc<Screen>, start: Timestamp },
    Json(Arc<JsonLines>),
}

impl Stage {
    /// Shows addresses, then what happens. Ends only when nobody can read any more.
    async fn show(&self, world: &World, arguments: &WorldArguments, clock: &dyn Clock) -> Result<(), CommandError> {
        match self {
            Self::Timeline { screen, start } => {
                screen.line(&hints::text(world, arguments));
                let mut shown = timeline::flow(&Counts::default());
                loop {
                    clock.sleep(FLOW_INTERVAL).await;
                    let text = timeline::flow(&world.counts());
                    if text != shown {
                        screen.line(&timeline::line(*start, clock.now().wall, Topic::Flow, &text));
                        shown = text;
                    }
                }
            }
            Self::Json(lines) => {
                lines.listening(world);
                let error = lines.failed().await;
                Err(CommandError::environment(format!(
                    "standard output takes no more lines ({error}); read it to the end, or leave out --json"
                )))
            }
        }
    }

    fn end(&self, at: Timestamp) {
        match self {
            Self::Timeline { screen, start } => {
                screen.line(&timeline::line(*start, at, Topic::Start, "everything is stopped"));
            }
            Self::Json(lines) => lines.stopped(at),
        }
    }
}

/// Writes one JSON line.
fn write(value: &serde_json::Value) -> std::io::Result<()> {
    output::json_line(value)
}
