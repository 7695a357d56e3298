//! Validation of objects, with the errors and in the order of Kubernetes.
//!
//! Objects are expected to be decoded by their type, defaulted and without unknown
//! fields. The remaining rules are those of metadata, which all kinds share, and those of
//! single kinds.

mod access;
mod amount;
mod batch;
pub mod check;
mod core;
pub mod meta;
mod name;
mod network;
mod pod;
mod policy;
mod rbac;
mod review;
mod rules;
mod storage;
pub mod tree;
mod workload;

use crate::{FieldError, Kind, Object, text};
use rules::{Order, rules};
use tree::Node;

/// Validates an object on create.
pub fn create(kind: &Kind, object: &Object) -> Vec<FieldError> {
    let rules = rules(kind);
    let object = Node::root(object);
    let mut errors = Vec::new();
    if !rules.transient && !rules.plain {
        meta::create(kind, &object, &mut errors);
    }
    if let Some(create) = rules.create.or(rules.whole) {
        create(&object, &mut errors);
    }
    // Kinds that do not validate metadata themselves get the generic checks last, if all
    // others pass.
    if rules.plain && errors.is_empty() {
        meta::create(kind, &object, &mut errors);
    }
    errors
}

/// Validates an update of an object, or of the part that `subresource` covers.
pub fn update(
    kind: &Kind,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> Vec<FieldError> {
    let rules = rules(kind);
    let (old, new) = (Node::root(old), Node::root(new));
    let mut errors = Vec::new();
    meta::update(&old, &new, &mut errors);
    // Kubernetes validates metadata several times, once for all kinds and then for this
    // one; clients see that in the causes, which are not deduplicated.
    if rules.metadata_passes > 1 {
        meta::update_for_kind(kind, &old, &new, &mut errors);
    }
    if let Some(subresource) = subresource {
        let mut known = rules.subresources.iter();
        if let Some((_, change)) = known.find(|known| known.0 == subresource) {
            change(&old, &new, &mut errors);
        }
        return errors;
    }
    if rules.metadata_passes > 2 {
        meta::create(kind, &new, &mut errors);
    }
    let whole = rules.whole.filter(|_| rules.order != Order::ChangeOnly);
    if rules.order == Order::WholeFirst
        && let Some(whole) = whole
    {
        whole(&new, &mut errors);
    }
    if let Some(change) = rules.change {
        change(&old, &new, &mut errors);
    }
    if rules.order == Order::ChangeFirst
        && let Some(whole) = whole
    {
        whole(&new, &mut errors);
    }
    errors
}

/// Returns warnings about a valid new object: about the pod that it is, or is a template of.
pub fn create_warnings(kind: &Kind, object: &Object) -> Vec<String> {
    let path: &[&str] = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &["spec"],
        ("", "PodTemplate") => &["template", "spec"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template", "spec"],
        ("", "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job") => &["spec", "template", "spec"],
        _ => return Vec::new(),
    };
    let root = Node::root(object);
    let spec = path.iter().fold(root, |node, name| node.get(name));
    pod::warnings(&spec)
}

/// Validates the metadata of an object on create.
pub fn create_metadata(kind: &Kind, object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    meta::create(kind, &Node::root(object), &mut errors);
    errors
}

/// Validates an update of an object's metadata.
pub fn update_metadata(old: &Object, new: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    meta::update(&Node::root(old), &Node::root(new), &mut errors);
    errors
}

/// Returns warnings about the name of a custom resource's finalizer.
pub fn finalizer_warnings(name: &str) -> Vec<String> {
    let warning = |message: &str| {
        format!(
            "metadata.finalizers: {}: {message}",
            insula_gotext::quote(name)
        )
    };
    let messages = text::qualified_name(name);
    let mut warnings: Vec<String> = messages.iter().map(|message| warning(message)).collect();
    let standard = ["foregroundDeletion", "kubernetes", "orphan"].contains(&name);
    if !name.contains('/') && !standard {
        let path = match name.contains('.') {
            true => " including a path (/)",
            false => "",
        };
        warnings.push(warning(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
             other finalizer writers"
        )));
    }
    warnings
}

/// Validates a Scale.
pub fn scale(scale: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    policy::scale(&Node::root(scale), &mut errors);
    errors
}

/// Validates the metadata of an embedded object of any kind.
pub fn embedded(object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    meta::embedded(&Node::root(object), &mut errors);
    errors
}

/// Validates the name of a kind, which may have capitals.
pub fn kind_name(name: &str) -> Vec<String> {
    text::dns1035_label(&name.to_lowercase())
}

/// Whether the name can be a path segment, as the names of all stored objects are.
pub fn name_is_safe(name: &str) -> bool {
    !name.is_empty() && text::path_segment(name).is_empty()
}
