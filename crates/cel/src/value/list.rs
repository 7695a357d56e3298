//! Lists: of JSON, computed, or concatenated.

use std::sync::Arc;

use serde_json::Value as Json;

use super::map::Map;
use super::shape::{Listing, read, read_dynamic};
use super::{Key, Value};
use crate::error::EvalError;

/// The maximum number of joints before a list is copied, so that access stays fast.
const MAX_JOINTS: usize = 16;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// JSON without a schema.
    Dynamic(&'a Vec<Json>),
    /// JSON with a schema.
    Typed(&'a Vec<Json>, &'a Listing),
    /// Computed values.
    Made(Arc<Vec<Value<'a>>>),
    /// Values computed from a list with a schema, which keep its semantics.
    Kept(Arc<Vec<Value<'a>>>, &'a Listing),
    /// Two lists, concatenated.
    Joined(Arc<Joint<'a>>),
}

/// A concatenation of two lists.
#[derive(Debug)]
pub struct Joint<'a> {
    first: List<'a>,
    then: List<'a>,
    len: usize,
    depth: usize,
}

impl<'a> List<'a> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Dynamic(items) | Self::Typed(items, _) => items.len(),
            Self::Made(values) | Self::Kept(values, _) => values.len(),
            Self::Joined(joint) => joint.len,
        }
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an element, or none beyond the end.
    pub fn get(&self, at: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Dynamic(items) => items.get(at).map(|item| Ok(read_dynamic(item))),
            Self::Typed(items, listing) => items.get(at).map(|item| read(item, listing.items())),
            Self::Made(values) | Self::Kept(values, _) => values.get(at).cloned().map(Ok),
            Self::Joined(joint) => match at.checked_sub(joint.first.len()) {
                None => joint.first.get(at),
                Some(at) => joint.then.get(at),
            },
        }
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Result<Value<'a>, EvalError>> + '_ {
        let missing = || Err(EvalError::new("index out of bounds"));
        (0..self.len()).map(move |at| self.get(at).unwrap_or_else(missing))
    }

    /// Returns whether the list has a schema.
    pub(crate) fn is_typed(&self) -> bool {
        self.listing().is_some()
    }

    pub(super) fn listing(&self) -> Option<&'a Listing> {
        match self {
            Self::Typed(_, listing) | Self::Kept(_, listing) => Some(listing),
            Self::Joined(joint) => match joint.first.listing()? {
                listing @ Listing::Atomic(_) => Some(listing),
                _ => None,
            },
            _ => None,
        }
    }

    /// Concatenates two lists. A set adds only new elements, and a list with keys replaces elements
    /// with the same key.
    pub(crate) fn plus(self, other: Self) -> Result<Self, EvalError> {
        match self.listing() {
            Some(listing @ Listing::Set(_)) => self.union(&other, listing),
            Some(listing @ Listing::Keyed(_, keys)) => self.merge(&other, keys, listing),
            _ if self.is_empty() && !self.is_typed() => Ok(other),
            _ if other.is_empty() => Ok(self),
            _ => self.append(other),
        }
    }

    /// Appends an element.
    pub(crate) fn push(mut self, element: Value<'a>) -> Result<Self, EvalError> {
        if let Self::Made(values) = &mut self
            && let Some(values) = Arc::get_mut(values)
        {
            values.push(element);
            return Ok(self);
        }
        self.plus(vec![element].into())
    }

    /// Returns the number of elements that a concatenation copies.
    pub(crate) fn copied(&self, other: &Self) -> usize {
        match self.listing() {
            Some(Listing::Set(_) | Listing::Keyed(..)) => self.len() + other.len(),
            _ if self.depth().max(other.depth()) == MAX_JOINTS => self.len() + other.len(),
            _ => match self {
                Self::Made(values) if Arc::strong_count(values) == 1 => other.len(),
                _ => 0,
            },
        }
    }

    fn append(mut self, other: Self) -> Result<Self, EvalError> {
        // A list without other references grows in place: loops build theirs element by element.
        if let Self::Made(values) = &mut self
            && let Some(values) = Arc::get_mut(values)
        {
            for value in other.iter() {
                values.push(value?);
            }
            return Ok(self);
        }
        let depth = 1 + self.depth().max(other.depth());
        if depth > MAX_JOINTS {
            let values = self.iter().chain(other.iter()).collect::<Result<_, _>>()?;
            return Ok(match self.listing() {
                Some(listing) => Self::Kept(Arc::new(values), listing),
                None => Self::Made(Arc::new(values)),
            });
        }
        Ok(Self::Joined(Arc::new(Joint {
            len: self.len() + other.len(),
            depth,
            first: self,
            then: other,
        })))
    }

    fn union(self, other: &Self, listing: &'a Listing) -> Result<Self, EvalError> {
        let mut values = self.iter().collect::<Result<Vec<_>, _>>()?;
        let mut seen: std::collections::BTreeSet<_> =
            values.iter().filter_map(Key::native).collect();
        for value in other.iter() {
            let value = value?;
            if Key::native(&value).is_none_or(|key| seen.insert(key)) {
                values.push(value);
            }
        }
        Ok(Self::Kept(Arc::new(values), listing))
    }

    fn merge(self, other: &Self, keys: &[String], listing: &'a Listing) -> Result<Self, EvalError> {
        let mut values = self.iter().collect::<Result<Vec<_>, _>>()?;
        let mut places = std::collections::BTreeMap::new();
        for (at, value) in values.iter().enumerate() {
            if let Some(key) = element_key(value, keys) {
                places.insert(key, at);
            }
        }
        for value in other.iter() {
            let value = value?;
            match element_key(&value, keys).and_then(|key| places.get(&key)) {
                Some(at) => values[*at] = value,
                None => values.push(value),
            }
        }
        Ok(Self::Kept(Arc::new(values), listing))
    }

    fn depth(&self) -> usize {
        match self {
            Self::Joined(joint) => joint.depth,
            _ => 0,
        }
    }
}

impl<'a> From<Vec<Value<'a>>> for List<'a> {
    fn from(values: Vec<Value<'a>>) -> Self {
        Self::Made(Arc::new(values))
    }
}

/// Returns the key of an element of a list with keys, or none if it is not an object of JSON.
pub(super) fn element_key<'a>(value: &Value<'a>, keys: &[String]) -> Option<Vec<Option<Key<'a>>>> {
    let Value::Map(Map::Dynamic(members) | Map::Typed(members, _) | Map::Object(members, _)) =
        value
    else {
        return None;
    };
    let part = |key: &String| {
        members
            .get(key)
            .and_then(|json| Key::native(&read_dynamic(json)))
    };
    Some(keys.iter().map(part).collect())
}
