//! Equality of values.
//!
//! Values of different types differ; numbers of all types are compared by value. Values with a
//! schema are stricter: comparing them with a type that they cannot have is an error.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::list::element_key;
use super::shape::Listing;
use super::{Key, List, Map, Opaque, Value};
use crate::error::EvalError;

type Answer = Result<bool, EvalError>;

impl Value<'_> {
    /// `self == other`
    pub fn equals(&self, other: &Value<'_>) -> Answer {
        match (self, other) {
            (Self::Null, Value::Null) => Ok(true),
            (Self::Null, _) | (_, Value::Null) => Ok(false),
            _ => self.same(other),
        }
    }

    /// Compares as the left value does.
    fn same(&self, other: &Value<'_>) -> Answer {
        match (self, other) {
            (Self::Null, _) => Ok(matches!(other, Value::Null)),
            (Self::Bool(one), Value::Bool(two)) => Ok(one == two),
            (Self::String(one), Value::String(two)) => Ok(**one == **two),
            (Self::Bytes(one), Value::Bytes(two)) => Ok(one == two),
            (Self::Type(one), Value::Type(two)) => Ok(**one == **two),
            (Self::Duration(one), Value::Duration(two)) => Ok(one.nanos == two.nanos),
            (Self::Timestamp(one), Value::Timestamp(two)) => Ok(one.order(*two).is_eq()),
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), _) => Ok(same_number(self, other)),
            (Self::Optional(None), Value::Optional(two)) => Ok(two.is_none()),
            (Self::Optional(Some(one)), Value::Optional(Some(two))) => one.same(two),
            (Self::List(one), Value::List(two)) => same_lists(one, two),
            (Self::Map(one), Value::Map(two)) => same_maps(one, two),
            (Self::Struct(one), Value::Struct(two)) => same_structs(one, two),
            (Self::Opaque(one), Value::Opaque(two)) => same_opaque(one, two),
            (Self::List(one), _) if one.is_typed() => Err(EvalError::no_such_overload()),
            (Self::Map(one), _) if one.is_typed() => Err(EvalError::no_such_overload()),
            (Self::Opaque(_), _) => Err(EvalError::no_such_overload()),
            _ => Ok(false),
        }
    }

    /// Returns whether the list contains the value.
    pub(crate) fn is_in(&self, list: &List<'_>) -> Answer {
        let typed = list.is_typed();
        let mut failed = None;
        for element in list.iter() {
            // The value that is compared first decides what is an error.
            let answer = match (element, typed) {
                (Ok(element), true) => element.same(self),
                (Ok(element), false) => self.same(&element),
                (Err(error), _) => Err(error),
            };
            match answer {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if typed => Err(error),
            _ => Ok(false),
        }
    }
}

fn same_number(one: &Value<'_>, two: &Value<'_>) -> bool {
    one.order(two) == Ok(Ordering::Equal)
}

fn same_lists(one: &List<'_>, two: &List<'_>) -> Answer {
    if one.len() != two.len() {
        return Ok(false);
    }
    match one.listing() {
        Some(Listing::Set(_)) => same_sets(one, two),
        Some(Listing::Keyed(_, keys)) => same_keyed(one, two, keys),
        listing => {
            let typed = listing.is_some();
            let joined = matches!(one, List::Joined(_));
            same_elements(one, two, typed, joined)
        }
    }
}

fn same_elements(one: &List<'_>, two: &List<'_>, typed: bool, joined: bool) -> Answer {
    let mut failed = None;
    for (one, two) in one.iter().zip(two.iter()) {
        let answer = match (one, two) {
            (Ok(one), Ok(two)) if typed => one.same(&two),
            (Ok(one), Ok(two)) => one.equals(&two),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        match answer {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if typed => return Err(error),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // In a list without a schema, elements that cannot be compared count as equal.
    match failed {
        Some(error) if joined => Err(error),
        _ => Ok(true),
    }
}

fn same_sets(one: &List<'_>, two: &List<'_>) -> Answer {
    let mut known = BTreeSet::new();
    for value in one.iter() {
        if let Some(key) = Key::native(&value?) {
            known.insert(key);
        }
    }
    for value in two.iter() {
        let value = value?;
        if !Key::native(&value).is_some_and(|key| known.contains(&key)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_keyed(one: &List<'_>, two: &List<'_>, keys: &[String]) -> Answer {
    let mut known = BTreeMap::new();
    for value in one.iter() {
        let value = value?;
        known.insert(element_key(&value, keys), value);
    }
    for value in two.iter() {
        let value = value?;
        let Some(key) = element_key(&value, keys) else {
            return Ok(false);
        };
        match known.get(&Some(key)).map(|known| known.same(&value)) {
            Some(Ok(true)) => {}
            None => return Ok(false),
            Some(other) => return other,
        }
    }
    Ok(true)
}

fn same_maps(one: &Map<'_>, two: &Map<'_>) -> Answer {
    if one.len() != two.len() {
        return Ok(false);
    }
    if let Map::Object(members, fields) = one {
        return same_objects(one, two, members, fields);
    }
    for key in one.keys() {
        let (Some(one_value), Some(two_value)) = (one.find(&key), two.find(&key)) else {
            return Ok(false);
        };
        let answer = match (one_value, two_value) {
            (Ok(one), Ok(two)) => one.equals(&two),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        match answer {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if one.is_typed() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(true)
}

/// Compares objects. Fields without a schema are compared as JSON; one that is missing on the right
/// needs no check, because the sizes are equal.
fn same_objects(
    one: &Map<'_>,
    two: &Map<'_>,
    members: &serde_json::Map<String, serde_json::Value>,
    fields: &BTreeMap<String, super::Property>,
) -> Answer {
    for escaped in fields.keys() {
        match (one.field(escaped), two.field(escaped)) {
            (None, None) => {}
            (Some(one), Some(two)) => {
                if !one?.same(&two?)? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    let known = |name: &String| fields.values().any(|property| property.name == *name);
    for (name, json) in members.iter().filter(|(name, _)| !known(name)) {
        let Map::Object(others, _) = two else {
            return Err(EvalError::no_such_overload());
        };
        if others.get(name).is_some_and(|other| other != json) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_structs(one: &super::Struct<'_>, two: &super::Struct<'_>) -> Answer {
    if one.name != two.name || one.fields.len() != two.fields.len() {
        return Ok(false);
    }
    for (name, value) in &one.fields {
        let other = two.fields.iter().find(|(other, _)| other == name);
        match other {
            Some((_, other)) if value.equals(other)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn same_opaque(one: &Opaque<'_>, two: &Opaque<'_>) -> Answer {
    Ok(match (one, two) {
        (Opaque::Quantity(one), Opaque::Quantity(two)) => one.quantity == two.quantity,
        (Opaque::Url(one), Opaque::Url(two)) => one.to_string() == two.to_string(),
        (Opaque::Ip(one), Opaque::Ip(two)) => one == two,
        (Opaque::Cidr(one), Opaque::Cidr(two)) => one == two,
        (Opaque::Semver(one), Opaque::Semver(two)) => one.order(two).is_eq(),
        (Opaque::Format(one), Opaque::Format(two)) => std::ptr::eq(*one, *two),
        _ => return Err(EvalError::no_such_overload()),
    })
}
