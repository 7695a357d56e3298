//! NodeRestriction: a node writes its own Node, Lease and CSINode, and pods on itself.
//!
//! The authorizer of nodes cannot see what a write has only in its body; these checks can. They
//! apply to every node, also to one that roles give more rights.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::CertificateRequest;
use insula_cache::Stored;
use insula_core::NODE_USER_PREFIX;
use insula_kinds::{Object, Value, core_kind};

use super::{Admission, Change};
use crate::pipeline::authorize::Caller;
use crate::pipeline::node_authorizer::{
    LEASE_NAMESPACE, Target, is_mirror_pod, node_of, refers_to_any,
};
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};

/// The labels of Kubernetes that a node may set on its Node object.
const OWN_LABELS: [&str; 12] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The domains whose labels a node may set, with those below them.
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The signers of certificates for kubelets.
const KUBELET_SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// The domain of labels that keep workloads away from nodes, which no node may set.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";

/// The status fields of a claim that a node may change.
const CLAIM_STATUS: [&str; 4] = [
    "capacity",
    "conditions",
    "allocatedResourceStatuses",
    "allocatedResources",
];

/// Why a node may not write something.
type Checked = std::result::Result<(), String>;

/// Whether the caller is a node.
pub fn applies(admission: &Admission<'_>) -> bool {
    admission.caller.and_then(node).is_some()
}

/// Rejects a write of a node that does not concern itself.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    match admission.caller.and_then(node) {
        Some(node) => {
            let checked = check(admission.registry, node, admission.change());
            checked.map_err(|why| refuse(admission.address, &why))
        }
        None => Ok(()),
    }
}

/// Rejects the deletion of what is not the node's own.
pub fn check_delete(caller: Caller<'_>, address: &Address, object: &Stored) -> Result<()> {
    let Some(node) = node(caller) else {
        return Ok(());
    };
    let kind = address.of();
    let checked = match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "pods") if node_of(&object.tree()) != node => Err(format!(
            "node \"{node}\" can only delete pods with spec.nodeName set to itself"
        )),
        ("", "persistentvolumeclaims") => Err("may only update PVC status".to_owned()),
        _ => check_name(node, address),
    };
    checked.map_err(|why| refuse(address, &why))
}

/// Rejects the eviction of a pod on another node.
pub fn check_eviction(caller: Caller<'_>, address: &Address, pod: &Object) -> Result<()> {
    match node(caller) {
        Some(node) if node_of(pod) != node => {
            let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
            Err(refuse(address, &why))
        }
        _ => Ok(()),
    }
}

/// Rejects the request for a token that is not bound to a pod on the node.
pub fn check_token(
    registry: &Registry,
    caller: Caller<'_>,
    account: &Address,
    request: &Object,
) -> Result<()> {
    let Some(node) = node(caller) else {
        return Ok(());
    };
    let bound = request
        .get("spec")
        .and_then(|spec| spec.get("boundObjectRef"));
    let text = |member: &str| bound.and_then(|of| of.get(member)?.as_str()).unwrap_or("");
    let refuse = |why: &str| Err(refuse(account, why));
    if (text("apiVersion"), text("kind")) != ("v1", "Pod") || text("name").is_empty() {
        return refuse("node requested token not bound to a pod");
    }
    if text("uid").is_empty() {
        return refuse("node requested token with a pod binding without a uid");
    }
    let address = Address {
        kind: core_kind("pods").into(),
        name: text("name").to_owned(),
        ..account.clone()
    };
    let pod = registry.cached(&address);
    let pod = pod.ok_or_else(|| StatusError::not_found(address.of(), &address.name))?;
    if pod.uid() != Some(text("uid")) {
        return refuse("node requested token bound to another pod of that name");
    }
    match node_of(&pod.tree()) == node {
        true => Ok(()),
        false => refuse("node requested token bound to a pod scheduled on a different node"),
    }
}

fn node<'a>(caller: Caller<'a>) -> Option<&'a str> {
    caller.granted.principal().node()
}

fn refuse(address: &Address, why: &str) -> StatusError {
    StatusError::not_allowed(address.of(), &address.name, why)
}

fn check(registry: &Registry, node: &str, change: Change<'_>) -> Checked {
    let kind = change.address.of();
    let target = (kind.group.as_str(), kind.resource.as_str());
    match (target, change.subresource, change.old) {
        (("", "pods"), None, None) => check_new_pod(registry, node, change),
        (("", "pods"), None, Some(_)) => Err(format!(
            "unexpected operation \"UPDATE\", node \"{node}\" can only create and delete mirror pods"
        )),
        (("", "pods"), Some("status"), Some(old)) => check_pod_status(node, old, change.new),
        (("", "pods"), Some(other), _) => Err(format!(
            "unexpected pod subresource \"{other}\", only 'status' and 'eviction' are allowed"
        )),
        (("", "nodes"), ..) => {
            check_name(node, change.address)?;
            check_own_node(node, change)
        }
        (("", "persistentvolumeclaims"), Some("status"), Some(old)) => {
            check_claim_status(node, old, change.new)
        }
        (("", "persistentvolumeclaims"), ..) => Err("may only update PVC status".to_owned()),
        (("certificates.k8s.io", "certificatesigningrequests"), None, None) => {
            check_certificate_request(node, change.new)
        }
        _ => check_name(node, change.address),
    }
}

/// Checks that a node requests certificates of a kubelet for itself only.
fn check_certificate_request(node: &str, request: &Object) -> Checked {
    let spec = request.get("spec");
    let text = |member: &str| spec.and_then(|spec| spec.get(member)?.as_str());
    if !KUBELET_SIGNERS.contains(&text("signerName").unwrap_or("")) {
        return Ok(());
    }
    let pem = STANDARD.decode(text("request").unwrap_or("")).ok();
    let pem = pem.and_then(|pem| String::from_utf8(pem).ok());
    let parsed = pem.and_then(|pem| CertificateRequest::from_pem(&pem).ok());
    let parsed = parsed.ok_or_else(|| "unable to parse csr".to_owned())?;
    let own = format!("{NODE_USER_PREFIX}{node}");
    match parsed.subject.user == own {
        true => Ok(()),
        false => Err(format!("can only create a node CSR with CN={own}")),
    }
}

/// Checks that an object that is named like its node is this node's.
fn check_name(node: &str, address: &Address) -> Checked {
    let kind = address.of();
    let is_own = address.name == node;
    let what = match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "nodes") if !is_own => {
            let name = &address.name;
            return Err(format!(
                "node \"{node}\" is not allowed to modify node \"{name}\""
            ));
        }
        ("coordination.k8s.io", "leases") => {
            if address.namespace.as_deref() != Some(LEASE_NAMESPACE) {
                return Err(format!(
                    "can only access leases in the \"{LEASE_NAMESPACE}\" system namespace"
                ));
            }
            "node lease"
        }
        ("storage.k8s.io", "csinodes") => "CSINode",
        _ => return Ok(()),
    };
    match is_own {
        true => Ok(()),
        false => Err(format!(
            "can only access {what} with the same name as the requesting node"
        )),
    }
}

/// Checks that a new pod mirrors a static pod of the node, and refers to no other object.
fn check_new_pod(registry: &Registry, node: &str, change: Change<'_>) -> Checked {
    let pod = change.new;
    let refuse = |why: &str| Err(format!("node \"{node}\" {why}"));
    if !is_mirror_pod(pod) {
        return Err(format!(
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"{node}\" can only \
             create mirror pods"
        ));
    }
    if node_of(pod) != node {
        return refuse("can only create pods with spec.nodeName set to itself");
    }
    check_owner(registry, node, change)?;
    for (target, what) in [
        (Target::ServiceAccount, "a service account"),
        (Target::Secret, "secrets"),
        (Target::ConfigMap, "configmaps"),
        (Target::Claim, "persistentvolumeclaims"),
        (Target::ResourceClaim, "resourceclaims"),
    ] {
        if refers_to_any(pod, target) {
            return refuse(&format!("can not create pods that reference {what}"));
        }
    }
    Ok(())
}

/// Checks that the node's own object owns the pod.
fn check_owner(registry: &Registry, node: &str, change: Change<'_>) -> Checked {
    let refuse = |why: &str| Err(format!("node \"{node}\" {why}"));
    let owners = metadata(change.new, "ownerReferences").and_then(Value::as_array);
    let [owner] = owners.map_or(&[][..], Vec::as_slice) else {
        return refuse("can only create pods with a single owner reference set to itself");
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return refuse("can only create pods with an owner reference set to itself");
    }
    if owner["controller"] != true {
        return refuse("can only create pods with a controller owner reference set to itself");
    }
    if owner["blockOwnerDeletion"] == true {
        return refuse("must not set blockOwnerDeletion on an owner reference");
    }
    let found = registry.cached(&Address {
        kind: core_kind("nodes").into(),
        space: change.address.space.clone(),
        namespace: None,
        name: node.to_owned(),
    });
    let uid = found.as_ref().and_then(|found| found.uid()).unwrap_or("");
    match owner["uid"] == uid && !uid.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "node {node} UID mismatch: expected {} got {uid}",
            owner["uid"].as_str().unwrap_or("")
        )),
    }
}

fn check_pod_status(node: &str, old: &Object, new: &Object) -> Checked {
    let claims = |pod: &Object| Some(pod.get("status")?.get("resourceClaimStatuses")?.clone());
    if node_of(old) != node {
        return Err(format!(
            "node \"{node}\" can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if metadata(old, "labels") != metadata(new, "labels") {
        return Err(format!(
            "node \"{node}\" cannot update labels through pod status"
        ));
    }
    match claims(old) == claims(new) {
        true => Ok(()),
        false => Err(format!(
            "node \"{node}\" cannot update resource claim statuses"
        )),
    }
}

fn check_own_node(node: &str, change: Change<'_>) -> Checked {
    let taints = |object: &Object| {
        object
            .get("spec")
            .and_then(|spec| spec.get("taints").cloned())
    };
    let owners = |object| metadata(object, "ownerReferences").cloned();
    let forbidden = forbidden_labels(change.old, change.new).join(", ");
    if let Some(old) = change.old {
        if taints(old) != taints(change.new) {
            return Err(format!("node \"{node}\" is not allowed to modify taints"));
        }
        if owners(old) != owners(change.new) {
            return Err(format!(
                "node \"{node}\" is not allowed to modify ownerReferences"
            ));
        }
    }
    match (forbidden.as_str(), change.old) {
        ("", _) => Ok(()),
        (_, Some(_)) => Err(format!("is not allowed to modify labels: {forbidden}")),
        (_, None) => Err(format!(
            "node \"{node}\" is not allowed to set the following labels: {forbidden}"
        )),
    }
}

/// Returns the changed labels that are not the node's to change, in order.
fn forbidden_labels(old: Option<&Object>, new: &Object) -> Vec<String> {
    let empty = Object::new();
    let labels = |object: Option<&'_ Object>| -> Object {
        let labels = object.and_then(|object| metadata(object, "labels"));
        labels.and_then(Value::as_object).unwrap_or(&empty).clone()
    };
    let (old, new) = (labels(old), labels(Some(new)));
    let changed = old.keys().chain(new.keys());
    let changed = changed.filter(|label| old.get(*label) != new.get(*label));
    let mut forbidden: Vec<String> = changed
        .filter(|label| !may_set_label(label))
        .cloned()
        .collect();
    forbidden.sort();
    forbidden.dedup();
    forbidden
}

fn may_set_label(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |of: &str| {
        let below = domain.strip_suffix(of);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    };
    let is_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
    let is_own = OWN_LABELS.contains(&label) || OWN_DOMAINS.iter().any(|own| is_in(own));
    !is_in(RESTRICTED_DOMAIN) && (!is_kubernetes || is_own)
}

fn check_claim_status(node: &str, old: &Object, new: &Object) -> Checked {
    let rest = |claim: &Object| {
        let mut claim = claim.clone();
        if let Some(Value::Object(status)) = claim.get_mut("status") {
            status.retain(|field, _| !CLAIM_STATUS.contains(&field.as_str()));
        }
        if let Some(Value::Object(metadata)) = claim.get_mut("metadata") {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
        claim
    };
    match rest(old) == rest(new) {
        true => Ok(()),
        false => Err(format!(
            "node \"{node}\" is not allowed to update fields other than status.capacity and \
             status.conditions"
        )),
    }
}

fn metadata<'a>(object: &'a Object, member: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(member)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_sets_only_its_own_labels_of_kubernetes() {
        for (label, may) in [
            ("example.com/rack", true),
            ("rack", true),
            ("kubernetes.io/hostname", true),
            ("topology.kubernetes.io/zone", true),
            ("node.kubernetes.io/anything", true),
            ("sub.kubelet.kubernetes.io/x", true),
            ("node-role.kubernetes.io/control-plane", false),
            ("node-restriction.kubernetes.io/secure", false),
            ("sub.node-restriction.kubernetes.io/secure", false),
            ("kubernetes.io/other", false),
            ("x.k8s.io/other", false),
            ("notkubernetes.io/other", true),
        ] {
            assert_eq!(may_set_label(label), may, "{label}");
        }
    }

    #[test]
    fn removed_and_changed_labels_count_as_changed() {
        let node = |labels: Value| -> Object {
            let node = json!({"metadata": {"labels": labels}});
            node.as_object().cloned().unwrap_or_default()
        };
        let restricted = "node-restriction.kubernetes.io/a";
        let old = node(json!({restricted: "x", "own": "y"}));
        for (new, forbidden) in [
            (json!({restricted: "x"}), &[][..]),
            (json!({restricted: "z", "own": "y"}), &[restricted]),
            (json!({"own": "y"}), &[restricted]),
        ] {
            let new = node(new);
            assert_eq!(forbidden_labels(Some(&old), &new), forbidden);
        }
        assert_eq!(forbidden_labels(None, &old), [restricted]);
    }
}
