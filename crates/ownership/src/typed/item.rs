//! List elements and their keys.

use std::borrow::Cow;
use std::cmp::Ordering;

use insula_kinds::Value;
use insula_kinds::go;

use crate::schema::{Keys, List, ListRelation};
use crate::set::{Element, compare_keys, compare_values};

/// The key of a list element. It borrows from the element, and becomes an [`Element`] only where it
/// is stored.
#[derive(Clone, Debug)]
pub(super) enum Item<'a> {
    /// The values of its keys, sorted by name. Most lists have one key, which needs no allocation.
    Keys(Key<'a>, Vec<Key<'a>>),
    /// The element itself.
    Value(&'a Value),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Key<'a> {
    name: &'a str,
    value: Cow<'a, Value>,
}

impl<'a> Item<'a> {
    /// Returns the key of a list element.
    pub fn of(list: &List<'a>, value: &'a Value) -> Result<Self, String> {
        match list.relation {
            ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListRelation::Set => of_set(value),
            ListRelation::Keys(keys) => of_map(list, keys, value),
        }
    }

    /// Returns an owned element.
    pub fn element(&self) -> Element {
        match self {
            Self::Value(value) => Element::Value((*value).clone()),
            Self::Keys(first, rest) => {
                let keys = std::iter::once(first).chain(rest);
                let own = |key: &Key<'_>| (Box::from(key.name), key.value.clone().into_owned());
                Element::Key(keys.map(own).collect())
            }
        }
    }

    /// Compares in the order of elements.
    pub fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Value(one), Self::Value(two)) => compare_values(one, two),
            (Self::Keys(..), Self::Value(_)) => Ordering::Less,
            (Self::Value(_), Self::Keys(..)) => Ordering::Greater,
            (Self::Keys(..), Self::Keys(..)) => compare_keys(self.keys(), other.keys()),
        }
    }

    /// Compares with an element.
    pub fn cmp_element(&self, element: &Element) -> Ordering {
        match (self, element) {
            (Self::Value(one), Element::Value(two)) => compare_values(one, two),
            (Self::Keys(..), Element::Key(keys)) => {
                let keys = keys.iter().map(|(name, value)| (&**name, value));
                compare_keys(self.keys(), keys)
            }
            (_, Element::Field(_)) => Ordering::Greater,
            (Self::Value(_), Element::Key(_)) => Ordering::Greater,
            (Self::Keys(..) | Self::Value(_), _) => Ordering::Less,
        }
    }

    fn keys(&self) -> impl Iterator<Item = (&str, &Value)> {
        let (first, rest) = match self {
            Self::Keys(first, rest) => (Some(first), rest.as_slice()),
            Self::Value(_) => (None, &[][..]),
        };
        first
            .into_iter()
            .chain(rest)
            .map(|key| (key.name, key.value.as_ref()))
    }
}

/// Returns the indexes of items sorted by key; duplicates keep their order. Lists can be long, so
/// that they are sorted once and not inserted one by one.
pub(super) fn sort(items: &[Item<'_>]) -> Vec<usize> {
    let mut order: Vec<_> = (0..items.len()).collect();
    order.sort_by(|one, two| items[*one].cmp(&items[*two]));
    order
}

/// Returns for each item whether an earlier one has the same key.
pub(super) fn repeated(items: &[Item<'_>]) -> Vec<bool> {
    let mut repeated = vec![false; items.len()];
    for pair in sort(items).windows(2) {
        repeated[pair[1]] = items[pair[0]].cmp(&items[pair[1]]).is_eq();
    }
    repeated
}

fn of_set(value: &Value) -> Result<Item<'_>, String> {
    let wrong = match value {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        value => return Ok(Item::Value(value)),
    };
    Err(wrong.to_owned())
}

fn of_map<'a>(list: &List<'a>, keys: Keys<'a>, value: &'a Value) -> Result<Item<'a>, String> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let mut found: Option<(Key<'a>, Vec<Key<'a>>)> = None;
    for name in keys.iter() {
        let value = match map.get(name) {
            Some(value) => Cow::Borrowed(value),
            None => match default(list, name)? {
                Some(value) => Cow::Owned(value),
                // Elements with the key are different.
                None => continue,
            },
        };
        let mut key = Key { name, value };
        match &mut found {
            None => found = Some((key, Vec::new())),
            Some((first, rest)) => {
                if key.name < first.name {
                    std::mem::swap(&mut key, first);
                }
                let at = rest.partition_point(|other| other.name <= key.name);
                rest.insert(at, key);
            }
        }
    }
    match found {
        Some((first, rest)) => Ok(Item::Keys(first, rest)),
        None => Err(no_key(keys)),
    }
}

/// Returns the default of a missing key.
fn default(list: &List<'_>, name: &str) -> Result<Option<Value>, String> {
    match list.element.atom().map {
        Some(map) => Ok(map.default(name)),
        None => Err(format!(
            "couldn't find default value for {name}: associative list may not have non-map types"
        )),
    }
}

fn no_key(keys: Keys<'_>) -> String {
    let names: Vec<_> = keys.iter().map(|name| go::json(&name.into())).collect();
    format!(
        "associative list with keys has an element that omits all key fields [{}] \
         (and doesn't have default values for any key fields)",
        names.join(" ")
    )
}
