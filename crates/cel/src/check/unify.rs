//! Unification of types, with variables for types that are not known yet.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// The maximum nesting of types. Loops over loops could nest them deeper than any source text.
const MAX_DEPTH: usize = 500;

/// The maximum number of steps per expression. Types can grow exponentially with its length.
const MAX_STEPS: usize = 5_000_000;

/// The type variables and their bindings.
#[derive(Default)]
pub(crate) struct Unifier {
    bound: HashMap<Arc<str>, Type>,
    /// The previous bindings, to be restored if an attempt fails.
    log: Vec<(Arc<str>, Option<Type>)>,
    fresh: usize,
    steps: usize,
    exhausted: bool,
}

impl Unifier {
    /// Returns a new type variable.
    pub(crate) fn fresh(&mut self) -> Type {
        let name = format!("_var{}", self.fresh);
        self.fresh += 1;
        Type::Param(name.into())
    }

    /// Returns whether the types of the expression exceeded a limit.
    pub(crate) fn exhausted(&self) -> bool {
        self.exhausted
    }

    /// Returns whether a value of type `right` can be used as `left`, and records the bindings that
    /// follow.
    pub(crate) fn assignable(&mut self, left: &Type, right: &Type) -> bool {
        self.assignable_all(std::slice::from_ref(left), std::slice::from_ref(right))
    }

    /// The same for several types at once, all or none.
    pub(crate) fn assignable_all(&mut self, left: &[Type], right: &[Type]) -> bool {
        self.log.clear();
        let fits = left.len() == right.len()
            && left
                .iter()
                .zip(right)
                .all(|(left, right)| self.fits(left, right, 0));
        if !fits {
            while let Some((name, before)) = self.log.pop() {
                match before {
                    Some(of) => self.bound.insert(name, of),
                    None => self.bound.remove(&name),
                };
            }
        }
        fits
    }

    /// Returns the type with all known bindings applied. Unbound variables become `dyn` if
    /// `finally` is set.
    pub(crate) fn substitute(&mut self, of: &Type, finally: bool) -> Type {
        self.put_in(of, finally, 0)
    }

    /// Returns the type with the parameters of a signature replaced.
    pub(crate) fn instantiate(of: &Type, with: &[(Arc<str>, Type)]) -> Type {
        match of {
            Type::Param(name) => with
                .iter()
                .find(|(param, _)| param == name)
                .map_or_else(|| of.clone(), |(_, fresh)| fresh.clone()),
            Type::List(of) => Type::list(Self::instantiate(of, with)),
            Type::Optional(of) => Type::optional(Self::instantiate(of, with)),
            Type::Meta(of) => Type::Meta(Arc::new(Self::instantiate(of, with))),
            Type::Map(key, value) => {
                Type::map(Self::instantiate(key, with), Self::instantiate(value, with))
            }
            simple => simple.clone(),
        }
    }

    /// Walks over a type to find out whether it exceeds a limit.
    pub(crate) fn measure(&mut self, of: &Type) {
        self.walk(of, 0);
    }

    fn walk(&mut self, of: &Type, depth: usize) {
        if !self.step(depth) {
            return;
        }
        match of {
            Type::List(of) | Type::Optional(of) | Type::Meta(of) => self.walk(of, depth + 1),
            Type::Map(key, value) => {
                self.walk(key, depth + 1);
                self.walk(value, depth + 1);
            }
            _ => {}
        }
    }

    /// Counts a step; returns false once a limit is exceeded.
    fn step(&mut self, depth: usize) -> bool {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            self.exhausted = true;
        }
        !self.exhausted
    }

    fn put_in(&mut self, of: &Type, finally: bool, depth: usize) -> Type {
        if !self.step(depth) {
            return Type::Dyn;
        }
        match of {
            Type::Param(name) => match self.bound.get(name).cloned() {
                Some(known) => self.put_in(&known, finally, depth + 1),
                None if finally => Type::Dyn,
                None => of.clone(),
            },
            Type::List(of) => Type::list(self.put_in(of, finally, depth + 1)),
            Type::Optional(of) => Type::optional(self.put_in(of, finally, depth + 1)),
            Type::Meta(of) => Type::Meta(Arc::new(self.put_in(of, finally, depth + 1))),
            Type::Map(key, value) => Type::map(
                self.put_in(key, finally, depth + 1),
                self.put_in(value, finally, depth + 1),
            ),
            simple => simple.clone(),
        }
    }

    fn fits(&mut self, left: &Type, right: &Type, depth: usize) -> bool {
        if !self.step(depth) {
            return false;
        }
        if let Type::Param(name) = right {
            match self.stands_for(name, left, depth) {
                Stands::Yes => return true,
                Stands::ForOther => return false,
                Stands::InItself => {}
            }
        }
        if let Type::Param(name) = left {
            return matches!(self.stands_for(name, right, depth), Stands::Yes);
        }
        match (left, right) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(left), Type::List(right))
            | (Type::Optional(left), Type::Optional(right)) => self.fits(left, right, depth + 1),
            (Type::Map(left, of_left), Type::Map(right, of_right)) => {
                self.fits(left, right, depth + 1) && self.fits(of_left, of_right, depth + 1)
            }
            (left, right) => left == right,
        }
    }

    /// Binds a type variable to a type, if possible.
    fn stands_for(&mut self, name: &Arc<str>, other: &Type, depth: usize) -> Stands {
        if matches!(other, Type::Param(same) if same == name) {
            return Stands::Yes;
        }
        if let Some(known) = self.bound.get(name).cloned() {
            if *other == known {
                return Stands::Yes;
            }
            if !self.fits(other, &known, depth + 1) {
                return Stands::ForOther;
            }
            let general = most_general(other, &known);
            if !self.mentions(general, name, depth) {
                let general = general.clone();
                self.bind(name, general);
            }
            return Stands::Yes;
        }
        if self.mentions(other, name, depth) {
            return Stands::InItself;
        }
        self.bind(name, other.clone());
        Stands::Yes
    }

    fn bind(&mut self, name: &Arc<str>, of: Type) {
        let before = self.bound.insert(name.clone(), of);
        self.log.push((name.clone(), before));
    }

    fn mentions(&mut self, within: &Type, name: &Arc<str>, depth: usize) -> bool {
        if !self.step(depth) {
            return true;
        }
        match within {
            Type::Param(other) if other == name => true,
            Type::Param(other) => match self.bound.get(other).cloned() {
                Some(known) => self.mentions(&known, name, depth + 1),
                None => false,
            },
            Type::List(of) | Type::Optional(of) | Type::Meta(of) => {
                self.mentions(of, name, depth + 1)
            }
            Type::Map(key, value) => {
                self.mentions(key, name, depth + 1) || self.mentions(value, name, depth + 1)
            }
            _ => false,
        }
    }
}

enum Stands {
    /// The variable is bound to the type.
    Yes,
    /// The variable is bound to an incompatible type.
    ForOther,
    /// The type contains the variable.
    InItself,
}

/// Returns the more general of two compatible types.
pub(crate) fn most_general<'a>(left: &'a Type, right: &'a Type) -> &'a Type {
    if is_general(left, right) { left } else { right }
}

fn is_general(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Meta(_), Type::Meta(_)) => true,
        (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
            is_general(left, right)
        }
        (Type::Map(left, of_left), Type::Map(right, of_right)) => {
            is_general(left, right) && is_general(of_left, of_right)
        }
        (left, right) => left == right,
    }
}

fn nullable(of: &Type) -> bool {
    matches!(
        of,
        Type::Null
            | Type::Duration
            | Type::Timestamp
            | Type::Optional(_)
            | Type::Object(_)
            | Type::Opaque(_)
    )
}
