//! The order of a merged list.
//!
//! What the patch names comes in the order of the patch, what only the live list has in
//! the order of the live list. Between the two, an element that only the live list has
//! stays before the first element that came after it there.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::lists::key_of;
use crate::patch::PatchError;

/// What makes an element the same as another: its key or, if it has none, itself, as text
/// so that it can be looked up.
pub(super) type ElementKey = String;

/// The places of elements in a list.
#[derive(Default)]
pub(super) struct Order {
    places: HashMap<ElementKey, usize>,
}

pub(super) fn element_key(value: &Value) -> ElementKey {
    value.to_string()
}

impl Order {
    /// The order of a list; elements that have no key are refused.
    pub fn of(list: &[Value], key: Option<&str>) -> Result<Self, PatchError> {
        Self::of_all_but(list, key, &HashSet::new())
    }

    /// The order of a list from which some elements were taken.
    pub fn of_all_but(
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

    /// Adds as many elements as there is room for, of those that it does not know.
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

/// Puts a merged list in order.
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
