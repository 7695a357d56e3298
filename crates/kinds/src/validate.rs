//! What is wrong with an object, in Kubernetes' order and words.
//!
//! Objects come here with every field of the right type, with defaults filled in and
//! without unknown fields. What remains to be said are rules: those of metadata, which
//! all kinds share, and those of one kind.

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
pub mod text;
pub mod tree;
mod workload;

pub use text::{Messages, dns_subdomain, dns1035_label};

use std::collections::HashSet;

use crate::{FieldError, Kind, Object};
use rules::{Order, rules};
use tree::Node;

/// What is wrong with an object that is to be created.
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
    // Metadata is judged again for all kinds, if that of the kind says nothing.
    if rules.plain && errors.is_empty() {
        meta::create(kind, &object, &mut errors);
    }
    errors
}

/// What is wrong with a change of an object, or of what `subresource` covers of it.
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
    // Kubernetes asks several times, once for all kinds and then for this one; clients see
    // it in the causes, which are not deduplicated.
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

/// What is wrong with the metadata of an object that is to be created.
pub fn create_metadata(kind: &Kind, object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    meta::create(kind, &Node::root(object), &mut errors);
    errors
}

/// What is wrong with a change of an object's metadata.
pub fn update_metadata(old: &Object, new: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    meta::update(&Node::root(old), &Node::root(new), &mut errors);
    errors
}

/// What is warnings about the name of a finalizer of a kind that users define. It is taken all the
/// same.
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

/// What is wrong with a Scale, which stands for the size of any workload.
pub fn scale(scale: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    policy::scale(&Node::root(scale), &mut errors);
    errors
}

/// What is wrong with the metadata of an object inside of another, of any kind.
pub fn embedded(object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    meta::embedded(&Node::root(object), &mut errors);
    errors
}

/// What is wrong with the name of a kind, which may have capitals.
pub fn kind_name(name: &str) -> Vec<String> {
    text::dns1035_label(&name.to_lowercase())
}

/// Errors as one sentence: `e`, or `[e1, e2]` without repetitions.
pub fn message(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let mut sentences = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    sentences.retain(|sentence| seen.insert(sentence.clone()));
    match sentences.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Whether the name can be a part of a path: every stored object has such a name.
pub fn name_is_safe(name: &str) -> bool {
    !name.is_empty() && text::path_segment(name).is_empty()
}
