//! The expressions of `x-kubernetes-validations`: do they compile, and what may they cost?

use super::openapi::Scope;
use super::place::{Place, Report};
use super::props::Props;
use super::terms::Terms;

/// What the rules of a schema need to know of those above it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cel<'a> {
    #[expect(dead_code, reason = "expressions are judged by what is to come")]
    schema: Props<'a>,
}

impl<'a> Cel<'a> {
    /// For the rules of a whole schema.
    pub fn root(schema: Props<'a>, _any_cost: bool) -> Self {
        Self { schema }
    }

    /// For the rules of a property.
    pub fn property<'b>(&'b self, _of: Props<'b>, _name: &'b str, property: Props<'b>) -> Cel<'b> {
        Cel { schema: property }
    }

    /// For the rules of a map's values.
    pub fn value<'b>(&'b self, _of: Props<'b>, values: Props<'b>) -> Cel<'b> {
        Cel { schema: values }
    }

    /// For the rules of a list's items.
    pub fn item<'b>(&'b self, _of: Props<'b>, item: Props<'b>) -> Cel<'b> {
        Cel { schema: item }
    }
}

/// Judges the expressions of a schema's rules.
pub(super) fn judge(
    _schema: Props<'_>,
    _place: Place<'_>,
    _scope: Scope<'_>,
    _terms: &Terms<'_>,
    _report: &mut Report,
) {
}
