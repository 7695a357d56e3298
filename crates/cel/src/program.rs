//! Checked expressions.

use std::sync::Arc;

use crate::ast::{Expr, Id};
use crate::check::{Checked, check};
use crate::environment::Environment;
use crate::issue::{Issues, Source};
use crate::parse::parse;
use crate::stack::with_stack;
use crate::types::Type;

/// An expression that can be evaluated: its nodes have types, its calls overloads.
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

impl Program {
    /// Parses and checks an expression.
    ///
    /// # Errors
    ///
    /// The compilation errors.
    pub fn compile(environment: &Environment, source: &str) -> Result<Self, Issues> {
        let text = Source::new(source);
        let mut parsed = match parse(&text) {
            Ok(parsed) => parsed,
            Err(issues) => return Err(Issues::new(text, issues)),
        };
        let depth = parsed.expr.depth();
        match with_stack(depth, || check(environment, &mut parsed)) {
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

    /// Returns the source text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Returns the tree. Names are resolved: a qualified variable `a.b` is one identifier, and
    /// `a.f(x)` has no target if `a.f` is a function.
    #[must_use]
    pub fn expr(&self) -> &Expr {
        &self.inner.expr
    }

    /// Returns the depth of the tree, to which functions that walk over it recurse.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.inner.depth
    }

    /// Returns the type of the result.
    #[must_use]
    pub fn output(&self) -> &Type {
        self.type_of(self.inner.expr.id)
    }

    /// Returns the type of a node.
    #[must_use]
    pub fn type_of(&self, id: Id) -> &Type {
        self.inner
            .checked
            .types
            .get(id as usize)
            .unwrap_or(&Type::Dyn)
    }

    /// Returns the candidate overloads of a call: one if the types of its arguments are known.
    #[must_use]
    pub fn overloads(&self, id: Id) -> &[&'static str] {
        self.inner
            .checked
            .overloads
            .get(id as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// Returns whether the name is used, as a variable of the environment or of a loop. Kubernetes
    /// decides by it whether a rule uses `oldSelf`.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.inner.checked.names.contains(name)
    }

    /// Returns why the expression cannot be evaluated although it was checked: the text that
    /// Kubernetes prints after `program instantiation failed: `.
    #[must_use]
    pub fn defect(&self) -> Option<&str> {
        self.inner.checked.defect.as_deref()
    }
}
