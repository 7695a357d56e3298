//! Who waits, in the order they came.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Who waits for the same, by the number that each was given when they came.
#[derive(Debug, Default)]
pub(super) struct Crowd(BTreeMap<u64, Arc<str>>);

impl Crowd {
    pub fn join(&mut self, number: u64, asker: &Arc<str>) {
        self.0.insert(number, Arc::clone(asker));
    }

    pub fn leave(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// Who came first; they wait no more.
    pub fn first(&mut self) -> Option<(u64, Arc<str>)> {
        self.0.pop_first()
    }

    /// Everybody, in order; nobody waits any more.
    pub fn all(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.0).into_values().collect()
    }

    /// Who waits.
    pub fn askers(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.values()
    }

    /// The number of who came first.
    pub fn first_number(&self) -> Option<u64> {
        self.0.first_key_value().map(|(number, _)| *number)
    }

    /// How many came before a number, as far as it matters.
    pub fn ahead_of(&self, number: u64, most: usize) -> usize {
        self.0.range(..number).take(most).count()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
