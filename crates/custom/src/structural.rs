//! A structural schema, compiled once and shared by everybody who has the same.

mod compile;
mod node;
mod rules;
mod shape;

pub(crate) use node::{Additional, Checks, ListKind, Node, NodeId, Type, value_size};
pub(crate) use rules::{Compiled, Rule, Rules};

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
        compile::schema(json)
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

    /// How many bytes of memory it takes, as far as that can be told.
    pub fn size(&self) -> usize {
        let nodes = std::mem::size_of_val(&*self.nodes);
        nodes + self.nodes.iter().map(Node::size).sum::<usize>()
    }
}
