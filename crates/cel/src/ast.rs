//! The syntax tree of an expression, after macro expansion.

use std::sync::Arc;

/// The number of a node. Nodes are numbered from 1 in the order of their creation; numbers are
/// unique within an expression, and facts about a node are kept by its number.
pub type Id = u32;

/// A node and its subtree.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The number of the node.
    pub id: Id,
    /// The node itself.
    pub node: Node,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A constant.
    Literal(Literal),
    /// A variable, or a part of a qualified name.
    Ident(Arc<str>),
    /// `operand.field`, or with `test` `has(operand.field)`.
    Select {
        /// The value that has the field.
        operand: Box<Expr>,
        /// The name of the field.
        field: Arc<str>,
        /// Whether only the presence of the field is tested.
        test: bool,
    },
    /// A function call. Operators have the names of CEL's specification: `_+_`, `_&&_`, `_?_:_`,
    /// `_[_]`, `_?._`, `_[?_]`, `@in`, `!_`, `-_`.
    Call {
        /// The receiver of a member call.
        target: Option<Box<Expr>>,
        /// The name of the function.
        function: Arc<str>,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`.
    List {
        /// The elements.
        elements: Vec<Expr>,
        /// The indexes of the elements that are left out if they are empty optionals.
        optional: Vec<usize>,
    },
    /// `{k: v, ?k: v}`.
    Map(Vec<Entry>),
    /// `Name{field: value}`.
    Struct {
        /// The name of the type.
        name: Arc<str>,
        /// The fields; the key of each is a literal string.
        entries: Vec<Entry>,
    },
    /// A loop: the expansion of `all`, `exists`, `map`, `filter` and other macros.
    Comprehension(Box<Comprehension>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'a'`
    String(Arc<str>),
    /// `b'a'`
    Bytes(Arc<[u8]>),
}

/// A member of a map or a field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The number of the entry.
    pub id: Id,
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Whether the entry is left out if its value is an empty optional.
    pub optional: bool,
}

/// A loop over a list or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// The list or map that the loop runs over.
    pub range: Expr,
    /// The variable for the element, the key, or with two variables the index.
    pub variable: Arc<str>,
    /// The second variable, if there are two.
    pub second: Option<Arc<str>>,
    /// The variable that accumulates the result.
    pub accumulator: Arc<str>,
    /// The initial value of the accumulator.
    pub init: Expr,
    /// The condition under which the loop continues.
    pub condition: Expr,
    /// The next value of the accumulator.
    pub step: Expr,
    /// The result of the loop.
    pub result: Expr,
}

impl Expr {
    /// Returns the number of nodes on the longest path from here to a leaf.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut waiting = vec![(self, 1)];
        while let Some((expr, depth)) = waiting.pop() {
            deepest = deepest.max(depth);
            expr.parts(|part| waiting.push((part, depth + 1)));
        }
        deepest
    }

    /// Calls `show` with every direct child.
    fn parts<'a>(&'a self, mut show: impl FnMut(&'a Self)) {
        match &self.node {
            Node::Literal(_) | Node::Ident(_) => {}
            Node::Select { operand, .. } => show(operand),
            Node::Call { target, args, .. } => {
                target.as_deref().into_iter().chain(args).for_each(show);
            }
            Node::List { elements, .. } => elements.iter().for_each(show),
            Node::Map(entries) | Node::Struct { entries, .. } => {
                entries
                    .iter()
                    .flat_map(|entry| [&entry.key, &entry.value])
                    .for_each(show);
            }
            Node::Comprehension(it) => {
                [&it.range, &it.init, &it.condition, &it.step, &it.result]
                    .into_iter()
                    .for_each(show);
            }
        }
    }
}
