//! What a whole tenant may have, by the quota on its object.
//!
//! How much it has is what the cache has: nothing is kept that could be wrong. What must
//! not happen is that two writes are let through because neither saw the other. So each of
//! them changes the tenant's *fence*, a row that holds nothing, and checks that it is as it
//! was when the cache was looked at, which had come that far. Only what needs more does so:
//! who gives something back meets nobody.

use insula_core::TenantName;
use insula_kinds::quantity::{Format, Quantity};
use insula_kinds::quota::{Amounts, format_amounts};
use insula_kinds::{Object, Value};
use insula_store::{Change, Expect, Transaction};

use super::QuotaWrite;
use crate::registry::Registry;
use crate::status::{Result, StatusError};
use insula_cache::{Cache, Usage};

/// What a tenant may have; where nothing is said, as much as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    objects: Option<Quantity>,
    bytes: Option<Quantity>,
    namespaces: Option<Quantity>,
    definitions: Option<Quantity>,
}

impl Limit {
    /// What the object of a tenant says.
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

    /// What of it would be exceeded by so much more: what is asked for, there and allowed.
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

    /// Whether it says anything about so much more.
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

/// What is in a fence: it is there to change.
const FENCE: &[u8] = b"{}";

/// The tenant, if it has a quota and the write is one that it is about. What the server
/// does by itself is counted and never refused: it is what lets a tenant work, and go.
pub(super) fn limited_tenant<'a>(write: &QuotaWrite<'a>) -> Option<&'a TenantName> {
    write.caller?;
    let tenant = write.address.space.tenant()?;
    let state = write.registry.cache().space_state(&write.address.space)?;
    state.is_limited().then_some(tenant)
}

/// Adds the fence to the transaction, if it needs more of something that is limited and
/// there is as much.
pub(super) async fn charge(
    write: &QuotaWrite<'_>,
    tenant: &TenantName,
    transaction: Transaction,
) -> Result<Transaction> {
    match try_charge(write, tenant, &transaction).await {
        Ok(fence) => Ok(fence.add_to(transaction)),
        // Somebody may have given back what is missing.
        Err(_) => {
            write.registry.catch_up().await?;
            let fence = try_charge(write, tenant, &transaction).await?;
            Ok(fence.add_to(transaction))
        }
    }
}

/// The fence as it was when the cache was looked at; none if nothing is needed.
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
    // First the fence, then what is behind it, all of it: who comes in between has moved it.
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

/// How much more there is after the transaction, of each.
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

/// So much of it, as it is written.
fn amount(name: &str, count: u64) -> Quantity {
    let format = if name == BYTES {
        Format::Binary
    } else {
        Format::Decimal
    };
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), format)
}

/// How much a tenant has, as its status says it; none if it has no quota.
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
