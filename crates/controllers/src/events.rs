//! Events go when nobody has written them for a while.
//!
//! Every event is stored with the time of its last write, so there is nothing to keep beside
//! the events themselves: no queue, no timer, no memory. What goes next is what was written
//! first, and whatever is written from now on goes after everything that is there. So the
//! loop sleeps until the oldest is due; while there are none, until there is one.

use std::sync::Arc;
use std::time::Duration;

use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_cache::Stored;
use insula_cache::expiry::{self, expiring};
use insula_core::{Revision, Space};
use insula_store::{Expect, Outcome, Transaction};

use crate::RETRY;

/// Removes the events of every space in time.
pub struct Expiry {
    /// Where they are.
    pub registry: Arc<Registry>,
    /// How long one stays that nobody writes.
    pub after: Duration,
}

/// What a look at all events showed.
#[derive(Debug, Default)]
struct Look {
    /// What is due, as it was seen.
    due: Vec<Due>,
    /// When the next is, in seconds since 1970.
    next: Option<u32>,
}

/// An event that is to go.
#[derive(Debug)]
struct Due {
    address: Address,
    event: Arc<Stored>,
}

/// How many events one transaction removes: less than what a store takes.
const BATCH: usize = 100;

impl Expiry {
    /// Goes on until it is dropped.
    pub async fn run(self) {
        let log = self.registry.cache().log_of_all(expiring());
        loop {
            // Asked for before the events are looked at, so that none is missed.
            let changed = log.changed().notified();
            let look = self.look(expiry::now()).await;
            if let Err(refusal) = self.remove(&look.due).await {
                tracing::warn!(%refusal, "old events are removed later");
                tokio::time::sleep(RETRY).await;
                continue;
            }
            match look.next {
                Some(due) => self.rest_until(due).await,
                None if look.due.is_empty() => changed.await,
                None => {}
            }
        }
    }

    /// Every event of every space, once.
    async fn look(&self, now: u32) -> Look {
        let mut look = Look::default();
        for (space, collection) in self.registry.cache().everywhere(expiring()) {
            for event in collection.snapshot("", None).objects {
                let due = self.due(&event);
                if due <= now {
                    look.due.push(Due::new(&space, event));
                } else {
                    look.next = Some(look.next.map_or(due, |next| next.min(due)));
                }
            }
            // A space may have many.
            tokio::task::yield_now().await;
        }
        look
    }

    /// When the event is to go. One without a date is of an older server: it was created
    /// then, and nobody knows of more.
    fn due(&self, event: &Stored) -> u32 {
        let created = || event.created().and_then(|time| u32::try_from(time).ok());
        let written = match event.written {
            0 => created().unwrap_or(0),
            written => written,
        };
        let after = u32::try_from(self.after.as_secs()).unwrap_or(u32::MAX);
        // The second in which it was written is not over.
        written.saturating_add(after).saturating_add(1)
    }

    /// Until then, and as much longer as makes a batch of what is due soon after: a sixtieth
    /// of what events live for, as it is with the leases that kube-apiserver has them under.
    async fn rest_until(&self, due: u32) {
        let longer = (self.after / 60).clamp(Duration::from_millis(100), Duration::from_secs(60));
        let wait = Duration::from_secs(due.saturating_sub(expiry::now()).into());
        tokio::time::sleep(wait + longer).await;
    }

    async fn remove(&self, due: &[Due]) -> Result<()> {
        let mut last = Revision::ZERO;
        for batch in due.chunks(BATCH) {
            last = last.max(self.remove_batch(batch).await?);
        }
        // What is removed is not looked at again.
        self.registry.cache().await_applied(last).await;
        Ok(())
    }

    /// Removes those that are as they were. Who was written in the meantime stays, and who is
    /// gone is: another server does the same.
    async fn remove_batch(&self, batch: &[Due]) -> Result<Revision> {
        let mut batch: Vec<&Due> = batch.iter().collect();
        let mut last = Revision::ZERO;
        while !batch.is_empty() {
            let transaction = batch.iter().fold(Transaction::new(), |all, due| {
                let key = self.registry.key(&due.address);
                all.check(key.clone(), Expect::At(due.event.revision))
                    .delete(key)
            });
            match self.registry.commit(transaction).await? {
                Outcome::Committed(revision) | Outcome::Unchanged(revision) => return Ok(revision),
                Outcome::Conflict(conflict) => {
                    last = conflict.revision;
                    self.registry.cache().await_applied(last).await;
                    batch.remove(conflict.check);
                    batch.retain(|due| self.is_there(due));
                }
            }
        }
        Ok(last)
    }

    fn is_there(&self, due: &Due) -> bool {
        let found = self.registry.cached(&due.address);
        found.is_some_and(|found| found.revision == due.event.revision)
    }
}

impl Due {
    fn new(space: &Space, event: Arc<Stored>) -> Self {
        let address = Address {
            kind: expiring().into(),
            space: space.clone(),
            namespace: event.namespace().map(str::to_owned),
            name: event.name().to_owned(),
        };
        Self { address, event }
    }
}
