//! From the JSON of a definition to its states, with every rule checked on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};

use super::definition::{
    Catcher, Definition, DefinitionError, Graph, Kind, Results, Rule, State, Transition, WaitUntil,
};
use super::expression::{Sees, Template};
use super::fields::Fields;
use super::retry::{DELAY_SECONDS_MAX, RESERVED_NAMES, Retrier};
use super::timestamp::parse_timestamp;

/// The longest `Seconds` and `TimeoutSeconds`.
pub(super) const SECONDS_MAX: u32 = 99_999_999;

const NAME_CHARS_MAX: usize = 80;

type Read<T> = Result<T, DefinitionError>;

/// Reads the whole of a state machine.
pub(super) fn definition(root: Value) -> Read<Definition> {
    let mut fields = Fields::of("state machine", root)?;
    fields.comment()?;
    fields.query_language(true)?;
    if fields.text("Version")?.is_some_and(|version| version != "1.0") {
        return Err(fields.fault("Version", "must be 1.0"));
    }
    let timeout = fields.whole("TimeoutSeconds", 1, SECONDS_MAX)?;
    let graph = graph(&mut fields, &BTreeSet::new(), &mut BTreeSet::new())?;
    fields.finish()?;
    Ok(Definition { graph, timeout: timeout.map(|seconds| Duration::from_secs(seconds.into())) })
}

/// Reads `StartAt` and `States`. `outer` are the variables of the surroundings, `names` the states read so far: a name is
/// given once in a machine.
fn graph(fields: &mut Fields, outer: &BTreeSet<String>, names: &mut BTreeSet<String>) -> Read<Graph> {
    let start_at = fields.require_text("StartAt")?;
    let Value::Object(states) = fields.require("States")? else {
        return Err(fields.fault("States", "must be an object"));
    };
    let own = assigned_names(&states);
    if let Some(name) = own.intersection(outer).next() {
        let problem = format!("variable {name} is assigned outside of this map or branch too; give it another name");
        return Err(fields.fault("States", problem));
    }
    let variables: BTreeSet<String> = outer.union(&own).cloned().collect();
    let mut read = BTreeMap::new();
    for (name, value) in states {
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !names.insert(name.clone()) {
            let problem = format!("a name has 1 to {NAME_CHARS_MAX} characters and is used once in a machine");
            return Err(DefinitionError::invalid(format!("state {name}"), problem));
        }
        let state = state(Fields::of(format!("state {name}"), value)?, &variables, names)?;
        read.insert(name, state);
    }
    let graph = Graph { start_at, states: read };
    check_targets(fields, &graph)?;
    Ok(graph)
}

/// Each target exists and each state can be reached.
fn check_targets(fields: &Fields, graph: &Graph) -> Read<()> {
    if !graph.states.contains_key(&graph.start_at) {
        return Err(fields.fault("StartAt", format!("there is no state {}", graph.start_at)));
    }
    let mut reached = BTreeSet::new();
    let mut open = vec![graph.start_at.as_str()];
    while let Some(name) = open.pop() {
        if let Some(state) = graph.states.get(name).filter(|_| reached.insert(name)) {
            open.extend(state.targets());
        }
    }
    for (name, state) in &graph.states {
        if let Some(target) = state.targets().find(|target| !graph.states.contains_key(*target)) {
            return Err(DefinitionError::invalid(
                format!("state {name}"),
                format!("leads to {target}, which does not exist"),
            ));
        }
        if !reached.contains(name.as_str()) {
            return Err(DefinitionError::invalid(format!("state {name}"), "cannot be reached from StartAt"));
        }
    }
    Ok(())
}

/// The names that the states of one graph assign, in `Assign` of a state, a rule or a catcher.
fn assigned_names(states: &Map<String, Value>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut collect = |holder: &Value| {
        if let Some(assign) = holder.get("Assign").and_then(Value::as_object) {
            names.extend(assign.keys().cloned());
        }
    };
    for state in states.values() {
        collect(state);
        for list in ["Choices", "Catch"] {
            state.get(list).and_then(Value::as_array).into_iter().flatten().for_each(&mut collect);
        }
    }
    names
}

/// One object of a definition and the variables that its expressions may name.
struct Reader<'r> {
    fields: Fields,
    variables: &'r BTreeSet<String>,
}

fn state(fields: Fields, variables: &BTreeSet<String>, names: &mut BTreeSet<String>) -> Read<State> {
    let mut reader = Reader { fields, variables };
    reader.fields.comment()?;
    reader.fields.query_language(false)?;
    let kind = reader.fields.require_text("Type")?;
    let state = match kind.as_str() {
        "Task" => reader.task()?,
        "Map" => reader.map(names)?,
        "Parallel" => reader.parallel(names)?,
        "Pass" => State { kind: Kind::Pass, ..reader.following(Sees::Input)? },
        "Wait" => State { kind: Kind::Wait(reader.wait()?), ..reader.following(Sees::Input)? },
        "Choice" => reader.choice()?,
        "Succeed" => {
            let results = Results { output: reader.template("Output", Sees::Input)?, assign: None };
            State { kind: Kind::Succeed, results, then: Some(Transition::End), retry: Vec::new(), catch: Vec::new() }
        }
        "Fail" => {
            let (error, cause) = (reader.string("Error")?, reader.string("Cause")?);
            let kind = Kind::Fail { error, cause };
            State { kind, results: Results::default(), then: None, retry: Vec::new(), catch: Vec::new() }
        }
        other => return Err(reader.fields.fault("Type", format!("{other} is no type of state"))),
    };
    reader.fields.finish()?;
    Ok(state)
}

impl Reader<'_> {
    fn template(&mut self, field: &str, sees: Sees) -> Read<Option<Template>> {
        let Some(value) = self.fields.take(field) else { return Ok(None) };
        let compiled = Template::compile(value, self.variables, sees);
        compiled.map(Some).map_err(|problem| self.fields.fault(field, problem))
    }

    /// A template that is an expression or of the right kind already.
    fn checked(&mut self, field: &str, must_be: &str, fits: impl Fn(&Value) -> bool) -> Read<Option<Template>> {
        let Some(template) = self.template(field, Sees::Input)? else { return Ok(None) };
        if template.is_expression() || template.literal().is_some_and(fits) {
            return Ok(Some(template));
        }
        Err(self.fields.fault(field, format!("must be {must_be}, or an expression that gives one")))
    }

    fn string(&mut self, field: &str) -> Read<Option<Template>> {
        self.checked(field, "a string", Value::is_string)
    }

    fn whole(&mut self, field: &str, least: u32) -> Read<Option<Template>> {
        let range = u64::from(least)..=u64::from(SECONDS_MAX);
        self.checked(field, "a whole number in its range", |value| value.as_u64().is_some_and(|n| range.contains(&n)))
    }

    fn results(&mut self, sees: Sees) -> Read<Results> {
        let output = self.template("Output", sees)?;
        let Some(assign) = self.fields.take("Assign") else { return Ok(Results { output, assign: None }) };
        let Value::Object(assigned) = &assign else { return Err(self.fields.fault("Assign", "must be an object")) };
        if let Some(name) = assigned.keys().find(|name| !is_variable_name(name)) {
            let problem =
                format!("{name} is no name for a variable: letters, digits and _, at most 80, and not `states`");
            return Err(self.fields.fault("Assign", problem));
        }
        let compiled = Template::compile(assign, self.variables, sees);
        let assign = compiled.map_err(|problem| self.fields.fault("Assign", problem))?;
        Ok(Results { output, assign: Some(assign) })
    }

    /// A state of any kind that gives results and leads on; `kind` is filled in by the caller.
    fn following(&mut self, sees: Sees) -> Read<State> {
        let results = self.results(sees)?;
        let then = match (self.fields.text("Next")?, self.fields.flag("End")?) {
            (Some(next), false) => Transition::Next(next),
            (None, true) => Transition::End,
            _ => return Err(self.fields.fault("Next", "give either Next or \"End\": true")),
        };
        Ok(State { kind: Kind::Pass, results, then: Some(then), retry: Vec::new(), catch: Vec::new() })
    }

    /// The same for a state that can fail.
    fn guarded(&mut self) -> Read<State> {
        let (retry, catch) = (self.retry()?, self.catch()?);
        Ok(State { retry, catch, ..self.following(Sees::Result)? })
    }

    fn task(&mut self) -> Read<State> {
        let resource = self.fields.require_text("Resource")?;
        if !resource.starts_with("arn:") || resource.ends_with(".waitForTaskToken") {
            return Err(self.fields.fault("Resource", "must be an ARN; task tokens are not supported"));
        }
        let arguments = self.template("Arguments", Sees::Input)?;
        let timeout = self.whole("TimeoutSeconds", 1)?;
        let timeout = timeout.ok_or_else(|| self.fields.fault("TimeoutSeconds", "is missing; every Task has one"))?;
        Ok(State { kind: Kind::Task { resource, arguments, timeout }, ..self.guarded()? })
    }

    fn wait(&mut self) -> Read<WaitUntil> {
        let seconds = self.whole("Seconds", 0)?;
        let timestamp = self.checked("Timestamp", "a moment such as 2026-01-31T12:34:56Z", |value| {
            value.as_str().and_then(parse_timestamp).is_some()
        })?;
        match (seconds, timestamp) {
            (Some(seconds), None) => Ok(WaitUntil::Seconds(seconds)),
            (None, Some(timestamp)) => Ok(WaitUntil::Timestamp(timestamp)),
            _ => Err(self.fields.fault("Seconds", "give either Seconds or Timestamp")),
        }
    }

    fn choice(&mut self) -> Read<State> {
        let mut rules = Vec::new();
        for fields in self.fields.objects("Choices")? {
            let mut rule = Reader { fields, variables: self.variables };
            rule.fields.comment()?;
            let condition = rule.checked("Condition", "true or false", Value::is_boolean)?;
            let condition = condition.ok_or_else(|| rule.fields.fault("Condition", "is missing"))?;
            let then = Transition::Next(rule.fields.require_text("Next")?);
            rules.push(Rule { condition, then, results: rule.results(Sees::Input)? });
            rule.fields.finish()?;
        }
        if rules.is_empty() {
            return Err(self.fields.fault("Choices", "must have at least one rule"));
        }
        let (results, then) = (self.results(Sees::Input)?, self.fields.text("Default")?.map(Transition::Next));
        Ok(State { kind: Kind::Choice(rules), results, then, retry: Vec::new(), catch: Vec::new() })
    }

    fn map(&mut self, names: &mut BTreeSet<String>) -> Read<State> {
        let items = self.checked("Items", "a list", Value::is_array)?;
        let selector = self.template("ItemSelector", Sees::Input)?;
        let concurrency_max = self.whole("MaxConcurrency", 0)?;
        let mut processor = Fields::of(self.fields.place_of("ItemProcessor"), self.fields.require("ItemProcessor")?)?;
        if let Some(config) = processor.take("ProcessorConfig") {
            let mut config = Fields::of(processor.place_of("ProcessorConfig"), config)?;
            if config.text("Mode")?.is_some_and(|mode| mode != "INLINE") {
                return Err(config.fault("Mode", "must be INLINE; distributed maps are not supported"));
            }
            config.finish()?;
        }
        let body = self.inner_graph(processor, names)?;
        Ok(State { kind: Kind::Map { items, selector, concurrency_max, body }, ..self.guarded()? })
    }

    fn parallel(&mut self, names: &mut BTreeSet<String>) -> Read<State> {
        let arguments = self.template("Arguments", Sees::Input)?;
        let branches = self.fields.objects("Branches")?;
        let branches: Vec<Graph> =
            branches.into_iter().map(|branch| self.inner_graph(branch, names)).collect::<Read<_>>()?;
        if branches.is_empty() {
            return Err(self.fields.fault("Branches", "must have at least one branch"));
        }
        Ok(State { kind: Kind::Parallel { arguments, branches }, ..self.guarded()? })
    }

    fn inner_graph(&self, mut fields: Fields, names: &mut BTreeSet<String>) -> Read<Graph> {
        fields.comment()?;
        fields.query_language(false)?;
        let graph = graph(&mut fields, self.variables, names)?;
        fields.finish()?;
        Ok(graph)
    }

    fn retry(&mut self) -> Read<Vec<Retrier>> {
        let entries = self.fields.objects("Retry")?;
        let count = entries.len();
        let read = |(index, mut fields): (usize, Fields)| {
            fields.comment()?;
            let error_equals = error_equals(&mut fields, index + 1 == count)?;
            let interval_seconds = fields.whole("IntervalSeconds", 1, SECONDS_MAX)?.unwrap_or(1);
            let attempts_max = fields.whole("MaxAttempts", 0, SECONDS_MAX)?.unwrap_or(3);
            let backoff_rate = backoff_rate(&mut fields)?;
            let delay_seconds_max = fields.whole("MaxDelaySeconds", interval_seconds + 1, DELAY_SECONDS_MAX - 1)?;
            let full_jitter = match fields.text("JitterStrategy")?.as_deref() {
                None | Some("NONE") => false,
                Some("FULL") => true,
                Some(_) => return Err(fields.fault("JitterStrategy", "must be FULL or NONE")),
            };
            fields.finish()?;
            Ok(Retrier { error_equals, interval_seconds, attempts_max, backoff_rate, delay_seconds_max, full_jitter })
        };
        entries.into_iter().enumerate().map(read).collect()
    }

    fn catch(&mut self) -> Read<Vec<Catcher>> {
        let entries = self.fields.objects("Catch")?;
        let count = entries.len();
        let read = |(index, fields): (usize, Fields)| {
            let mut catcher = Reader { fields, variables: self.variables };
            catcher.fields.comment()?;
            let error_equals = error_equals(&mut catcher.fields, index + 1 == count)?;
            let then = Transition::Next(catcher.fields.require_text("Next")?);
            let results = catcher.results(Sees::ErrorOutput)?;
            catcher.fields.finish()?;
            Ok(Catcher { error_equals, then, results })
        };
        entries.into_iter().enumerate().map(read).collect()
    }
}

/// The names in `ErrorEquals`. `States.ALL` stands alone, and in the `last` entry only.
fn error_equals(fields: &mut Fields, last: bool) -> Read<Vec<String>> {
    let names: Option<Vec<String>> =
        fields.list("ErrorEquals")?.into_iter().map(|name| name.as_str().map(str::to_owned)).collect();
    let Some(names) = names.filter(|names| !names.is_empty()) else {
        return Err(fields.fault("ErrorEquals", "must be a list of at least one name"));
    };
    let unknown = |name: &&String| name.starts_with("States.") && !RESERVED_NAMES.contains(&name.as_str());
    if let Some(name) = names.iter().find(unknown) {
        return Err(fields.fault("ErrorEquals", format!("{name} is not an error that Step Functions reports")));
    }
    if names.iter().any(|name| name == "States.ALL") && (names.len() > 1 || !last) {
        return Err(fields.fault("ErrorEquals", "States.ALL stands alone and in the last entry"));
    }
    Ok(names)
}

fn backoff_rate(fields: &mut Fields) -> Read<f64> {
    match fields.take("BackoffRate") {
        None => Ok(2.0),
        Some(value) => match value.as_f64().filter(|rate| *rate >= 1.0) {
            Some(rate) => Ok(rate),
            None => Err(fields.fault("BackoffRate", "must be a number of at least 1.0")),
        },
    }
}

fn is_variable_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.len() <= NAME_CHARS_MAX && name != "states" && name.chars().all(plain)
}
