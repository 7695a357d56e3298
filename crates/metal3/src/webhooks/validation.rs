//! Validation that the schemas cannot express, because rules of a schema see neither the namespace
//! nor the labels of an object.

mod pool;

use std::net::IpAddr;

use insula_capi::names::{CLUSTER_LABEL, GROUP as CLUSTER_GROUP};
use insula_operator::webhook::{AdmissionRequest, AdmissionResponse};
use serde_json::Value;

use crate::names::REQUESTED_ADDRESS;

/// Annotation of objects that Cluster API created from a template.
const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";

/// Validates an object that is created or updated.
///
/// A field that an update does not change is not validated, so that a finalizer can be removed
/// from an object that is older than the validation.
pub(super) fn review(request: &AdmissionRequest) -> AdmissionResponse {
    let Some(object) = &request.object else {
        return AdmissionResponse::allow();
    };
    let change = Change {
        new: object,
        old: request.old_object.as_ref().unwrap_or(&Value::Null),
    };
    let kind = request.kind.kind.as_str();
    let mut problems = foreign_namespaces(kind, &request.namespace, &change);
    match kind {
        "IPClaim" => problems.extend(invalid_address(&change)),
        "IPPool" => problems.extend(pool::problems(&change)),
        _ => {}
    }
    let response = match problems.is_empty() {
        true => AdmissionResponse::allow(),
        false => AdmissionResponse::deny_with(422, "Invalid", problems.join("; ")),
    };
    let warnings = identity_warnings(kind, &change)
        .into_iter()
        .chain(unused_fields(kind, &request.kind.version, &change));
    warnings.fold(response, AdmissionResponse::with_warning)
}

/// An object before and after a request.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
}

impl<'a> Change<'a> {
    /// Returns the text of a field that is new or changed.
    fn text(&self, pointer: &str) -> Option<&'a str> {
        let value = self.new.pointer(pointer)?;
        let is_changed = self.old.pointer(pointer) != Some(value);
        value.as_str().filter(|_| is_changed)
    }
}

/// Returns the references of a kind, as paths.
fn references(kind: &str) -> &'static [&'static str] {
    match kind {
        "Metal3Machine" => &[
            "spec.userData",
            "spec.metaData",
            "spec.networkData",
            "spec.dataTemplate",
        ],
        "Metal3MachineTemplate" => &[
            "spec.template.spec.userData",
            "spec.template.spec.metaData",
            "spec.template.spec.networkData",
            "spec.template.spec.dataTemplate",
        ],
        "Metal3DataClaim" => &["spec.template"],
        // Its Secrets are next to the host, which may be in another namespace.
        "Metal3Data" => &["spec.template", "spec.claim"],
        "IPClaim" => &["spec.pool"],
        "IPAddress" => &["spec.pool", "spec.claim"],
        _ => &[],
    }
}

fn foreign_namespaces(kind: &str, own: &str, change: &Change<'_>) -> Vec<String> {
    let foreign = references(kind).iter().filter(|path| {
        let pointer = format!("/{}/namespace", path.replace('.', "/"));
        let namespace = change.text(&pointer);
        namespace.is_some_and(|namespace| !namespace.is_empty() && namespace != own)
    });
    let message =
        |path| format!("{path}.namespace: only the namespace of the object itself is allowed");
    foreign.map(message).collect()
}

fn invalid_address(change: &Change<'_>) -> Option<String> {
    let address = change.text(&format!("/metadata/annotations/{REQUESTED_ADDRESS}"))?;
    let is_valid = address.is_empty() || address.parse::<IpAddr>().is_ok();
    let path = format!("metadata.annotations.{REQUESTED_ADDRESS}");
    (!is_valid).then(|| format!("{path}: must be an IP address"))
}

/// Returns the path of a kind's reference to a kubeconfig.
fn identity_path(kind: &str) -> Option<&'static str> {
    match kind {
        "Metal3Cluster" | "Metal3Machine" => Some("spec.identityRef"),
        "Metal3ClusterTemplate" | "Metal3MachineTemplate" => Some("spec.template.spec.identityRef"),
        _ => None,
    }
}

fn identity_warnings(kind: &str, change: &Change<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(path) = identity_path(kind) else {
        return warnings;
    };
    let pointer = format!("/{}", path.replace('.', "/"));
    let is_first_use =
        change.new.pointer(&pointer).is_some() && change.old.pointer(&pointer).is_none();
    // The user of a template was warned; Cluster API and this operator need no warning.
    let is_cloned = change.new["metadata"]["annotations"]
        .get(CLONED_FROM)
        .is_some();
    if is_first_use && !is_cloned {
        warnings.push(format!(
            "{path}: once it is used, the provider cannot be downgraded to a version without \
             this field, which would look for the hosts in the namespace of the object"
        ));
    }
    let reserved = |object| reserved_secret(kind, object, &pointer);
    let reserved_name = reserved(change.new).filter(|_| reserved(change.old).is_none());
    warnings.extend(reserved_name.map(|name| {
        format!(
            "{path}.name: Cluster API reserves the Secret {name:?} for the kubeconfig of the \
             workload cluster; store the kubeconfig for the hosts under another name"
        )
    }));
    warnings
}

/// Returns the name of the referenced Secret if it is that of the workload cluster's kubeconfig.
fn reserved_secret<'a>(kind: &str, object: &'a Value, pointer: &str) -> Option<&'a str> {
    let name = object.pointer(pointer)?["name"].as_str()?;
    let metadata = &object["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owners = owners.filter(|owner| {
        let api_version = owner["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map(|(group, _)| group);
        owner["kind"] == "Cluster" && group == Some(CLUSTER_GROUP)
    });
    // A Metal3Cluster usually has the name of its Cluster, which labels it later.
    let own = (kind == "Metal3Cluster").then_some(&metadata["name"]);
    let label = Some(&metadata["labels"][CLUSTER_LABEL]);
    let clusters = owners.map(|owner| &owner["name"]).chain(own).chain(label);
    let mut clusters = clusters.filter_map(Value::as_str);
    let cluster = name.strip_suffix("-kubeconfig")?;
    clusters.any(|it| it == cluster).then_some(name)
}

/// Returns a warning of fields that have no effect. The older version had to have them.
fn unused_fields(kind: &str, version: &str, change: &Change<'_>) -> Option<String> {
    if kind != "Metal3DataTemplate" || version != "v1beta2" {
        return None;
    }
    let name = change.text("/spec/clusterName")?;
    (!name.is_empty()).then(|| "spec.clusterName: has no effect".to_owned())
}

#[cfg(test)]
mod tests;
