//! What can be asked for on the command line.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fencepost_local::world::Ports;
use fencepost_protocol::body::BodyFormat;
use fencepost_protocol::ids::InstanceName;
use fencepost_protocol::timing::Profile;

use crate::failure::CommandError;

/// The names of instances, in the order in which they are taken.
const INSTANCE_NAMES: [&str; 5] = ["east", "west", "north", "south", "central"];
/// The options' help for the count of instances; a test keeps it at the names above.
const INSTANCES_MAX: i64 = 5;

/// A highly available bridge from AWS IoT Core (MQTT) to SQS, on one machine.
///
/// Without a subcommand: the demonstration.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) demo: DemoArguments,
}

impl Arguments {
    /// Is standard output a stream of events, each one JSON object?
    pub(crate) fn has_json_events(&self) -> bool {
        matches!(&self.command, Some(Command::Local(local)) if local.action.is_none() && local.world.json)
    }
}

const EXIT_CODES: &str = "Exit codes: 0 everything was kept; 1 a promise was broken (a message lost, a row committed twice, \
    a bound exceeded, nobody leads after a step-down); 2 bad input, or surroundings such as a busy port.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Publish telemetry, kill the leader, hand over in a planned way, and audit the result (the default)
    #[command(after_help = EXIT_CODES)]
    Demo(DemoArguments),
    /// Run the bridge on this machine until Ctrl-C, or act on one that runs
    Local(LocalArguments),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArguments {
    /// Messages to publish, 100 to 200000
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=200_000))]
    pub(crate) messages: u32,
    /// Devices that publish, each over an MQTT connection of its own, 1 to 1000
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) devices: u16,
    /// Instances ("regions") that compete for the lease, 2 to 5
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=INSTANCES_MAX))]
    pub(crate) instances: u8,
    /// What the payloads are made from; the moments of a run are the machine's own
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The durations: fast takes under a minute; durable waits for a lease of 300s, so it takes more than five minutes
    #[arg(long, default_value = "fast")]
    pub(crate) profile: ProfileArgument,
    /// Print one JSON object on standard output; the progress goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// No colour, on a terminal either (the environment variable `NO_COLOR` says the same)
    #[arg(long)]
    pub(crate) no_color: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LocalArguments {
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    #[command(flatten)]
    pub(crate) world: WorldArguments,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WorldArguments {
    /// Port of the MQTT broker on 127.0.0.1; 0 takes any free one, as for the other ports
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().mqtt)]
    pub(crate) mqtt_port: u16,
    /// Port of DynamoDB
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().dynamodb)]
    pub(crate) dynamodb_port: u16,
    /// Port of SQS
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().sqs)]
    pub(crate) sqs_port: u16,
    /// Port that `fencepost local kill` and its like talk to
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().control)]
    pub(crate) control_port: u16,
    /// Keep tables and queue in this directory; without it they are gone at the end
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Instances ("regions") that compete for the lease, 2 to 5
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=INSTANCES_MAX))]
    pub(crate) instances: u8,
    /// The durations: fast (takeover in seconds) or durable (a lease of 300s)
    #[arg(long, default_value = "fast")]
    pub(crate) profile: ProfileArgument,
    /// Shards of the outbox
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) shards: u16,
    /// Topics that the rule takes
    #[arg(long, value_name = "FILTER", default_value = "telemetry/#")]
    pub(crate) topic_filter: String,
    /// Deliver to a FIFO queue: each device's messages in the order of their receipt time in milliseconds; messages of one
    /// device in the same millisecond have no order
    #[arg(long)]
    pub(crate) fifo: bool,
    /// What a message's body is: the payload itself, or a `CloudEvents` envelope
    #[arg(long, default_value = "raw")]
    pub(crate) body_format: BodyFormatArgument,
    /// Print one JSON object a line, one for each message that ingest acknowledged among them
    #[arg(long)]
    pub(crate) json: bool,
    /// No colour, on a terminal either (the environment variable `NO_COLOR` says the same)
    #[arg(long)]
    pub(crate) no_color: bool,
}

/// What can be done to a world that runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Let an instance die at once, whatever it is doing
    Kill(Target),
    /// Bring a dead instance back, cold
    Start(Target),
    /// Let the leader hand over in a planned way, and wait for its successor
    StepDown(Target),
    /// Let an instance that stepped down compete again before its lease time is over
    Resume(Target),
    /// Show the lease, the instances and the numbers
    Status(StatusArguments),
}

#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The instance, for example east
    #[arg(value_name = "NAME", value_parser = instance_name)]
    pub(crate) name: InstanceName,
    #[command(flatten)]
    pub(crate) control: Control,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) control: Control,
}

#[derive(Debug, Args)]
pub(crate) struct Control {
    /// The control port of the running `fencepost local`
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().control)]
    pub(crate) control_port: u16,
}

/// [`Profile`] for the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProfileArgument(pub(crate) Profile);

impl ValueEnum for ProfileArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Profile::Fast), Self(Profile::Durable)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()))
    }
}

/// [`BodyFormat`] for the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyFormatArgument(pub(crate) BodyFormat);

impl ValueEnum for BodyFormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(BodyFormat::Raw), Self(BodyFormat::CloudEvents)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()))
    }
}

fn instance_name(text: &str) -> Result<InstanceName, String> {
    InstanceName::new(text).map_err(|fault| fault.problem)
}

/// The first `count` instances.
pub(crate) fn instances(count: u8) -> Result<Vec<InstanceName>, CommandError> {
    let names = INSTANCE_NAMES.iter().take(usize::from(count));
    names
        .map(|name| InstanceName::new(*name))
        .collect::<Result<_, _>>()
        .map_err(|fault| CommandError::environment(fault.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
        assert_eq!(usize::try_from(INSTANCES_MAX), Ok(INSTANCE_NAMES.len()));
        assert_eq!(instances(5).unwrap().len(), 5);
    }

    #[test]
    fn without_a_subcommand_it_is_the_demonstration() {
        let arguments = parse("fencepost --messages 20000 --seed 7").unwrap();
        assert!(arguments.command.is_none());
        assert_eq!((arguments.demo.messages, arguments.demo.seed), (20_000, 7));
        let Some(Command::Demo(demo)) = parse("fencepost demo --messages 300 --profile durable").unwrap().command
        else {
            panic!("demo was asked for");
        };
        assert_eq!((demo.messages, demo.profile), (300, ProfileArgument(Profile::Durable)));
    }

    #[test]
    fn a_running_world_is_acted_on_by_name() {
        let Some(Command::Local(local)) = parse("fencepost local step-down east --control-port 7371").unwrap().command
        else {
            panic!("local was asked for");
        };
        let Some(Action::StepDown(target)) = local.action else { panic!("step-down was asked for") };
        assert_eq!((target.name.as_str(), target.control.control_port), ("east", 7371));
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_right() {
        for (line, word) in [
            ("fencepost --messages 0", "100..=200000"),
            ("fencepost --instances 6", "2..=5"),
            ("fencepost --profile slow", "possible values: fast, durable"),
            ("fencepost local --body-format xml", "possible values: raw, cloudevents"),
            ("fencepost local --mqtt-port 70000", "0..=65535"),
            ("fencepost local kill", "<NAME>"),
            ("fencepost local kill ea/st", "allowed are letters"),
            ("fencepost local --data d kill east", "cannot be used with"),
            ("fencepost audit", "unrecognized subcommand 'audit'"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
