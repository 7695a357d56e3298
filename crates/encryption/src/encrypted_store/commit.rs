//! Commits of sealed values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use insula_core::{Place, ResourceName, Space, TenantName};
use insula_store::{Change, Conflict, Error as StoreError, Outcome, Result, Store, Transaction};
use serde::Deserialize;

use super::{EncryptedStore, Owner, Resolver};
use crate::cipher::Cipher;
use crate::config::Rules;
use crate::envelope::{self, is_sealed};
use crate::{DataKeyId, Error};

/// How often a commit is repeated after values under destroyed keys were removed from its way.
const MAX_ATTEMPTS: usize = 8;

/// The UIDs of tenants that a transaction writes.
type Uids = HashMap<TenantName, DataKeyId>;

/// The data keys that a transaction is sealed with.
type DataKeys = HashMap<DataKeyId, Arc<Cipher>>;

/// Requests a sweep when it is dropped, unless the deletion of a tenant is certain to have ended
/// with its data key.
struct SweepUnlessCertain<'a> {
    sweep_due: &'a AtomicBool,
    is_certain: bool,
}

impl Drop for SweepUnlessCertain<'_> {
    fn drop(&mut self) {
        if !self.is_certain {
            self.sweep_due.store(true, Ordering::Release);
        }
    }
}

impl EncryptedStore {
    /// Commits with the values sealed that the rules say.
    pub(super) async fn commit_sealed(&self, transaction: Transaction) -> Result<Outcome> {
        // Before values grow: the same transactions are accepted with and without encryption.
        transaction.validate()?;
        let Some(resolver) = self.resolver() else {
            let early = "the store is written to before the spaces are known";
            return Err(StoreError::Unavailable(early.to_owned()));
        };
        // Held until the commit ended: rewriting waits for commits under older rules.
        let rules = self.rules();
        let deleted = self.deleted_tenants(&**resolver, &transaction).await?;
        let ids = self.data_key_ids(&**resolver, &rules, &transaction).await?;
        if let Some(conflict) = self.refuse_new_tenant(&ids, &transaction).await? {
            return Ok(Outcome::Conflict(conflict));
        }
        let used: HashSet<_> = ids.iter().flatten().cloned().collect();
        let _registered = self.in_flight.register(used.iter().cloned().collect());
        let mut data_keys = DataKeys::new();
        let mut is_new = false;
        for id in used {
            let (data_key, created) = self.ring.find_or_create(&id).await?;
            is_new |= created;
            data_keys.insert(id, data_key);
        }
        let sealed = self.seal(&data_keys, ids, transaction)?;
        // An older copy of the store lacks a key that is new, and has tenants of those destroyed.
        let changes_keys = is_new || !deleted.is_empty();
        let outcome = self.commit_and_destroy(sealed, deleted).await?;
        if let (true, Outcome::Committed(revision)) = (changes_keys, &outcome) {
            self.binding.raise(*revision).await;
        }
        drop(rules);
        Ok(outcome)
    }

    /// Commits sealed values, and destroys the data keys of the tenants that the commit deletes.
    async fn commit_and_destroy(
        &self,
        sealed: Transaction,
        deleted: Vec<DataKeyId>,
    ) -> Result<Outcome> {
        // The commit may happen although this call fails or is cancelled.
        let mut uncertain = SweepUnlessCertain {
            sweep_due: &self.sweep_due,
            is_certain: deleted.is_empty(),
        };
        for _ in 0..MAX_ATTEMPTS {
            let outcome = self.inner.commit(sealed.clone()).await?;
            let conflict = match outcome {
                Outcome::Conflict(conflict) => conflict,
                other => {
                    self.destroy_all(deleted).await;
                    uncertain.is_certain = true;
                    return Ok(other);
                }
            };
            if let Some(conflict) = self.open_conflict(conflict).await? {
                uncertain.is_certain = true;
                return Ok(Outcome::Conflict(conflict));
            }
        }
        let contended = "values under destroyed keys are in the way of the write";
        Err(StoreError::Unavailable(contended.to_owned()))
    }

    /// Returns the data key of each put, `None` for values that stay plain.
    async fn data_key_ids(
        &self,
        resolver: &dyn Resolver,
        rules: &Rules,
        transaction: &Transaction,
    ) -> Result<Vec<Option<DataKeyId>>> {
        let located: Vec<_> = puts(transaction)
            .map(|(key, value)| (resolver.locate(key), key, value))
            .collect();
        let mut written = Uids::new();
        for (location, key, value) in &located {
            if let Some(Owner::TenantObject(tenant)) = location.as_ref().map(|of| &of.owner) {
                written.insert(tenant.clone(), uid_of(key, value)?);
            }
        }
        let mut ids = Vec::with_capacity(located.len());
        for (location, ..) in located {
            let location = location.filter(|of| rules.seal(of.group, of.resource));
            ids.push(match location.map(|location| location.owner) {
                None => None,
                Some(Owner::System) => Some(DataKeyId::system()),
                Some(Owner::Tenant(tenant) | Owner::TenantObject(tenant)) => {
                    Some(self.data_key_id(resolver, &written, &tenant).await?)
                }
            });
        }
        Ok(ids)
    }

    /// Evaluates the checks alone if the commit needs a data key that is not in memory: a refused
    /// creation of a tenant must not leave a data key behind.
    async fn refuse_new_tenant(
        &self,
        ids: &[Option<DataKeyId>],
        transaction: &Transaction,
    ) -> Result<Option<Conflict>> {
        let mut ids = ids.iter().flatten();
        if transaction.checks().is_empty() || ids.all(|id| self.ring.cached(id.as_str()).is_some())
        {
            return Ok(None);
        }
        let mut checks = Transaction::new();
        for check in transaction.checks() {
            checks = checks.check(check.key.clone(), check.expect);
        }
        match self.inner.commit(checks).await? {
            // A value under a destroyed key is removed by this, and is not in the way.
            Outcome::Conflict(conflict) => self.open_conflict(conflict).await,
            Outcome::Committed(_) | Outcome::Unchanged(_) => Ok(None),
        }
    }

    fn seal(
        &self,
        data_keys: &DataKeys,
        ids: Vec<Option<DataKeyId>>,
        transaction: Transaction,
    ) -> Result<Transaction> {
        if data_keys.is_empty() {
            return Ok(transaction);
        }
        let mut failed = None;
        let mut ids = ids.into_iter();
        let sealed = transaction.transform_values(|key, value| {
            let id = ids.next().flatten();
            let Some((id, data_key)) = id.and_then(|id| {
                let data_key = data_keys.get(&id)?;
                Some((id, data_key))
            }) else {
                return value;
            };
            match envelope::seal(&id, data_key, key, &value) {
                Ok(sealed) => sealed,
                Err(error) => {
                    failed = Some(error);
                    value
                }
            }
        });
        match failed {
            Some(error) => Err(Error::from(error).into()),
            None => {
                self.counters.count_sealed();
                Ok(sealed)
            }
        }
    }

    /// Returns the data key of a tenant.
    async fn data_key_id(
        &self,
        resolver: &dyn Resolver,
        written: &Uids,
        tenant: &TenantName,
    ) -> Result<DataKeyId> {
        if let Some(id) = written.get(tenant) {
            return Ok(id.clone());
        }
        let known = resolver.tenant_uid(tenant);
        if let Some(id) = known.and_then(|uid| DataKeyId::tenant(&uid)) {
            return Ok(id);
        }
        // This server may not know a tenant yet that another one created.
        let key = self.tenant_key(tenant);
        let found = self.get(&key.clone().into()).await?;
        match found {
            Some(entry) => uid_of(key.as_bytes(), &entry.value),
            None => {
                let missing = format!("the tenant {tenant} does not exist");
                Err(StoreError::Unavailable(missing))
            }
        }
    }

    fn tenant_key(&self, tenant: &TenantName) -> String {
        let resource = ResourceName {
            group: "",
            resource: "tenants",
        };
        let place = Place {
            space: Space::System,
            namespace: None,
            name: tenant.as_str(),
        };
        self.layout.key(resource, &place)
    }

    /// Returns the data keys of the tenants that a transaction deletes.
    async fn deleted_tenants(
        &self,
        resolver: &dyn Resolver,
        transaction: &Transaction,
    ) -> Result<Vec<DataKeyId>> {
        let mut deleted = Vec::new();
        for change in transaction.changes() {
            let Change::Delete { key } = change else {
                continue;
            };
            let owner = resolver.locate(key).map(|location| location.owner);
            let Some(Owner::TenantObject(tenant)) = owner else {
                continue;
            };
            let known = resolver.tenant_uid(&tenant);
            match known.and_then(|uid| DataKeyId::tenant(&uid)) {
                Some(id) => deleted.push(id),
                None => {
                    if let Some(entry) = self.get(key).await? {
                        deleted.push(uid_of(key, &entry.value)?);
                    }
                }
            }
        }
        Ok(deleted)
    }

    /// Destroys the data keys of deleted tenants. The deletion is committed, so a failure does not
    /// fail it: it is repeated in the background, and at the next start.
    async fn destroy_all(&self, ids: Vec<DataKeyId>) {
        for id in ids {
            self.destroy_or_note(id).await;
        }
    }

    /// Opens the entry that a check found. Returns `None` if it was under a destroyed key: it is
    /// removed, and the commit can be repeated.
    async fn open_conflict(&self, conflict: Conflict) -> Result<Option<Conflict>> {
        let Some(found) = conflict.found else {
            return Ok(Some(conflict));
        };
        let (key, modified) = (found.key.clone(), found.modified);
        let Some(found) = self.open_entry(found).await? else {
            let removal = Transaction::remove(key, modified);
            self.inner.commit(removal).await?;
            return Ok(None);
        };
        let found = Some(found);
        Ok(Some(Conflict { found, ..conflict }))
    }
}

fn puts(transaction: &Transaction) -> impl Iterator<Item = (&[u8], &[u8])> {
    transaction
        .changes()
        .iter()
        .filter_map(|change| match change {
            Change::Put { key, value } => Some((&key[..], &value[..])),
            Change::Delete { .. } => None,
        })
}

/// Returns the data key of the tenant with this object.
pub(crate) fn uid_of(key: &[u8], tenant: &[u8]) -> Result<DataKeyId> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    struct Metadata<'a> {
        uid: std::borrow::Cow<'a, str>,
    }
    debug_assert!(!is_sealed(tenant), "it was opened");
    let object: Option<Object<'_>> = serde_json::from_slice(tenant).ok();
    let id = object.and_then(|object| DataKeyId::tenant(&object.metadata.uid));
    id.ok_or_else(|| StoreError::Corrupt {
        file: key.escape_ascii().to_string().into(),
        detail: "the tenant has no UID".to_owned(),
    })
}
