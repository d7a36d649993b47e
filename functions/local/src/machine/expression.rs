//! Values of a state that may hold expressions: a JSON value in which each string of the form `{% … %}` is JSONata.
//!
//! An expression is parsed when the machine is loaded and evaluated each time its state needs it. Everything that JSON cannot
//! say is an error: `undefined`, a function, a number that is not finite.

use std::collections::BTreeSet;
use std::rc::Rc;

use jsonata_core::ast::AstNode;
use jsonata_core::evaluator::{Context, Evaluator};
use jsonata_core::parser;
use jsonata_core::value::{JMap, JValue, with_stack};
use serde_json::{Map, Number, Value};

use super::functions;
use super::scan::Names;
use super::view::View;

/// The largest whole number that a double holds without a gap: 2^53 - 1.
const WHOLE_MAX: i64 = 9_007_199_254_740_991;

/// Which fields of `$states`, beside `input` and `context`, an expression may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    /// Neither: the state has not run yet.
    Input,
    /// `$states.result`.
    Result,
    /// `$states.errorOutput`.
    ErrorOutput,
}

impl Sees {
    fn allows(self, field: &str) -> bool {
        match field {
            "input" | "context" => true,
            "result" => self == Self::Result,
            "errorOutput" => self == Self::ErrorOutput,
            _ => false,
        }
    }
}

/// A value with expressions in it.
#[derive(Debug, Clone)]
pub(super) struct Template {
    node: Node,
    variables: BTreeSet<String>,
    states_fields: BTreeSet<String>,
}

#[derive(Debug, Clone)]
enum Node {
    Literal(Value),
    Expression(AstNode),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Template {
    /// Parses the expressions in `value`; `variables` are the names that may be assigned where it stands.
    ///
    /// # Errors
    /// Says what is wrong with the first expression that does not fit.
    pub(super) fn compile(value: Value, variables: &BTreeSet<String>, sees: Sees) -> Result<Self, String> {
        let mut template =
            Self { node: Node::Literal(Value::Null), variables: BTreeSet::new(), states_fields: BTreeSet::new() };
        template.node = template.node_of(value, variables, sees)?;
        Ok(template)
    }

    /// The value, if no expression is in it.
    pub(super) fn literal(&self) -> Option<&Value> {
        match &self.node {
            Node::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the whole value is one expression.
    pub(super) fn is_expression(&self) -> bool {
        matches!(self.node, Node::Expression(_))
    }

    fn node_of(&mut self, value: Value, variables: &BTreeSet<String>, sees: Sees) -> Result<Node, String> {
        match value {
            Value::String(text) => match expression_text(&text)? {
                Some(source) => self.expression(source, variables, sees),
                None => Ok(Node::Literal(Value::String(text))),
            },
            Value::Array(items) => {
                let nodes: Vec<Node> =
                    items.into_iter().map(|item| self.node_of(item, variables, sees)).collect::<Result<_, _>>()?;
                Ok(Node::Array(nodes).simplified())
            }
            Value::Object(fields) => {
                let nodes: Vec<(String, Node)> = fields
                    .into_iter()
                    .map(|(name, value)| Ok((name, self.node_of(value, variables, sees)?)))
                    .collect::<Result<_, String>>()?;
                Ok(Node::Object(nodes).simplified())
            }
            plain => Ok(Node::Literal(plain)),
        }
    }

    fn expression(&mut self, source: &str, variables: &BTreeSet<String>, sees: Sees) -> Result<Node, String> {
        let place = |problem: String| format!("expression `{}`: {problem}", source.trim());
        let tree = parser::parse(source).map_err(|reason| place(reason.display_message()))?;
        let names = Names::of(&tree).map_err(place)?;
        if let Some(unknown) = names.unknown(variables) {
            return Err(place(format!("${unknown} is neither a function nor a variable that a state here assigns")));
        }
        if let Some(field) = names.states_fields.iter().find(|field| !sees.allows(field)) {
            return Err(place(format!("$states.{field} does not exist here")));
        }
        self.variables.extend(names.used.iter().filter(|name| variables.contains(*name)).cloned());
        self.states_fields.extend(names.states_fields);
        if names.whole_states {
            self.states_fields.extend(["input", "context", "result", "errorOutput"].map(str::to_owned));
        }
        Ok(Node::Expression(tree))
    }

    /// The value as seen by `view`.
    ///
    /// # Errors
    /// Says which expression has no value that JSON can hold, and why.
    pub(super) fn evaluate(&self, view: &View<'_>) -> Result<Value, String> {
        if let Node::Literal(value) = &self.node {
            return Ok(value.clone());
        }
        let mut context = Context::new();
        let states = self.states_fields.iter().filter_map(|field| Some((field.clone(), view.states_field(field)?)));
        context.bind("states".to_owned(), JValue::Object(Rc::new(states.collect::<JMap>())));
        for name in &self.variables {
            if let Some(value) = view.variable(name) {
                context.bind(name.clone(), to_engine(value));
            }
        }
        let mut evaluator = Evaluator::with_context(context);
        functions::register(&mut evaluator, view.now_ms).map_err(|reason| reason.to_string())?;
        self.node.evaluate(&mut evaluator)
    }
}

impl Node {
    /// A list or object of literals is a literal.
    fn simplified(self) -> Self {
        match self {
            Self::Array(nodes) if nodes.iter().all(Self::is_literal) => {
                Self::Literal(Value::Array(nodes.into_iter().filter_map(Self::into_literal).collect()))
            }
            Self::Object(fields) if fields.iter().all(|(_, node)| node.is_literal()) => {
                let literal = |(name, node): (String, Self)| Some((name, node.into_literal()?));
                Self::Literal(Value::Object(fields.into_iter().filter_map(literal).collect()))
            }
            other => other,
        }
    }

    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    fn into_literal(self) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value),
            _ => None,
        }
    }

    fn evaluate(&self, evaluator: &mut Evaluator) -> Result<Value, String> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Expression(tree) => {
                let value =
                    evaluator.evaluate(tree, &JValue::Undefined).map_err(|reason| reason.message().to_owned())?;
                from_engine(&value)?.ok_or_else(|| "the expression has no value (undefined)".to_owned())
            }
            Self::Array(nodes) => {
                nodes.iter().map(|node| node.evaluate(evaluator)).collect::<Result<_, _>>().map(Value::Array)
            }
            Self::Object(fields) => fields
                .iter()
                .map(|(name, node)| match node.evaluate(evaluator) {
                    Ok(value) => Ok((name.clone(), value)),
                    Err(problem) => Err(format!("{name}: {problem}")),
                })
                .collect::<Result<Map<_, _>, _>>()
                .map(Value::Object),
        }
    }
}

/// The JSONata inside `{% … %}`, or `None` if `text` is plain.
fn expression_text(text: &str) -> Result<Option<&str>, String> {
    if let Some(inner) = text.strip_prefix("{%").and_then(|text| text.strip_suffix("%}")) {
        return Ok(Some(inner));
    }
    let trimmed = text.trim();
    if trimmed.starts_with("{%") || trimmed.ends_with("%}") {
        return Err(format!("`{text}`: an expression begins with {{% and ends with %}}, with nothing before or after"));
    }
    Ok(None)
}

/// `value` as the engine holds it. Whole numbers beyond 2^53 - 1 lose their last digits, as in any JSONata.
pub(super) fn to_engine(value: &Value) -> JValue {
    match value {
        Value::Null => JValue::Null,
        Value::Bool(flag) => JValue::Bool(*flag),
        Value::Number(number) => JValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => JValue::string(text.as_str()),
        Value::Array(items) => with_stack(|| JValue::array(items.iter().map(to_engine).collect())),
        Value::Object(fields) => with_stack(|| {
            let fields = fields.iter().map(|(name, value)| (name.clone(), to_engine(value)));
            JValue::Object(Rc::new(fields.collect::<JMap>()))
        }),
    }
}

/// `value` as JSON; `None` for `undefined`, which an array or object leaves out.
fn from_engine(value: &JValue) -> Result<Option<Value>, String> {
    let json = match value {
        JValue::Undefined => return Ok(None),
        JValue::Null => Value::Null,
        JValue::Bool(flag) => Value::Bool(*flag),
        JValue::Number(number) => number_from_engine(value, *number)?,
        JValue::String(text) => Value::String(text.to_string()),
        JValue::Array(items) => with_stack(|| {
            items.iter().filter_map(|item| from_engine(item).transpose()).collect::<Result<_, _>>().map(Value::Array)
        })?,
        JValue::Object(fields) => with_stack(|| {
            let field =
                |(name, value): (&String, &JValue)| Some(from_engine(value).transpose()?.map(|v| (name.clone(), v)));
            fields.iter().filter_map(field).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        })?,
        _ => return Err("the expression gives a function, which JSON cannot hold".to_owned()),
    };
    Ok(Some(json))
}

/// A whole number stays whole: 7, not 7.0.
fn number_from_engine(value: &JValue, number: f64) -> Result<Value, String> {
    match value.as_i64() {
        Some(whole) if (-WHOLE_MAX..=WHOLE_MAX).contains(&whole) => Ok(Value::Number(whole.into())),
        _ => Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| "the expression gives no finite number".to_owned()),
    }
}
