//! A structural schema, compiled once and shared by all spaces that have the same.

mod compile;
mod node;
mod rules;
mod shape;

pub(crate) use node::{Additional, Checks, ListKind, Node, NodeId, Type, value_size};
pub(crate) use rules::{Compiled, Rule, Rules};

use insula_cel::with_stack;
use serde_json::Value;

/// The compiled schema of one version of a kind.
///
/// The nodes are stored in one list and refer to each other by index. This is compact, and
/// neither loading nor dropping it recurses.
#[derive(Debug)]
pub struct Schema {
    nodes: Box<[Node]>,
    /// Whether any node has effective CEL rules.
    ruled: bool,
    /// The nesting depth of the deepest rule.
    max_rule_depth: usize,
}

/// Why a schema cannot be compiled. Accepted definitions always compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A schema is not a JSON object.
    #[error("a schema must be a JSON object, at {0}")]
    NotAnObject(String),
    /// It is nested too deeply for recursive processing.
    #[error("the schema is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// It has too many nodes.
    #[error("the schema has more than {MAX_NODES} nodes")]
    TooLarge,
}

/// The JSON decoder's limit is 127, and a schema level takes at least one JSON level.
const MAX_DEPTH: usize = 128;
/// A definition has at most three megabytes, and a node takes at least three bytes.
const MAX_NODES: usize = 1 << 20;

impl Schema {
    /// Compiles the value of `openAPIV3Schema`. Invalid parts are skipped, because the
    /// definition has been validated before.
    pub fn compile(json: &Value) -> Result<Self, CompileError> {
        with_stack(rules_below(json), || compile::schema(json))
    }

    /// The root node.
    pub(crate) fn root(&self) -> &Node {
        self.node(NodeId::ROOT)
    }

    /// The node with this ID.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Reports whether objects are subject to CEL rules.
    pub(crate) fn is_ruled(&self) -> bool {
        self.ruled
    }

    /// The nesting depth of the deepest rule.
    pub(crate) fn max_rule_depth(&self) -> usize {
        self.max_rule_depth
    }

    /// Estimated memory use in bytes.
    pub fn size(&self) -> usize {
        let nodes = std::mem::size_of_val(&*self.nodes);
        nodes + self.nodes.iter().map(Node::size).sum::<usize>()
    }
}

/// Counts the rules of a schema. With more than a few expressions, a caller should switch to a
/// large stack once instead of for each expression.
pub(crate) fn rules_below(json: &Value) -> usize {
    count_rules(json, 2 * MAX_DEPTH)
}

fn count_rules(json: &Value, depth: usize) -> usize {
    let Some(depth) = depth.checked_sub(1) else {
        return 0;
    };
    match json {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("x-kubernetes-validations", Value::Array(rules)) => rules.len(),
                (_, value) => count_rules(value, depth),
            })
            .sum(),
        Value::Array(items) => items.iter().map(|item| count_rules(item, depth)).sum(),
        _ => 0,
    }
}
