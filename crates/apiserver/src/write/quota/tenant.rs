//! The quota of a tenant, in the spec of its object.
//!
//! Usage is computed from the cache and not stored. So that two writes are not both admitted
//! because neither saw the other, each updates the tenant's *fence*, an empty row in the store,
//! and checks that it is unchanged since the cache was read. Only writes that increase usage do
//! so; others do not contend for the fence.

use insula_core::TenantName;
use insula_kinds::quantity::{Format, Quantity};
use insula_kinds::quota::{Amounts, format_amounts};
use insula_kinds::{Object, Value};
use insula_store::{Change, Expect, Transaction};

use super::QuotaWrite;
use crate::registry::Registry;
use crate::status::{Result, StatusError};
use insula_cache::{Cache, Usage};

/// The limits of a tenant; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    objects: Option<Quantity>,
    bytes: Option<Quantity>,
    namespaces: Option<Quantity>,
    definitions: Option<Quantity>,
}

impl Limit {
    /// Reads the limits in a tenant's object; `None` if it has none.
    pub fn read(tenant: &Object) -> Option<Self> {
        let quota = tenant.get("spec")?.get("quota")?;
        let amount = |name: &str| match quota.get(name)? {
            Value::Number(number) => Some(Quantity::new(number.as_i64()?, Format::Decimal)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let limit = Self {
            objects: amount(OBJECTS),
            bytes: amount(BYTES),
            namespaces: amount(NAMESPACES),
            definitions: amount(DEFINITIONS),
        };
        (limit != Self::default()).then_some(limit)
    }

    /// Returns the limits that so much more usage would exceed: requested, used and allowed.
    fn exceeded(&self, used: Usage, more: Usage) -> Option<[Amounts; 3]> {
        let limits = [
            (OBJECTS, self.objects, used.objects, more.objects),
            (BYTES, self.bytes, used.bytes, more.bytes),
            (
                NAMESPACES,
                self.namespaces,
                used.namespaces,
                more.namespaces,
            ),
            (
                DEFINITIONS,
                self.definitions,
                used.definitions,
                more.definitions,
            ),
        ];
        let mut exceeded: [Amounts; 3] = Default::default();
        for (name, limit, used, more) in limits {
            let (Some(limit), 1..) = (limit, more) else {
                continue;
            };
            let (used, more) = (amount(name, used), amount(name, more));
            if used.plus(more) > limit {
                for (list, amount) in exceeded.iter_mut().zip([more, used, limit]) {
                    list.insert(name.to_owned(), amount);
                }
            }
        }
        (!exceeded[0].is_empty()).then_some(exceeded)
    }

    /// Whether any increased usage is limited.
    const fn limits(&self, more: Usage) -> bool {
        (self.objects.is_some() && more.objects > 0)
            || (self.bytes.is_some() && more.bytes > 0)
            || (self.namespaces.is_some() && more.namespaces > 0)
            || (self.definitions.is_some() && more.definitions > 0)
    }
}

const OBJECTS: &str = "objects";
const BYTES: &str = "bytes";
const NAMESPACES: &str = "namespaces";
const DEFINITIONS: &str = "customResourceDefinitions";

/// The value of a fence; only its revision matters.
const FENCE: &[u8] = b"{}";

/// Returns the tenant of the write, if it has a quota. The server's own writes are counted and
/// never rejected: a tenant needs them to work and to be deleted.
pub(super) fn limited_tenant<'a>(write: &QuotaWrite<'a>) -> Option<&'a TenantName> {
    write.caller?;
    let tenant = write.address.space.tenant()?;
    let state = write.registry.cache().space_state(&write.address.space)?;
    state.is_limited().then_some(tenant)
}

/// Adds the fence to a transaction that increases limited usage, if no limit is exceeded.
pub(super) async fn charge(
    write: &QuotaWrite<'_>,
    tenant: &TenantName,
    transaction: Transaction,
) -> Result<Transaction> {
    match try_charge(write, tenant, &transaction).await {
        Ok(fence) => Ok(fence.add_to(transaction)),
        // The cache may not show deletions that freed enough: catch up before rejecting.
        Err(_) => {
            write.registry.catch_up().await?;
            let fence = try_charge(write, tenant, &transaction).await?;
            Ok(fence.add_to(transaction))
        }
    }
}

/// The fence as of the computed usage; `None` if no limited usage increases.
struct Fence(Option<(String, Expect)>);

impl Fence {
    fn add_to(self, transaction: Transaction) -> Transaction {
        match self.0 {
            Some((key, expect)) => transaction.check(key.clone(), expect).put(key, FENCE),
            None => transaction,
        }
    }
}

async fn try_charge(
    write: &QuotaWrite<'_>,
    tenant: &TenantName,
    transaction: &Transaction,
) -> Result<Fence> {
    let (registry, space) = (write.registry, &write.address.space);
    let cache = registry.cache();
    let more = growth(cache, write, transaction);
    let state = registry.tenant(tenant.as_str());
    let limit = state.and_then(|state| Limit::read(&state.object.tree()));
    let Some(limit) = limit.filter(|limit| limit.limits(more)) else {
        return Ok(Fence(None));
    };
    // Read the fence first, then everything up to it: a write in between moves the fence, and
    // then this transaction conflicts.
    let fence = cache.fence(tenant);
    cache.await_applied(fence.unwrap_or_default()).await;
    let expect = fence.map_or(Expect::Absent, Expect::At);
    let used = cache.space_state(space).map(|state| state.usage());
    if let Some([more, used, limit]) = limit.exceeded(used.unwrap_or_default(), more) {
        let why = format!(
            "exceeded quota of tenant {tenant}: requested: {}, used: {}, limited: {}",
            format_amounts(&more),
            format_amounts(&used),
            format_amounts(&limit)
        );
        return Err(StatusError::not_allowed(
            write.kind,
            &write.address.name,
            &why,
        ));
    }
    Ok(Fence(Some((registry.layout().fence(tenant), expect))))
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

/// Returns a count as a quantity in the format of its limit.
fn amount(name: &str, count: u64) -> Quantity {
    let format = if name == BYTES {
        Format::Binary
    } else {
        Format::Decimal
    };
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), format)
}

/// Returns the usage for a tenant's status; `None` if it has no quota.
pub fn usage(registry: &Registry, tenant: &TenantName, object: &Object) -> Option<Value> {
    Limit::read(object)?;
    let space = insula_core::Space::Tenant(tenant.clone());
    let Usage {
        objects,
        bytes,
        namespaces,
        definitions,
    } = registry.cache().space_state(&space)?.usage();
    Some(serde_json::json!({
        OBJECTS: objects,
        BYTES: amount(BYTES, bytes).to_string(),
        NAMESPACES: namespaces,
        DEFINITIONS: definitions,
    }))
}
