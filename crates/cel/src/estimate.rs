//! Estimates the cost of an expression before it is evaluated.
//!
//! Every node has a cost and, where it is known, a size: that of a literal, that of the value at a
//! schema node (found by the path from the variable to it), or one derived from these.

mod call;
mod cost;
mod extent;
mod library;
mod lists;
mod path;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Comprehension, Expr, Id, Literal, Node};
use crate::program::Program;
use crate::stack::with_stack;
use crate::types::Type;
pub use cost::Cost;
use cost::Size;
pub use extent::{Extent, Format, Within};
use path::Path;

/// The cost of creating a list.
const LIST: Cost = Cost::fixed(10);
/// The cost of creating a map.
const MAP: Cost = Cost::fixed(30);
/// The cost of creating a struct.
const STRUCT: Cost = Cost::fixed(40);

/// Estimates the cost of a program with variables of the size that `extent` gives. A schema has one
/// extent for `self` and `oldSelf`; without one, sizes are unknown.
#[must_use]
pub fn estimate(program: &Program, extent: Option<&Extent>) -> Cost {
    with_stack(program.depth(), || {
        let mut estimator = Estimator {
            program,
            extent,
            paths: HashMap::new(),
            locals: HashMap::new(),
            sizes: HashMap::new(),
            entries: HashMap::new(),
        };
        estimator.cost(program.expr())
    })
}

struct Estimator<'a> {
    program: &'a Program,
    extent: Option<&'a Extent>,
    paths: HashMap<Id, Path>,
    locals: HashMap<Arc<str>, Vec<Local>>,
    sizes: HashMap<Id, Size>,
    entries: HashMap<Id, Entries>,
}

/// A loop variable.
#[derive(Clone)]
struct Local {
    path: Path,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// The sizes of the members of a list or map.
#[derive(Clone, Copy)]
struct Entries {
    list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        let (key, value) = (one.key.union(other.key), one.value.union(other.value));
        Some(Self {
            list: one.list,
            key,
            value,
        })
    }
}

/// The role of a loop variable.
#[derive(Clone, Copy)]
enum Member {
    /// The only variable: the item of a list or the key of a map.
    Single,
    /// The first of two: the index or the key.
    Key,
    /// The second of two.
    Value,
}

impl<'a> Estimator<'a> {
    fn cost(&mut self, expr: &'a Expr) -> Cost {
        match &expr.node {
            Node::Literal(_) => Cost::fixed(0),
            Node::Ident(name) => self.ident(expr.id, name),
            Node::Select {
                operand,
                field,
                test,
            } => self.select(expr.id, operand, field, *test),
            Node::Call { .. } => self.call(expr),
            Node::List { elements, .. } => self.list(expr.id, elements),
            Node::Map(entries) => self.map(expr.id, entries),
            Node::Struct { entries, .. } => {
                let fields = entries.iter().map(|entry| &entry.value);
                fields
                    .fold(Cost::default(), |sum, value| sum.plus(self.cost(value)))
                    .plus(STRUCT)
            }
            Node::Comprehension(it) if binds(it) => self.bind(expr, it),
            Node::Comprehension(it) => self.comprehension(expr, it),
        }
    }

    fn ident(&mut self, id: Id, name: &Arc<str>) -> Cost {
        let path = match self.local(name) {
            Some(local) => local.path.clone(),
            None => Path::of(name.clone()),
        };
        self.paths.insert(id, path);
        Cost::fixed(1)
    }

    fn select(&mut self, id: Id, operand: &'a Expr, field: &str, test: bool) -> Cost {
        let cost = self.cost(operand);
        if test {
            // Presence tests are free, as they were before the reference implementation priced
            // them.
            return cost;
        }
        let of = self.type_of(operand);
        let path = self.path(operand).then(field);
        self.paths.insert(id, path);
        match of {
            Type::Map(..) | Type::Object(_) => cost.plus(Cost::fixed(1)),
            _ => cost,
        }
    }

    fn list(&mut self, id: Id, elements: &'a [Expr]) -> Cost {
        let mut sum = Cost::default();
        let mut item = if elements.is_empty() {
            Size::default()
        } else {
            NONE_YET
        };
        for element in elements {
            sum = sum.plus(self.cost(element));
            item = item.union(self.size_or_unknown(element));
        }
        self.entries.insert(
            id,
            Entries {
                list: true,
                key: Size::fixed(1),
                value: item,
            },
        );
        sum.plus(LIST)
    }

    fn map(&mut self, id: Id, entries: &'a [crate::ast::Entry]) -> Cost {
        let mut sum = Cost::default();
        let start = if entries.is_empty() {
            Size::default()
        } else {
            NONE_YET
        };
        let (mut key, mut value) = (start, start);
        for entry in entries {
            sum = sum.plus(self.cost(&entry.key));
            sum = sum.plus(self.cost(&entry.value));
            key = key.union(self.size_or_unknown(&entry.key));
            value = value.union(self.size_or_unknown(&entry.value));
        }
        self.entries.insert(
            id,
            Entries {
                list: false,
                key,
                value,
            },
        );
        sum.plus(MAP)
    }

    fn comprehension(&mut self, expr: &'a Expr, it: &'a Comprehension) -> Cost {
        let mut sum = self.cost(&it.range).plus(self.cost(&it.init));
        self.push_bound(&it.accumulator, &it.init);
        match &it.second {
            Some(second) => {
                self.push_member(&it.variable, &it.range, Member::Key);
                self.push_member(second, &it.range, Member::Value);
            }
            None => self.push_member(&it.variable, &it.range, Member::Single),
        }
        let condition = self.cost(&it.condition);
        let step = self.cost(&it.step);
        self.pop(&it.variable);
        if let Some(second) = &it.second {
            self.pop(second);
        }
        sum = sum.plus(self.cost(&it.result));
        self.pop(&it.accumulator);
        let turns = self.size_or_unknown(&it.range);
        match &it.init.node {
            Node::Literal(_) => {
                if let Some(size) = self.size(&it.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Node::List { .. } | Node::Map(_) => {
                self.sizes.insert(expr.id, turns);
                if let Some(entries) = self.entries_of(&it.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum.plus(turns.times(step.plus(condition)))
    }

    fn bind(&mut self, expr: &'a Expr, it: &'a Comprehension) -> Cost {
        let sum = self.cost(&it.range).plus(self.cost(&it.init));
        self.push_bound(&it.accumulator, &it.init);
        let sum = sum.plus(self.cost(&it.result));
        self.pop(&it.accumulator);
        self.copy_sizes(expr.id, &it.result);
        sum
    }

    fn push_bound(&mut self, name: &Arc<str>, value: &Expr) {
        let path = self.path(value);
        let entries = self.entries_of(value);
        let local = Local {
            path,
            size: self.size(value),
            entries,
        };
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn push_member(&mut self, name: &Arc<str>, range: &Expr, member: Member) {
        let entries = self.entries_of(range);
        let list = entries.map_or(matches!(self.type_of(range), Type::List(_)), |it| it.list);
        let (step, of_value) = match (member, list) {
            (Member::Single | Member::Value, true) => ("@items", true),
            (Member::Value, false) => ("@values", true),
            (Member::Key, true) => ("@indices", false),
            (Member::Single | Member::Key, false) => ("@keys", false),
        };
        let size = entries.map(|it| if of_value { it.value } else { it.key });
        let local = Local {
            path: self.path(range).then(step),
            size,
            entries: None,
        };
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn pop(&mut self, name: &Arc<str>) {
        if let Some(locals) = self.locals.get_mut(name) {
            locals.pop();
        }
    }

    fn local(&self, name: &Arc<str>) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn type_of(&self, expr: &Expr) -> &'a Type {
        self.program.type_of(expr.id)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let Node::Ident(name) = &expr.node
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// Returns the size of the value at a path of the schema.
    fn extent_at(&self, names: &[Arc<str>]) -> Option<Size> {
        let (_, names) = names.split_first()?;
        Some(Size {
            min: 0,
            max: self.extent?.follow(names)?,
        })
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Size {
        self.size(expr).unwrap_or(Size::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Size::fixed(size));
        }
        if let Some(size) = self.extent_at(&self.path(expr).names()) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.type_of(expr)) {
            return Some(Size::fixed(1));
        }
        match &expr.node {
            Node::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.node {
            Node::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn copy_sizes(&mut self, to: Id, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to, entries);
        }
    }
}

/// Bounds that any size extends.
const NONE_YET: Size = Size {
    min: u64::MAX,
    max: 0,
};

/// Returns whether the loop only binds a variable for its result.
fn binds(it: &Comprehension) -> bool {
    matches!(&it.range.node, Node::List { elements, .. } if elements.is_empty())
        && matches!(it.condition.node, Node::Literal(Literal::Bool(false)))
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}

fn literal_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.node {
        Node::Literal(Literal::String(text)) => text.chars().count() as u64,
        Node::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Node::Literal(_) => 1,
        Node::List { elements, .. } => elements.len() as u64,
        Node::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}
