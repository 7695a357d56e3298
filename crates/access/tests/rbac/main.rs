//! RBAC through the public interface.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod aggregate;
mod bootstrap;
mod decide;
mod escalation;
mod reference;

use insula_access::rbac::{Attributes, Policy, RbacKind, RbacObject, ResourceAttributes, User};
use serde_json::{Value, json};

/// Parses an object.
fn object(kind: RbacKind, object: &Value) -> RbacObject {
    RbacObject::parse(kind, object.to_string().as_bytes()).unwrap()
}

/// A policy with these objects.
fn policy(objects: &[(RbacKind, Value)]) -> Policy {
    let mut policy = Policy::new();
    for (kind, value) in objects {
        policy.put(object(*kind, value));
    }
    policy
}

/// A role that allows to `get` the resources in the core group.
fn role(name: &str, namespace: Option<&str>, resources: &[&str]) -> (RbacKind, Value) {
    let kind = match namespace {
        Some(_) => RbacKind::Role,
        None => RbacKind::ClusterRole,
    };
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": resources});
    let metadata = json!({"name": name, "namespace": namespace});
    (kind, json!({"metadata": metadata, "rules": [rule]}))
}

/// A binding of a role `Kind/name` to subjects `Kind/name` or, for service accounts,
/// `ServiceAccount/name/namespace`.
fn binding(
    name: &str,
    namespace: Option<&str>,
    role: &str,
    subjects: &[&str],
) -> (RbacKind, Value) {
    let kind = match namespace {
        Some(_) => RbacKind::RoleBinding,
        None => RbacKind::ClusterRoleBinding,
    };
    let (role_kind, role_name) = role.split_once('/').unwrap();
    let subjects = subjects.iter().map(|subject| {
        let words: Vec<&str> = subject.split('/').collect();
        json!({"kind": words[0], "name": words[1], "namespace": words.get(2)})
    });
    let object = json!({
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name},
        "subjects": Value::from_iter(subjects),
    });
    (kind, object)
}

/// A `get` of an object in the core group.
fn get<'a>(resource: &'a str, namespace: Option<&'a str>) -> Attributes<'a> {
    Attributes::Resource(ResourceAttributes {
        verb: "get",
        resource,
        namespace,
        name: Some("it"),
        ..ResourceAttributes::default()
    })
}

const fn caller<'a>(user: &'a str, groups: &'a [String]) -> User<'a> {
    User { name: user, groups }
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}
