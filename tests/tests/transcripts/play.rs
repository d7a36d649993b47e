//! Plays a script over the simulator and gives what it told: each statement, and below it what happened in its time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fencepost_tests::simulation::{Line, World};
use serde_json::Value;

use super::script::{Deed, Script, Step, What};

/// Plays a script; afterwards everything is mended and drained, and the whole run is judged by the invariants. A fault begins
/// with its line's number.
pub(crate) fn play(script: &Script) -> Result<Vec<String>, String> {
    let first = script.steps.first().map_or(1, |step| step.line);
    // Settings that do not fit are told by a panic that names each fault.
    let built = catch_unwind(AssertUnwindSafe(|| World::new(script.options.clone())));
    let mut world = built.map_err(|_| format!("{first}: there is no such world; the panic above says why"))?;
    let (mut told, mut seen) = (Vec::new(), 0);
    for step in &script.steps {
        told.push(format!("> {}", step.text));
        let outcome = take(&mut world, &step.what);
        let history = world.history();
        told.extend(history.lines()[seen..].iter().map(tell));
        seen = history.lines().len();
        if let Err(found) = outcome {
            return Err(failed(step, &found, &told));
        }
    }
    let verdict = world.finish();
    let broken: Vec<String> = verdict.broken.iter().map(ToString::to_string).collect();
    if broken.is_empty() {
        return Ok(told);
    }
    Err(format!("{first}: an invariant was broken: {}\n{}", broken.join("\n"), world.history().text()))
}

fn failed(step: &Step, found: &str, told: &[String]) -> String {
    format!("{}: `{}` does not hold: {found}\nwhat was told so far:\n{}", step.line, step.text, told.join("\n"))
}

fn take(world: &mut World, what: &What) -> Result<(), String> {
    match what {
        What::Run(duration) => world.run_for(*duration),
        What::RunUntil(moment) => world.run_until(*moment),
        What::Await(expectation, most) => {
            if !world.run_until_that(*most, |world| expectation.check(world).is_ok()) {
                return expectation.check(world);
            }
        }
        What::Expect(expectation) => return expectation.check(world),
        What::Fault(placed) => match placed.number {
            None => world.fault_next_times(&placed.instance, placed.operation, placed.times, &placed.fault),
            Some(first) => {
                for number in first..first + placed.times {
                    world.fault(&placed.instance, placed.operation, number, placed.fault.clone());
                }
            }
        },
        What::Do(None, Deed::Act(act)) => world.act(act.clone()),
        What::Do(Some(moment), Deed::Act(act)) => world.at(*moment, act.clone()),
        What::Do(None, Deed::Publish(messages)) => {
            for message in messages {
                world.publish(message);
            }
        }
        What::Do(Some(moment), Deed::Publish(messages)) => {
            for message in messages {
                world.publish_at(*moment, message.clone());
            }
        }
    }
    Ok(())
}

/// A line of the history. What an execution gave back is cut to what says something: names and numbers that are not 0.
fn tell(line: &Line) -> String {
    let Some((what, output)) = line.what.split_once(" ends: ") else { return line.to_string() };
    let Ok(output) = serde_json::from_str(output) else { return line.to_string() };
    let mut parts = Vec::new();
    flatten("", &output, &mut parts);
    Line { what: format!("{what} ends: {}", parts.join(", ")), ..line.clone() }.to_string()
}

fn flatten(name: &str, value: &Value, parts: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(name, value, parts)),
        Value::Array(items) => items.iter().for_each(|item| flatten(name, item, parts)),
        Value::Number(number) if number.as_f64() == Some(0.0) => {}
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => parts.push(name.to_owned()),
        Value::String(text) => parts.push(format!("{name} {text}")),
        Value::Number(number) => parts.push(format!("{name} {number}")),
    }
}
