//! Quotas: the ResourceQuotas of a namespace, the quota of a tenant, and its share of the disk for
//! history.
//!
//! A write that increases limited usage also updates the quota in its own transaction, or the
//! tenant's fence if a limit is near, and checks that it is unchanged. So two writes cannot both take the last
//! free unit, whichever servers they came through, and a failed write takes none. Freed usage
//! is recorded later by a controller; a write is rejected only after a recount.
//!
//! Writes to the same quota are serialized by a lock, because otherwise all but one would
//! conflict and retry. Where no quota applies a write pays for one cache lookup.

mod history;
mod namespace;
mod tenant;
pub mod usage;

use bytes::Bytes;
use insula_kinds::Object;
use insula_kinds::quota::CountedResource;
use insula_store::Transaction;

use crate::pipeline::authorize::Caller;
use crate::registry::fair_locks::FairLockGuard;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use crate::status::Result;
use insula_cache::Stored;
use tenant::LimitedTenant;

pub use namespace::with_usage;

/// A write that is charged to quotas.
#[derive(Clone, Copy)]
pub struct QuotaWrite<'a> {
    /// The objects of all spaces.
    pub registry: &'a Registry,
    /// The resource in the version of the request.
    pub kind: &'a Resource,
    /// The object.
    pub address: &'a Address,
    /// The subresource that is written, if any.
    pub subresource: Option<&'a str>,
    /// The object before; `None` on create.
    pub old: Option<&'a Stored>,
    /// The encoded object to store.
    pub new: &'a Bytes,
    /// The caller; `None` if the server itself writes.
    pub caller: Option<Caller<'a>>,
}

/// The locks of the quotas that a write is charged to, held until dropped.
#[derive(Debug, Default)]
pub struct QuotaLocks {
    _tenant: Option<FairLockGuard>,
    _namespace: Option<FairLockGuard>,
}

impl QuotaWrite<'_> {
    /// Locks the quotas that the write may be charged to.
    pub async fn lock(&self) -> QuotaLocks {
        let mut locks = QuotaLocks::default();
        // Always the tenant first: a fixed order rules out deadlocks.
        // Far from its limits, a tenant's writes need not wait for each other.
        if LimitedTenant::of(self).is_some_and(|tenant| tenant.is_near_limit()) {
            let place = (self.address.space.clone(), None);
            locks._tenant = Some(self.registry.namespace_locks().lock(place).await);
        }
        if let Some(namespace) = self.limited_namespace() {
            let place = (self.address.space.clone(), Some(namespace.into()));
            locks._namespace = Some(self.registry.namespace_locks().lock(place).await);
        }
        locks
    }

    /// Adds the checks and usage updates of all quotas to the transaction.
    ///
    /// # Errors
    ///
    /// If the write would exceed a quota, or the tenant's history takes too much of the disk.
    pub async fn charge(&self, transaction: Transaction) -> Result<Transaction> {
        history::check(self)?;
        let (tenant, namespace) = (LimitedTenant::of(self), self.limited_namespace());
        let near_limit = tenant.as_ref().is_some_and(LimitedTenant::is_near_limit);
        if near_limit || namespace.is_some() {
            // The previous holder of the lock may have changed the quotas that are read now.
            self.registry.await_own_writes().await;
        }
        let transaction = match namespace {
            Some(_) => namespace::charge(self, transaction).await?,
            None => transaction,
        };
        match tenant {
            Some(tenant) => tenant.charge(self, transaction).await,
            None => Ok(transaction),
        }
    }

    /// Returns the resource as quotas count it.
    fn counted(&self) -> CountedResource<'_> {
        let kind = self.address.of();
        CountedResource {
            group: &kind.group,
            resource: &kind.resource,
        }
    }

    /// Returns the new object; an empty one if its resource is counted by number only.
    fn after(&self) -> Object {
        match self.counted().is_measured() {
            true => serde_json::from_slice(self.new).unwrap_or_default(),
            false => Object::new(),
        }
    }

    /// Returns the object before the write.
    fn before(&self) -> Option<Object> {
        Some(self.old?.tree())
    }

    /// Returns the namespace, if it has quotas and they count the write.
    fn limited_namespace(&self) -> Option<&str> {
        let namespace = self.address.namespace.as_deref()?;
        let limited = || namespace::is_limited(self.registry, &self.address.space, namespace);
        (namespace::is_counted(self) && limited()).then_some(namespace)
    }
}
