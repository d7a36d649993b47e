//! Which names an expression uses, read off its syntax tree, so that a slip of the pen is found when a machine is loaded and
//! not when it runs: JSONata answers `undefined` to an unknown name and goes on.

use std::collections::BTreeSet;

use jsonata_core::ast::{AstNode, BinaryOp, PathStep, Stage};
use jsonata_core::evaluator::Evaluator;
use jsonata_core::value::{JValue, with_stack};

use super::functions::ADDED;

/// What one expression refers to.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Variables and functions, without `$`.
    pub(super) used: BTreeSet<String>,
    /// Those that the expression binds itself.
    bound: BTreeSet<String>,
    /// Fields of `$states` that are read.
    pub(super) states_fields: BTreeSet<String>,
    /// `$states` is used other than by one of its fields.
    pub(super) whole_states: bool,
    /// The first thing found that must not be there.
    fault: Option<String>,
}

impl Names {
    /// Reads `tree`.
    ///
    /// # Errors
    /// What stands in it that AWS, or this runner, refuses.
    pub(super) fn of(tree: &AstNode) -> Result<Self, String> {
        let mut names = Self::default();
        names.visit(tree, false);
        match names.fault {
            Some(fault) => Err(fault),
            None => Ok(names),
        }
    }

    /// The names that are neither bound by the expression, nor functions, nor among `variables`; `states` aside.
    pub(super) fn unknown(&self, variables: &BTreeSet<String>) -> Option<&str> {
        let known = |name: &str| {
            name == "states"
                || self.bound.contains(name)
                || variables.contains(name)
                || ADDED.contains(&name)
                || engine_knows(name)
        };
        self.used.iter().map(String::as_str).find(|name| !known(name))
    }

    fn refuse(&mut self, fault: impl Into<String>) {
        self.fault.get_or_insert(fault.into());
    }

    /// `relative`: whether a current value surrounds `node` (a later step of a path, a predicate), so that bare field names
    /// mean something.
    fn visit(&mut self, node: &AstNode, relative: bool) {
        with_stack(|| self.visit_node(node, relative));
    }

    fn visit_all<'n>(&mut self, nodes: impl IntoIterator<Item = &'n AstNode>, relative: bool) {
        nodes.into_iter().for_each(|node| self.visit(node, relative));
    }

    fn visit_pairs(&mut self, pairs: &[(AstNode, AstNode)], relative: bool) {
        self.visit_all(pairs.iter().flat_map(|(key, value)| [key, value]), relative);
    }

    fn visit_node(&mut self, node: &AstNode, relative: bool) {
        match node {
            AstNode::String(_)
            | AstNode::Number(_)
            | AstNode::Boolean(_)
            | AstNode::Null
            | AstNode::Undefined
            | AstNode::Placeholder
            | AstNode::Regex { .. } => {}
            AstNode::Name(name) if !relative => {
                self.refuse(format!("`{name}` stands alone; say where it comes from, such as $states.input.{name}"));
            }
            AstNode::Wildcard | AstNode::Descendant | AstNode::Parent(_) | AstNode::ParentVariable(_) if !relative => {
                self.refuse("`*`, `**`, `%` and `$$` have no value at the top level; begin with $states or a variable");
            }
            AstNode::Name(_) | AstNode::Wildcard | AstNode::Descendant | AstNode::Parent(_) => {}
            AstNode::ParentVariable(_) => self.refuse("`$$` has no value; begin with $states or a variable"),
            AstNode::Variable(name) => self.visit_variable(name, relative),
            AstNode::Path { steps } => self.visit_path(steps, relative),
            AstNode::Binary { op, lhs, rhs } => self.visit_binary(*op, lhs, rhs, relative),
            AstNode::Unary { operand: inner, .. } => self.visit(inner, relative),
            AstNode::FunctionApplication(inner) => self.visit(inner, true),
            AstNode::Function { name, args, is_builtin } => {
                self.visit_call(name, args, *is_builtin);
                self.visit_all(args, relative);
            }
            AstNode::Call { procedure, args } => {
                self.visit(procedure, relative);
                self.visit_all(args, relative);
            }
            AstNode::Lambda { params, body, .. } => {
                self.bound.extend(params.iter().cloned());
                self.visit(body, relative);
            }
            AstNode::Array(items) | AstNode::ArrayGroup(items) | AstNode::Block(items) => {
                self.visit_all(items, relative);
            }
            AstNode::Object(pairs) => self.visit_pairs(pairs, relative),
            AstNode::ObjectTransform { input, pattern } => {
                self.visit(input, relative);
                self.visit_pairs(pattern, true);
            }
            AstNode::Conditional { condition, then_branch, else_branch } => {
                self.visit_all([condition.as_ref(), then_branch.as_ref()], relative);
                self.visit_all(else_branch.as_deref(), relative);
            }
            AstNode::Sort { input, terms } => {
                self.visit(input, relative);
                self.visit_all(terms.iter().map(|(term, _)| term), true);
            }
            AstNode::Transform { location, update, delete } => {
                self.visit_all([location.as_ref(), update.as_ref()], true);
                self.visit_all(delete.as_deref(), true);
            }
        }
    }

    fn visit_variable(&mut self, name: &str, relative: bool) {
        match name {
            "" if !relative => self.refuse("`$` has no value at the top level; begin with $states or a variable"),
            "" => {}
            "states" => self.whole_states = true,
            _ => self.visit_name(name),
        }
    }

    fn visit_call(&mut self, name: &str, arguments: &[AstNode], by_variable: bool) {
        if !by_variable {
            self.refuse(format!("`{name}(…)` is no call; a function's name begins with $, as in ${name}(…)"));
        } else if name == "toMillis" && arguments.len() > 1 {
            self.refuse(
                "$toMillis with a picture reads the host's clock for what the picture leaves out; give ISO 8601",
            );
        } else {
            self.visit_name(name);
        }
    }

    fn visit_name(&mut self, name: &str) {
        match name {
            "eval" => self.refuse("$eval is not available; use $parse for JSON"),
            "random" | "uuid" | "shuffle" => self.refuse(format!(
                "${name} gives another answer each time, which a repeatable run cannot; take the value from a task's result"
            )),
            "hash" => self.refuse("$hash is not available here; take the value from a task's result"),
            _ => {
                self.used.insert(name.to_owned());
            }
        }
    }

    fn visit_path(&mut self, steps: &[PathStep], relative: bool) {
        let mut rest = steps;
        if let [first, second, ..] = steps
            && matches!(&first.node, AstNode::Variable(name) if name == "states")
            && let AstNode::Name(field) | AstNode::String(field) = &second.node
        {
            self.states_fields.insert(field.clone());
            self.visit_marks(first);
            rest = steps.get(1..).unwrap_or_default();
        }
        for (index, step) in rest.iter().enumerate() {
            self.visit(&step.node, relative || index > 0 || rest.len() < steps.len());
            self.visit_marks(step);
        }
    }

    /// The predicates and bindings of a step.
    fn visit_marks(&mut self, step: &PathStep) {
        self.bound.extend(step.focus.iter().chain(&step.index_var).cloned());
        for stage in &step.stages {
            match stage {
                Stage::Filter(predicate) => self.visit(predicate, true),
                Stage::Index(name) => {
                    self.bound.insert(name.clone());
                }
                Stage::KeepArray => {}
            }
        }
    }

    fn visit_binary(&mut self, op: BinaryOp, lhs: &AstNode, rhs: &AstNode, relative: bool) {
        let binds = match op {
            BinaryOp::ColonEqual => Some((lhs, rhs)),
            BinaryOp::FocusBind | BinaryOp::IndexBind => Some((rhs, lhs)),
            _ => None,
        };
        match binds {
            Some((AstNode::Variable(name), _)) if name == "states" => self.refuse("$states is reserved"),
            Some((AstNode::Variable(name), value)) => {
                self.bound.insert(name.clone());
                self.visit(value, relative);
            }
            _ => self.visit_all([lhs, rhs], relative),
        }
    }
}

/// Whether `name` is a function of JSONata itself: the engine keeps its names from being registered again.
fn engine_knows(name: &str) -> bool {
    Evaluator::new().register_fn(name, |_: &[JValue]| Ok(JValue::Undefined)).is_err()
}
