//! Overload resolution of calls.

use std::sync::Arc;

use super::unify::Unifier;
use super::{Checker, qualified, undeclared};
use crate::ast::{Expr, Id, Node};
use crate::function::{Function, Overload};
use crate::types::Type;

impl Checker<'_> {
    /// Checks a call. A member call may turn out to be a call of a function with a qualified name;
    /// it then loses its target.
    pub(super) fn call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Node::Call {
            target,
            function,
            args,
        } = &mut expr.node
        else {
            return;
        };
        for arg in args.iter_mut() {
            self.check(arg);
        }
        let plain = function.strip_prefix('.').unwrap_or(function);
        let mut found = self.environment.function(plain);
        if let Some(receiver) = target {
            let namespaced = qualified(receiver).and_then(|prefix| {
                let prefix = prefix.strip_prefix('.').unwrap_or(&prefix).to_owned();
                self.environment.function(&format!("{prefix}.{function}"))
            });
            if namespaced.is_some() {
                found = namespaced;
                *target = None;
            } else {
                self.check(receiver);
            }
        }
        let Some(found) = found else {
            let message = undeclared(function);
            self.report(id, message);
            return self.set(id, Type::Error);
        };
        if target.is_none() {
            *function = found.name.into();
        }
        let arguments: Vec<Id> = target
            .iter()
            .map(|it| it.id)
            .chain(args.iter().map(|it| it.id))
            .collect();
        let member = target.is_some();
        let of = self.resolve(id, found, member, &arguments);
        self.set(id, of);
    }

    fn resolve(&mut self, id: Id, function: &'static Function, member: bool, args: &[Id]) -> Type {
        let types: Vec<Type> = args.iter().map(|arg| self.get(*arg)).collect();
        if matches!(function.name, "_&&_" | "_||_") {
            return self.logic(id, function, args, &types);
        }
        let mut result: Option<Type> = None;
        for overload in function
            .overloads
            .iter()
            .filter(|overload| overload.member == member)
        {
            let Some(of) = self.apply(overload, &types) else {
                continue;
            };
            self.overloads[id as usize].push(overload.id);
            result = Some(match result {
                None => of,
                Some(before) if before == Type::Dyn || before == of => before,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            self.no_match(id, function, member, &types);
            Type::Error
        })
    }

    /// Checks `&&` and `||`, which take only `bool` and report each operand separately.
    fn logic(&mut self, id: Id, function: &'static Function, args: &[Id], types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (arg, of) in args.iter().zip(types) {
            if !self.unifier.assignable(of, &Type::Bool) {
                self.mismatch(*arg, &Type::Bool, of);
                result = Type::Error;
            }
        }
        if result == Type::Bool {
            self.overloads[id as usize] = function.overloads.iter().map(|it| it.id).collect();
        }
        result
    }

    /// Returns the result type of an overload, if it accepts arguments of these types.
    fn apply(&mut self, overload: &Overload, types: &[Type]) -> Option<Type> {
        let with: Vec<(Arc<str>, Type)> = overload
            .params
            .iter()
            .map(|param| (param.clone(), self.unifier.fresh()))
            .collect();
        let fits = if with.is_empty() {
            self.unifier.assignable_all(types, &overload.args)
        } else {
            let args: Vec<_> = overload
                .args
                .iter()
                .map(|of| Unifier::instantiate(of, &with))
                .collect();
            self.unifier.assignable_all(types, &args)
        };
        fits.then(|| {
            let result = Unifier::instantiate(&overload.result, &with);
            self.unifier.substitute(&result, false)
        })
    }

    fn no_match(&mut self, id: Id, function: &Function, member: bool, types: &[Type]) {
        let mut shown: Vec<String> = types
            .iter()
            .map(|of| self.unifier.substitute(of, true).to_string())
            .collect();
        let receiver = if member {
            format!("{}.", shown.remove(0))
        } else {
            String::new()
        };
        let message = format!(
            "found no matching overload for '{}' applied to '{receiver}({})'",
            function.name,
            shown.join(", ")
        );
        self.report(id, message);
    }
}
