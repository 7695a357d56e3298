//! The order of a merged list.
//!
//! Elements of the patch keep the order of the patch, elements only in the live list keep
//! the order of the live list. Between the two, an element only in the live list stays
//! before the first element that followed it there.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::lists::key_of;
use crate::patch::PatchError;

/// The identity of an element: its merge key or, without one, the element itself, as text
/// for lookup.
pub(super) type ElementKey = String;

/// The positions of elements in a list.
#[derive(Default)]
pub(super) struct Order {
    places: HashMap<ElementKey, usize>,
}

pub(super) fn element_key(value: &Value) -> ElementKey {
    value.to_string()
}

impl Order {
    /// Returns the order of a list; an element without the merge key is an error.
    pub fn of(list: &[Value], key: Option<&str>) -> Result<Self, PatchError> {
        Self::of_all_except(list, key, &HashSet::new())
    }

    /// Returns the order of a list without some elements.
    pub fn of_all_except(
        list: &[Value],
        key: Option<&str>,
        without: &HashSet<ElementKey>,
    ) -> Result<Self, PatchError> {
        let mut places = HashMap::new();
        for (at, element) in list.iter().enumerate() {
            let element_key = element_key_of(element, key)?;
            if !without.contains(&element_key) {
                places.entry(element_key).or_insert(at);
            }
        }
        Ok(Self { places })
    }

    /// Appends unknown elements as long as there is room.
    pub fn append<'a>(
        &mut self,
        elements: impl Iterator<Item = &'a Value>,
        key: &str,
        room: usize,
    ) -> Result<(), PatchError> {
        let mut next = self.places.values().max().map_or(0, |last| last + 1);
        let end = next + room;
        for element in elements {
            let element_key = element_key_of(element, Some(key))?;
            if next < end && !self.places.contains_key(&element_key) {
                self.places.insert(element_key, next);
                next += 1;
            }
        }
        Ok(())
    }

    fn place(&self, element_key: &ElementKey) -> Option<usize> {
        self.places.get(element_key).copied()
    }
}

/// Sorts a merged list.
pub(super) fn ordered(
    merged: Vec<Value>,
    patch: &Order,
    live: &Order,
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let mut named = Vec::new();
    let mut others = Vec::new();
    for element in merged {
        let element_key = element_key_of(&element, key)?;
        let place = live.place(&element_key);
        match patch.place(&element_key) {
            Some(at) => named.push((at, place, element)),
            None => others.push((place, element)),
        }
    }
    named.sort_by_key(|(at, _, _)| *at);
    others.sort_by_key(|(place, _)| *place);
    Ok(interleave(others.into(), named))
}

fn interleave(
    mut others: VecDeque<(Option<usize>, Value)>,
    named: Vec<(usize, Option<usize>, Value)>,
) -> Vec<Value> {
    let mut all = Vec::with_capacity(others.len() + named.len());
    for (_, place, element) in named {
        while let Some((Some(other), _)) = others.front()
            && place.is_some_and(|place| *other < place)
        {
            all.extend(others.pop_front().map(|(_, element)| element));
        }
        all.push(element);
    }
    all.extend(others.into_iter().map(|(_, element)| element));
    all
}

fn element_key_of(element: &Value, key: Option<&str>) -> Result<ElementKey, PatchError> {
    match key {
        Some(key) => Ok(element_key(key_of(element, key)?)),
        None => Ok(element_key(element)),
    }
}
