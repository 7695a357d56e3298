//! Type checking: finds the type of every node and the overloads of every call.

mod checked;
mod constant;
mod format;
mod overload;
mod unify;
mod validate;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::{Comprehension, Entry, Expr, Id, Literal, Node};
use crate::environment::Environment;
use crate::issue::Issue;
use crate::parse::Parsed;
use crate::types::Type;
pub(crate) use checked::Checked;
use unify::{Unifier, most_general};

/// Checks a tree and replaces names by the declarations that they resolve to.
pub(crate) fn check(environment: &Environment, parsed: &mut Parsed) -> Result<Checked, Vec<Issue>> {
    let nodes = parsed.places.len();
    let mut checker = Checker {
        environment,
        places: &parsed.places,
        types: vec![None; nodes],
        overloads: vec![Vec::new(); nodes],
        names: BTreeSet::new(),
        scopes: Vec::new(),
        unifier: Unifier::default(),
        issues: Vec::new(),
    };
    checker.check(&mut parsed.expr);
    let types = checker.resolved_types();
    if checker.unifier.exhausted() {
        let message = "types of the expression are too large".to_owned();
        return Err(vec![Issue {
            offset: None,
            message,
        }]);
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker {
        overloads, names, ..
    } = checker;
    let mut checked = Checked {
        types,
        overloads,
        names,
        defect: None,
    };
    checked.defect = constant::defect(&parsed.expr, &checked);
    let issues = validate::validate(&parsed.expr, &checked, &parsed.places);
    if issues.is_empty() {
        Ok(checked)
    } else {
        Err(issues)
    }
}

struct Checker<'a> {
    environment: &'a Environment,
    places: &'a [usize],
    types: Vec<Option<Type>>,
    overloads: Vec<Vec<&'static str>>,
    names: BTreeSet<Arc<str>>,
    /// The variables of the enclosing loops, innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    unifier: Unifier,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn check(&mut self, expr: &mut Expr) {
        let of = match &mut expr.node {
            Node::Literal(literal) => literal_type(literal),
            Node::Ident(_) => return self.ident(expr),
            Node::Select { .. } => return self.select(expr),
            Node::Call { function, .. } if &**function == "_?._" => return self.opt_select(expr),
            Node::Call { .. } => return self.call(expr),
            Node::List { elements, optional } => self.list(elements, optional),
            Node::Map(entries) => self.map(entries),
            Node::Struct { .. } => return self.structure(expr),
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
        };
        self.set(expr.id, of);
    }

    fn ident(&mut self, expr: &mut Expr) {
        let Node::Ident(name) = &expr.node else {
            return;
        };
        match self.lookup(name) {
            Some((name, of)) => self.resolve_ident(expr, name, of),
            None => {
                let message = undeclared(name);
                self.set(expr.id, Type::Error);
                self.report(expr.id, message);
            }
        }
    }

    fn resolve_ident(&mut self, expr: &mut Expr, name: Arc<str>, of: Type) {
        self.set(expr.id, of);
        self.names.insert(name.clone());
        expr.node = Node::Ident(name);
    }

    /// Resolves a name; returns it without a leading dot, and its type.
    fn lookup(&self, name: &str) -> Option<(Arc<str>, Type)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let local = self.scopes.iter().rev().find(|(known, _)| **known == *name);
        let of = match local {
            Some((_, of)) => of.clone(),
            None => self.environment.ident(name)?,
        };
        Some((name.into(), of))
    }

    fn select(&mut self, expr: &mut Expr) {
        if let Some(name) = qualified(expr)
            && let Some((name, of)) = self.lookup(&name)
        {
            return self.resolve_ident(expr, name, of);
        }
        let id = expr.id;
        let Node::Select {
            operand,
            field,
            test,
        } = &mut expr.node
        else {
            return;
        };
        let of = self.field(id, operand, field, false);
        let of = if *test {
            Type::Bool
        } else {
            self.unifier.substitute(&of, false)
        };
        self.set(id, of);
    }

    fn opt_select(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Node::Call { args, .. } = &mut expr.node else {
            return;
        };
        let [operand, field] = args.as_mut_slice() else {
            return;
        };
        let Node::Literal(Literal::String(field)) = &field.node else {
            return;
        };
        let field = field.clone();
        let of = self.field(id, operand, &field, true);
        let of = self.unifier.substitute(&of, false);
        self.set(id, of);
        self.overloads[id as usize] = vec!["select_optional_field"];
    }

    fn field(&mut self, id: Id, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let of = self.get(operand.id);
        let operand = self.unifier.substitute(&of, false);
        let (target, was_optional) = unwrap(&operand);
        let result = match target {
            Type::Map(_, value) => Type::clone(value),
            Type::Object(of) => match self.environment.field(of, field) {
                Some(of) => of,
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Opaque(name) if name.starts_with("kubernetes.") => {
                self.report(id, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Param(_) => {
                self.unifier.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(
                    id,
                    format!("type '{other}' does not support field selection"),
                );
                Type::Dyn
            }
        };
        if optional || was_optional {
            Type::optional(result)
        } else {
            result
        }
    }

    fn list(&mut self, elements: &mut [Expr], optional: &[usize]) -> Type {
        let mut joined = None;
        for (at, element) in elements.iter_mut().enumerate() {
            self.check(element);
            let of = self.get(element.id);
            let of = if optional.binary_search(&at).is_ok() {
                self.unwrapped(element.id, &of)
            } else {
                of
            };
            joined = Some(self.join(joined, of));
        }
        Type::list(joined.unwrap_or_else(|| self.unifier.fresh()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.get(entry.key.id);
            keys = Some(self.join(keys, key));
            self.check(&mut entry.value);
            let of = self.get(entry.value.id);
            let of = if entry.optional {
                self.unwrapped(entry.value.id, &of)
            } else {
                of
            };
            values = Some(self.join(values, of));
        }
        let key = keys.unwrap_or_else(|| self.unifier.fresh());
        Type::map(key, values.unwrap_or_else(|| self.unifier.fresh()))
    }

    /// The type inside an optional type. Any other type is reported.
    fn unwrapped(&mut self, id: Id, of: &Type) -> Type {
        let (inner, was_optional) = unwrap(of);
        if !was_optional && *inner != Type::Dyn {
            let expected = Type::optional(inner.clone());
            self.mismatch(id, &expected, inner);
        }
        inner.clone()
    }

    fn join(&mut self, before: Option<Type>, of: Type) -> Type {
        match before {
            None => of,
            Some(before) if self.unifier.assignable(&before, &of) => {
                most_general(&before, &of).clone()
            }
            Some(_) => Type::Dyn,
        }
    }

    fn structure(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Node::Struct { name, entries } = &mut expr.node else {
            return;
        };
        let Some((resolved, of)) = self.lookup(name) else {
            let message = undeclared(name);
            self.report(id, message);
            return self.set(id, Type::Error);
        };
        *name = resolved.clone();
        self.names.insert(resolved);
        let result = match &of {
            Type::Meta(of) if matches!(&**of, Type::Object(_)) => Type::clone(of),
            Type::Meta(of) => {
                self.report(id, format!("'{}' is not a message type", of.name()));
                Type::Error
            }
            other => {
                self.report(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.set(id, result.clone());
        for entry in entries {
            self.structure_field(&result, entry);
        }
    }

    fn structure_field(&mut self, of: &Type, entry: &mut Entry) {
        self.check(&mut entry.value);
        let Node::Literal(Literal::String(name)) = &entry.key.node else {
            return;
        };
        let declared = match of {
            Type::Object(of) => self.environment.field(of, name),
            _ => return,
        };
        if declared.is_none() {
            self.report(entry.id, format!("undefined field '{name}'"));
        }
        let declared = declared.unwrap_or(Type::Error);
        let value = self.get(entry.value.id);
        let value = if entry.optional {
            self.unwrapped(entry.value.id, &value)
        } else {
            value
        };
        if !self.unifier.assignable(&declared, &value) {
            let message = format!(
                "expected type of field '{name}' is '{declared}' but provided type is '{value}'"
            );
            self.report(entry.id, message);
        }
    }

    fn comprehension(&mut self, it: &mut Comprehension) -> Type {
        self.check(&mut it.range);
        self.check(&mut it.init);
        let of = self.get(it.range.id);
        let range = self.unifier.substitute(&of, false);
        let accumulated = self.get(it.init.id);
        self.scopes
            .push((it.accumulator.clone(), accumulated.clone()));
        let (first, second) = self.iterated(it, &range);
        let outer = self.scopes.len();
        self.scopes.push((it.variable.clone(), first));
        if let Some(name) = &it.second {
            self.scopes.push((name.clone(), second));
        }
        self.check(&mut it.condition);
        self.expect(it.condition.id, &Type::Bool);
        self.check(&mut it.step);
        self.expect(it.step.id, &accumulated);
        self.scopes.truncate(outer);
        self.check(&mut it.result);
        self.scopes.truncate(outer - 1);
        let of = self.get(it.result.id);
        self.unifier.substitute(&of, false)
    }

    /// The types of the loop variables for a range of this type.
    fn iterated(&mut self, it: &Comprehension, range: &Type) -> (Type, Type) {
        match (range, &it.second) {
            (Type::List(of), Some(_)) => (Type::Int, Type::clone(of)),
            (Type::List(of), None) => (Type::clone(of), Type::Error),
            (Type::Map(key, value), _) => (Type::clone(key), Type::clone(value)),
            (Type::Dyn | Type::Error | Type::Param(_), _) => {
                self.unifier.assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            (other, _) => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension \
                     (must be list, map, or dynamic)"
                );
                self.report(it.range.id, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, id: Id, expected: &Type) {
        let found = self.get(id);
        if !self.unifier.assignable(expected, &found) {
            self.mismatch(id, expected, &found);
        }
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(
            id,
            format!("expected type '{expected}' but found '{found}'"),
        );
    }

    fn report(&mut self, id: Id, message: String) {
        let offset = self.places.get(id as usize).copied();
        self.issues.push(Issue { offset, message });
    }

    fn set(&mut self, id: Id, of: Type) {
        // Types that are nested too deeply must be found before any other function recurses into
        // them.
        self.unifier.measure(&of);
        let of = if self.unifier.exhausted() {
            Type::Dyn
        } else {
            of
        };
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = Some(of);
        }
    }

    fn get(&self, id: Id) -> Type {
        self.types
            .get(id as usize)
            .cloned()
            .flatten()
            .unwrap_or(Type::Error)
    }

    fn resolved_types(&mut self) -> Vec<Type> {
        let types = std::mem::take(&mut self.types);
        let resolve =
            |of: Option<Type>| of.map_or(Type::Dyn, |of| self.unifier.substitute(&of, true));
        types.into_iter().map(resolve).collect()
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn unwrap(of: &Type) -> (&Type, bool) {
    match of {
        Type::Optional(of) => (of, true),
        other => (other, false),
    }
}

/// Returns `a.b.c` as one name, if the expression consists of names only.
fn qualified(expr: &Expr) -> Option<String> {
    match &expr.node {
        Node::Ident(name) => Some(name.to_string()),
        Node::Select {
            operand,
            field,
            test: false,
        } => {
            let mut name = qualified(operand)?;
            name.push('.');
            name.push_str(field);
            Some(name)
        }
        _ => None,
    }
}
