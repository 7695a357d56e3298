//! The reference model, in as few lines as possible.
//!
//! One lock, one ordered map of versions, one log of all changes. The other engines are compared
//! with this one. Its content is lost when it is dropped.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use insula_core::Revision;
use tokio::sync::watch;

use crate::{
    At, Change, Changed, Check, Conflict, Entry, Error, Expect, Key, KeyRange, Outcome, Page,
    Result, Store, Transaction, Watch, WatchItem,
};

/// A store in memory.
#[derive(Clone, Debug)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    /// The revision, for watchers that wait for it to grow.
    head: Arc<watch::Sender<Revision>>,
}

#[derive(Debug)]
struct State {
    head: Revision,
    floor: Revision,
    keys: BTreeMap<Key, Vec<Version>>,
    log: BTreeMap<Revision, Vec<Changed>>,
}

/// The state of a key from one revision on.
#[derive(Debug)]
struct Version {
    since: Revision,
    entry: Option<Entry>,
}

impl Memory {
    /// An empty store, at revision 1 as in etcd.
    pub fn new() -> Self {
        let head = Revision::new(1);
        let state = State {
            head,
            floor: Revision::ZERO,
            keys: BTreeMap::new(),
            log: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            head: Arc::new(watch::Sender::new(head)),
        }
    }

    /// Every critical section leaves the state consistent, so a poisoned lock is safe to use.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for Memory {
    async fn revision(&self) -> Result<Revision> {
        Ok(self.state().head)
    }

    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        self.state().range(range, at, limit)
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        transaction.validate()?;
        let mut state = self.state();
        let outcome = state.commit(&transaction);
        if let Outcome::Committed(revision) = outcome {
            self.head.send_replace(revision);
        }
        Ok(outcome)
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        self.state().check_floor(after)?;
        Ok(Box::new(Cursor {
            store: self.clone(),
            head: self.head.subscribe(),
            range,
            delivered: after,
            progress_requested: false,
        }))
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.state().compact(floor)
    }
}

impl State {
    fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        let revision = match at {
            At::Latest => self.head,
            At::Revision(revision) => {
                self.check_floor(revision)?;
                self.check_reached(revision)?;
                revision
            }
        };
        let mut entries = Vec::new();
        let mut more = false;
        if !range.is_empty() {
            let found = self.keys.range(range.bounds());
            for entry in found.filter_map(|(_, versions)| version_at(versions, revision)) {
                if limit.is_some_and(|limit| entries.len() == limit.get()) {
                    more = true;
                    break;
                }
                entries.push(entry.clone());
            }
        }
        Ok(Page {
            entries,
            revision,
            more,
        })
    }

    fn commit(&mut self, transaction: &Transaction) -> Outcome {
        for (check, Check { key, expect }) in transaction.checks().iter().enumerate() {
            let found = self.current(key);
            let holds = match expect {
                Expect::Absent => found.is_none(),
                Expect::At(revision) => found.is_some_and(|entry| entry.modified == *revision),
            };
            if !holds {
                return Outcome::Conflict(Conflict {
                    check,
                    found: found.cloned(),
                    revision: self.head,
                });
            }
        }
        let revision = self.head.next();
        let mut changes: Vec<Changed> = transaction
            .changes()
            .iter()
            .filter_map(|change| self.apply(change, revision))
            .collect();
        if changes.is_empty() {
            return Outcome::Unchanged(self.head);
        }
        changes.sort_by(|a, b| a.key().cmp(b.key()));
        self.log.insert(revision, changes);
        self.head = revision;
        Outcome::Committed(revision)
    }

    /// Applies one change and returns what a watcher sees of it; `None` if it had no effect.
    fn apply(&mut self, change: &Change, revision: Revision) -> Option<Changed> {
        let key = change.key();
        let created = self.current(key).map(|entry| entry.created);
        let (entry, changed) = match change {
            Change::Put { value, .. } => {
                let entry = Entry {
                    key: key.clone(),
                    value: Bytes::clone(value),
                    created: created.unwrap_or(revision),
                    modified: revision,
                };
                (Some(entry.clone()), Changed::Put(entry))
            }
            Change::Delete { .. } => {
                created?;
                (None, Changed::Deleted(key.clone()))
            }
        };
        let since = revision;
        let versions = self.keys.entry(key.clone()).or_default();
        versions.push(Version { since, entry });
        Some(changed)
    }

    fn current(&self, key: &Key) -> Option<&Entry> {
        version_at(self.keys.get(key)?, self.head)
    }

    fn compact(&mut self, floor: Revision) -> Result<()> {
        self.check_reached(floor)?;
        if floor <= self.floor {
            return Ok(());
        }
        self.floor = floor;
        self.log = self.log.split_off(&floor.next());
        self.keys.retain(|_, versions| {
            let kept = versions.iter().rposition(|version| version.since <= floor);
            versions.drain(..kept.unwrap_or(0));
            versions.retain(|version| version.entry.is_some() || version.since > floor);
            !versions.is_empty()
        });
        Ok(())
    }

    /// Checks that the history from `revision` on is kept.
    fn check_floor(&self, revision: Revision) -> Result<()> {
        let floor = self.floor;
        if revision < floor {
            return Err(Error::Compacted { floor });
        }
        Ok(())
    }

    /// Checks that `revision` has been reached.
    fn check_reached(&self, revision: Revision) -> Result<()> {
        let current = self.head;
        if revision > current {
            return Err(Error::Future { current });
        }
        Ok(())
    }
}

fn version_at(versions: &[Version], revision: Revision) -> Option<&Entry> {
    let version = versions.iter().rfind(|version| version.since <= revision)?;
    version.entry.as_ref()
}

/// The position of a watcher.
struct Cursor {
    store: Memory,
    head: watch::Receiver<Revision>,
    range: KeyRange,
    delivered: Revision,
    progress_requested: bool,
}

impl Cursor {
    fn step(&mut self) -> Result<Option<WatchItem>> {
        let state = self.store.state();
        state.check_floor(self.delivered)?;
        for (revision, changes) in state.log.range(self.delivered.next()..) {
            self.delivered = *revision;
            let mut changes = changes.clone();
            changes.retain(|change| self.range.contains(change.key()));
            if !changes.is_empty() {
                let revision = *revision;
                return Ok(Some(WatchItem::Changes { revision, changes }));
            }
        }
        let progress = std::mem::take(&mut self.progress_requested);
        Ok(progress.then(|| WatchItem::Progress(state.head)))
    }
}

#[async_trait]
impl Watch for Cursor {
    async fn next(&mut self) -> Result<WatchItem> {
        loop {
            self.head.mark_unchanged();
            if let Some(item) = self.step()? {
                return Ok(item);
            }
            let gone = |_| Error::Unavailable("the store was closed".into());
            self.head.changed().await.map_err(gone)?;
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.progress_requested = true;
        Ok(())
    }
}
