//! Creation of nodes, with their numbers and positions.

use std::sync::Arc;

use crate::ast::{Comprehension, Entry, Expr, Id, Literal, Node};
use crate::issue::Issue;

/// The maximum number of nodes. The longest expression has fewer, unless it chains `optMap`, which
/// copies its operand each time.
const MAX_NODES: u32 = 250_000;

/// Creates nodes.
#[derive(Default)]
pub(crate) struct Builder {
    /// The position of each node, by its number. There is no node 0.
    places: Vec<usize>,
    /// Errors beyond syntax.
    issues: Vec<Issue>,
    overflow: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            places: vec![0],
            ..Self::default()
        }
    }

    /// Returns the next number, for a node at this position.
    pub(crate) fn id(&mut self, place: usize) -> Id {
        let next = Id::try_from(self.places.len()).unwrap_or(Id::MAX);
        if next > MAX_NODES {
            self.overflow = true;
            return MAX_NODES;
        }
        self.places.push(place);
        next
    }

    /// Returns whether there are too many nodes.
    pub(crate) fn overflowed(&self) -> bool {
        self.overflow
    }

    /// Returns the position of a node.
    pub(crate) fn place(&self, id: Id) -> usize {
        self.places.get(id as usize).copied().unwrap_or_default()
    }

    /// Sets the position of a node that was numbered before it was known.
    pub(crate) fn set_position(&mut self, id: Id, place: usize) {
        if let Some(known) = self.places.get_mut(id as usize) {
            *known = place;
        }
    }

    /// Reports an error, and returns a node in place of the invalid expression.
    pub(crate) fn report(&mut self, place: usize, message: impl Into<String>) -> Expr {
        let id = self.id(place);
        self.issues.push(Issue {
            offset: Some(place),
            message: message.into(),
        });
        Expr {
            id,
            node: Node::Literal(Literal::Null),
        }
    }

    /// Returns the errors, and the positions of nodes.
    pub(crate) fn finish(self) -> (Vec<Issue>, Vec<usize>) {
        (self.issues, self.places)
    }

    /// Copies a tree with new numbers and the original positions; map entries and fields get the
    /// position of `origin`.
    pub(crate) fn copy(&mut self, expr: &Expr, origin: Id) -> Expr {
        let id = self.id(self.place(expr.id));
        if self.overflow {
            return Expr {
                id,
                node: Node::Literal(Literal::Null),
            };
        }
        let node = match &expr.node {
            Node::Literal(_) | Node::Ident(_) => expr.node.clone(),
            Node::Select {
                operand,
                field,
                test,
            } => Node::Select {
                operand: Box::new(self.copy(operand, origin)),
                field: field.clone(),
                test: *test,
            },
            Node::Call {
                target,
                function,
                args,
            } => {
                let args = self.copies(args, origin);
                let target = target
                    .as_ref()
                    .map(|target| Box::new(self.copy(target, origin)));
                Node::Call {
                    target,
                    function: function.clone(),
                    args,
                }
            }
            Node::List { elements, optional } => Node::List {
                elements: self.copies(elements, origin),
                optional: optional.clone(),
            },
            Node::Map(entries) => Node::Map(self.copy_entries(entries, origin, false)),
            Node::Struct { name, entries } => Node::Struct {
                name: name.clone(),
                entries: self.copy_entries(entries, origin, true),
            },
            Node::Comprehension(it) => Node::Comprehension(Box::new(Comprehension {
                range: self.copy(&it.range, origin),
                variable: it.variable.clone(),
                second: it.second.clone(),
                accumulator: it.accumulator.clone(),
                init: self.copy(&it.init, origin),
                condition: self.copy(&it.condition, origin),
                step: self.copy(&it.step, origin),
                result: self.copy(&it.result, origin),
            })),
        };
        Expr { id, node }
    }

    fn copies(&mut self, exprs: &[Expr], origin: Id) -> Vec<Expr> {
        exprs.iter().map(|expr| self.copy(expr, origin)).collect()
    }

    fn copy_entries(&mut self, entries: &[Entry], origin: Id, fields: bool) -> Vec<Entry> {
        let mut copies = Vec::with_capacity(entries.len());
        for entry in entries {
            let id = self.id(self.place(origin));
            // The name of a field is not a node.
            let key = if fields {
                entry.key.clone()
            } else {
                self.copy(&entry.key, origin)
            };
            let value = self.copy(&entry.value, origin);
            copies.push(Entry {
                id,
                key,
                value,
                optional: entry.optional,
            });
        }
        copies
    }
}

/// Joins terms with `&&` or `||` into a balanced tree.
pub(crate) fn balance(function: &Arc<str>, terms: Vec<Expr>, operators: &[Id]) -> Expr {
    let mut terms: Vec<Option<Expr>> = terms.into_iter().map(Some).collect();
    join(function, &mut terms, operators, 0, operators.len() - 1)
}

fn join(
    function: &Arc<str>,
    terms: &mut [Option<Expr>],
    operators: &[Id],
    low: usize,
    high: usize,
) -> Expr {
    let middle = (low + high).div_ceil(2);
    let mut take = |at: usize| {
        terms[at]
            .take()
            .expect("each term is at one place of the tree")
    };
    let (left, right) = match (middle == low, middle == high) {
        (true, true) => (take(middle), take(middle + 1)),
        (true, false) => (
            take(middle),
            join(function, terms, operators, middle + 1, high),
        ),
        (false, true) => {
            let right = take(middle + 1);
            (join(function, terms, operators, low, middle - 1), right)
        }
        (false, false) => (
            join(function, terms, operators, low, middle - 1),
            join(function, terms, operators, middle + 1, high),
        ),
    };
    let args = vec![left, right];
    let node = Node::Call {
        target: None,
        function: function.clone(),
        args,
    };
    Expr {
        id: operators[middle],
        node,
    }
}
