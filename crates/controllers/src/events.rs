//! Removes events a fixed time after their last write.
//!
//! Every event is stored with the time of its last write, so no state is kept beside the events
//! themselves: no queue, no timer, no memory. The next event to expire is the one written first,
//! and later writes expire after everything that exists. So the task sleeps until the oldest event
//! is due, and while there is none, until one is created.

use std::sync::Arc;
use std::time::Duration;

use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_cache::Stored;
use insula_cache::expiry::{self, expiring};
use insula_core::{Revision, Space};
use insula_store::{Expect, Outcome, Transaction};

use crate::RETRY_DELAY;

/// Removes the expired events of every space.
pub struct Expiry {
    /// The registry of the server.
    pub registry: Arc<Registry>,
    /// How long an event is kept after its last write.
    pub after: Duration,
}

/// The result of a pass over all events.
#[derive(Debug, Default)]
struct Scan {
    /// Expired events, as they were seen.
    due: Vec<ExpiredEvent>,
    /// When the next one expires, in seconds since 1970.
    next: Option<u32>,
}

/// An expired event.
#[derive(Debug)]
struct ExpiredEvent {
    address: Address,
    event: Arc<Stored>,
}

/// The number of events removed per transaction; below the limit of every store.
const DELETE_BATCH: usize = 100;

impl Expiry {
    /// Runs until it is dropped.
    pub async fn run(self) {
        let log = self.registry.cache().log_of_all(expiring());
        loop {
            // Subscribed before the events are read, so that none is missed.
            let changed = log.changed().notified();
            let scan = self.scan(expiry::now()).await;
            if let Err(refusal) = self.remove(&scan.due).await {
                tracing::warn!(%refusal, "event removal failed");
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
            match scan.next {
                Some(due) => self.sleep_until_due(due).await,
                None if scan.due.is_empty() => changed.await,
                None => {}
            }
        }
    }

    /// Checks every event of every space once.
    async fn scan(&self, now: u32) -> Scan {
        let mut scan = Scan::default();
        for (space, collection) in self.registry.cache().everywhere(expiring()) {
            for event in collection.snapshot("", None).objects {
                let due = self.due(&event);
                if due <= now {
                    scan.due.push(ExpiredEvent::new(&space, event));
                } else {
                    scan.next = Some(scan.next.map_or(due, |next| next.min(due)));
                }
            }
            // A space may have many events.
            tokio::task::yield_now().await;
        }
        scan
    }

    /// When the event expires. One without a write time was stored by an older server; its creation
    /// time is the best known.
    fn due(&self, event: &Stored) -> u32 {
        let created = || event.created().and_then(|time| u32::try_from(time).ok());
        let written = match event.written {
            0 => created().unwrap_or(0),
            written => written,
        };
        let after = u32::try_from(self.after.as_secs()).unwrap_or(u32::MAX);
        // The second of the write itself does not count.
        written.saturating_add(after).saturating_add(1)
    }

    /// Sleeps until `due`, and long enough beyond that to collect a batch: a sixtieth of the TTL,
    /// like the leases that kube-apiserver attaches to events.
    async fn sleep_until_due(&self, due: u32) {
        let slack = (self.after / 60).clamp(Duration::from_millis(100), Duration::from_secs(60));
        let wait = Duration::from_secs(due.saturating_sub(expiry::now()).into());
        tokio::time::sleep(wait + slack).await;
    }

    async fn remove(&self, due: &[ExpiredEvent]) -> Result<()> {
        let mut last = Revision::ZERO;
        for batch in due.chunks(DELETE_BATCH) {
            last = last.max(self.remove_batch(batch).await?);
        }
        // Removed events must not be found by the next pass.
        self.registry.cache().await_applied(last).await;
        Ok(())
    }

    /// Removes the events that are unchanged. An event that was written meanwhile stays, and one
    /// that is gone was removed by another server.
    async fn remove_batch(&self, batch: &[ExpiredEvent]) -> Result<Revision> {
        let mut batch: Vec<&ExpiredEvent> = batch.iter().collect();
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
                    batch.retain(|due| self.is_unchanged(due));
                }
            }
        }
        Ok(last)
    }

    fn is_unchanged(&self, due: &ExpiredEvent) -> bool {
        let found = self.registry.cached(&due.address);
        found.is_some_and(|found| found.revision == due.event.revision)
    }
}

impl ExpiredEvent {
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
