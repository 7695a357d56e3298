//! Assembles watch events into whole transactions.

use insula_core::Revision;

use crate::etcd::wire::mvccpb::Event;
use crate::etcd::wire::mvccpb::event::EventType;
use crate::etcd::wire::revision;
use crate::{Changed, Entry, KeyRange};

/// The changes of one transaction in the range, in key order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TransactionChanges {
    pub(super) revision: Revision,
    pub(super) changes: Vec<Changed>,
}

/// Assembles the events of one stream.
///
/// etcd may send several revisions in a response, and splits a large response into fragments
/// anywhere, also within a revision. So the last revision of a fragment is held back until it is
/// complete.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    held: Option<TransactionChanges>,
}

impl Assembler {
    /// Takes the events of a response and returns the complete transactions. `more` means that the
    /// response is a fragment with another to follow.
    pub(super) fn take(
        &mut self,
        events: Vec<Event>,
        more: bool,
        range: &KeyRange,
    ) -> Vec<TransactionChanges> {
        let mut transactions: Vec<TransactionChanges> = self.held.take().into_iter().collect();
        for event in events {
            let Some((revision, changed)) = changed(event) else {
                continue;
            };
            if !range.contains(changed.key()) {
                continue;
            }
            match transactions.last_mut() {
                Some(last) if last.revision == revision => last.changes.push(changed),
                _ => transactions.push(TransactionChanges {
                    revision,
                    changes: vec![changed],
                }),
            }
        }
        if more {
            self.held = transactions.pop();
        }
        for transaction in &mut transactions {
            transaction.changes.sort_by(|a, b| a.key().cmp(b.key()));
        }
        transactions
    }
}

/// The change in an event, and its revision. An event always has a key.
fn changed(event: Event) -> Option<(Revision, Changed)> {
    let kind = event.r#type();
    let kv = event.kv?;
    let revision = revision(kv.mod_revision);
    let changed = match kind {
        EventType::Put => Changed::Put(Entry::from(kv)),
        EventType::Delete => Changed::Deleted(kv.key.into()),
    };
    Some((revision, changed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::wire::mvccpb::KeyValue;

    fn deletion(key: &str, revision: i64) -> Event {
        Event {
            r#type: EventType::Delete.into(),
            kv: Some(KeyValue {
                key: key.into(),
                mod_revision: revision,
                ..KeyValue::default()
            }),
        }
    }

    /// Each transaction as its revision and its keys.
    fn summary(transactions: Vec<TransactionChanges>) -> Vec<(u64, String)> {
        let keys = |changes: Vec<Changed>| -> String {
            let keys = changes.iter().map(|change| change.key().escape_ascii());
            keys.map(|key| key.to_string()).collect()
        };
        let summary = transactions.into_iter();
        summary
            .map(|transaction| (transaction.revision.get(), keys(transaction.changes)))
            .collect()
    }

    fn transaction(revision: u64, keys: &str) -> (u64, String) {
        (revision, keys.to_owned())
    }

    #[test]
    fn revision_is_delivered_whole_and_in_key_order() {
        let events = vec![deletion("b", 4), deletion("a", 4), deletion("c", 6)];
        let transactions = Assembler::default().take(events, false, &KeyRange::all());
        assert_eq!(
            summary(transactions),
            [transaction(4, "ab"), transaction(6, "c")]
        );
    }

    #[test]
    fn fragmented_revision_is_held_back_until_complete() {
        let all = KeyRange::all();
        let mut assembler = Assembler::default();
        let first = assembler.take(vec![deletion("a", 4), deletion("b", 5)], true, &all);
        assert_eq!(summary(first), [transaction(4, "a")]);
        let second = assembler.take(vec![deletion("a", 5)], true, &all);
        assert_eq!(summary(second), []);
        let third = assembler.take(vec![deletion("c", 5), deletion("a", 6)], false, &all);
        assert_eq!(summary(third), [transaction(5, "abc"), transaction(6, "a")]);
    }

    #[test]
    fn events_outside_the_range_are_dropped() {
        let events = vec![deletion("a", 4), deletion("b", 4), deletion("a", 5)];
        let transactions = Assembler::default().take(events, false, &KeyRange::single(&b"b"[..]));
        assert_eq!(summary(transactions), [transaction(4, "b")]);
    }
}
