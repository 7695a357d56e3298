//! A store with commits that wait.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use insula_store::memory::Memory;
use insula_store::{
    At, Error, KeyRange, Outcome, Page, Result, Revision, Store, Transaction, Watch,
};
use tokio::sync::Semaphore;

/// A store in memory. Commits that change the held key wait until they are released.
pub struct HeldStore {
    pub inner: Arc<Memory>,
    key: &'static str,
    reached: Semaphore,
    released: Semaphore,
    /// Whether held commits report that their result is not known, although they happen.
    pub is_indeterminate: AtomicBool,
}

impl HeldStore {
    /// Holds commits that change `key`.
    pub fn new(key: &'static str) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::new(Memory::new()),
            key,
            reached: Semaphore::new(0),
            released: Semaphore::new(0),
            is_indeterminate: AtomicBool::new(false),
        })
    }

    /// Waits until a commit is held.
    pub async fn await_held(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets one commit through.
    pub fn release(&self) {
        self.released.add_permits(1);
    }
}

#[async_trait]
impl Store for HeldStore {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        self.inner.range(range, at, limit).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        let mut changes = transaction.changes().iter();
        if !changes.any(|change| change.key() == self.key.as_bytes()) {
            return self.inner.commit(transaction).await;
        }
        self.reached.add_permits(1);
        self.released.acquire().await.unwrap().forget();
        let outcome = self.inner.commit(transaction).await;
        match self.is_indeterminate.load(Ordering::Acquire) {
            true => Err(Error::Indeterminate("no answer".to_owned())),
            false => outcome,
        }
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        self.inner.watch(range, after).await
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.inner.compact(floor).await
    }
}
