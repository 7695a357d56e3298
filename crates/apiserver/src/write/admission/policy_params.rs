//! Read access to the parameters of admission policies. The decisions of a policy can reveal its
//! parameters, so the author of the policy must be allowed to read them.

use insula_access::rbac::ResourceAttributes;
use insula_core::Space;
use insula_kinds::{Object, Value, kinds};

use super::{Admission, Change};
use crate::pipeline::authorize::Caller;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};

const GROUP: &str = "admissionregistration.k8s.io";

/// Rejects parameters that the caller may not read.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    match admission.caller {
        Some(caller) => check(admission.registry, caller, admission.change()).await,
        None => Ok(()),
    }
}

async fn check(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    let kind = change.address.of();
    if kind.group != GROUP {
        return Ok(());
    }
    match kind.kind.as_str() {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            check_policy(registry, caller, change).await
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            check_binding(registry, caller, change).await
        }
        _ => Ok(()),
    }
}

async fn check_policy(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    let of = |object: &Object| spec(object, "paramKind").cloned();
    let Some(params) = of(change.new) else {
        return Ok(());
    };
    if change.old.and_then(of).as_ref() == Some(&params) {
        return Ok(());
    }
    let (group, resource) = resolve(registry, &change.address.space, &params);
    let attributes = ResourceAttributes {
        verb: "get",
        group: &group,
        resource: &resource,
        subresource: None,
        namespace: Some("*"),
        name: Some("*"),
    };
    if caller.is_allowed(registry, attributes).await? {
        return Ok(());
    }
    let text = |member: &str| params.get(member).and_then(Value::as_str).unwrap_or("");
    let why = format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind \
         (kind={}, apiVersion={})",
        caller.principal().user,
        text("kind"),
        text("apiVersion"),
    );
    Err(refuse(change, &why))
}

async fn check_binding(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    let of = |object: &Object| {
        let params = spec(object, "paramRef")?.clone();
        Some((params, spec(object, "policyName").cloned()))
    };
    let Some((params, policy)) = of(change.new) else {
        return Ok(());
    };
    if change.old.and_then(of) == Some((params.clone(), policy.clone())) {
        return Ok(());
    }
    let policy = policy.as_ref().and_then(Value::as_str).unwrap_or("");
    let (group, resource) = kind_of(registry, change, policy);
    let text = |member: &str| {
        let text = params.get(member).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let verb = if text("name").is_some() {
        "get"
    } else {
        "list"
    };
    let attributes = ResourceAttributes {
        verb,
        group: &group,
        resource: &resource,
        subresource: None,
        namespace: text("namespace"),
        name: text("name"),
    };
    if caller.is_allowed(registry, attributes).await? {
        return Ok(());
    }
    let why = format!(
        "user {} does not have \"{verb}\" permission on the object referenced by paramRef",
        caller.principal().user
    );
    Err(refuse(change, &why))
}

/// Returns group and resource of a policy's parameters; wildcards if the policy is unknown.
fn kind_of(registry: &Registry, change: Change<'_>, policy: &str) -> (String, String) {
    let resource = change
        .address
        .of()
        .resource
        .replace("policybindings", "policies");
    let kind = kinds().find(GROUP, "v1", &resource);
    let found = kind.and_then(|kind| {
        registry.cached(&Address {
            kind: kind.into(),
            space: change.address.space.clone(),
            namespace: None,
            name: policy.to_owned(),
        })
    });
    let found = found.map(|policy| policy.tree());
    match found.as_ref().and_then(|policy| spec(policy, "paramKind")) {
        Some(params) => resolve(registry, &change.address.space, params),
        None => ("*".to_owned(), "*".to_owned()),
    }
}

/// Returns group and resource of a kind; a wildcard resource if the kind is unknown.
fn resolve(registry: &Registry, space: &Space, params: &Value) -> (String, String) {
    let text = |member: &str| params.get(member).and_then(Value::as_str).unwrap_or("");
    let (group, version) = text("apiVersion")
        .split_once('/')
        .unwrap_or(("", text("apiVersion")));
    let known = kinds().find_by_kind(group, version, text("kind"));
    let known = known.map(|id| kinds().get(id).resource.clone());
    let defined = || {
        let apis = registry.apis(space)?;
        let kind = apis.of_kind(group, version, text("kind"))?;
        Some(kind.resource.clone())
    };
    let resource = known.or_else(defined).unwrap_or_else(|| "*".to_owned());
    (group.to_owned(), resource)
}

fn refuse(change: Change<'_>, why: &str) -> StatusError {
    StatusError::not_allowed(change.address.of(), &change.address.name, why)
}

fn spec<'a>(object: &'a Object, member: &str) -> Option<&'a Value> {
    let found = object.get("spec")?.get(member)?;
    (!found.is_null()).then_some(found)
}
