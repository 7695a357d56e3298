//! Validation of metadata, which all kinds share.

use std::collections::BTreeSet;

use super::name;
use super::tree::Node;
use crate::text;
use crate::{FieldError, Kind};

const IMMUTABLE: &str = "field is immutable";
/// 256 KiB of keys and values together.
const MAX_ANNOTATIONS_SIZE: usize = 262_144;
const MAX_MANAGER_LENGTH: usize = 128;
const MAX_SUBRESOURCE_LENGTH: usize = 256;

/// Validates the metadata of a new object.
pub fn create(kind: &Kind, object: &Node<'_>, errors: &mut Vec<FieldError>) {
    let meta = object.get("metadata");
    names(kind, object, &meta, errors);
    namespace(kind, &meta, errors);
    let generation = meta.get("generation");
    if generation.int().is_some_and(|number| number < 0) {
        errors.push(generation.invalid("must be greater than or equal to 0"));
    }
    labels(&meta.get("labels"), errors);
    annotations(&meta.get("annotations"), errors);
    owners(&meta.get("ownerReferences"), errors);
    finalizers(&meta.get("finalizers"), errors);
    managed_fields(&meta.get("managedFields"), errors);
    if !allows_any_finalizer(kind) {
        standard_finalizers(&meta.get("finalizers"), errors);
    }
}

/// Validates the metadata of an embedded object of any kind.
pub(super) fn embedded(object: &Node<'_>, errors: &mut Vec<FieldError>) {
    let meta = object.get("metadata");
    let (prefix, name) = (meta.get("generateName"), meta.get("name"));
    if !prefix.is_empty() {
        for message in text::path_segment_prefix(prefix.text()) {
            errors.push(prefix.invalid_text(&message));
        }
    }
    for message in text::path_segment(name.text()) {
        errors.push(name.invalid_text(&message));
    }
    let namespace = meta.get("namespace");
    if !namespace.is_empty() {
        for message in text::dns_label(namespace.text()) {
            errors.push(namespace.invalid_text(&message));
        }
    }
    let generation = meta.get("generation");
    if generation.int().is_some_and(|number| number < 0) {
        errors.push(generation.invalid("must be greater than or equal to 0"));
    }
    labels(&meta.get("labels"), errors);
    annotations(&meta.get("annotations"), errors);
    owners(&meta.get("ownerReferences"), errors);
    finalizers(&meta.get("finalizers"), errors);
    managed_fields(&meta.get("managedFields"), errors);
}

/// Validates an update of metadata by the rules of all kinds.
pub fn update(old: &Node<'_>, new: &Node<'_>, errors: &mut Vec<FieldError>) {
    let (old, new) = (old.get("metadata"), new.get("metadata"));
    if old.get("deletionTimestamp").is_set() {
        no_new_finalizers(&old.get("finalizers"), &new.get("finalizers"), errors);
    }
    let generation = new.get("generation");
    if generation.int() < old.get("generation").int() && generation.is_set() {
        errors.push(generation.invalid_int("must not be decremented"));
    }
    for field in ["name", "namespace"] {
        if old.get(field).text() != new.get(field).text() {
            errors.push(new.get(field).invalid_text(IMMUTABLE));
        }
    }
    for field in ["uid", "creationTimestamp"] {
        // An absent value is restored from the old object elsewhere.
        if new.get(field).is_set() && !new.get(field).same(&old.get(field)) {
            errors.push(new.get(field).invalid(IMMUTABLE));
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if !new.get(field).same(&old.get(field)) {
            errors.push(new.get(field).invalid(IMMUTABLE));
        }
    }
    labels(&new.get("labels"), errors);
    annotations(&new.get("annotations"), errors);
    owners(&new.get("ownerReferences"), errors);
    managed_fields(&new.get("managedFields"), errors);
}

/// Validates an update of metadata by the rules that most kinds repeat and extend.
pub(super) fn update_for_kind(
    kind: &Kind,
    old: &Node<'_>,
    new: &Node<'_>,
    errors: &mut Vec<FieldError>,
) {
    update(old, new, errors);
    if !allows_any_finalizer(kind) {
        standard_finalizers(&new.get("metadata").get("finalizers"), errors);
    }
}

/// Whether the group is served by a part of Kubernetes that does not check for standard
/// finalizers.
fn allows_any_finalizer(kind: &Kind) -> bool {
    kind.is_custom()
        || matches!(
            kind.group.as_str(),
            "admissionregistration.k8s.io"
                | "apiextensions.k8s.io"
                | "apiregistration.k8s.io"
                | "coordination.k8s.io"
        )
        || (kind.group == "policy" && kind.kind == "PodDisruptionBudget")
}

fn names(kind: &Kind, object: &Node<'_>, meta: &Node<'_>, errors: &mut Vec<FieldError>) {
    let prefix = meta.get("generateName");
    if !prefix.is_empty() {
        for message in name::generate_name(kind, object, prefix.text()) {
            errors.push(prefix.invalid_text(&message));
        }
    }
    let name = meta.get("name");
    if name.is_empty() {
        errors.push(name.required("name or generateName is required"));
        return;
    }
    for message in name::name(kind, object, name.text()) {
        errors.push(name.invalid_text(&message));
    }
}

fn namespace(kind: &Kind, meta: &Node<'_>, errors: &mut Vec<FieldError>) {
    let namespace = meta.get("namespace");
    match (kind.namespaced(), namespace.is_empty()) {
        (true, true) => errors.push(namespace.required("")),
        (true, false) => {
            for message in text::dns_label(namespace.text()) {
                errors.push(namespace.invalid_text(&message));
            }
        }
        (false, false) => errors.push(namespace.forbidden("not allowed on this type")),
        (false, true) => {}
    }
}

/// Validates labels, also outside metadata.
pub fn labels(labels: &Node<'_>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.entries() {
        label_key(labels, key, errors);
        for message in text::label_value(value.text()) {
            errors.push(labels.invalid_as(value.value(), &message));
        }
    }
}

/// Validates a label key at `place` or in it.
pub(super) fn label_key(place: &Node<'_>, key: &str, errors: &mut Vec<FieldError>) {
    for message in text::qualified_name(key) {
        errors.push(place.invalid_as(&key.into(), &message));
    }
}

/// Validates annotations, also outside metadata.
pub(super) fn annotations(annotations: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        // Keys with capitals are deprecated but allowed.
        for message in text::qualified_name(&key.to_lowercase()) {
            errors.push(annotations.invalid_as(&key.into(), &message));
        }
        size += key.len() + value.text().len();
    }
    if size > MAX_ANNOTATIONS_SIZE {
        errors.push(annotations.too_long(MAX_ANNOTATIONS_SIZE));
    }
}

fn owners(owners: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    for owner in owners.items() {
        owner_reference(&owner.at(owners.path.clone()), errors);
        if !owner.get("controller").is_true() {
            continue;
        }
        let current = format!("{}/{}", owner.get("kind").text(), owner.get("name").text());
        match &controller {
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                );
                let printed = printed_owners(owners);
                let place = owners.path.to_string();
                errors.push(FieldError::invalid_printed(place, &printed, &detail));
            }
            None => controller = Some(current),
        }
    }
}

/// Formats owner references with their members in the order of Go.
fn printed_owners(owners: &Node<'_>) -> String {
    let order = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let print = |owner: Node<'_>| {
        let members = order.iter().filter(|name| owner.get(name).is_set());
        let members = members.map(|name| format!("\"{name}\":{}", owner.get(name).value()));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    format!(
        "[{}]",
        owners.items().map(print).collect::<Vec<_>>().join(",")
    )
}

/// Validates one owner reference; the error does not state which one, as in Kubernetes.
fn owner_reference(owner: &Node<'_>, errors: &mut Vec<FieldError>) {
    let version = owner.get("apiVersion");
    let (group, number) = match version.text().split_once('/') {
        None => ("", version.text()),
        // A value with more than one slash has neither group nor version.
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some(parts) => parts,
    };
    if number.is_empty() {
        errors.push(version.invalid_text("version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if owner.get(field).is_empty() {
            errors.push(owner.get(field).invalid_text("must not be empty"));
        }
    }
    if (group, number, owner.get("kind").text()) == ("", "v1", "Event") {
        errors.push(owner.invalid("/v1, Kind=Event is disallowed from being an owner"));
    }
}

fn finalizers(finalizers: &Node<'_>, errors: &mut Vec<FieldError>) {
    for finalizer in finalizers.items() {
        for message in text::qualified_name(finalizer.text()) {
            errors.push(finalizer.at(finalizers.path.clone()).invalid_text(&message));
        }
    }
    let has = |wanted| finalizers.items().any(|item| item.text() == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(finalizers.invalid(detail));
    }
}

/// Validates that finalizers without a domain are standard ones.
pub(super) fn standard_finalizers(finalizers: &Node<'_>, errors: &mut Vec<FieldError>) {
    for finalizer in finalizers.items() {
        let name = finalizer.text();
        let known = ["kubernetes", "orphan", "foregroundDeletion"];
        if !name.contains('/') && !known.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(finalizer.invalid_text(detail));
        }
    }
}

fn no_new_finalizers(old: &Node<'_>, new: &Node<'_>, errors: &mut Vec<FieldError>) {
    let names = |of: &Node<'_>| -> BTreeSet<String> {
        of.items().map(|item| item.text().to_owned()).collect()
    };
    let added: Vec<_> = names(new)
        .difference(&names(old))
        .map(|name| insula_gotext::quote(name))
        .collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.push(new.forbidden(&detail));
    }
}

fn managed_fields(entries: &Node<'_>, errors: &mut Vec<FieldError>) {
    for entry in entries.items() {
        let operation = entry.get("operation");
        if !matches!(operation.text(), "Apply" | "Update") {
            errors.push(operation.invalid_text("must be `Apply` or `Update`"));
        }
        let form = entry.get("fieldsType");
        if !matches!(form.text(), "" | "FieldsV1") {
            errors.push(form.invalid_text("must be `FieldsV1`"));
        }
        manager(&entry.get("manager"), errors);
        let subresource = entry.get("subresource");
        if subresource.text().len() > MAX_SUBRESOURCE_LENGTH {
            errors.push(subresource.too_long(MAX_SUBRESOURCE_LENGTH));
        }
    }
}

fn manager(manager: &Node<'_>, errors: &mut Vec<FieldError>) {
    if manager.text().len() > MAX_MANAGER_LENGTH {
        errors.push(manager.too_long(MAX_MANAGER_LENGTH));
    }
    for (position, letter) in manager.text().char_indices() {
        if letter.is_control() {
            let detail = format!(
                "invalid character U+{:04X} (at position {position})",
                u32::from(letter)
            );
            errors.push(manager.invalid_text(&detail));
        }
    }
}

/// Validates a label selector in an object.
pub fn selector(selector: &Node<'_>, errors: &mut Vec<FieldError>) {
    labels(&selector.get("matchLabels"), errors);
    for requirement in selector.get("matchExpressions").items() {
        let (operator, values) = (requirement.get("operator"), requirement.get("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"))
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(values.forbidden(
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ))
            }
            "Exists" | "DoesNotExist" => {}
            _ => errors.push(operator.invalid_text("not a valid selector operator")),
        }
        let key = requirement.get("key");
        label_key(&key, key.text(), errors);
        for value in values.items() {
            for message in text::label_value(value.text()) {
                errors.push(value.invalid_text(&message));
            }
        }
    }
}
