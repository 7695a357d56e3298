//! Keeps the rules of aggregated ClusterRoles up to date.
//!
//! Authorization evaluates an aggregated role from its parts at the moment of the request. The
//! stored object follows a little later: whenever a role of a space changes, the aggregated roles
//! of the space with different rules are written.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use insula_access::rbac::{RbacKind, RoleRef, Rule, bootstrap};
use insula_apiserver::Registry;
use insula_apiserver::pipeline::policy;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_apiserver::write::{Modified, Modify, modify};
use insula_cache::Stored;
use insula_core::Space;
use insula_kinds::{Object, Value};
use memchr::memmem;
use serde_json::json;

use crate::ignore_permanent;
use crate::queue::Task;

/// The field that makes a role an aggregated one.
const AGGREGATION_RULE: &str = "aggregationRule";

/// Whether a role may be aggregated or part of an aggregated role. A role without labels can be
/// selected only by a selector that matches everything, and the role with that selector takes part
/// itself.
pub fn participates(role: &Stored) -> bool {
    may_be_aggregated(role) || memmem::find(&role.body(), br#""labels":{"#).is_some()
}

/// Whether a role may be aggregated.
fn may_be_aggregated(role: &Stored) -> bool {
    memmem::find(&role.body(), br#""aggregationRule":{"#).is_some()
}

/// Writes every aggregated role of the space that has outdated rules. Returns whether there was
/// one.
pub async fn reconcile(registry: &Registry, space: &Space) -> Result<bool> {
    let mut written = false;
    for name in aggregated(registry, space) {
        let address = Address {
            kind: Task::Roles.kind().into(),
            space: space.clone(),
            namespace: None,
            name,
        };
        written |= reconcile_one(registry, &address).await?;
    }
    Ok(written)
}

/// The roles of the space that may be aggregated; none if no stored role takes part, because the
/// built-in ones are then as in every space.
fn aggregated(registry: &Registry, space: &Space) -> BTreeSet<String> {
    let stored = registry.cache().find(Task::Roles.kind(), space);
    let stored = stored.map(|roles| roles.snapshot("", None).objects);
    let stored = stored.unwrap_or_default();
    if !stored.iter().any(|role| participates(role)) {
        return BTreeSet::new();
    }
    let stored = stored.iter().filter(|role| may_be_aggregated(role));
    let stored = stored.map(|role| role.name().to_owned());
    stored.chain(BUILT_IN_AGGREGATED.iter().cloned()).collect()
}

static BUILT_IN_AGGREGATED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let roles = bootstrap::objects(RbacKind::ClusterRole).iter();
    let aggregated = roles.filter(|role| is_aggregated(role.object()));
    aggregated.map(|role| role.name().to_owned()).collect()
});

async fn reconcile_one(registry: &Registry, address: &Address) -> Result<bool> {
    let current = registry.cached(address).map(|role| role.tree());
    let Some(current) = current.filter(is_aggregated) else {
        return Ok(false);
    };
    let Some(rules) = rules_of(registry, address).filter(|rules| !has_rules(&current, rules))
    else {
        return Ok(false);
    };
    let request = Modify::by_server(address, None);
    let update = |role: &Object| {
        let mut object = role.clone();
        if is_aggregated(role) && !has_rules(role, &rules) {
            object.insert("rules".to_owned(), json!(rules));
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    let written = modify(registry, request, update).await;
    ignore_permanent(written.map(|done| done.is_some()), address)
}

/// The rules of the role as authorization sees them.
fn rules_of(registry: &Registry, address: &Address) -> Option<Vec<Rule>> {
    let cache = registry.cache();
    let life = cache.space_state(&address.space)?;
    policy::ask(cache, &life, &address.space, |policy| {
        let rules = policy.role_rules(RoleRef::ClusterRole(&address.name))?;
        Some(rules.iter().cloned().map(Arc::unwrap_or_clone).collect())
    })
}

fn is_aggregated(role: &Object) -> bool {
    role.get(AGGREGATION_RULE).is_some_and(Value::is_object)
}

fn has_rules(role: &Object, rules: &[Rule]) -> bool {
    let current = role.get("rules").cloned().unwrap_or(Value::Null);
    let current = serde_json::from_value::<Option<Vec<Rule>>>(current);
    current.is_ok_and(|current| current.unwrap_or_default() == rules)
}
