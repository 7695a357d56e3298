//! A store that seals the values of another one.

mod commit;
mod in_flight;
mod resolver;
mod watch;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use async_trait::async_trait;
use insula_core::{Layout, Revision};
use insula_store::{At, DiskSpace, Entry, Key, KeyRange, Outcome, Page, Store, Transaction, Watch};
use tokio::sync::Notify;

pub(crate) use self::commit::uid_of;
use self::in_flight::InFlight;
pub use self::resolver::{Location, Owner, Resolver};
use self::watch::OpeningWatch;
use crate::binding::StoreBinding;
use crate::config::{Config, Rules};
use crate::key_ring::{KeyRing, Providers};
use crate::key_storage::{KeyStorage, STORE};
use crate::provider::{self, KeyProvider};
use crate::status::Counters;
use crate::{DataKeyId, Result};

/// A store that seals the values of another one, and opens them again.
///
/// Values are opened by the data key that they name, whatever the configuration says now. Plain
/// values stay readable, so that a store can be encrypted while it is used. A value under a
/// destroyed data key is treated as deleted.
pub struct EncryptedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) layout: Layout,
    store_id_key: Key,
    /// The store that the keys belong to.
    pub(crate) binding: StoreBinding,
    pub(crate) ring: Arc<KeyRing>,
    pub(crate) counters: Counters,
    rules: RwLock<Arc<Rules>>,
    /// The rules from before, as long as commits hold them.
    older_rules: Mutex<Vec<Weak<Rules>>>,
    /// Held during a rotation and a change of the configuration: two at once would take root keys
    /// from each other.
    rotating: tokio::sync::Mutex<()>,
    /// The provider that wraps root keys.
    primary: RwLock<Option<Arc<dyn KeyProvider>>>,
    resolver: OnceLock<Arc<dyn Resolver>>,
    /// Notified when the resolver is set and when the rules change.
    pub(crate) changed: Arc<Notify>,
    /// Data keys of deleted tenants that could not be destroyed yet.
    pub(crate) undestroyed: Mutex<BTreeSet<DataKeyId>>,
    /// The data keys of commits that are under way.
    pub(crate) in_flight: InFlight,
    /// Whether a tenant may have been deleted without the destruction of its data key.
    pub(crate) sweep_due: AtomicBool,
}

impl EncryptedStore {
    /// Opens the keys in `storage`, and wraps them with the first provider of the configuration.
    ///
    /// Keys that belong to another store are refused, and stay as they are.
    ///
    /// Until [`attach`](Self::attach) the store can be read only.
    pub async fn open(
        inner: Arc<dyn Store>,
        storage: Arc<dyn KeyStorage>,
        layout: Layout,
        config: &Config,
    ) -> Result<Arc<Self>> {
        let providers = provider::create(&config.providers)?;
        let binding = StoreBinding::open(&*inner, Arc::clone(&storage), &layout).await?;
        let ring = KeyRing::new(storage, providers.clone());
        ring.load_root_keys().await?;
        let store = Arc::new(Self {
            inner,
            store_id_key: layout.encryption_record(STORE).into(),
            layout,
            binding,
            ring: Arc::new(ring),
            counters: Counters::default(),
            rules: RwLock::new(Arc::new(config.rules.clone())),
            older_rules: Mutex::default(),
            rotating: tokio::sync::Mutex::default(),
            primary: RwLock::new(primary(config, &providers)),
            resolver: OnceLock::new(),
            changed: Arc::new(Notify::new()),
            undestroyed: Mutex::default(),
            in_flight: InFlight::default(),
            sweep_due: AtomicBool::new(false),
        });
        store.rotate().await?;
        store.destroy_orphans_at_open().await?;
        Ok(store)
    }

    /// Sets what knows the spaces of keys. Writes are possible from now on.
    pub fn attach(&self, resolver: Arc<dyn Resolver>) {
        // A second one would know the same.
        self.resolver.set(resolver).ok();
        self.changed.notify_one();
    }

    /// Replaces the configuration. After an error the old one is in effect.
    pub async fn reconfigure(&self, config: &Config) -> Result<()> {
        let _rotating = self.rotating.lock().await;
        let providers: Providers = provider::create(&config.providers)?.into();
        let new_primary = primary(config, &providers);
        let old_providers = self.ring.replace_providers(providers).await?;
        let old_primary = self.replace_primary(new_primary);
        // Before the rules: what they seal needs a root key.
        if let Err(error) = self.rotate_locked().await {
            self.ring.restore_providers(old_providers);
            self.replace_primary(old_primary);
            // The old providers may have to take data keys back; the next rotation does.
            self.counters.set_rotation_pending(true);
            return Err(error);
        }
        self.replace_rules(config.rules.clone());
        self.changed.notify_one();
        Ok(())
    }

    /// Wraps all data keys with the current key of the first provider, if they are not.
    pub async fn rotate(&self) -> Result<()> {
        let _rotating = self.rotating.lock().await;
        self.rotate_locked().await
    }

    /// The same, for callers that hold the lock.
    async fn rotate_locked(&self) -> Result<()> {
        let primary = self.primary.read();
        let Some(primary) = primary.unwrap_or_else(PoisonError::into_inner).clone() else {
            self.counters.set_rotation_pending(false);
            return Ok(());
        };
        let rotated = self.ring.rotate(&*primary).await;
        self.counters.set_rotation_pending(rotated.is_err());
        if rotated? {
            self.counters.count_rotation();
        }
        Ok(())
    }

    fn replace_primary(
        &self,
        primary: Option<Arc<dyn KeyProvider>>,
    ) -> Option<Arc<dyn KeyProvider>> {
        let current = self.primary.write();
        let mut current = current.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, primary)
    }

    fn replace_rules(&self, rules: Rules) {
        let current = self.rules.write();
        let mut current = current.unwrap_or_else(PoisonError::into_inner);
        let older = std::mem::replace(&mut *current, Arc::new(rules));
        let mut all = self.older_rules();
        all.push(Arc::downgrade(&older));
    }

    /// Whether commits are under way that seal by rules from before the last change.
    pub(crate) fn has_commits_under_older_rules(&self) -> bool {
        let mut all = self.older_rules();
        all.retain(|rules| rules.strong_count() > 0);
        !all.is_empty()
    }

    fn older_rules(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Rules>>> {
        let all = self.older_rules.lock();
        all.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rules. A commit holds them until it ends.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn resolver(&self) -> Option<&Arc<dyn Resolver>> {
        self.resolver.get()
    }

    /// Opens an entry; `None` if its data key was destroyed.
    pub(crate) async fn open_entry(&self, entry: Entry) -> Result<Option<Entry>> {
        let value = self.ring.open_value(&entry.key, &entry.value).await?;
        Ok(value.map(|value| Entry { value, ..entry }))
    }
}

/// The provider that wraps root keys: the first, if anything is sealed.
fn primary(config: &Config, providers: &[Arc<dyn KeyProvider>]) -> Option<Arc<dyn KeyProvider>> {
    providers
        .first()
        .filter(|_| config.rules.seal_any())
        .cloned()
}

#[async_trait]
impl Store for EncryptedStore {
    async fn revision(&self) -> insula_store::Result<Revision> {
        self.inner.revision().await
    }

    async fn range(
        &self,
        range: &KeyRange,
        at: At,
        limit: Option<NonZeroUsize>,
    ) -> insula_store::Result<Page> {
        let mut page = self.inner.range(range, at, limit).await?;
        let mut entries = Vec::with_capacity(page.entries.len());
        loop {
            let last = page.entries.last().map(|entry| entry.key.clone());
            let (revision, more) = (page.revision, page.more);
            for entry in page.entries {
                // The ID of the store is not part of its contents.
                if entry.key != self.store_id_key {
                    entries.extend(self.open_entry(entry).await?);
                }
            }
            // Entries that are left out, also those under destroyed keys, do not count.
            let missing = limit.and_then(|limit| NonZeroUsize::new(limit.get() - entries.len()));
            let (Some(last), Some(_), true) = (last, missing, more) else {
                return Ok(Page {
                    entries,
                    revision,
                    more,
                });
            };
            let rest = range.after(&last);
            let at = At::Revision(revision);
            page = self.inner.range(&rest, at, missing).await?;
        }
    }

    async fn commit(&self, transaction: Transaction) -> insula_store::Result<Outcome> {
        self.commit_sealed(transaction).await
    }

    async fn watch(
        &self,
        range: KeyRange,
        after: Revision,
    ) -> insula_store::Result<Box<dyn Watch>> {
        let inner = self.inner.watch(range, after).await?;
        Ok(Box::new(OpeningWatch::new(
            inner,
            Arc::clone(&self.ring),
            self.layout.clone(),
        )))
    }

    async fn compact(&self, floor: Revision) -> insula_store::Result<()> {
        self.inner.compact(floor).await
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        self.inner.disk_space()
    }
}
