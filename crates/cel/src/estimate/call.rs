//! The estimated cost of calls.

use super::cost::{Cost, REGEX, Size, TRAVERSAL};
use super::path::Path;
use super::{Entries, Estimator, library, lists};
use crate::ast::{Expr, Literal, Node};
use crate::types::Type;

/// The cost of a call itself, and the size of its result if that is known.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) cost: Cost,
    pub(super) size: Option<Size>,
}

impl Call {
    pub(super) fn costs(cost: Cost) -> Self {
        Self { cost, size: None }
    }
}

/// An argument, as far as the cost of a call depends on it.
#[derive(Clone)]
pub(super) struct Argument<'a> {
    pub(super) expr: &'a Expr,
    pub(super) of: &'a Type,
    pub(super) path: Path,
    pub(super) size: Option<Size>,
}

impl Argument<'_> {
    /// Returns the size of the argument.
    pub(super) fn measure(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    /// Returns the number, if the argument is an integer literal.
    pub(super) fn number(&self) -> Option<i64> {
        match self.expr.node {
            Node::Literal(Literal::Int(number)) => Some(number),
            _ => None,
        }
    }
}

impl<'a> Estimator<'a> {
    pub(super) fn call(&mut self, expr: &'a Expr) -> Cost {
        let Node::Call {
            target,
            function,
            args,
        } = &expr.node
        else {
            return Cost::default();
        };
        if let ("dyn", [arg]) = (&**function, args.as_slice()) {
            let cost = self.cost(arg);
            self.copy_sizes(expr.id, arg);
            return cost.plus(Cost::fixed(1));
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            arguments.push(self.argument(arg));
        }
        let overloads = self.program.overloads(expr.id);
        if overloads.is_empty() {
            return Cost::default();
        }
        let of_target = target
            .as_ref()
            .map_or(Cost::default(), |target| self.cost(target));
        let target = target.as_ref().map(|target| self.argument(target));
        let mut cost = super::NONE_YET;
        let mut size: Option<Size> = None;
        for overload in overloads {
            let call = self.overload(
                expr,
                function,
                overload,
                target.as_ref(),
                &arguments,
                &costs,
            );
            cost = cost.union(call.cost);
            size = match (size, call.size) {
                (Some(one), Some(other)) => Some(one.union(other)),
                (one, other) => one.or(other),
            };
            if let Some(step) = indexes(overload)
                && let Some(container) = args.first()
            {
                size = self.entries_of(container).map(|entries| entries.value);
                let path = self.path(container).then(step);
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        of_target.plus(cost)
    }

    fn argument(&mut self, expr: &'a Expr) -> Argument<'a> {
        let mut path = self.path(expr);
        if path
            .names()
            .first()
            .is_some_and(|name| matches!(&**name, "@result" | "__result__"))
        {
            path = Path::default();
        }
        Argument {
            expr,
            of: self.type_of(expr),
            path,
            size: self.size(expr),
        }
    }

    fn overload(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Argument<'a>>,
        args: &[Argument<'a>],
        costs: &[Cost],
    ) -> Call {
        let sum = costs
            .iter()
            .fold(Cost::default(), |sum, cost| sum.plus(*cost));
        let known = lists::estimate(overload, target, args)
            .or_else(|| library::estimate(self, function, overload, target, args))
            .or_else(|| self.standard(expr, overload, target, args));
        if let Some(call) = known {
            return Call {
                cost: call.cost.plus(sum),
                size: call.size,
            };
        }
        match (overload, costs) {
            ("logical_or" | "logical_and", [left, right]) => Call::costs(Cost {
                min: left.min,
                max: left.plus(*right).max,
            }),
            ("conditional", [condition, then, otherwise]) => {
                let size = args[1].measure().union(args[2].measure());
                let cost = condition.plus(then.union(*otherwise));
                self.join_entries(expr, args[1].expr, args[2].expr);
                Call {
                    cost,
                    size: Some(size),
                }
            }
            _ => Call::costs(sum.plus(Cost::fixed(1))),
        }
    }

    /// The cost of the language's own functions that do not cost one unit.
    fn standard(
        &mut self,
        expr: &Expr,
        overload: &str,
        target: Option<&Argument<'a>>,
        args: &[Argument<'a>],
    ) -> Option<Call> {
        Some(match (overload, target, args) {
            ("string_format", Some(target), _) => Call::costs(target.measure().by(TRAVERSAL)),
            ("string_to_bytes", _, [arg]) => converted(arg, |size| Size {
                min: size.min,
                max: size.max.wrapping_mul(4),
            }),
            ("bytes_to_string", _, [arg]) => converted(arg, |size| Size {
                min: size.min / 4,
                max: size.max,
            }),
            ("strings_quote", _, [arg]) => converted(arg, |size| Size {
                min: size.min.wrapping_add(2),
                max: size.max.wrapping_mul(2).wrapping_add(2),
            }),
            ("starts_with_string" | "ends_with_string", _, [arg]) => {
                Call::costs(arg.measure().by(TRAVERSAL))
            }
            ("in_list", _, [_, list]) => Call::costs(list.measure().by(1.0)),
            ("matches_string", Some(target), [pattern]) => {
                Call::costs(search(target.measure(), pattern.measure()))
            }
            ("contains_string", Some(target), [arg]) => Call::costs(
                target
                    .measure()
                    .by(TRAVERSAL)
                    .times(arg.measure().by(TRAVERSAL)),
            ),
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let size = left.measure().plus(right.measure());
                self.join_entries(expr, left.expr, right.expr);
                let cost = match overload {
                    "add_list" => Cost::fixed(1),
                    _ => size.by(TRAVERSAL),
                };
                Call {
                    cost,
                    size: Some(size),
                }
            }
            (overload, _, [left, right]) if compares(overload) => {
                let max = left.measure().max.min(right.measure().max);
                Call::costs(
                    Cost {
                        min: u64::from(max > 0),
                        max,
                    }
                    .by(TRAVERSAL),
                )
            }
            _ => return None,
        })
    }

    fn join_entries(&mut self, expr: &Expr, left: &Expr, right: &Expr) {
        let entries = Entries::union(self.entries_of(left), self.entries_of(right));
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
    }
}

/// The cost of a regular expression search. An empty text counts as one character.
pub(super) fn search(text: Size, pattern: Size) -> Cost {
    text.plus(Size::fixed(1))
        .by(TRAVERSAL)
        .times(pattern.by(REGEX))
}

fn converted(arg: &Argument<'_>, size: impl Fn(Size) -> Size) -> Call {
    let from = arg.measure();
    Call {
        cost: from.by(TRAVERSAL),
        size: Some(size(from)),
    }
}

fn indexes(overload: &str) -> Option<&'static str> {
    match overload {
        "index_list" => Some("@items"),
        "index_map" => Some("@values"),
        _ => None,
    }
}

fn compares(overload: &str) -> bool {
    matches!(
        overload,
        "equals"
            | "not_equals"
            | "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
    )
}
