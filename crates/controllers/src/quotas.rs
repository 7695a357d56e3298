//! Keeps the recorded usage of quotas up to date.
//!
//! A write that needs more of a limited resource records it in its own transaction. This controller
//! records the rest: released usage when counted objects are deleted, new or changed quotas, and
//! objects that were created uncounted. A limited tenant's object shows its usage. The cache notes
//! the stale places, so unlimited namespaces cost nothing, and a place cools down for a second
//! after each recount.

use std::sync::Arc;

use insula_apiserver::Registry;
use insula_apiserver::flow_control::cpu_bound;
use insula_apiserver::registry::tenant_status::{self, LIMITS_FIELDS};
use insula_apiserver::registry::{Address, tenant_address};
use insula_apiserver::status::Result;
use insula_apiserver::write::quota::{self, usage};
use insula_apiserver::write::{Modified, Modify, modify};
use insula_cache::{Place, SpaceState, Stored};
use insula_core::{Space, TenantName};
use insula_kinds::core_kind;
use insula_kinds::quantity::Quantity;
use insula_kinds::quota::Quota;
use insula_kinds::{Object, Value};
use insula_store::{Outcome, Transaction};
use serde_json::json;

use crate::ignore_permanent;

/// The differences from which on the usage of a tenant without limits of its own is recorded.
const USAGE_STEPS: [(&str, u64); 4] = [
    ("objects", 1000),
    ("bytes", 1 << 20),
    ("namespaces", 1),
    ("customResourceDefinitions", 1),
];

/// Notes every place with a quota as stale: changes made while no server ran were not noted.
pub fn mark_all_stale(registry: &Registry) {
    let cache = registry.cache();
    for (space, quotas) in cache.everywhere(core_kind("resourcequotas")) {
        for quota in quotas.snapshot("", None).objects {
            let namespace = quota.namespace().map(Into::into);
            cache.dirty_quotas().note((space.clone(), namespace));
        }
    }
    for (_, tenants) in cache.everywhere(core_kind("tenants")) {
        for tenant in tenants.snapshot("", None).objects {
            let Ok(space) = Space::parse(tenant.name()) else {
                continue;
            };
            let is_limited = |state: Arc<SpaceState>| state.is_limited();
            if !registry.tenant_quota().is_empty()
                || cache.space_state(&space).is_some_and(is_limited)
            {
                cache.dirty_quotas().note((space, None));
            }
        }
    }
}

/// Recounts everything at the place. Returns whether it was noted as stale.
pub async fn reconcile(registry: &Registry, place: &Place) -> Result<bool> {
    let dirty_quotas = registry.cache().dirty_quotas();
    if !dirty_quotas.take(place) {
        return Ok(false);
    }
    let result = match place {
        (space, Some(namespace)) => recount_namespace(registry, space, namespace).await,
        (Space::Tenant(tenant), None) => write_limits(registry, tenant).await,
        (Space::System, None) => Ok(()),
    };
    if result.is_err() {
        dirty_quotas.note(place.clone());
    }
    result.map(|()| true)
}

async fn recount_namespace(registry: &Registry, space: &Space, namespace: &str) -> Result<()> {
    let quotas = registry.cache().find(core_kind("resourcequotas"), space);
    let quotas = quotas.map(|quotas| quotas.snapshot(&format!("{namespace}/"), None).objects);
    for quota in quotas.unwrap_or_default() {
        let address = Address {
            kind: core_kind("resourcequotas").into(),
            space: space.clone(),
            namespace: Some(namespace.to_owned()),
            name: quota.name().to_owned(),
        };
        recount(registry, &address).await?;
    }
    Ok(())
}

/// Recounts one quota. After a lost race it queues with the writers of the namespace.
async fn recount(registry: &Registry, quota: &Address) -> Result<()> {
    let mut turn = None;
    loop {
        let Some(found) = registry.cached(quota) else {
            return Ok(());
        };
        registry.cache().await_applied(found.revision).await;
        let Some(value) = recounted(registry, quota, &found) else {
            return Ok(());
        };
        let change = Transaction::update(registry.key(quota), found.revision, value);
        match registry.commit(change).await? {
            Outcome::Committed(_) | Outcome::Unchanged(_) => return Ok(()),
            Outcome::Conflict(conflict) => {
                registry.cache().await_applied(conflict.revision).await;
                if turn.is_none() {
                    let namespace = quota.namespace.as_deref().map(Into::into);
                    let place = (quota.space.clone(), namespace);
                    turn = Some(registry.namespace_locks().lock(place).await);
                }
            }
        }
    }
}

/// The quota with its correct usage; `None` if it is up to date.
fn recounted(registry: &Registry, address: &Address, found: &Stored) -> Option<bytes::Bytes> {
    let read = Quota::read(&found.tree());
    let namespace = address.namespace.as_deref().unwrap_or("");
    let recount = || usage::recount(registry.cache(), &address.space, namespace, &read);
    let used = cpu_bound::run_blocking(recount);
    let is_current = read.is_fully_counted() && read.used == used;
    (!is_current).then(|| quota::with_usage(found, &read, &used))
}

/// The limit with a default that depends on the machine.
const MACHINE_LIMIT: &str = "heavyReads";

/// Writes the usage, the quota and the limits in effect into a tenant's status.
async fn write_limits(registry: &Registry, tenant: &TenantName) -> Result<()> {
    let address = tenant_address(tenant.as_str());
    let Some(found) = registry.cached(&address) else {
        return Ok(());
    };
    let tree = found.tree();
    let mut current = tenant_status::limits_status(registry, tenant, &tree);
    leave_out_defaults_of_machine(&tree, &mut current);
    let space = Space::Tenant(tenant.clone());
    let state = registry.cache().space_state(&space);
    let is_exact = state.is_some_and(|state| state.is_limited());
    if is_recorded(&tree, &current, is_exact) {
        return Ok(());
    }
    let request = Modify::by_server(&address, Some("status"));
    let update = |tenant: &Object| {
        let mut object = tenant.clone();
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.retain(|name, _| !LIMITS_FIELDS.contains(&name.as_str()));
            status.extend(current.clone());
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    let written = modify(registry, request, update).await;
    ignore_permanent(written.map(|done| done.is_some()), &address).map(drop)
}

/// Leaves out the default that depends on the cores of the server: two servers with different
/// machines would replace each other's for ever.
fn leave_out_defaults_of_machine(tenant: &Object, status: &mut Object) {
    let spec = tenant.get("spec").and_then(|spec| spec.get("limits"));
    let is_set = spec.is_some_and(|limits| limits.get(MACHINE_LIMIT).is_some());
    let limits = status.get_mut("limits").and_then(Value::as_object_mut);
    if let Some(limits) = limits.filter(|_| !is_set) {
        limits.remove(MACHINE_LIMIT);
    }
}

/// Whether a tenant's status need not be written. The usage of tenants without limits of their own
/// is recorded in steps: otherwise every write in any tenant would cause a second one.
fn is_recorded(tenant: &Object, current: &Object, is_exact: bool) -> bool {
    let status = tenant.get("status");
    LIMITS_FIELDS.into_iter().all(|field| {
        let recorded = status.and_then(|status| status.get(field));
        match (recorded, current.get(field)) {
            (Some(recorded), Some(usage)) if field == "usage" && !is_exact => {
                is_close(recorded, usage)
            }
            (recorded, current) => recorded == current,
        }
    })
}

/// Whether two usages differ by less than a step.
fn is_close(recorded: &Value, usage: &Value) -> bool {
    let amount = |of: &Value, name: &str| match &of[name] {
        Value::String(text) => text.parse().map_or(0, Quantity::value),
        number => number.as_i64().unwrap_or_default(),
    };
    USAGE_STEPS.into_iter().all(|(name, step)| {
        let difference = amount(recorded, name).abs_diff(amount(usage, name));
        difference < step
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_under_the_default_quota_is_recorded_in_steps() {
        let usage = |objects: u64, bytes: &str, namespaces: u64| {
            json!({"objects": objects, "bytes": bytes, "namespaces": namespaces,
                "customResourceDefinitions": 0})
        };
        let recorded = usage(10, "5000", 3);
        assert!(is_close(&recorded, &usage(1009, "1Mi", 3)));
        assert!(!is_close(&recorded, &usage(1010, "5000", 3)));
        assert!(!is_close(&recorded, &usage(10, "1100000", 3)));
        assert!(!is_close(&recorded, &usage(10, "5000", 4)));
        let tenant = |usage: &Value| {
            let tenant = json!({"status": {"usage": usage, "quota": {"bytes": "256Mi"}}});
            tenant.as_object().cloned().unwrap_or_default()
        };
        let current = |usage: Value, quota: &str| {
            let current = json!({"usage": usage, "quota": {"bytes": quota}});
            current.as_object().cloned().unwrap_or_default()
        };
        let written = tenant(&recorded);
        let more = usage(11, "5100", 3);
        assert!(is_recorded(
            &written,
            &current(more.clone(), "256Mi"),
            false
        ));
        assert!(!is_recorded(
            &written,
            &current(more.clone(), "256Mi"),
            true
        ));
        assert!(!is_recorded(&written, &current(more, "1Gi"), false));
    }
}
