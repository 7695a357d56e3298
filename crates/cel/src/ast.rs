//! What an expression is made of, once macros are expanded.

use std::sync::Arc;

/// A node's number. Numbers are given in the order in which nodes are made, from 1, and are
/// unique within an expression: what is known about a node is kept by its number.
pub type Id = u32;

/// A node and what is below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its number.
    pub id: Id,
    /// What it is.
    pub node: Node,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A constant.
    Literal(Literal),
    /// A variable, or a part of a qualified name.
    Ident(Arc<str>),
    /// `operand.field`, or with `test` `has(operand.field)`.
    Select {
        /// What the field is of.
        operand: Box<Expr>,
        /// Its name.
        field: Arc<str>,
        /// Whether only its presence is asked for.
        test: bool,
    },
    /// A function, operators included under the names of CEL's specification: `_+_`, `_&&_`,
    /// `_?_:_`, `_[_]`, `_?._`, `_[?_]`, `@in`, `!_`, `-_`.
    Call {
        /// What it is called on, if it is called on something.
        target: Option<Box<Expr>>,
        /// Its name.
        function: Arc<str>,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`.
    List {
        /// The elements.
        elements: Vec<Expr>,
        /// Which of them are there only if they hold a value.
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
    /// A loop: what `all`, `exists`, `map`, `filter` and the like become.
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
    /// Its own number.
    pub id: Id,
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Whether it is there only if the value holds one.
    pub optional: bool,
}

/// A loop over a list or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// What is looped over.
    pub range: Expr,
    /// The variable for the element, the key, or with two variables the index.
    pub variable: Arc<str>,
    /// The second variable, if there are two.
    pub second: Option<Arc<str>>,
    /// The variable in which the result grows.
    pub accumulator: Arc<str>,
    /// What it begins with.
    pub init: Expr,
    /// Whether the loop goes on.
    pub condition: Expr,
    /// What the accumulator becomes.
    pub step: Expr,
    /// What comes of it all.
    pub result: Expr,
}

impl Expr {
    /// How many nodes there are from here to the farthest leaf.
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

    /// Shows the nodes right below this one.
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
