//! Requesters in order of arrival.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Requesters that wait for the same event, by ticket.
#[derive(Debug, Default)]
pub(super) struct WaitQueue(BTreeMap<u64, Arc<str>>);

impl WaitQueue {
    pub fn push(&mut self, ticket: u64, requester: &Arc<str>) {
        self.0.insert(ticket, Arc::clone(requester));
    }

    pub fn remove(&mut self, ticket: u64) {
        self.0.remove(&ticket);
    }

    /// Removes and returns the first requester.
    pub fn pop(&mut self) -> Option<(u64, Arc<str>)> {
        self.0.pop_first()
    }

    /// Removes and returns all requesters in order.
    pub fn drain(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.0).into_values().collect()
    }

    /// Returns all requesters.
    pub fn requesters(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.values()
    }

    /// Returns the ticket of the first requester.
    pub fn first_ticket(&self) -> Option<u64> {
        self.0.first_key_value().map(|(ticket, _)| *ticket)
    }

    /// Returns how many requesters precede a ticket, counting up to `max`.
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
