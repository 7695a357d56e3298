//! A watch's position in the log of a collection, and its wait for events that concern it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use insula_core::{Revision, Space};

use super::subscribers::{Interest, NONE, Subscriber};
use super::{Collection, Cursor, Event, Lost, State};

/// A position in the log of a collection that moves with the events of an [`Interest`].
///
/// The position is the first unread event that concerns the watch. Other events neither wake the
/// watch nor leave it behind: a quiet watch is never lost because of what happens to objects that
/// it does not select.
#[derive(Debug)]
pub struct Subscription {
    collection: Arc<Collection>,
    subscriber: Arc<Subscriber>,
}

impl Collection {
    /// Subscribes to the events from a position on. The watch is charged to `payer`.
    pub fn subscribe(
        self: &Arc<Self>,
        interest: Interest,
        payer: Space,
        cursor: Cursor,
    ) -> Subscription {
        let subscriber = Subscriber::new(interest, payer);
        let mut state = self.write();
        state.seek(&subscriber, cursor);
        state
            .subscribers
            .get_or_insert_default()
            .insert(&subscriber);
        drop(state);
        Subscription {
            collection: Arc::clone(self),
            subscriber,
        }
    }
}

impl Subscription {
    /// Is ready when there is an unread event, or when the collection is closed. The last context
    /// is woken.
    pub fn poll_unread(&self, context: &Context<'_>) -> Poll<()> {
        self.subscriber.poll_unread(context.waker())
    }

    /// Waits until there is an unread event, or until the collection is closed.
    pub async fn unread(&self) {
        poll_fn(|context| self.poll_unread(context)).await;
    }

    /// Appends the next events of the interest, about `limit`, and moves the position. The events
    /// of a transaction are never separated, so that every revision is read whole or not at all.
    pub fn read_on(&self, limit: usize, events: &mut Vec<Arc<Event>>) -> Result<(), Lost> {
        if self.subscriber.first_unread() == NONE {
            return Ok(());
        }
        // Nothing is recorded under this lock, and so nothing is marked.
        let state = self.collection.read();
        let first = self.subscriber.first_unread();
        let skip = state.unread(Cursor(first))?.min(state.log.len());
        let interest = self.subscriber.interest();
        let unread = (first..).zip(state.log.range(skip..));
        let (mut count, mut last) = (0, Revision::ZERO);
        for (number, event) in unread.filter(|(_, event)| interest.includes(event)) {
            if count >= limit && event.revision != last {
                self.subscriber.set_unread(number, event.revision);
                return Ok(());
            }
            events.push(Arc::clone(event));
            (count, last) = (count + 1, event.revision);
        }
        state.seek(&self.subscriber, state.end());
        Ok(())
    }

    /// Moves the position to a cursor, after the events before it were read elsewhere.
    pub fn resume(&self, cursor: Cursor) {
        self.collection.read().seek(&self.subscriber, cursor);
    }

    /// Regards every event as read, because the caller reads the log itself from now on.
    pub fn skip_unread(&self) {
        self.subscriber.set_unread(NONE, Revision::ZERO);
    }

    /// Returns a revision up to which there is no unread event; `None` if there is none at all.
    pub fn read_up_to(&self) -> Option<Revision> {
        let first = self.subscriber.unread_revision()?;
        Some(Revision::new(first.get().saturating_sub(1)))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.collection.write();
        let subscribers = state.subscribers.as_mut();
        if subscribers.is_some_and(|subscribers| subscribers.remove(&self.subscriber)) {
            state.subscribers = None;
        }
    }
}

impl State {
    /// Moves a position to the first event from a cursor on that concerns it. A cursor before the
    /// log stays where it is, and so does one at the end of a closed log: both are errors when the
    /// position is read.
    fn seek(&self, subscriber: &Subscriber, cursor: Cursor) {
        let Ok(skip) = self.unread(cursor) else {
            // What the log has dropped since may concern the watch.
            return subscriber.set_unread(cursor.0, Revision::ZERO);
        };
        let unread = (cursor.0..).zip(self.log.iter().skip(skip));
        let mut unread = unread.filter(|(_, event)| subscriber.interest().includes(event));
        match unread.next() {
            Some((number, event)) => subscriber.set_unread(number, event.revision),
            None if self.closed => subscriber.set_unread(self.end().0, self.last),
            None => subscriber.set_unread(NONE, Revision::ZERO),
        }
    }
}

#[cfg(test)]
mod tests;
