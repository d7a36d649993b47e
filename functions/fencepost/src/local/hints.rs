//! The lines that a person pastes into a second terminal.

use std::ffi::OsString;

use fencepost_local::world::{Ports, World};

use crate::arguments::WorldArguments;

/// All of them.
pub(super) fn text(world: &World, arguments: &WorldArguments) -> String {
    let mqtt = world.mqtt_addr();
    let control = port_option(world.control_addr().port());
    let kept = match &arguments.data {
        Some(directory) => format!("Tables and queue are kept in {}.", directory.display()),
        None => "Tables and queue are in memory; --data DIR keeps them.".to_owned(),
    };
    format!(
        r#"
fencepost local: MQTT on {mqtt}, DynamoDB at {dynamodb}, SQS at {sqs}. {kept} Ctrl-C ends it.
In a second terminal, publish a message:

  mosquitto_pub -h {host} -p {port} -t {topic} -q 1 -m '{{"temperature_celsius": 21.5}}'

read it, and look into the outbox (any credentials will do):

  export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local AWS_DEFAULT_REGION={region}
  aws sqs receive-message --endpoint-url {sqs} --queue-url {queue} --message-attribute-names All --wait-time-seconds 5
  aws dynamodb scan --endpoint-url {dynamodb} --table-name {outbox}

and see what a failure does (either may lead at the beginning: status names the one that does):

  {program} local status{control}
  {program} local kill east{control}
  {program} local start east{control}
  {program} local step-down west{control}
"#,
        program = program(std::env::args_os().next()),
        dynamodb = world.dynamodb_url(),
        sqs = world.sqs_url(),
        host = mqtt.ip(),
        port = mqtt.port(),
        topic = shell_word(&example_topic(&arguments.topic_filter)),
        region = world.region(),
        queue = world.queue_url(),
        outbox = world.outbox_table(),
    )
}

/// The command that brings a killed instance back, for the world behind this control port.
pub(super) fn start_again(name: &str, control_port: u16) -> String {
    format!("{} local start {name}{}", program(std::env::args_os().next()), port_option(control_port))
}

/// This program as it was called, so that a pasted command finds it.
fn program(called: Option<OsString>) -> String {
    shell_word(&called.map_or_else(|| "fencepost".to_owned(), |called| called.to_string_lossy().into_owned()))
}

/// What names the control port to a command, with a blank before it; nothing where it is the usual one.
fn port_option(control_port: u16) -> String {
    if control_port == Ports::default().control { String::new() } else { format!(" --control-port {control_port}") }
}

/// A topic that the filter takes.
fn example_topic(filter: &str) -> String {
    let level = |level| match level {
        "#" | "+" => "device-1",
        other => other,
    };
    filter.split('/').map(level).collect::<Vec<_>>().join("/")
}

/// `text` as one word of a POSIX shell, quoted where the shell would take it apart.
fn shell_word(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/-_.,:@%+=".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use fencepost_local::world::Ports;

    use super::{example_topic, program, shell_word, start_again};

    #[test]
    fn a_command_names_the_control_port_where_it_is_not_the_usual_one() {
        assert!(start_again("east", Ports::default().control).ends_with(" local start east"));
        assert!(start_again("east", 7371).ends_with(" local start east --control-port 7371"));
    }

    #[test]
    fn a_command_names_the_program_as_it_was_called() {
        assert_eq!(program(Some("target/release/fencepost".into())), "target/release/fencepost");
        assert_eq!(program(Some("/a b/fencepost".into())), "'/a b/fencepost'");
        assert_eq!(program(None), "fencepost");
    }

    #[test]
    fn a_topic_is_quoted_where_the_shell_would_change_it() {
        assert_eq!(shell_word("telemetry/device-1"), "telemetry/device-1");
        assert_eq!(shell_word("$SYS/a b"), "'$SYS/a b'");
        assert_eq!(shell_word("plant's/état"), r"'plant'\''s/état'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn the_example_fits_the_filter() {
        assert_eq!(example_topic("telemetry/#"), "telemetry/device-1");
        assert_eq!(example_topic("plant/+/state"), "plant/device-1/state");
        assert_eq!(example_topic("#"), "device-1");
        assert_eq!(example_topic("fixed/topic"), "fixed/topic");
    }
}
