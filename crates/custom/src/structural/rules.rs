//! Compiled CEL rules.

use insula_cel::{Environment, OldSelf, Plan, Program, Shape, Type as CelType, declare};
use insula_kinds::field::ErrorType;
use serde_json::{Map, Value};

use super::node::{Additional, Node};

/// The rules of a node.
#[derive(Debug)]
pub(crate) struct Rules {
    pub list: Box<[Rule]>,
    /// How JSON values are represented in CEL.
    pub shape: Shape,
}

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The static message.
    pub message: Box<str>,
    /// The message or else the expression, for use in errors.
    pub name: Box<str>,
    pub fault: ErrorType,
    /// Path of the reported field, relative to the node.
    pub field_path: Box<str>,
    pub optional_old_self: bool,
    pub compiled: Compiled,
    /// The compiled message expression and its source.
    pub message_expression: Option<(Plan, Box<str>)>,
}

/// The compiled form of a rule's expression.
#[derive(Debug)]
pub(crate) enum Compiled {
    /// The expression is empty.
    Empty,
    /// The expression no longer compiles, although the definition was accepted.
    Broken(Box<str>),
    /// The expression can be evaluated.
    Ready { plan: Plan, uses_old: bool },
}

impl Rules {
    /// Compiles the rules of a node; `None` if values of the node cannot be represented in CEL.
    pub(super) fn of(
        json: &Value,
        node: &Node,
        nodes: &[Node],
        shape: Shape,
        resource: bool,
    ) -> Option<Self> {
        let rules = listed(json);
        let declared = if resource {
            declare::root(json, "selfType")
        } else {
            declare::of(json, "selfType")
        };
        let of = declared?.of;
        let list = rules
            .iter()
            .filter_map(Value::as_object)
            .map(|rule| Rule::of(rule, &of, node, nodes))
            .collect();
        Some(Self { list, shape })
    }
}

impl Rules {
    /// The nesting depth of the deepest rule.
    pub(super) fn max_rule_depth(&self) -> usize {
        let plans = self.list.iter().flat_map(|rule| {
            let asked = match &rule.compiled {
                Compiled::Ready { plan, .. } => Some(plan),
                Compiled::Empty | Compiled::Broken(_) => None,
            };
            let message = rule.message_expression.as_ref();
            asked.into_iter().chain(message.map(|(plan, _)| plan))
        });
        plans.map(Plan::depth).max().unwrap_or(0)
    }

    /// Estimated memory use in bytes.
    pub(super) fn size(&self) -> usize {
        let texts = self.list.iter().map(|rule| {
            // A compiled expression takes about twenty times the memory of its source.
            let texts = rule.message.len() + 20 * rule.name.len() + rule.field_path.len();
            texts + size_of::<Rule>()
        });
        size_of::<Self>() + texts.sum::<usize>()
    }
}

/// The rules in the JSON of a node.
pub(super) fn listed(json: &Value) -> &[Value] {
    let rules = json.get("x-kubernetes-validations");
    rules.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Rule {
    fn of(json: &Map<String, Value>, of: &CelType, node: &Node, nodes: &[Node]) -> Self {
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or("");
        let optional_old_self = json.get("optionalOldSelf") == Some(&Value::Bool(true));
        let old = match optional_old_self {
            true => OldSelf::Optional,
            false => OldSelf::Required,
        };
        let environment = Environment::rule(of, old);
        let (rule, message) = (text("rule"), text("message"));
        let name = if message.is_empty() { rule } else { message };
        let expression = text("messageExpression");
        let made = (!expression.is_empty())
            .then(|| plan(&environment, expression, &CelType::String).ok())
            .flatten();
        Self {
            message: message.trim().into(),
            name: name.trim().into(),
            fault: match text("reason") {
                "FieldValueForbidden" => ErrorType::Forbidden,
                "FieldValueRequired" => ErrorType::Required,
                "FieldValueDuplicate" => ErrorType::Duplicate,
                _ => ErrorType::Invalid,
            },
            field_path: field_path(text("fieldPath"), node, nodes)
                .unwrap_or_default()
                .into(),
            optional_old_self,
            compiled: compile(&environment, rule),
            message_expression: made.map(|(plan, _)| (plan, expression.into())),
        }
    }
}

fn compile(environment: &Environment, rule: &str) -> Compiled {
    if rule.trim().is_empty() {
        return Compiled::Empty;
    }
    match plan(environment, rule, &CelType::Bool) {
        Ok((plan, uses_old)) => Compiled::Ready { plan, uses_old },
        Err(fault) => Compiled::Broken(fault.into()),
    }
}

/// Compiles an expression of this type, and reports whether it uses `oldSelf`.
fn plan(environment: &Environment, text: &str, of: &CelType) -> Result<(Plan, bool), String> {
    let program = Program::compile(environment, text)
        .map_err(|issues| format!("compilation failed: {issues}"))?;
    if program.output() != of {
        return Err(format!("cel expression must evaluate to a {}", of.name()));
    }
    let failed = |why: &dyn std::fmt::Display| format!("program instantiation failed: {why}");
    if let Some(defect) = program.defect() {
        return Err(failed(&defect));
    }
    let plan = Plan::new(&program).map_err(|error| failed(&error))?;
    Ok((plan, program.uses("oldSelf")))
}

/// Formats a field path for errors; `None` if there is no such field.
fn field_path(path: &str, node: &Node, nodes: &[Node]) -> Option<String> {
    let mut printed = String::new();
    let mut at = node;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        let id = if at.properties.is_empty() {
            let Additional::Each(id) = at.additional else {
                return None;
            };
            printed.push_str(&format!("[{name}]"));
            id
        } else {
            if !printed.is_empty() {
                printed.push('.');
            }
            printed.push_str(&name);
            at.property(&name)?
        };
        at = &nodes[id.index()];
        rest = after;
    }
    Some(printed)
}

/// Splits off the first name of a path, `.name` or `['name']`.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        return (!name.is_empty()).then(|| (name.to_owned(), after));
    }
    let mut letters = path.strip_prefix("['")?.char_indices();
    let mut name = String::new();
    loop {
        match letters.next()? {
            (index, '\'') => {
                let after = path.get(2 + index + 1..)?.strip_prefix(']')?;
                return Some((name, after));
            }
            (_, '\\') => name.push(match letters.next()?.1 {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                plain @ ('\'' | '\\') => plain,
                _ => return None,
            }),
            (_, letter) => name.push(letter),
        }
    }
}
