//! Prevention of privilege escalation through RBAC objects.
//!
//! Writing a role needs every right in it, or the verb `escalate`; writing a binding needs every
//! right of its role, or the verb `bind` on that role. A change that grants nothing, such as an
//! annotation, needs neither.

use std::borrow::Borrow;
use std::sync::Arc;

use insula_access::rbac::{Policy, RbacKind, ResourceAttributes, RoleRef, Rule, Rules, escalation};
use insula_kinds::{Object, Value};

use super::{Admission, Change};
use crate::pipeline::authorize::{self, Caller};
use crate::pipeline::policy;
use crate::registry::rbac_kinds::rbac_kind;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Rejects a caller that would grant rights it does not have.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    match admission.caller {
        Some(caller) => check(admission.registry, caller, admission.change()).await,
        None => Ok(()),
    }
}

async fn check(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    match change.address.kind.id().and_then(rbac_kind) {
        Some(RbacKind::Role | RbacKind::ClusterRole) => check_role(registry, caller, change).await,
        Some(RbacKind::RoleBinding | RbacKind::ClusterRoleBinding) => {
            check_binding(registry, caller, change).await
        }
        None => Ok(()),
    }
}

async fn check_role(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    let Change { address, new, .. } = change;
    let grants_rights = changes(change, "rules") || changes(change, "aggregationRule");
    // The labels of a cluster role select it for aggregation into other roles, which then grant
    // its rules too.
    let may_be_aggregated = address.namespace.is_none() && labels(change.old) != labels(Some(new));
    if !grants_rights && !may_be_aggregated {
        return Ok(());
    }
    let kind = address.of();
    let attributes = ResourceAttributes {
        verb: "escalate",
        group: GROUP,
        resource: &kind.resource,
        subresource: None,
        namespace: address.namespace.as_deref(),
        name: Some(&address.name),
    };
    if caller.is_allowed(registry, attributes).await? {
        return Ok(());
    }
    let held = held_rules(registry, caller, address.namespace.as_deref()).await?;
    let all = || escalation::covers(&held.rules, &escalation::full_authority());
    if changes(change, "aggregationRule") && all().is_err() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(StatusError::not_allowed(kind, &address.name, why));
    }
    check_covered(&held, &rules_of(new), caller, address)?;
    let aggregates = new.get("aggregationRule").is_some_and(Value::is_object);
    match may_be_aggregated && aggregates {
        true => check_covered(
            &held,
            &aggregated_rules(registry, address).await?,
            caller,
            address,
        ),
        false => Ok(()),
    }
}

/// Returns the rules that a role has by aggregation, whatever its own rules are.
async fn aggregated_rules(registry: &Registry, role: &Address) -> Result<Vec<Arc<Rule>>> {
    let Some(state) = registry.find_space(&role.space).await? else {
        return Ok(Vec::new());
    };
    Ok(policy::ask(
        registry.cache(),
        &state,
        &role.space,
        |policy| {
            let rules = policy.role_rules(RoleRef::ClusterRole(&role.name));
            rules.map_or_else(Vec::new, <[_]>::to_vec)
        },
    ))
}

async fn check_binding(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    if !changes(change, "roleRef") && !changes(change, "subjects") {
        return Ok(());
    }
    let Change { address, new, .. } = change;
    let namespace = address.namespace.as_deref();
    let member = |member: &str| {
        let value = new.get("roleRef").and_then(|of| of.get(member));
        value.and_then(Value::as_str).unwrap_or("")
    };
    let name = member("name");
    let (resource, reference) = match (member("kind"), namespace) {
        ("ClusterRole", _) => ("clusterroles", RoleRef::ClusterRole(name)),
        ("Role", Some(namespace)) => ("roles", RoleRef::Role { namespace, name }),
        // Validation rejects an invalid reference.
        _ => return Ok(()),
    };
    let attributes = ResourceAttributes {
        verb: "bind",
        group: GROUP,
        resource,
        subresource: None,
        namespace,
        name: Some(name),
    };
    if caller.is_allowed(registry, attributes).await? {
        return Ok(());
    }
    let Some(state) = registry.find_space(&address.space).await? else {
        return Ok(());
    };
    let given = |policy: &Policy| policy.role_rules(reference).map(<[_]>::to_vec);
    let given = policy::ask(registry.cache(), &state, &address.space, given);
    let given = given.ok_or_else(|| StatusError::not_found(address.of(), name))?;
    let held = held_rules(registry, caller, namespace).await?;
    check_covered(&held, &given, caller, address)
}

/// Returns the rules that the caller has in the namespace of the object.
async fn held_rules(
    registry: &Registry,
    caller: Caller<'_>,
    namespace: Option<&str>,
) -> Result<Rules> {
    let principal = caller.principal();
    authorize::ask(registry, principal, caller.spaces(), |policy, reach| {
        policy.rules(authorize::who(principal), namespace, reach)
    })
    .await
}

fn check_covered<N: Borrow<Rule>>(
    held: &Rules,
    needed: &[N],
    caller: Caller<'_>,
    address: &Address,
) -> Result<()> {
    let Err(missing) = escalation::covers(&held.rules, needed) else {
        return Ok(());
    };
    let who = authorize::who(caller.principal());
    let why = escalation::explain(who, &missing, &held.unresolved);
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}

/// Whether a field changed. An absent field, null and an empty list are the same.
fn changes(change: Change<'_>, member: &str) -> bool {
    let of = |object: Option<&Object>| {
        let value = object.and_then(|object| object.get(member)).cloned();
        value.filter(|value| {
            !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
        })
    };
    of(change.old) != of(Some(change.new))
}

fn labels(object: Option<&Object>) -> Option<&Value> {
    let labels = object?.get("metadata")?.get("labels")?;
    labels
        .as_object()
        .is_some_and(|all| !all.is_empty())
        .then_some(labels)
}

fn rules_of(role: &Object) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array);
    let rules = rules.into_iter().flatten().cloned();
    rules
        .filter_map(|rule| serde_json::from_value(rule).ok())
        .collect()
}
