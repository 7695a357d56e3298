//! Roles that are made of others, as they are shown.
//!
//! What an aggregated role allows is decided by what it is made of at that moment. Its
//! object says the same a little later: whenever a role of a space changes, those of the
//! space that are aggregated are written if they show something else.

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

use crate::queue::Task;
use crate::unless_futile;

/// What makes a role an aggregated one.
const AGGREGATION: &str = "aggregationRule";

/// Whether a role may be made of others, or others of it: a role without labels is found by
/// nobody but by who looks for that, and such a role takes part itself.
pub fn takes_part(role: &Stored) -> bool {
    is_marked(role) || memmem::find(&role.body(), br#""labels":{"#).is_some()
}

/// Whether a role may be made of others.
fn is_marked(role: &Stored) -> bool {
    memmem::find(&role.body(), br#""aggregationRule":{"#).is_some()
}

/// Writes every aggregated role of the space that shows other rules than it has. Says
/// whether there was one.
pub async fn show(registry: &Registry, space: &Space) -> Result<bool> {
    let mut written = false;
    for name in aggregated(registry, space) {
        let address = Address {
            kind: Task::Roles.kind().into(),
            space: space.clone(),
            namespace: None,
            name,
        };
        written |= show_one(registry, &address).await?;
    }
    Ok(written)
}

/// The roles of the space that may be aggregated; none if nothing that is stored takes part,
/// because then they are as they are in every space.
fn aggregated(registry: &Registry, space: &Space) -> BTreeSet<String> {
    let stored = registry.cache().find(Task::Roles.kind(), space);
    let stored = stored.map(|roles| roles.snapshot("", None).objects);
    let stored = stored.unwrap_or_default();
    if !stored.iter().any(|role| takes_part(role)) {
        return BTreeSet::new();
    }
    let stored = stored.iter().filter(|role| is_marked(role));
    let stored = stored.map(|role| role.name().to_owned());
    stored.chain(BUILT_IN.iter().cloned()).collect()
}

static BUILT_IN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let roles = bootstrap::objects(RbacKind::ClusterRole).iter();
    let aggregated = roles.filter(|role| is_aggregated(&role.object()));
    aggregated.map(|role| role.name().to_owned()).collect()
});

async fn show_one(registry: &Registry, address: &Address) -> Result<bool> {
    let shown = registry.cached(address).map(|role| role.tree());
    let Some(shown) = shown.filter(is_aggregated) else {
        return Ok(false);
    };
    let Some(rules) = rules_of(registry, address).filter(|rules| !shows(&shown, rules)) else {
        return Ok(false);
    };
    let request = Modify::by_server(address, None);
    let make = |role: &Object| {
        let mut object = role.clone();
        if is_aggregated(role) && !shows(role, &rules) {
            object.insert("rules".to_owned(), json!(rules));
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    let written = modify(registry, request, make).await;
    unless_futile(written.map(|done| done.is_some()), address)
}

/// What the role allows, by what decides.
fn rules_of(registry: &Registry, address: &Address) -> Option<Vec<Rule>> {
    let cache = registry.cache();
    let life = cache.space_state(&address.space)?;
    policy::ask(cache, &life, &address.space, |policy| {
        let rules = policy.role_rules(RoleRef::ClusterRole(&address.name))?;
        Some(rules.iter().cloned().map(Arc::unwrap_or_clone).collect())
    })
}

fn is_aggregated(role: &Object) -> bool {
    role.get(AGGREGATION).is_some_and(Value::is_object)
}

fn shows(role: &Object, rules: &[Rule]) -> bool {
    let shown = role.get("rules").cloned().unwrap_or(Value::Null);
    let shown = serde_json::from_value::<Option<Vec<Rule>>>(shown);
    shown.is_ok_and(|shown| shown.unwrap_or_default() == rules)
}
