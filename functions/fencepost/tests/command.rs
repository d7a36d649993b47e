//! The command as a person meets it: exit codes, messages, one life of `fencepost local`.

#![allow(clippy::expect_used, reason = "a test that cannot start the command has nothing to say")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

const FREE_PORTS: [&str; 8] = ["--mqtt-port", "0", "--dynamodb-port", "0", "--sqs-port", "0", "--control-port", "0"];

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(words).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> Output {
    command(words).output().expect("the command starts")
}

/// Asserts exit code 2 and that standard error names every one of `expected`.
fn assert_refused(words: &[&str], expected: &[&str]) {
    let output = run(words);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {complaint}");
    for word in expected {
        assert!(complaint.contains(word), "{words:?} does not name {word}: {complaint}");
    }
}

#[test]
fn bad_input_is_refused_by_name() {
    assert_refused(&["--messages", "0"], &["--messages", "100..=200000"]);
    assert_refused(&["local", "kill"], &["<NAME>"]);
    assert_refused(&[&["local"], &FREE_PORTS[..], &["--topic-filter", "a/#/b"]].concat(), &["--topic-filter"]);
}

#[test]
fn an_occupied_port_and_an_unusable_directory_are_named_with_their_options() {
    let occupied = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = occupied.local_addr().unwrap().port().to_string();
    for option in ["--mqtt-port", "--dynamodb-port", "--sqs-port", "--control-port"] {
        let mut words: Vec<&str> = ["local"].iter().chain(&FREE_PORTS).copied().collect();
        let place = words.iter().position(|word| *word == option).unwrap();
        words[place + 1] = &port;
        assert_refused(&words, &[&port, option]);
    }
    let below_a_file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml/data");
    assert_refused(&[&["local"], &FREE_PORTS[..], &["--data", below_a_file]].concat(), &["--data", below_a_file]);
}

#[test]
fn acting_on_nothing_says_what_to_start() {
    // Bound and closed again: nobody listens there.
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port().to_string();
    for action in [&["kill", "east"][..], &["start", "east"], &["step-down", "east"], &["resume", "east"], &["status"]]
    {
        let words = [&["local"], action, &["--control-port", &free]].concat();
        assert_refused(&words, &[&free, "fencepost local", "--control-port"]);
    }
}

/// A `fencepost local` that does not outlive its test.
struct Local(Child);

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn local_tells_where_it_listens_takes_commands_and_ends_with_the_signal() {
    let words = [&["local", "--json"], &FREE_PORTS[..]].concat();
    let mut local = Local(command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(local.0.stdout.take().unwrap()).lines();
    let mut next = |event: &str| loop {
        let line = lines.next().unwrap_or_else(|| panic!("no line {event}")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        if value["event"] == event {
            return value;
        }
    };
    let listening = next("listening");
    let control = listening["control"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let act = |words: &[&str]| run(&[&["local"], words, &["--control-port", &control]].concat());

    let unknown = act(&["kill", "nowhere"]);
    let complaint = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(["nowhere", "east", "west"].iter().all(|name| complaint.contains(name)), "{complaint}");
    assert!(act(&["kill", "west"]).status.success());
    assert_eq!(next("killed")["instance"], "west");
    let status: serde_json::Value = serde_json::from_slice(&act(&["status", "--json"]).stdout).unwrap();
    let west = status["instances"].as_array().unwrap().iter().find(|instance| instance["name"] == "west").unwrap();
    assert_eq!(west["alive"], false);
    assert!(act(&["start", "west"]).status.success());
    assert_eq!(next("started")["instance"], "west");

    let interrupted = Command::new("kill").args(["-INT", &local.0.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    next("stopped");
    let mut complaints = String::new();
    local.0.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    // What a busy machine makes the functions complain of is logged, and no failure.
    assert_eq!(local.0.wait().unwrap().code(), Some(0), "{complaints}");
    assert!(!complaints.contains("panicked"), "{complaints}");
}
