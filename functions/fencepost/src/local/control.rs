//! Acting on a `fencepost local` that runs, through its control port.

use fencepost_local::world::{Status, control};
use serde_json::Value;

use crate::arguments::{Action, Control};
use crate::failure::CommandError;
use crate::output::{self, Screen, Target};
use crate::timeline::flow;

/// What an answer of success has as its HTTP status.
const OK: u16 = 200;

/// Does it and tells the answer.
pub(crate) async fn run(action: &Action) -> Result<(), CommandError> {
    let screen = Screen::new(Target::Stdout, true);
    match action {
        Action::Kill(target) => {
            let path = format!("/kill/{}", target.name);
            call(&target.control, "POST", &path).await?;
            screen.line(&format!("{} is killed; bring it back with: fencepost local start {0}", target.name));
        }
        Action::Start(target) => {
            call(&target.control, "POST", &format!("/start/{}", target.name)).await?;
            screen.line(&format!("{} is started, cold", target.name));
        }
        Action::StepDown(target) => {
            let answer = call(&target.control, "POST", &format!("/step-down/{}", target.name)).await?;
            screen.line(&stepped_down(target.name.as_str(), &answer));
        }
        Action::Resume(target) => {
            let answer = call(&target.control, "POST", &format!("/resume/{}", target.name)).await?;
            let resumed = answer.get("state").and_then(Value::as_str) == Some("resumed");
            let what = if resumed { "competes for the lease again" } else { "did not abstain; nothing to resume" };
            screen.line(&format!("{} {what}", target.name));
        }
        Action::Status(arguments) => {
            let answer = call(&arguments.control, "GET", "/status").await?;
            if arguments.json {
                return output::json_line(&answer)
                    .map_err(|error| CommandError::environment(format!("cannot write the status: {error}")));
            }
            let status: Status =
                serde_json::from_value(answer).map_err(|error| unexpected(&arguments.control, &error))?;
            screen.line(&status_text(&status));
        }
    }
    Ok(())
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
    let note = answer.get("note").and_then(Value::as_str).map_or_else(String::new, |note| format!("; {note}"));
    let successor = match answer.get("successor") {
        Some(Value::Object(fields)) => fields.get("name").and_then(Value::as_str),
        Some(Value::String(successor)) => Some(successor.as_str()),
        _ => None,
    };
    match (answer.get("released").and_then(Value::as_bool), successor) {
        (Some(true), Some(successor)) => format!("{name} stepped down; {successor} leads{waited}{note}"),
        (Some(true), None) => format!("{name} stepped down; nobody leads yet{waited}{note}"),
        _ => format!("{name} did not step down{waited}{note}"),
    }
}

fn status_text(status: &Status) -> String {
    let lease = match &status.lease {
        None => "nobody ever held it".to_owned(),
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
    format!(
        "lease      {lease}\ninstances  {}\nflow       {}\nends       dead {}   commits fenced {}   duplicates known {}",
        instances.join(", "),
        flow(counts),
        counts.dead,
        counts.fenced,
        counts.duplicates_known
    )
}

#[cfg(test)]
mod tests {
    use fencepost_local::world::Counts;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_down_is_told_with_its_successor_or_without() {
        let answer =
            json!({"released": true, "successor": {"name": "west", "stack": "local-west"}, "waited_seconds": 2});
        assert_eq!(stepped_down("east", &answer), "east stepped down; west leads after 2s");
        let answer = json!({"released": true, "successor": null, "note": "no successor within 30s"});
        assert_eq!(stepped_down("east", &answer), "east stepped down; nobody leads yet; no successor within 30s");
        let answer = json!({"released": false, "successor": null, "note": "east does not hold the lease"});
        assert_eq!(stepped_down("east", &answer), "east did not step down; east does not hold the lease");
    }

    #[test]
    fn a_status_before_the_first_leader_reads_well() {
        let status = Status { lease: None, instances: Vec::new(), counts: Counts::default() };
        assert!(status_text(&status).starts_with("lease      nobody ever held it\n"));
    }
}
