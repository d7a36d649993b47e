//! A state machine as it was read: what its states are and where they lead.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::expression::Template;
use super::retry::Retrier;
use super::{json, placeholders, read};

/// A state machine, read and checked whole.
#[derive(Debug, Clone)]
pub struct Definition {
    pub(super) graph: Graph,
    /// The machine's own `TimeoutSeconds`.
    pub(super) timeout: Option<Duration>,
}

/// Why a definition was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A `${Name}` for which no substitution was given.
    #[error("placeholder ${{{0}}} has no substitution: give a value for {0}")]
    Placeholder(String),
    /// The text is not JSON once its placeholders are filled in, or names a field twice.
    #[error("not JSON after substitution: {0}")]
    Json(String),
    /// A field does not fit.
    #[error("{place}: {problem}")]
    Invalid {
        /// The state and the field.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl DefinitionError {
    pub(super) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), problem: problem.into() }
    }
}

impl Definition {
    /// Reads a state machine from the text of an `.asl.json` file, with each `${Name}` replaced by its substitution first.
    ///
    /// # Errors
    /// The first thing that is unknown, missing, contradictory or out of its range, by the name of the state and the field:
    /// a machine that this runner would execute otherwise than AWS is refused, not approximated.
    pub fn parse(json: &str, substitutions: &BTreeMap<String, String>) -> Result<Self, DefinitionError> {
        let text = placeholders::substitute(json, substitutions)?;
        let root = json::parse(&text).map_err(|reason| DefinitionError::Json(reason.to_string()))?;
        read::definition(root)
    }

    /// The `Resource` of each `Task`, those of maps and branches included: what a [`super::Resources`] must know.
    pub fn resources(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        self.graph.collect_resources(&mut found);
        found
    }
}

/// States that belong together: a machine, the body of a map, a branch.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    pub(super) start_at: String,
    pub(super) states: BTreeMap<String, State>,
}

impl Graph {
    fn collect_resources<'g>(&'g self, found: &mut BTreeSet<&'g str>) {
        for state in self.states.values() {
            match &state.kind {
                Kind::Task { resource, .. } => {
                    found.insert(resource);
                }
                Kind::Map { body, .. } => body.collect_resources(found),
                Kind::Parallel { branches, .. } => branches.iter().for_each(|branch| branch.collect_resources(found)),
                _ => {}
            }
        }
    }
}

/// One state.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) kind: Kind,
    /// What it gives when it succeeds. For a `Choice`, when no rule matched.
    pub(super) results: Results,
    /// Where it leads then. `None` for a `Fail` and for a `Choice` without `Default`.
    pub(super) then: Option<Transition>,
    pub(super) retry: Vec<Retrier>,
    pub(super) catch: Vec<Catcher>,
}

/// Where a state leads.
#[derive(Debug, Clone)]
pub(super) enum Transition {
    Next(String),
    End,
}

impl Transition {
    pub(super) fn target(&self) -> Option<&str> {
        match self {
            Self::Next(target) => Some(target),
            Self::End => None,
        }
    }
}

/// The fields that make something of a state's result.
#[derive(Debug, Clone, Default)]
pub(super) struct Results {
    pub(super) output: Option<Template>,
    pub(super) assign: Option<Template>,
}

/// What a state does.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Task { resource: String, arguments: Option<Template>, timeout: Template },
    Pass,
    Wait(WaitUntil),
    Choice(Vec<Rule>),
    Map { items: Option<Template>, selector: Option<Template>, concurrency_max: Option<Template>, body: Graph },
    Parallel { arguments: Option<Template>, branches: Vec<Graph> },
    Succeed,
    Fail { error: Option<Template>, cause: Option<Template> },
}

/// How long a `Wait` waits.
#[derive(Debug, Clone)]
pub(super) enum WaitUntil {
    Seconds(Template),
    Timestamp(Template),
}

/// One entry of `Choices`.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) condition: Template,
    pub(super) then: Transition,
    pub(super) results: Results,
}

/// One entry of `Catch`.
#[derive(Debug, Clone)]
pub(super) struct Catcher {
    pub(super) error_equals: Vec<String>,
    pub(super) then: Transition,
    pub(super) results: Results,
}

impl State {
    /// The names of all states that may follow.
    pub(super) fn targets(&self) -> impl Iterator<Item = &str> {
        let rules = match &self.kind {
            Kind::Choice(rules) => rules.as_slice(),
            _ => &[],
        };
        let then = self.then.as_ref().and_then(Transition::target);
        let rules = rules.iter().filter_map(|rule| rule.then.target());
        then.into_iter().chain(rules).chain(self.catch.iter().filter_map(|catcher| catcher.then.target()))
    }
}
