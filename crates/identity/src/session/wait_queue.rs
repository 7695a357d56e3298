//! Who waits, in the order they came.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Who waits for the same, by the number that each was given when they came.
#[derive(Debug, Default)]
pub(super) struct WaitQueue(BTreeMap<u64, Arc<str>>);

impl WaitQueue {
    pub fn push(&mut self, ticket: u64, requester: &Arc<str>) {
        self.0.insert(ticket, Arc::clone(requester));
    }

    pub fn remove(&mut self, ticket: u64) {
        self.0.remove(&ticket);
    }

    /// Who came first; they wait no more.
    pub fn pop(&mut self) -> Option<(u64, Arc<str>)> {
        self.0.pop_first()
    }

    /// Everybody, in order; nobody waits any more.
    pub fn drain(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.0).into_values().collect()
    }

    /// Who waits.
    pub fn requesters(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.values()
    }

    /// The number of who came first.
    pub fn first_ticket(&self) -> Option<u64> {
        self.0.first_key_value().map(|(ticket, _)| *ticket)
    }

    /// How many came before a number, as far as it matters.
    pub fn count_ahead(&self, ticket: u64, max: usize) -> usize {
        self.0.range(..ticket).take(max).count()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
