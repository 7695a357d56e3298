//! Keeps the recorded usage of quotas up to date.
//!
//! A write that needs more of a limited resource records it in its own transaction. This controller
//! records the rest: released usage when counted objects are deleted, new or changed quotas, and
//! objects that were created uncounted. A limited tenant's object shows its usage. The cache notes
//! the stale places, so unlimited namespaces cost nothing, and a place cools down for a second
//! after each recount.

use insula_apiserver::Registry;
use insula_apiserver::flow_control::cpu_bound;
use insula_apiserver::registry::{Address, tenant_address};
use insula_apiserver::status::Result;
use insula_apiserver::write::quota::{self, usage};
use insula_apiserver::write::{Modified, Modify, modify};
use insula_cache::{Place, Stored};
use insula_core::{Space, TenantName};
use insula_kinds::core_kind;
use insula_kinds::quota::Quota;
use insula_kinds::{Object, Value};
use insula_store::{Outcome, Transaction};
use serde_json::json;

use crate::ignore_permanent;

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
            if cache
                .space_state(&space)
                .is_some_and(|life| life.is_limited())
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
        (Space::Tenant(tenant), None) => write_usage(registry, tenant).await,
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

/// Writes the usage into a limited tenant's status, and removes it from an unlimited one's.
async fn write_usage(registry: &Registry, tenant: &TenantName) -> Result<()> {
    let address = tenant_address(tenant.as_str());
    let Some(found) = registry.cached(&address) else {
        return Ok(());
    };
    let tree = found.tree();
    let usage = quota::tenant::usage(registry, tenant, &tree);
    if current_usage(&tree) == usage.as_ref() {
        return Ok(());
    }
    let request = Modify::by_server(&address, Some("status"));
    let update = |tenant: &Object| {
        let mut object = tenant.clone();
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.remove("usage");
            status.extend(usage.clone().map(|usage| ("usage".to_owned(), usage)));
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    let written = modify(registry, request, update).await;
    ignore_permanent(written.map(|done| done.is_some()), &address).map(drop)
}

fn current_usage(tenant: &Object) -> Option<&Value> {
    tenant.get("status")?.get("usage")
}
