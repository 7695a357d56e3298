//! What there may be at most: in a namespace, by its ResourceQuotas; in a tenant, by the
//! quota on its object.
//!
//! A write that needs more of something that is limited changes the quota too, or the
//! tenant's fence, in its own transaction, which checks that it is as it was when it was
//! looked at. So two
//! writes cannot both take the last place, whichever servers they came through, and a write
//! that fails has taken none. What is given back is counted later, by a loop; but nobody is
//! refused before everything was counted anew.
//!
//! Writes that would meet at one quota take [turns](turns), so that they do not all fail but
//! one and try again. Where nothing is limited a write pays for one look into the cache.

mod namespace;
pub mod tenant;
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

pub use namespace::with_usage;

/// A write, as quotas see it.
#[derive(Clone, Copy)]
pub struct QuotaWrite<'a> {
    /// Where objects are.
    pub registry: &'a Registry,
    /// The kind in the version that the caller speaks.
    pub kind: &'a Resource,
    /// The object.
    pub address: &'a Address,
    /// The subresource that is written, if it is one.
    pub subresource: Option<&'a str>,
    /// The object as it was, if it was.
    pub old: Option<&'a Stored>,
    /// The object as it is to be stored.
    pub new: &'a Bytes,
    /// Who asks; nobody if it is the server itself.
    pub caller: Option<Caller<'a>>,
}

/// The turn of a write where something is limited, until it is dropped.
#[derive(Debug, Default)]
pub struct QuotaLocks {
    _tenant: Option<FairLockGuard>,
    _namespace: Option<FairLockGuard>,
}

impl QuotaWrite<'_> {
    /// Waits until it is the write's turn, if something is limited that it may need.
    pub async fn lock(&self) -> QuotaLocks {
        let mut locks = QuotaLocks::default();
        // Always in this order, so that nobody waits for who waits for them.
        if tenant::limited_tenant(self).is_some() {
            let place = (self.address.space.clone(), None);
            locks._tenant = Some(self.registry.namespace_locks().lock(place).await);
        }
        if let Some(namespace) = self.limited_namespace() {
            let place = (self.address.space.clone(), Some(namespace.into()));
            locks._namespace = Some(self.registry.namespace_locks().lock(place).await);
        }
        locks
    }

    /// The transaction with everything that must hold, and be noted, for the write to be
    /// within what there may be.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub async fn charge(&self, transaction: Transaction) -> Result<Transaction> {
        let (tenant, namespace) = (tenant::limited_tenant(self), self.limited_namespace());
        if tenant.is_none() && namespace.is_none() {
            return Ok(transaction);
        }
        // Whoever had the turn before has left behind what is looked at now.
        self.registry.await_own_writes().await;
        let transaction = match namespace {
            Some(_) => namespace::charge(self, transaction).await?,
            None => transaction,
        };
        match tenant {
            Some(tenant) => tenant::charge(self, tenant, transaction).await,
            None => Ok(transaction),
        }
    }

    /// Its objects, as quotas see them.
    fn counted(&self) -> CountedResource<'_> {
        let kind = self.address.of();
        CountedResource {
            group: &kind.group,
            resource: &kind.resource,
        }
    }

    /// The object as it is to be, of which nothing is needed where it is only counted.
    fn after(&self) -> Object {
        match self.counted().is_measured() {
            true => serde_json::from_slice(self.new).unwrap_or_default(),
            false => Object::new(),
        }
    }

    /// The object as it was.
    fn before(&self) -> Option<Object> {
        Some(self.old?.tree())
    }

    /// The namespace, if it has quotas and the write is one that they are about.
    fn limited_namespace(&self) -> Option<&str> {
        let namespace = self.address.namespace.as_deref()?;
        let limited = || namespace::is_limited(self.registry, &self.address.space, namespace);
        (namespace::is_counted(self) && limited()).then_some(namespace)
    }
}
