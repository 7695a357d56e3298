//! Reconciliation of fields with a changed schema.

use crate::schema::{Alternative, Handling, ListRelation, Ref};
use crate::{Element, Schema, Set};

/// Returns the fields as the current schema has them, if it changed since they were recorded: a
/// field that became atomic is owned as a whole. Returns `None` if nothing changes.
pub fn reconcile(schema: &Schema, fields: &Set) -> Option<Set> {
    let root = View::of(schema.root());
    match root.verdict(fields, false) {
        // The root is not a field: nothing can be owned in its place.
        Verdict::Whole => Some(fields.clone()),
        Verdict::Below => Some(root.repair(fields)),
        Verdict::Same => None,
    }
}

/// The new state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    /// The node is a member, and nothing below it is.
    Whole,
    /// Other members are below the node.
    Below,
}

/// A type, handled without a value.
#[derive(Clone, Copy)]
struct View<'a>(Handling<'a>);

impl<'a> View<'a> {
    fn of(of: Ref<'a>) -> Self {
        Self(of.atom().handling(Alternative::Open))
    }

    /// Returns the new state of a node with these fields below it; it is a `leaf` if it is a member
    /// without fields below. Nothing is copied, because nearly always nothing changes.
    fn verdict(self, fields: &Set, leaf: bool) -> Verdict {
        match self.0 {
            Handling::Map(map) if map.is_open() && map.element.is_deduced() => {
                return Verdict::Same;
            }
            Handling::Map(map) if map.atomic && !leaf => match fields.is_empty() {
                true => return Verdict::Same,
                false => return Verdict::Whole,
            },
            Handling::List(list) if !leaf && matches!(list.relation, ListRelation::Atomic) => {
                return Verdict::Whole;
            }
            Handling::Scalar(_) | Handling::Nothing => return Verdict::Same,
            Handling::Map(_) | Handling::List(_) => {}
        }
        let same = |(element, member, below): (&Element, bool, &Set)| {
            let leaf = member && below.is_empty();
            let view = self.element(element);
            view.is_none_or(|view| view.verdict(below, leaf) == Verdict::Same)
        };
        match fields.entries().all(same) {
            true => Verdict::Same,
            false => Verdict::Below,
        }
    }

    /// Returns the fields below a node, some of which changed.
    fn repair(self, fields: &Set) -> Set {
        let mut set = Set::with_capacity(fields.entries().len());
        for (element, member, below) in fields.entries() {
            let leaf = member && below.is_empty();
            let view = self.element(element);
            let verdict = view.map_or(Verdict::Same, |view| view.verdict(below, leaf));
            let (member, below) = match (verdict, view) {
                (Verdict::Whole, _) => (true, Set::default()),
                (Verdict::Below, Some(view)) => (member, view.repair(below)),
                _ => (member, below.clone()),
            };
            set.push(|| element.clone(), member, below);
        }
        set
    }

    /// Returns the type of a part, if the schema has it.
    fn element(self, element: &Element) -> Option<Self> {
        let of = match (self.0, element) {
            (Handling::Map(map), Element::Field(name)) => map.member(name),
            (Handling::Map(map), _) => map.element,
            (Handling::List(list), _) => list.element,
            _ => Ref::Nothing,
        };
        (!matches!(of, Ref::Nothing)).then(|| Self::of(of))
    }
}
