//! Validates literals that have the right type.

use insula_gotext::regexp;

use super::{Checked, format};
use crate::ast::{Entry, Expr, Id, Literal, Node};
use crate::issue::Issue;
use crate::types::Type;
use crate::value::{Timestamp, is_duration, is_timestamp};

/// Reports literals that no evaluation could accept: invalid durations, timestamps and regular
/// expressions, lists and maps of mixed types, and formats that do not fit their arguments.
pub(super) fn validate(expr: &Expr, checked: &Checked, places: &[usize]) -> Vec<Issue> {
    let mut validator = Validator {
        checked,
        places,
        issues: Vec::new(),
    };
    validator.visit(expr, false);
    validator.issues
}

struct Validator<'a> {
    checked: &'a Checked,
    places: &'a [usize],
    issues: Vec<Issue>,
}

impl Validator<'_> {
    /// Visits children before their parent. Inside `format`, lists may be of mixed types.
    fn visit(&mut self, expr: &Expr, exempt: bool) {
        match &expr.node {
            Node::Literal(_) | Node::Ident(_) => {}
            Node::Select { operand, .. } => self.visit(operand, exempt),
            Node::Call {
                target,
                function,
                args,
            } => {
                let inside = exempt || &**function == "format";
                for part in target.as_deref().into_iter().chain(args) {
                    self.visit(part, inside);
                }
                self.call(expr.id, target.as_deref(), function, args);
            }
            Node::List { elements, optional } => {
                elements
                    .iter()
                    .for_each(|element| self.visit(element, exempt));
                if !exempt {
                    self.list(elements, optional);
                }
            }
            Node::Map(entries) => {
                for entry in entries {
                    self.visit(&entry.key, exempt);
                    self.visit(&entry.value, exempt);
                }
                if !exempt {
                    self.map(entries);
                }
            }
            Node::Struct { entries, .. } => {
                for entry in entries {
                    self.visit(&entry.value, exempt);
                }
            }
            Node::Comprehension(it) => {
                for part in [&it.range, &it.init, &it.condition, &it.step, &it.result] {
                    self.visit(part, exempt);
                }
            }
        }
    }

    fn call(&mut self, id: Id, target: Option<&Expr>, function: &str, args: &[Expr]) {
        if function == "format" {
            return self.format(id, target, args);
        }
        let Some(Expr {
            id,
            node: Node::Literal(literal),
        }) = args.first()
        else {
            return;
        };
        let valid = match (function, literal) {
            ("duration", Literal::String(text)) => is_duration(text),
            // The overload exists, but has no implementation.
            ("duration", Literal::Int(_)) => false,
            ("timestamp", Literal::String(text)) => is_timestamp(text),
            ("timestamp", Literal::Int(seconds)) => Timestamp::of_seconds(*seconds).is_ok(),
            ("matches", Literal::String(text)) => regexp::check(text).is_ok(),
            _ => true,
        };
        if !valid {
            self.report(*id, format!("invalid {function} argument"));
        }
    }

    fn format(&mut self, id: Id, target: Option<&Expr>, args: &[Expr]) {
        let Some(Node::Literal(Literal::String(text))) = target.map(|target| &target.node) else {
            return;
        };
        let [
            Expr {
                node: Node::List { elements, .. },
                ..
            },
        ] = args
        else {
            return;
        };
        if let Err(mistake) = format::check(text, elements, self.checked) {
            self.report(mistake.at.unwrap_or(id), mistake.message);
        }
    }

    fn list(&mut self, elements: &[Expr], optional: &[usize]) {
        let mut first: Option<Type> = None;
        for (at, element) in elements.iter().enumerate() {
            let of = self.type_of(element.id, optional.binary_search(&at).is_ok());
            match &first {
                None => first = Some(of),
                Some(expected) if *expected != of => {
                    return self.mismatch(element.id, &expected.clone(), &of);
                }
                Some(_) => {}
            }
        }
    }

    fn map(&mut self, entries: &[Entry]) {
        let mut first: Option<(Type, Type)> = None;
        for entry in entries {
            let key = self.type_of(entry.key.id, false);
            let value = self.type_of(entry.value.id, entry.optional);
            let Some((expected_key, expected)) = first.clone() else {
                first = Some((key, value));
                continue;
            };
            if expected_key != key {
                self.mismatch(entry.key.id, &expected_key, &key);
            }
            if expected != value {
                self.mismatch(entry.value.id, &expected, &value);
            }
        }
    }

    fn type_of(&self, id: Id, optional: bool) -> Type {
        let of = self
            .checked
            .types
            .get(id as usize)
            .cloned()
            .unwrap_or(Type::Dyn);
        match of {
            Type::Optional(of) if optional => Type::clone(&of),
            of => of,
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
}
