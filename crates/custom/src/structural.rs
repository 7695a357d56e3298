//! A structural schema, compiled once and shared by everybody who has the same.

mod compile;
mod node;
mod rules;
mod shape;

pub(crate) use node::{Additional, Checks, ListKind, Node, NodeId, Type, value_size};
pub(crate) use rules::{Compiled, Rule, Rules};

use insula_cel::with_room;
use serde_json::Value;

/// What a version of a kind says about its objects.
///
/// The nodes of the schema stand in one list and name each other by number: that is small,
/// and neither reading nor dropping it recurses.
#[derive(Debug)]
pub struct Schema {
    nodes: Box<[Node]>,
    /// Whether any node that counts has rules in CEL.
    ruled: bool,
    /// How deep the deepest of them goes.
    deepest: usize,
}

/// Why a schema cannot be compiled. A definition that was accepted does not get here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is no schema at all.
    #[error("a schema must be a JSON object, at {0}")]
    NotAnObject(String),
    /// It is nested more deeply than a stack should be asked for.
    #[error("the schema is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// It has more nodes than can be numbered.
    #[error("the schema has more than {MAX_NODES} nodes")]
    TooLarge,
}

/// JSON is read to a depth of 127, and a level of a schema takes at least one of JSON.
const MAX_DEPTH: usize = 128;
/// A definition has three megabytes at most, and a node takes at least three bytes.
const MAX_NODES: usize = 1 << 20;

impl Schema {
    /// Compiles the value of `openAPIV3Schema`. What a definition may not have is skipped,
    /// since the definition was judged before.
    pub fn compile(json: &Value) -> Result<Self, CompileError> {
        with_room(rules_below(json), || compile::schema(json))
    }

    /// The root of it.
    pub(crate) fn root(&self) -> &Node {
        self.node(NodeId::ROOT)
    }

    /// The node of this number.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Whether objects are judged by rules in CEL.
    pub(crate) fn is_ruled(&self) -> bool {
        self.ruled
    }

    /// How deep the deepest of these rules goes.
    pub(crate) fn deepest(&self) -> usize {
        self.deepest
    }

    /// How many bytes of memory it takes, as far as that can be told.
    pub fn size(&self) -> usize {
        let nodes = std::mem::size_of_val(&*self.nodes);
        nodes + self.nodes.iter().map(Node::size).sum::<usize>()
    }
}

/// How many rules a schema has. Whoever has to do with more than a few expressions does it in
/// one place where the deepest of them has room.
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
