//! The rules of a role that is made of others.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use super::object::{ClusterRole, Source};
use super::rule::RuleList;
use super::selector::Selector;

/// The roles of a space: its own, and those below that they do not replace.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a> {
    pub own: &'a ByName,
    pub below: &'a ByName,
}

/// Roles by their names.
pub type ByName = BTreeMap<Box<str>, ClusterRole>;

impl<'a> Roles<'a> {
    /// The role of this name.
    pub fn get(self, name: &str) -> Option<&'a ClusterRole> {
        self.own.get(name).or_else(|| self.below.get(name))
    }

    /// All of them, in the order of names.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a ClusterRole)> {
        let (mut own, mut below) = (self.own.iter().peekable(), self.below.iter().peekable());
        std::iter::from_fn(move || {
            let order = match (own.peek(), below.peek()) {
                (Some((own, _)), Some((below, _))) => own.cmp(below),
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
            };
            if order == Ordering::Equal {
                below.next();
            }
            let next = match order {
                Ordering::Greater => below.next(),
                Ordering::Less | Ordering::Equal => own.next(),
            };
            next.map(|(name, role)| (&**name, role))
        })
    }

    /// The rules of the aggregated role of this name.
    ///
    /// They are those of the roles that its selectors select, selector by selector and in
    /// the order of names; a selected role that is aggregated itself stands for its own
    /// selection. Each rule is there once. The role itself is left out, and a role that
    /// was come by before adds nothing, so circles end.
    pub fn aggregate(self, name: &str, selectors: &'a [Selector]) -> RuleList {
        let mut rules = Vec::new();
        let mut known = HashSet::new();
        let mut seen = HashSet::from([name]);
        // A stack of its own: a chain may be longer than the thread's stack is deep. It
        // holds iterators, not lists: circles of many roles would make many long ones.
        let mut stack = vec![self.select(selectors)];
        while let Some(selected) = stack.last_mut() {
            let Some((name, role)) = selected.next() else {
                stack.pop();
                continue;
            };
            if !seen.insert(name) {
                continue;
            }
            match &role.source {
                Source::Aggregated(selectors) => stack.push(self.select(selectors)),
                Source::Own(own) => {
                    let new = own.iter().filter(|rule| known.insert(&***rule));
                    rules.extend(new.cloned());
                }
            }
        }
        rules.into()
    }

    fn select(self, selectors: &'a [Selector]) -> Selected<'a> {
        Box::new(selectors.iter().flat_map(move |selector| {
            self.iter()
                .filter(move |(_, role)| selector.selects(&role.labels))
        }))
    }
}

type Selected<'a> = Box<dyn Iterator<Item = (&'a str, &'a ClusterRole)> + 'a>;
