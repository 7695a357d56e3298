//! Destruction of the data keys of deleted tenants.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::PoisonError;
use std::time::Duration;

use insula_core::{ResourceName, Space};
use insula_store::{At, KeyRange, Store};

use crate::encrypted_store::uid_of;
use crate::record::{self, DataKeyRecord};
use crate::{DataKeyId, EncryptedStore, Result};

/// The age of data keys without a tenant that are destroyed while servers run. A younger one may
/// belong to a tenant that is about to be created: by another server, or by a commit that is still
/// under way in the engine although its caller was cancelled.
const MIN_ORPHAN_AGE: Duration = Duration::from_secs(600);

/// The tenants that are read at once.
const PAGE: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");

impl EncryptedStore {
    /// Destroys the data key of a deleted tenant. A failure is noted, and repeated later.
    pub(crate) async fn destroy_or_note(&self, id: DataKeyId) {
        match self.ring.destroy(&id).await {
            Ok(true) => {
                tracing::info!(data_key = %id, "data key destroyed");
                self.counters.count_destroyed();
                self.undestroyed().remove(&id);
                self.raise_revision().await;
            }
            Ok(false) => {
                self.undestroyed().remove(&id);
            }
            Err(error) => {
                tracing::error!(data_key = %id, %error, "data key destruction failed");
                self.undestroyed().insert(id);
            }
        }
    }

    /// Repeats the destructions that failed.
    pub(crate) async fn retry_destructions(&self) {
        let again = self.undestroyed().clone();
        for id in again {
            self.destroy_or_note(id).await;
        }
    }

    pub(crate) fn undestroyed_count(&self) -> u64 {
        self.undestroyed().len() as u64
    }

    /// Destroys the data keys that no tenant has: a server may have stopped between the deletion of
    /// a tenant and that of its key.
    pub async fn destroy_orphans(&self) -> Result<()> {
        let orphans = self.orphans(MIN_ORPHAN_AGE).await?;
        self.destroy_unused(orphans).await
    }

    /// The same when the store is opened, before anything can be written: then keys of any age can
    /// be orphans, unless other servers share them.
    pub(crate) async fn destroy_orphans_at_open(&self) -> Result<()> {
        let min_age = match self.ring.storage().is_shared() {
            true => MIN_ORPHAN_AGE,
            false => Duration::ZERO,
        };
        let orphans = self.orphans(min_age).await?;
        if self.binding.is_unbound().await {
            let revision = self.inner.revision().await?;
            return self.binding.bind(revision, orphans).await;
        }
        self.destroy_unused(orphans).await
    }

    /// Returns the data keys that no tenant has.
    ///
    /// The order makes this safe beside commits. A commit is registered before its data key is
    /// created, so a listed key belongs to a commit that is registered, or to one that ended: then
    /// its tenant is among those that are read last. They are read from the store, since a cache
    /// that lags would show too few.
    async fn orphans(&self, min_age: Duration) -> Result<BTreeSet<DataKeyId>> {
        let old = record::now().saturating_sub(min_age.as_secs());
        let kept = self.binding.kept().await;
        let mut orphans: BTreeSet<DataKeyId> = BTreeSet::new();
        for (id, record) in self.ring.data_keys().await? {
            if let DataKeyRecord::Active { created, .. } = record
                && (created <= old || min_age.is_zero())
                && !id.is_system()
                && !kept.contains(id.as_str())
            {
                orphans.insert(id);
            }
        }
        orphans.retain(|id| !self.in_flight.contains(id));
        if !orphans.is_empty() {
            for id in self.tenant_ids().await? {
                orphans.remove(&id);
            }
        }
        Ok(orphans)
    }

    async fn destroy_unused(&self, orphans: BTreeSet<DataKeyId>) -> Result<()> {
        for id in orphans {
            if !self.in_flight.contains(&id) {
                self.destroy_or_note(id).await;
            }
        }
        self.raise_revision().await;
        Ok(())
    }

    /// Records the revision that the store has reached with the keys.
    async fn raise_revision(&self) {
        match self.inner.revision().await {
            Ok(revision) => self.binding.raise(revision).await,
            Err(error) => tracing::warn!(%error, "revision of the store not recorded"),
        }
    }

    /// Returns the UIDs of all tenants.
    async fn tenant_ids(&self) -> Result<Vec<DataKeyId>> {
        let resource = ResourceName {
            group: "",
            resource: "tenants",
        };
        let all = self.layout.collection(resource, &Space::System, None);
        let mut rest = KeyRange::prefix(all.into_bytes());
        let mut ids = Vec::new();
        let mut at = At::Latest;
        loop {
            let page = self.range(&rest, at, Some(PAGE)).await?;
            for entry in &page.entries {
                ids.push(uid_of(&entry.key, &entry.value)?);
            }
            at = At::Revision(page.revision);
            match page.entries.last() {
                Some(last) if page.more => rest = rest.after(&last.key),
                _ => return Ok(ids),
            }
        }
    }

    fn undestroyed(&self) -> std::sync::MutexGuard<'_, BTreeSet<DataKeyId>> {
        self.undestroyed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
