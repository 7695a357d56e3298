//! Fields that the server sets in an object before it is stored.
//!
//! Upstream these are the REST strategies and built-in admission: fields that only a
//! controller may write are restored, fields that only the server knows are set. The
//! table of kinds lists the fields that a write leaves unchanged; code here is for kinds
//! with a rule of their own.
//!
//! All functions expect defaulted objects, and none of them validates.

mod cluster;
mod equal;
pub(crate) mod pod;
mod reset;
mod service;
mod storage;
mod workload;

pub use cluster::{Requester, set_requester};
pub use pod::{Priority, admit_priority, admit_service_account, bind};
pub use service::allocate;
pub use workload::{apply_scale, scale_of};

use serde_json::Value;

use crate::Object;
use crate::defaults::tree;
use crate::kind::Kind;

/// The finalizer that keeps a Tenant until everything it owns is deleted.
pub const TENANT_FINALIZER: &str = "arktos";

/// Values that the server assigns to a new object.
pub struct CreateContext<'a> {
    /// The UID of the new object.
    pub uid: &'a str,
    /// The current time, RFC 3339 with seconds.
    pub now: &'a str,
    /// The IP family of cluster IPs.
    pub ip_family: &'a str,
    /// Allocates a cluster IP for a service.
    pub cluster_ip: &'a mut dyn FnMut() -> String,
    /// Allocates a node port.
    pub node_port: &'a mut dyn FnMut() -> u16,
}

/// Turns the object of a create request into the one that is stored.
///
/// The name must be final: some kinds write it into labels.
pub fn create(kind: &Kind, object: &mut Object, with: &mut CreateContext<'_>) {
    create_metadata(kind, object, with);
    // Kubelets report their node's status on create, so only nodes keep it.
    let node = kind.group.is_empty() && kind.kind == "Node";
    if reset::is_reset(kind, None, "status") && !node {
        object.remove("status");
    }
    if kind.generation {
        tree::child_mut(object, "metadata").insert("generation".to_owned(), 1.into());
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod::create(object, with.now),
        ("", "Service") => service::create(object, with),
        ("", "Namespace") => cluster::create_namespace(object),
        ("", "Tenant") => cluster::create_tenant(object),
        ("", "Secret") => cluster::fold_string_data(object),
        ("", "Node") => cluster::create_node(object),
        ("", "ServiceAccount") => cluster::keep_secret_names(object),
        ("", "LimitRange") => cluster::name_limits(object, with.uid),
        ("", "PersistentVolume") => storage::create_volume(object, with.now),
        ("", "PersistentVolumeClaim") => storage::create_claim(object),
        ("apps", "DaemonSet") => workload::create_daemon_set(object),
        ("batch", "Job") => workload::create_job(object, with.uid),
        ("certificates.k8s.io", _) => cluster::create_signing_request(object),
        ("apiextensions.k8s.io", _) => cluster::add_stored_version(object),
        ("apiregistration.k8s.io", _) => cluster::create_api_service(object, with.now),
        ("coordination.k8s.io", "Lease") => cluster::drop_coordinated_election(object, None),
        ("discovery.k8s.io", _) => service::drop_topology(object, None),
        ("storage.k8s.io", "VolumeAttributesClass") => {
            storage::add_protection_finalizer(object, "vac")
        }
        ("resource.k8s.io", "ResourceSlice") => cluster::set_taint_times(object, with.now),
        _ => {}
    }
}

/// Moves a Secret's write-only `stringData` into `data`.
pub fn fold_string_data(kind: &Kind, object: &mut Object) {
    if kind.group.is_empty() && kind.kind == "Secret" {
        cluster::fold_string_data(object);
    }
}

/// Turns the object of an update request into the one that is stored in place of `old`.
///
/// `subresource` is the one that was written to, or none for the object itself.
pub fn update(kind: &Kind, subresource: Option<&str>, old: &Object, new: &mut Object) {
    keep_generation(old, new);
    match (kind.group.as_str(), kind.kind.as_str(), subresource) {
        ("", "Pod", sub) => pod::update(kind, sub, old, new),
        ("certificates.k8s.io", _, sub) => cluster::update_signing_request(kind, sub, old, new),
        (_, _, sub) => reset::apply(kind, sub, old, new),
    }
    match (kind.group.as_str(), kind.kind.as_str(), subresource) {
        ("", "Service", None) => service::update(old, new),
        ("", "Namespace", sub) => cluster::update_namespace(sub, old, new),
        ("", "Secret", None) => cluster::fold_string_data(new),
        ("", "Node", sub) => cluster::update_node(sub, old, new),
        ("", "ServiceAccount", None) => cluster::keep_secret_names(new),
        ("", "PersistentVolume", None) => storage::add_protection_finalizer(new, "pv"),
        ("", "PersistentVolume", Some("status")) => storage::keep_transition_time(old, new),
        ("", "PersistentVolumeClaim", None) => storage::update_claim(old, new),
        ("storage.k8s.io", "VolumeAttributesClass", None) => {
            storage::add_protection_finalizer(new, "vac")
        }
        ("apps", "DaemonSet", sub) => workload::update_daemon_set(kind, sub, old, new),
        ("apiextensions.k8s.io", _, None) => cluster::add_stored_version(new),
        ("flowcontrol.apiserver.k8s.io", _, Some("status")) => reset::restore_metadata(old, new),
        ("coordination.k8s.io", "Lease", None) => {
            cluster::drop_coordinated_election(new, Some(old))
        }
        ("discovery.k8s.io", _, None) => service::drop_topology(new, Some(old)),
        _ => {}
    }
    update_metadata(kind, old, new);
    // Status and binding are not part of the desired state.
    let counted = !matches!(subresource, Some("status" | "binding"));
    if counted && bumps_generation(kind, old, new) {
        let metadata = tree::child_mut(new, "metadata");
        let generation = tree::number(metadata, "generation") + 1;
        metadata.insert("generation".to_owned(), generation.into());
    }
}

/// Sets times that only the server knows and the client left out: of a volume's phase
/// change, of conditions of a certificate signing request, of device taints. It runs
/// after [`update`].
pub fn set_timestamps(
    kind: &Kind,
    subresource: Option<&str>,
    old: &Object,
    new: &mut Object,
    now: &str,
) {
    match (kind.group.as_str(), kind.kind.as_str(), subresource) {
        ("", "PersistentVolume", Some("status")) => storage::set_transition_time(old, new, now),
        ("certificates.k8s.io", _, Some(_)) => cluster::set_condition_times(old, new, now),
        ("resource.k8s.io", "ResourceSlice", None) => cluster::set_taint_times(new, now),
        _ => {}
    }
}

fn create_metadata(kind: &Kind, object: &mut Object, with: &CreateContext<'_>) {
    let metadata = tree::child_mut(object, "metadata");
    for server in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(server);
    }
    if !kind.namespaced() {
        metadata.remove("namespace");
    }
    metadata.insert("uid".to_owned(), with.uid.into());
    metadata.insert("creationTimestamp".to_owned(), with.now.into());
}

/// Only the server changes the generation.
fn keep_generation(old: &Object, new: &mut Object) {
    if let Some(before) = tree::child(old, "metadata") {
        tree::copy(before, tree::child_mut(new, "metadata"), "generation");
    }
}

/// Restores identifying metadata that the client left out, and a deletion in progress.
fn update_metadata(kind: &Kind, old: &Object, new: &mut Object) {
    let empty = Object::new();
    let before = tree::child(old, "metadata").unwrap_or(&empty);
    let metadata = tree::child_mut(new, "metadata");
    if tree::is_empty(metadata, "uid") {
        tree::copy(before, metadata, "uid");
    }
    for always in ["creationTimestamp", "deletionTimestamp"] {
        if tree::is_present(before, always) {
            tree::copy(before, metadata, always);
        }
    }
    if !tree::is_present(metadata, "deletionGracePeriodSeconds") {
        tree::copy(before, metadata, "deletionGracePeriodSeconds");
    }
    if !kind.namespaced() {
        metadata.remove("namespace");
    }
}

/// Whether the update increments the generation.
fn bumps_generation(kind: &Kind, old: &Object, new: &Object) -> bool {
    if kind.is_custom() {
        return !equal::custom_objects(kind, old, new);
    }
    match kind.kind.as_str() {
        // Its spec is immutable.
        "PriorityClass" => false,
        // It is created without a generation, but counts changes.
        "CSIDriver" => !equal::specs(kind, old, new),
        _ if !kind.generation => false,
        "Deployment" => !equal::specs(kind, old, new) || !equal::metadata(old, new, "annotations"),
        "EndpointSlice" => !equal::specs(kind, old, new) || !equal::metadata(old, new, "labels"),
        _ => !equal::specs(kind, old, new),
    }
}

/// Appends an item to a list, which is created if it is absent.
fn push(object: &mut Object, list: &str, item: Value) {
    match object.entry(list).or_insert(Value::Null) {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}
