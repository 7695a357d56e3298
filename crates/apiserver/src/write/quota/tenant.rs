//! The quota of a tenant: what its object or the server's defaults limit.
//!
//! Usage is computed from the cache and not stored. So that two writes are not both admitted
//! because neither saw the other, a write near a limit updates the tenant's *fence*, an empty row
//! in the store, and checks that it is unchanged since the cache was read. A write that is far
//! from every limit checks the fence without updating it: such writes do not contend, and none
//! commits after another came near the limit. Writes that increase no limited usage ignore it.

use std::sync::Arc;

use insula_core::TenantName;
use insula_kinds::quota::format_amounts;
use insula_store::{Change, Expect, Transaction};

use super::QuotaWrite;
use crate::registry::Registry;
use crate::registry::access_kinds::revocations;
use crate::registry::tenant_quota::TenantQuota;
use crate::status::{Result, StatusError};
use insula_cache::{Cache, SpaceState, Usage};

/// The value of a fence; only its revision matters.
const FENCE: &[u8] = b"{}";

/// A tenant with a quota that a write is charged to.
pub(super) struct LimitedTenant<'a> {
    name: &'a TenantName,
    quota: TenantQuota,
    state: Arc<SpaceState>,
}

impl<'a> LimitedTenant<'a> {
    /// Returns the tenant of the write, if it has a quota. The server's own writes are counted and
    /// never rejected: a tenant needs them to work and to be deleted. Nor are revocations by the
    /// system: a full tenant is no protection for a stolen credential.
    pub fn of(write: &QuotaWrite<'a>) -> Option<Self> {
        let caller = write.caller?;
        if caller.principal().is_system() && write.address.kind.is(revocations()) {
            return None;
        }
        let name = write.address.space.tenant()?;
        let state = write.registry.cache().space_state(&write.address.space)?;
        let quota = effective_quota(write.registry, name, &state);
        (!quota.is_empty()).then_some(Self { name, quota, state })
    }

    /// Whether the tenant's writes must be admitted one at a time.
    pub fn is_near_limit(&self) -> bool {
        self.quota.is_near(self.state.usage())
    }

    /// Adds the fence to a transaction that increases limited usage, if no limit is exceeded.
    pub async fn charge(
        &self,
        write: &QuotaWrite<'_>,
        transaction: Transaction,
    ) -> Result<Transaction> {
        match self.try_charge(write, &transaction).await {
            Ok(fence) => Ok(fence.add_to(transaction)),
            // The cache may not show deletions that freed enough: catch up before rejecting.
            Err(_) => {
                write.registry.catch_up().await?;
                let fence = self.try_charge(write, &transaction).await?;
                Ok(fence.add_to(transaction))
            }
        }
    }

    async fn try_charge(&self, write: &QuotaWrite<'_>, transaction: &Transaction) -> Result<Fence> {
        let (registry, tenant) = (write.registry, self.name);
        let cache = registry.cache();
        let more = growth(cache, write, transaction);
        // The quota may have been changed since this write began.
        let quota = effective_quota(registry, tenant, &self.state);
        if !quota.limits(more) {
            return Ok(Fence::None);
        }
        // Read the fence first, then everything up to it: a write in between moves the fence, and
        // then this transaction conflicts.
        let fence = cache.fence(tenant);
        cache.await_applied(fence.unwrap_or_default()).await;
        let expect = fence.map_or(Expect::Absent, Expect::At);
        let used = cache.space_state(&write.address.space);
        let used = used.map(|state| state.usage()).unwrap_or_default();
        if let Some([more, used, limit]) = quota.exceeded(used, more) {
            let why = format!(
                "exceeded quota of tenant {tenant}: requested: {}, used: {}, limited: {}; delete \
                 objects, or ask the administrator of this server for a larger quota",
                format_amounts(&more),
                format_amounts(&used),
                format_amounts(&limit)
            );
            let (kind, name) = (write.kind, &write.address.name);
            return Err(StatusError::not_allowed(kind, name, &why));
        }
        let key = registry.layout().fence(tenant);
        Ok(match quota.is_near(used + more) {
            true => Fence::Move(key, expect),
            false => Fence::Check(key, expect),
        })
    }
}

/// What a transaction does with the fence, as of the computed usage.
enum Fence {
    /// Nothing, because no limited usage increases.
    None,
    /// Checks that no write near the limit was committed.
    Check(String, Expect),
    /// The same, and keeps other writes from being committed.
    Move(String, Expect),
}

impl Fence {
    fn add_to(self, transaction: Transaction) -> Transaction {
        match self {
            Self::None => transaction,
            Self::Check(key, expect) => transaction.check(key, expect),
            Self::Move(key, expect) => transaction.check(key.clone(), expect).put(key, FENCE),
        }
    }
}

/// Returns the tenant's quota. Its object is parsed only if it may differ from the defaults.
fn effective_quota(registry: &Registry, tenant: &TenantName, state: &SpaceState) -> TenantQuota {
    let defaults = registry.tenant_quota();
    let object = match state.is_limited() {
        true => registry.tenant(tenant.as_str()),
        false => None,
    };
    object.map_or(*defaults, |tenant| {
        TenantQuota::of(&tenant.object.tree(), defaults)
    })
}

/// Returns the usage that the transaction adds.
fn growth(cache: &Cache, write: &QuotaWrite<'_>, transaction: &Transaction) -> Usage {
    let (mut before, mut after) = (Usage::default(), Usage::default());
    for change in transaction.changes() {
        let Change::Put { key, value } = change else {
            continue;
        };
        let Some((space, usage, there)) = cache.weigh(key, value.len()) else {
            continue;
        };
        if space == write.address.space {
            after = after + usage;
            before = before + there;
        }
    }
    after - before
}
