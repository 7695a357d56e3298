//! Access reviews of `authorization.k8s.io`.

use std::sync::Arc;

use insula_access::rbac::{Attributes, ResourceAttributes, Rule, Rules, escalation};
use insula_core::{
    AUTHENTICATED, CredentialRef, Extra, MASTERS, NODE_USER_PREFIX, NODES, Principal, Proof,
    RESERVED_PREFIX, Spaces, TenantBinding,
};
use insula_kinds::{Object, Value, kinds};
use serde_json::json;

use crate::pipeline::authorize::{self, AccessDecision, Granted};
use crate::pipeline::service_account::AccountName;
use crate::registry::Registry;
use crate::status::{Result, StatusError};

/// Answers a SelfSubjectAccessReview.
pub async fn review_caller(
    registry: &Registry,
    granted: &Granted,
    review: &Object,
) -> Result<Value> {
    let principal = granted.principal();
    let decision = decide(registry, principal, granted.spaces(), review).await?;
    Ok(status(decision))
}

/// Answers a SubjectAccessReview about a user of the space of the review.
pub async fn review_subject(
    registry: &Registry,
    granted: &Granted,
    review: &Object,
) -> Result<Value> {
    let subject = subject(granted, review)?;
    let decision = decide(registry, &subject, granted.spaces(), review).await?;
    Ok(status(decision))
}

/// Answers a SelfSubjectRulesReview: the caller's rules in a namespace.
pub async fn list_rules(registry: &Registry, granted: &Granted, review: &Object) -> Result<Value> {
    let namespace = text(review, &["spec", "namespace"]);
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else {
        return Err(StatusError::bad_request("no namespace on request"));
    };
    let principal = granted.principal();
    let asked = authorize::ask(registry, principal, granted.spaces(), |policy, reach| {
        policy.rules(authorize::who(principal), Some(namespace), reach)
    });
    let Rules {
        rules: mut found,
        unresolved,
    } = asked.await?;
    if principal.is_in(MASTERS) {
        found.splice(0..0, escalation::full_authority().map(Arc::new));
    }
    let (paths, resources): (Vec<_>, Vec<_>) = found
        .iter()
        .map(AsRef::as_ref)
        .partition(|rule: &&Rule| !rule.non_resource_urls.is_empty());
    let mut status = json!({
        "resourceRules": resources,
        "nonResourceRules": paths,
        "incomplete": false,
    });
    if principal.node().is_some() {
        status["incomplete"] = true.into();
        status["evaluationError"] = "node authorizer does not support user rule resolution".into();
    }
    if !unresolved.is_empty() {
        status["evaluationError"] = unresolved.to_string().into();
    }
    Ok(status)
}

fn status(decision: AccessDecision) -> Value {
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    status
}

async fn decide(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
    review: &Object,
) -> Result<AccessDecision> {
    let at = |path: &[&str]| text(review, path).filter(|text| !text.is_empty());
    let spec = review.get("spec");
    if spec.is_some_and(|spec| spec.get("nonResourceAttributes").is_some()) {
        let attributes = Attributes::NonResource {
            verb: at(&["spec", "nonResourceAttributes", "verb"]).unwrap_or(""),
            path: at(&["spec", "nonResourceAttributes", "path"]).unwrap_or(""),
        };
        return authorize::decide(registry, principal, spaces, &attributes).await;
    }
    let attribute = |member: &str| at(&["spec", "resourceAttributes", member]);
    let attributes = ResourceAttributes {
        verb: attribute("verb").unwrap_or(""),
        group: attribute("group").unwrap_or(""),
        resource: attribute("resource").unwrap_or(""),
        subresource: attribute("subresource"),
        namespace: attribute("namespace"),
        name: attribute("name"),
    };
    let own_tenant = authorize::is_own_tenant(principal, spaces, &attributes);
    if !own_tenant && is_system_only(principal, &attributes) {
        return Ok(AccessDecision {
            allowed: false,
            reason: "objects of this kind are in the system space only".to_owned(),
        });
    }
    authorize::decide(
        registry,
        principal,
        spaces,
        &Attributes::Resource(attributes),
    )
    .await
}

/// Whether the resource is reserved to the system space and the principal is not of it.
fn is_system_only(principal: &Principal, attributes: &ResourceAttributes<'_>) -> bool {
    !principal.is_system()
        && kinds().iter().any(|(_, kind)| {
            kind.system_only
                && kind.resource == attributes.resource
                && kind.group == attributes.group
        })
}

/// Returns the user that the review is about, as a principal of the space of the review. A
/// tenant's user is in no group of the system, except those that the server itself assigns.
fn subject(granted: &Granted, review: &Object) -> Result<Principal> {
    let user = text(review, &["spec", "user"]).unwrap_or("").to_owned();
    let home = granted.space()?.clone();
    let groups = review.get("spec").and_then(|spec| spec.get("groups"));
    let groups = groups.and_then(Value::as_array).into_iter().flatten();
    let given = |group: &str| {
        group == AUTHENTICATED
            || (group == NODES && user.starts_with(NODE_USER_PREFIX))
            || AccountName::parse(&user)
                .is_some_and(|account| account.groups().iter().any(|of| of == group))
    };
    let groups = groups
        .filter_map(Value::as_str)
        .filter(|group| home.is_system() || !group.starts_with(RESERVED_PREFIX) || given(group));
    Ok(Principal {
        uid: None,
        groups: groups.map(str::to_owned).collect(),
        extra: Extra::new(),
        home,
        tenant_binding: TenantBinding::Name,
        proof: Proof::Impersonation,
        credential: CredentialRef::default(),
        impersonator: None,
        user,
    })
}

fn text<'a>(object: &'a Object, path: &[&str]) -> Option<&'a str> {
    let (first, rest) = path.split_first()?;
    let mut value = object.get(*first)?;
    for member in rest {
        value = value.get(member)?;
    }
    value.as_str()
}
