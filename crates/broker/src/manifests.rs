//! Kubernetes objects as data.

use insula_operator::manifests::{self, Operator};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use crate::names::AXON;

/// The label of the operator's own objects. Objects that the operator creates have another
/// one.
const APP_LABEL: (&str, &str) = ("app.kubernetes.io/name", AXON);

/// Encodes objects as one document for `kubectl apply -f`, in order.
///
/// # Errors
///
/// If a value cannot be written as YAML.
pub fn yaml(objects: &[Value]) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = String::new();
    for object in objects {
        // Long texts stay on one line, as other programs write them.
        let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string_with_options(object, options)?);
    }
    Ok(text)
}

/// Converts an object to JSON without the fields that the server fills in.
pub(crate) fn value(object: &impl Serialize) -> Value {
    // Every key of a Kubernetes object is a string, as JSON requires.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.remove("status");
    }
    value
}

pub(crate) fn namespace(metadata: ObjectMeta) -> Namespace {
    Namespace {
        metadata,
        ..Namespace::default()
    }
}

pub(crate) fn account(metadata: ObjectMeta) -> ServiceAccount {
    ServiceAccount {
        metadata,
        ..ServiceAccount::default()
    }
}

pub(crate) fn role(metadata: ObjectMeta, rules: Vec<PolicyRule>) -> Role {
    Role {
        metadata,
        rules: Some(rules),
    }
}

pub(crate) fn binding(metadata: ObjectMeta, role: &str, subjects: Vec<Subject>) -> RoleBinding {
    RoleBinding {
        metadata,
        role_ref: reference("Role", role),
        subjects: Some(subjects),
    }
}

pub(crate) fn cluster_role(metadata: ObjectMeta, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole {
        metadata,
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

pub(crate) fn cluster_binding(
    metadata: ObjectMeta,
    role: &str,
    subjects: Vec<Subject>,
) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata,
        role_ref: reference("ClusterRole", role),
        subjects: Some(subjects),
    }
}

pub(crate) fn account_subject(name: &str, namespace: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    }
}

/// Builds the operator's Deployment.
pub(crate) fn deployment(image: &str) -> Deployment {
    let operator = Operator {
        app: AXON,
        namespace: AXON,
        account: AXON,
        role: AXON,
    };
    let object = operator.deployment(&manifests::Deployment {
        name: AXON,
        image,
        arguments: vec!["operator".to_owned(), "broker".to_owned()],
        container: "operator",
        requests: ("20m", "64Mi"),
        mounted_secrets: &[],
        webhook_port: None,
    });
    serde_json::from_value(object).expect("it is the program's own, and a test reads it")
}

fn reference(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// Metadata of an operator's own object, in a namespace if one is given.
pub(crate) fn operator_metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    let label = (APP_LABEL.0.to_owned(), APP_LABEL.1.to_owned());
    ObjectMeta {
        labels: Some([label].into()),
        ..metadata(name, namespace)
    }
}

/// Metadata with nothing but a name.
pub(crate) fn metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}
