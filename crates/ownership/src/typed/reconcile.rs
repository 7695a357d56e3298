//! Fields that were written down by another schema.

use crate::schema::{Handling, ListRelation, Looks, Map, Ref};
use crate::{Element, Schema, Set};

/// The fields that are still what a schema has, if it changed since they were written down:
/// what became atomic is owned in whole. Nothing if all of them are.
pub fn reconcile(schema: &Schema, fields: &Set) -> Option<Set> {
    match below(schema.root(), fields, false) {
        Change::Below(set) => Some(set),
        // The whole object is no field: nothing can be owned in its place.
        Change::Whole => Some(fields.clone()),
        Change::None => None,
    }
}

/// What becomes of a place.
enum Change {
    None,
    /// It is a member, and nothing below it is.
    Whole,
    /// Other members are below it.
    Below(Set),
}

/// `leaf` if the place is a member and nothing below it is.
fn below(of: Ref<'_>, fields: &Set, leaf: bool) -> Change {
    match of.atom().handling(Looks::Open) {
        Handling::Map(map) if map.is_open() && map.element.is_deduced() => Change::None,
        Handling::Map(map) if map.atomic && !leaf => match fields.is_empty() {
            true => Change::None,
            false => Change::Whole,
        },
        Handling::Map(map) => elements(fields, |element| member(&map, element)),
        Handling::List(list) => match list.relation {
            ListRelation::Atomic if !leaf => Change::Whole,
            _ => elements(fields, |_| list.element),
        },
        Handling::Scalar(_) | Handling::Nothing => Change::None,
    }
}

fn member<'a>(map: &Map<'a>, element: &Element) -> Ref<'a> {
    match element {
        Element::Field(name) => map.member(name),
        _ => map.element,
    }
}

fn elements<'a>(fields: &Set, of: impl Fn(&Element) -> Ref<'a>) -> Change {
    let change = |(element, member, set): (&Element, bool, &Set)| match of(element) {
        Ref::Nothing => Change::None,
        of => below(of, set, member && set.is_empty()),
    };
    // Nearly always nothing changes, and then nothing is copied.
    let changes: Vec<_> = fields.entries().map(change).collect();
    if changes.iter().all(|change| matches!(change, Change::None)) {
        return Change::None;
    }
    let mut set = Set::with_capacity(changes.len());
    for ((element, member, below), change) in fields.entries().zip(changes) {
        let (member, below) = match change {
            Change::None => (member, below.clone()),
            Change::Whole => (true, Set::default()),
            Change::Below(below) => (member, below),
        };
        set.push(|| element.clone(), member, below);
    }
    Change::Below(set)
}
