//! A checked expression.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::{Expr, Id};
use crate::check::check;
use crate::deep::with_room;
use crate::environment::Environment;
use crate::issue::{Issues, Source};
use crate::parse::parse;
use crate::types::Type;

/// An expression that can be evaluated: every node has a type, every call its overloads.
#[derive(Clone, Debug)]
pub struct Program {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    text: String,
    expr: Expr,
    depth: usize,
    checked: Checked,
}

/// What was found out about the nodes of a tree.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The type of each node, by its number.
    pub(crate) types: Vec<Type>,
    /// The overloads that each call may turn out to be, by its number.
    pub(crate) overloads: Vec<Vec<&'static str>>,
    /// The names of variables and types that are spoken of.
    pub(crate) names: BTreeSet<Arc<str>>,
    /// Why it cannot be evaluated all the same.
    pub(crate) defect: Option<String>,
}

impl Program {
    /// Parses and checks an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn compile(environment: &Environment, source: &str) -> Result<Self, Issues> {
        let text = Source::new(source);
        let mut parsed = match parse(&text) {
            Ok(parsed) => parsed,
            Err(issues) => return Err(Issues::new(text, issues)),
        };
        let depth = parsed.expr.depth();
        match with_room(depth, || check(environment, &mut parsed)) {
            Ok(checked) => {
                let inner = Inner {
                    text: source.to_owned(),
                    expr: parsed.expr,
                    depth,
                    checked,
                };
                Ok(Self {
                    inner: Arc::new(inner),
                })
            }
            Err(issues) => Err(Issues::new(text, issues)),
        }
    }

    /// The text it was compiled from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// The tree. Names are resolved: what the reference names `a.b` is one identifier if there is
    /// such a variable, and `a.f(x)` has no target if `a.f` is a function.
    #[must_use]
    pub fn expr(&self) -> &Expr {
        &self.inner.expr
    }

    /// How deep the tree is: what walks over it calls itself so many times.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.inner.depth
    }

    /// The type of what comes of it.
    #[must_use]
    pub fn output(&self) -> &Type {
        self.type_of(self.inner.expr.id)
    }

    /// The type of a node.
    #[must_use]
    pub fn type_of(&self, id: Id) -> &Type {
        self.inner
            .checked
            .types
            .get(id as usize)
            .unwrap_or(&Type::Dyn)
    }

    /// The overloads that a call may turn out to be: one if the types of its arguments are known.
    #[must_use]
    pub fn overloads(&self, id: Id) -> &[&'static str] {
        self.inner
            .checked
            .overloads
            .get(id as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// Whether this name is spoken of, be it as a variable of the environment or of a loop: that is
    /// how Kubernetes decides that a rule is about `oldSelf`.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.inner.checked.names.contains(name)
    }

    /// Why it cannot be evaluated although it was checked: what Kubernetes prints after
    /// `program instantiation failed: `.
    #[must_use]
    pub fn defect(&self) -> Option<&str> {
        self.inner.checked.defect.as_deref()
    }
}
