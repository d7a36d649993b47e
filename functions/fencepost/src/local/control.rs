//! Acting on a `fencepost local` that runs, through its control port.

use fencepost_local::world::{Status, control};
use serde_json::Value;

use crate::arguments::{Action, Control, Target as InstanceTarget};
use crate::failure::CommandError;
use crate::local::hints::start_again;
use crate::output::{self, Screen, Target};
use crate::timeline::{flow, grouped};

/// What an answer of success has as its HTTP status.
const OK: u16 = 200;

/// Does it and tells the answer.
pub(crate) async fn run(action: &Action) -> Result<(), CommandError> {
    let screen = Screen::new(Target::Stdout, true);
    match action {
        Action::Kill(target) => {
            let path = format!("/kill/{}", target.name);
            call(&target.control, "POST", &path).await?;
            let start = start_again(target.name.as_str(), target.control.control_port);
            screen.line(&format!("{} is killed; bring it back with: {start}", target.name));
        }
        Action::Start(target) => {
            call(&target.control, "POST", &format!("/start/{}", target.name)).await?;
            screen.line(&format!("{} is started, cold", target.name));
        }
        Action::StepDown(target) => {
            step_down(target, &screen).await?;
        }
        Action::Resume(target) => {
            let answer = call(&target.control, "POST", &format!("/resume/{}", target.name)).await?;
            let resumed = answer.get("state").and_then(Value::as_str) == Some("resumed");
            let what = if resumed { "competes for the lease again" } else { "did not abstain; nothing to resume" };
            screen.line(&format!("{} {what}", target.name));
        }
        Action::Status(arguments) => {
            if arguments.json {
                let answer = call(&arguments.control, "GET", "/status").await?;
                return output::json_line(&answer)
                    .map_err(|error| CommandError::environment(format!("cannot write the status: {error}")));
            }
            screen.line(&status_text(&status(&arguments.control).await?));
        }
    }
    Ok(())
}

/// Runs the step-down to its end. It breaks a promise where nobody leads then.
async fn step_down(target: &InstanceTarget, screen: &Screen) -> Result<(), CommandError> {
    let name = target.name.as_str();
    let port = target.control.control_port;
    if let Some(warning) = nobody_else(name, &status(&target.control).await?, port) {
        output::warn(&warning);
    }
    let answer = call(&target.control, "POST", &format!("/step-down/{name}")).await?;
    screen.line(&stepped_down(name, &answer));
    if successor(&answer).is_some() {
        return Ok(());
    }
    Err(CommandError::PromiseBroken(why_nobody_leads(name, &status(&target.control).await?, port)))
}

/// What to know before waiting for a successor of `name` where there can be none.
fn nobody_else(name: &str, status: &Status, control_port: u16) -> Option<String> {
    let others = || status.instances.iter().filter(|instance| instance.name.as_str() != name);
    if others().any(|instance| instance.alive)
        || !status.instances.iter().any(|instance| instance.name.as_str() == name)
    {
        return None;
    }
    let start: Vec<String> = others().map(|instance| start_again(instance.name.as_str(), control_port)).collect();
    Some(format!("no other instance is up, so nobody else can take over from {name}; first: {}", start.join(", or ")))
}

/// What the status shows after a step-down without a successor, a sentence each.
fn why_nobody_leads(name: &str, status: &Status, control_port: u16) -> Vec<String> {
    let holder = status.lease.as_ref().and_then(|lease| lease.owner.as_ref()).map(|owner| owner.name.as_str());
    let mut lines = vec![match holder {
        None => format!("no instance took the lease over from {name}"),
        Some(holder) if holder == name => format!("no other instance leads: {name} holds the lease"),
        Some(holder) => format!("no instance took the lease over from {name} in time; {holder} holds it now"),
    }];
    lines.extend(status.refused.iter().map(|record| format!("a record does not decode and is left alone: {record}")));
    let dead = status.instances.iter().filter(|instance| !instance.alive);
    let start = |name: &str| format!("{name} is dead; {}", start_again(name, control_port));
    lines.extend(dead.map(|instance| start(instance.name.as_str())));
    lines
}

async fn status(control: &Control) -> Result<Status, CommandError> {
    let answer = call(control, "GET", "/status").await?;
    serde_json::from_value(answer).map_err(|error| unexpected(control, &error))
}

async fn call(control: &Control, method: &str, path: &str) -> Result<Value, CommandError> {
    let port = control.control_port;
    let (status, answer) = control::request(port, method, path).await.map_err(|error| {
        CommandError::environment(format!(
            "nothing answers on 127.0.0.1:{port} ({error}); start `fencepost local` first, or name its port with --control-port PORT"
        ))
    })?;
    if status == OK {
        return Ok(answer);
    }
    Err(match answer.get("error").and_then(Value::as_str) {
        Some(error) => CommandError::environment(error),
        None => unexpected(control, &format!("HTTP status {status}")),
    })
}

fn unexpected(control: &Control, problem: &dyn std::fmt::Display) -> CommandError {
    CommandError::environment(format!(
        "what answers on 127.0.0.1:{} is not a `fencepost local` of this version ({problem}); name its port with --control-port PORT",
        control.control_port
    ))
}

/// The step-down machine's output as a sentence.
fn stepped_down(name: &str, answer: &Value) -> String {
    let waited = answer
        .get("waited_seconds")
        .and_then(Value::as_f64)
        .map_or_else(String::new, |seconds| format!(" after {seconds}s"));
    let note = answer.get("note").and_then(Value::as_str).map_or_else(String::new, |note| format!(". {note}"));
    match (answer.get("released").and_then(Value::as_bool), successor(answer)) {
        (Some(true), Some(successor)) => format!("{name} stepped down; {successor} leads{waited}{note}"),
        (Some(true), None) => format!("{name} stepped down; no other instance took over{waited}{note}"),
        _ => format!("{name} did not step down{note}"),
    }
}

/// Who leads after a step-down, by the machine's output; `None`: nobody else.
fn successor(answer: &Value) -> Option<&str> {
    match answer.get("successor") {
        Some(Value::Object(fields)) => fields.get("name").and_then(Value::as_str),
        Some(Value::String(successor)) => Some(successor.as_str()),
        _ => None,
    }
}

fn status_text(status: &Status) -> String {
    let lease = match &status.lease {
        None if status.refused.is_empty() => "nobody ever held it".to_owned(),
        None => "no lease row that decodes".to_owned(),
        Some(lease) => {
            let holder = lease.owner.as_ref().map_or_else(|| "nobody".to_owned(), |owner| owner.name.to_string());
            let stepping = if lease.stepping_down { ", stepping down" } else { "" };
            format!("{holder} under token {}, renewal {}{stepping}", lease.token, lease.renewal)
        }
    };
    let instances: Vec<String> = status
        .instances
        .iter()
        .map(|instance| format!("{} {}", instance.name, if instance.alive { "up" } else { "dead" }))
        .collect();
    let counts = &status.counts;
    let unmatched = match counts.unmatched {
        0 => String::new(),
        count => format!("\nunmatched  {} published to topics that the rule does not take", grouped(count)),
    };
    let refused: String = status.refused.iter().map(|record| format!("\nrefused    {record}")).collect();
    format!(
        "lease      {lease}{refused}\ninstances  {}\nflow       {}{unmatched}\nwaiting    {} in the topic rule, {} in the outbox\nends       dead {}   commits fenced {}   duplicates known {}",
        instances.join(", "),
        flow(counts),
        grouped(counts.rule_waiting),
        grouped(status.outstanding),
        counts.dead,
        counts.fenced,
        counts.duplicates_known
    )
}

#[cfg(test)]
mod tests {
    use fencepost_local::world::{Counts, InstanceState};
    use fencepost_protocol::ids::InstanceName;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_down_is_told_with_its_successor_or_without() {
        let answer =
            json!({"released": true, "successor": {"name": "west", "stack": "local-west"}, "waited_seconds": 2});
        assert_eq!(stepped_down("east", &answer), "east stepped down; west leads after 2s");
        let answer = json!({"released": true, "successor": null, "note": "no successor within 30s"});
        assert_eq!(
            stepped_down("east", &answer),
            "east stepped down; no other instance took over. no successor within 30s"
        );
        let answer = json!({"released": false, "successor": null, "note": "east does not hold the lease"});
        assert_eq!(stepped_down("east", &answer), "east did not step down. east does not hold the lease");
    }

    #[test]
    fn a_status_tells_of_topics_that_nothing_takes() {
        let mut status = status(&[]);
        assert!(!status_text(&status).contains("unmatched"));
        status.counts.unmatched = 2;
        assert!(
            status_text(&status).contains("\nunmatched  2 published to topics that the rule does not take\nwaiting")
        );
    }

    #[test]
    fn a_status_before_the_first_leader_reads_well() {
        assert!(status_text(&status(&[])).starts_with("lease      nobody ever held it\n"));
    }

    fn status(instances: &[(&str, bool)]) -> Status {
        let state = |&(name, alive): &(&str, bool)| InstanceState { name: InstanceName::new(name).unwrap(), alive };
        Status {
            lease: None,
            refused: Vec::new(),
            outstanding: 0,
            instances: instances.iter().map(state).collect(),
            counts: Counts::default(),
        }
    }

    #[test]
    fn a_status_shows_what_waits_where_and_what_is_refused() {
        let counts = Counts { rule_waiting: 3, ..Counts::default() };
        let refused = vec!["the lease row: fencing_token is no number".to_owned()];
        let text = status_text(&Status { counts, refused, outstanding: 12, ..status(&[("east", true)]) });
        assert!(
            text.starts_with("lease      no lease row that decodes\nrefused    the lease row: fencing_token"),
            "{text}"
        );
        assert!(text.contains("\nwaiting    3 in the topic rule, 12 in the outbox\n"), "{text}");
    }

    #[test]
    fn a_step_down_that_nobody_can_follow_is_warned_of() {
        assert_eq!(nobody_else("east", &status(&[("east", true), ("west", true)]), 7371), None);
        assert_eq!(nobody_else("nowhere", &status(&[("east", false)]), 7371), None, "the world answers that");
        let warning = nobody_else("east", &status(&[("east", true), ("west", false)]), 7371).unwrap();
        assert!(
            warning.contains("nobody else can take over") && warning.contains("start west --control-port 7371"),
            "{warning}"
        );
    }

    #[test]
    fn a_step_down_without_successor_names_what_the_status_shows() {
        let refused = vec!["the lease row: fencing_token is no number".to_owned()];
        let lines = why_nobody_leads("east", &Status { refused, ..status(&[("east", true), ("west", false)]) }, 7371);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[1].contains("fencing_token") && lines[2].contains("local start west --control-port 7371"),
            "{lines:?}"
        );
    }

    #[test]
    fn only_an_answer_with_a_successor_is_a_success() {
        for none in [json!({"released": true, "successor": null}), json!({"released": false, "successor": null})] {
            assert_eq!(successor(&none), None);
        }
        assert_eq!(successor(&json!({"released": false, "successor": {"name": "west"}})), Some("west"));
    }
}
